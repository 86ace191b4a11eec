//! Looking at what keys hold.

use super::expiry::is_due;
use super::{Class, Collection, Keyspace, Node, Object, Store, Value, hash_of};
use crate::resp::CommandError;

impl<S: Store> Keyspace<S> {
    /// The value of a key, for a command that reads: counted as a hit or a miss.
    pub fn read(&mut self, key: &[u8]) -> Option<Value<'_>> {
        self.read_node(key).map(Node::value)
    }

    /// The node of a key, for a command that reads: counted as a hit or a miss, and as its last use.
    pub fn read_node(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let location = self.locate_counted(hash, key, true)?;
        let node = self.store.at(location, hash, key);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        Some(node)
    }

    /// Counts a use of a key by a command that leaves it as it is, though it is one that changes keys.
    pub fn note_use(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        if self.notes_uses
            && let Some(location) = self.locate_live(hash, key)
        {
            self.store.at(location, hash, key).touch(self.usage, self.second, &mut self.random);
        }
    }

    /// The second of Unix time in which commands of this turn run.
    pub fn second(&self) -> u64 {
        self.second
    }

    /// The node of a key, for a command that reads properties of the value: counted as a hit or a miss, not as a use.
    pub fn inspect(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let location = self.locate_counted(hash, key, true)?;
        Some(self.store.at(location, hash, key))
    }

    /// Like [`inspect`](Self::inspect), but without an event for a miss.
    pub fn inspect_unnoticed(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let location = self.locate_counted(hash, key, false)?;
        Some(self.store.at(location, hash, key))
    }

    /// Where a key lives, counted as a hit or a miss; subscribers learn of a miss if it `notifies`.
    fn locate_counted(&mut self, hash: u64, key: &[u8], notifies: bool) -> Option<S::Location> {
        let location = self.locate_shown(hash, key);
        match location {
            Some(_) => self.stats.hits += 1,
            None => {
                self.stats.misses += 1;
                if notifies {
                    self.notify(Class::KEY_MISS, "keymiss", key);
                }
            }
        }
        location
    }

    /// The node of a key, uncounted.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let location = self.locate_shown(hash, key)?;
        Some(self.store.at(location, hash, key))
    }

    /// The node of a key as it is stored, uncounted, though the key may have expired.
    pub fn stored(&self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        Some(self.store.at(self.store.locate(hash, key)?, hash, key))
    }

    /// Whether a key exists, uncounted.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.locate_live(hash_of(key), key).is_some()
    }

    /// The node of a key, to change its value in place. Its deadline is changed by
    /// [`set_expire_at`](Self::set_expire_at).
    pub fn node_mut(&mut self, key: &[u8]) -> Option<&mut Node> {
        let hash = hash_of(key);
        let location = self.locate_live(hash, key)?;
        Some(self.used_mut(location, hash, key))
    }

    fn used_mut(&mut self, location: S::Location, hash: u64, key: &[u8]) -> &mut Node {
        let node = self.store.at_mut(location, hash, key);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        node
    }

    /// The same, uncounted: the command uses the key elsewhere.
    pub fn node_mut_uncounted(&mut self, key: &[u8]) -> Option<&mut Node> {
        let hash = hash_of(key);
        let location = self.locate_live(hash, key)?;
        Some(self.store.at_mut(location, hash, key))
    }

    /// The collection of a key, for a command that reads: counted as a hit or a miss.
    pub fn read_collection<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        match self.read(key) {
            None => Ok(None),
            Some(Value::Object(object)) => C::of(object).map(Some).ok_or(CommandError::WrongType),
            Some(Value::Integer(_) | Value::Text(_)) => Err(CommandError::WrongType),
        }
    }

    /// The collections of several keys together, for a command that reads: each is counted as a hit or a miss.
    pub fn read_collections<'k, C: Collection>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<Vec<Option<&C>>, CommandError> {
        // Expired keys are removed first, because that changes the store; then it is only read.
        for key in keys.clone() {
            self.read_collection::<C>(key)?;
        }
        Ok(keys.map(|key| self.collection(key)).collect())
    }

    /// The sets and sorted sets of several keys together, for a command that reads: each is counted as a hit or a miss,
    /// up to one of another type.
    pub fn read_objects<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<Vec<Option<&Object>>, CommandError> {
        // As above.
        for key in keys.clone() {
            match self.read(key) {
                None | Some(Value::Object(Object::Set(_) | Object::SortedSet(_))) => {}
                Some(_) => return Err(CommandError::WrongType),
            }
        }
        Ok(keys.map(|key| self.object(key)).collect())
    }

    fn object(&self, key: &[u8]) -> Option<&Object> {
        let node = self.stored(key)?;
        match node.value() {
            Value::Object(object) if !self.hides(node) => Some(object),
            _ => None,
        }
    }

    fn collection<C: Collection>(&self, key: &[u8]) -> Option<&C> {
        match self.look(key)? {
            Value::Object(object) => C::of(object),
            Value::Integer(_) | Value::Text(_) => None,
        }
    }

    /// The values of several keys together, for a command that reads: each is counted as a hit or a miss.
    pub fn read_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) -> Vec<Option<Value<'_>>> {
        // Expired keys are removed first, because that changes the store; then it is only read.
        keys.clone().for_each(|key| _ = self.read(key));
        keys.map(|key| self.look(key)).collect()
    }

    /// The value of a key, uncounted, while other values are borrowed, too. An expired key is skipped.
    pub fn look(&self, key: &[u8]) -> Option<Value<'_>> {
        let node = self.stored(key)?;
        (!self.hides(node)).then(|| node.value())
    }

    /// The collection of a key, uncounted, for a command that reads.
    pub fn peek_collection<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        match self.peek(key).map(Node::value) {
            None => Ok(None),
            Some(Value::Object(object)) => C::of(object).map(Some).ok_or(CommandError::WrongType),
            Some(Value::Integer(_) | Value::Text(_)) => Err(CommandError::WrongType),
        }
    }

    /// The collection of a key, for a command that writes.
    pub fn collection_mut<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut C>, CommandError> {
        self.node_mut(key).map(collection_of).transpose()
    }

    /// The same, uncounted: the command uses the key elsewhere.
    pub fn collection_mut_uncounted<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut C>, CommandError> {
        self.node_mut_uncounted(key).map(collection_of).transpose()
    }

    /// Whether a key holds a collection, for a command that uses it elsewhere. It is a use to refuse another type.
    pub fn holds<C: Collection>(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        let held = self.collection_mut_uncounted::<C>(key).map(|collection| collection.is_some());
        if held.is_err() {
            self.note_use(key);
        }
        held
    }

    /// The collection of a key, for a command that reads and writes: counted as a hit or a miss.
    pub fn read_collection_mut<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut C>, CommandError> {
        let hash = hash_of(key);
        let Some(location) = self.locate_counted(hash, key, true) else { return Ok(None) };
        collection_of(self.used_mut(location, hash, key)).map(Some)
    }

    /// Makes a small sorted set large: Redis's SORT does that to those that it reads. If nothing may be changed now,
    /// the command runs once more where it may. O(N log N) if it is small
    pub fn enlarge_sorted_set(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let Some(location) = self.locate_shown(hash, key) else { return };
        let is_small = match self.store.at(location, hash, key).value() {
            Value::Object(Object::SortedSet(set)) => set.is_small(),
            _ => false,
        };
        match is_small {
            true if self.store.is_writable() => {
                if let Some(Object::SortedSet(set)) = self.store.at_mut(location, hash, key).object_mut() {
                    set.make_large();
                }
            }
            true => self.saw_expired = true,
            false => {}
        }
    }

    /// Visits every key that has not expired, in no order.
    pub fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.store.for_each(&mut |node| {
            if !self.hides(node) {
                visit(node);
            }
        });
    }

    /// Visits about `count` keys in the order of SCAN, from the position `start` on, each with whether it has expired;
    /// returns where the next ones start, if there may be any.
    pub fn walk(&self, shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node, bool)) -> Option<u64> {
        self.store.walk(shard, start, count, &mut |node| visit(node, self.hides(node)))
    }

    /// A random key that has not expired. Expired ones that are drawn are removed; where they stay, it is found only in
    /// a bounded number of draws.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        const KEPT_MAX: usize = 100;
        let mut kept = 0;
        while kept < KEPT_MAX && !self.saw_expired {
            let Self { store, random, due_ms, .. } = self;
            let node = store.random(&mut |n| random.usize(..n))?;
            let (is_over, key) = (is_due(node, *due_ms), node.key().to_vec());
            if !is_over {
                return Some(key);
            }
            let hash = hash_of(&key);
            self.locate_shown(hash, &key);
            kept += usize::from(self.store.locate(hash, &key).is_some());
        }
        None
    }
}

fn collection_of<C: Collection>(node: &mut Node) -> Result<&mut C, CommandError> {
    node.object_mut().and_then(C::of_mut).ok_or(CommandError::WrongType)
}
