//! Looking at what keys hold.

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
        self.turn.note_use(node, &mut self.random);
        Some(node)
    }

    /// Counts a use of a key by a command that leaves it as it is, though it is one that changes keys.
    pub fn note_use(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        if self.turn.notes_uses
            && let Some(location) = self.locate_live(hash, key)
        {
            self.turn.note_use(self.store.at(location, hash, key), &mut self.random);
        }
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

    /// Whether a key exists, uncounted.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.locate_live(hash_of(key), key).is_some()
    }

    /// The node of a key, to change its value in place. Its deadline is changed by
    /// [`set_expire_at`](Self::set_expire_at).
    pub fn node_mut(&mut self, key: &[u8]) -> Option<&mut Node> {
        let hash = hash_of(key);
        let location = self.locate_live(hash, key)?;
        let node = self.store.at_mut(location, hash, key);
        self.turn.note_use(node, &mut self.random);
        Some(node)
    }

    /// The same, uncounted: the command uses the key elsewhere.
    pub fn node_mut_uncounted(&mut self, key: &[u8]) -> Option<&mut Node> {
        let hash = hash_of(key);
        let location = self.locate_live(hash, key)?;
        Some(self.store.at_mut(location, hash, key))
    }

    /// The collection of a key, for a command that reads: counted as a hit or a miss.
    pub fn read_collection<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        self.read_node(key).map(Node::collection).transpose()
    }

    /// What `of` finds in the values of several keys together, for a command that reads: each is counted as a hit or a
    /// miss, up to one in which `of` does not find it.
    pub fn read_all<'k, T>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        of: impl for<'v> Fn(Value<'v>) -> Result<&'v T, CommandError>,
    ) -> Result<Vec<Option<&T>>, CommandError> {
        // Expired keys are removed first, because that changes the store; then it is only read.
        for key in keys.clone() {
            self.read(key).map(&of).transpose()?;
        }
        keys.map(|key| self.look(key).map(&of).transpose()).collect()
    }

    /// The value of a key, uncounted, while other values are borrowed, too. An expired key is skipped.
    pub fn look(&self, key: &[u8]) -> Option<Value<'_>> {
        let node = self.store.stored(key)?;
        (!self.turn.hides(node)).then(|| node.value())
    }

    /// The collection of a key, for a command that writes.
    pub fn collection_mut<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut C>, CommandError> {
        self.node_mut(key).map(Node::collection_mut).transpose()
    }

    /// The same, uncounted: the command uses the key elsewhere.
    pub fn collection_mut_uncounted<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut C>, CommandError> {
        self.node_mut_uncounted(key).map(Node::collection_mut).transpose()
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
        let node = self.store.at_mut(location, hash, key);
        self.turn.note_use(node, &mut self.random);
        node.collection_mut().map(Some)
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
            if !self.turn.hides(node) {
                visit(node);
            }
        });
    }

    /// A random key that has not expired. Expired ones that are drawn are removed; where they stay, it is found only in
    /// a bounded number of draws.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        const KEPT_MAX: usize = 100;
        let mut kept = 0;
        while kept < KEPT_MAX && !self.saw_expired {
            let node = self.store.random(&mut |n| self.random.usize(..n))?;
            let (is_hidden, key) = (self.turn.hides(node), node.key().to_vec());
            if !is_hidden {
                return Some(key);
            }
            let hash = hash_of(&key);
            self.locate_shown(hash, &key);
            kept += usize::from(self.store.locate(hash, &key).is_some());
        }
        None
    }
}
