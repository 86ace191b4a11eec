//! Traits over the locks of two libraries.

use super::super::connection::Waits;
use parking_lot::{Mutex, RwLock};
use std::sync::{PoisonError, TryLockError};

/// An exclusive lock. Waiting is timed, as in the mutex engine; if it need not wait, it reads no clock.
pub trait Exclusive<T>: Send + Sync + 'static {
    /// Runs `work` under the lock.
    fn with<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R;
}

impl<T: Send + 'static> Exclusive<T> for Mutex<T> {
    #[inline]
    fn with<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut waits.take(|| self.try_lock(), || self.lock()))
    }
}

impl<T: Send + 'static> Exclusive<T> for std::sync::Mutex<T> {
    #[inline]
    fn with<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        let waiting = || self.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut waits.take(|| free(self.try_lock()), waiting))
    }
}

/// A lock that readers may share, if it is of that kind.
pub trait Shared<T>: Send + Sync + 'static {
    /// Reads under the lock.
    fn read<R>(&self, waits: &mut Waits, work: impl FnOnce(&T) -> R) -> R;
    /// Writes under the lock.
    fn write<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R;
}

impl<T: Send + 'static> Shared<T> for Mutex<T> {
    #[inline]
    fn read<R>(&self, waits: &mut Waits, work: impl FnOnce(&T) -> R) -> R {
        self.with(waits, |inner| work(inner))
    }

    #[inline]
    fn write<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        self.with(waits, work)
    }
}

impl<T: Send + 'static> Shared<T> for std::sync::Mutex<T> {
    #[inline]
    fn read<R>(&self, waits: &mut Waits, work: impl FnOnce(&T) -> R) -> R {
        self.with(waits, |inner| work(inner))
    }

    #[inline]
    fn write<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        self.with(waits, work)
    }
}

impl<T: Send + Sync + 'static> Shared<T> for RwLock<T> {
    #[inline]
    fn read<R>(&self, waits: &mut Waits, work: impl FnOnce(&T) -> R) -> R {
        work(&waits.take(|| self.try_read(), || self.read()))
    }

    #[inline]
    fn write<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut waits.take(|| self.try_write(), || self.write()))
    }
}

impl<T: Send + Sync + 'static> Shared<T> for std::sync::RwLock<T> {
    #[inline]
    fn read<R>(&self, waits: &mut Waits, work: impl FnOnce(&T) -> R) -> R {
        let waiting = || self.read().unwrap_or_else(PoisonError::into_inner);
        work(&waits.take(|| free(self.try_read()), waiting))
    }

    #[inline]
    fn write<R>(&self, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        let waiting = || self.write().unwrap_or_else(PoisonError::into_inner);
        work(&mut waits.take(|| free(self.try_write()), waiting))
    }
}

/// The guard of std's lock, if it was free. A poisoned lock does not matter: the panic has ended the measurement.
fn free<G>(tried: Result<G, TryLockError<G>>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn adds_up(lock: &impl Shared<u64>) {
        std::thread::scope(|scope| {
            (0..4).for_each(|_| {
                scope.spawn(|| {
                    let mut waits = Waits::default();
                    (0..1000).for_each(|_| lock.write(&mut waits, |count| *count += 1));
                    assert!(lock.read(&mut waits, |count| *count) >= 1000);
                    assert_eq!(waits.free + waits.count, 1001);
                });
            });
        });
        assert_eq!(lock.read(&mut Waits::default(), |count| *count), 4000);
    }

    #[test]
    fn changes_under_every_lock_are_all_there() {
        adds_up(&Mutex::new(0));
        adds_up(&std::sync::Mutex::new(0));
        adds_up(&RwLock::new(0));
        adds_up(&std::sync::RwLock::new(0));
    }
}
