//! Sets of flags that many rows share.

use super::row::Flags;

pub(super) const WRITE: Flags = Flags::WRITE.and(Flags::DENYOOM);
pub(super) const WRITE_FAST: Flags = WRITE.and(Flags::FAST);
pub(super) const SHRINK: Flags = Flags::WRITE;
pub(super) const SHRINK_FAST: Flags = SHRINK.and(Flags::FAST);
pub(super) const READ: Flags = Flags::READONLY;
pub(super) const READ_FAST: Flags = READ.and(Flags::FAST);
pub(super) const CONNECTION: Flags = Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE);
pub(super) const CONNECTION_FAST: Flags = CONNECTION.and(Flags::FAST);
pub(super) const HANDSHAKE: Flags = CONNECTION_FAST.and(Flags::NO_AUTH).and(Flags::ALLOW_BUSY);
pub(super) const AT_ONCE: Flags = CONNECTION_FAST.and(Flags::NOT_QUEUED);
pub(super) const WAITING_READ: Flags = READ.and(Flags::BLOCKING);
pub(super) const WAITING_TAKE: Flags = SHRINK.and(Flags::BLOCKING);
pub(super) const WAITING_MOVE: Flags = WAITING_TAKE.and(Flags::DENYOOM);
pub(super) const STATUS: Flags = Flags::LOADING.and(Flags::STALE);
pub(super) const SLOW_LOG: Flags = Flags::ADMIN.and(STATUS);
pub(super) const ADMIN: Flags = CONNECTION.and(Flags::ADMIN);
pub(super) const PUBSUB: Flags = STATUS.and(Flags::PUBSUB).and(Flags::MESSAGES);
pub(super) const SUBSCRIBE: Flags = PUBSUB.and(Flags::NOSCRIPT).and(Flags::SUBSCRIBED);
pub(super) const SUBSCRIBE_SHARD: Flags = SUBSCRIBE.and(Flags::NOT_KEYS);
pub(super) const SCRIPT: Flags =
    Flags::NOSCRIPT.and(Flags::STALE).and(Flags::SKIP_MONITOR).and(Flags::SCRIPT).and(Flags::CROSSES);
pub(super) const SCRIPT_READ: Flags = SCRIPT.and(Flags::READONLY);
/// Commands that may be used while a script runs.
pub(super) const BESIDE_SCRIPTS: Flags = Flags::NOSCRIPT.and(Flags::ALLOW_BUSY);
/// They have a place in the order of scripts.
pub(super) const ABOUT_SCRIPTS: Flags = Flags::NOSCRIPT.and(Flags::CROSSES);
pub(super) const LIBRARIES: Flags = ABOUT_SCRIPTS.and(Flags::WRITE);
/// They see the changes of scripts and libraries by earlier requests.
pub(super) const STATUS_OF_SCRIPTS: Flags = Flags::NOSCRIPT.and(Flags::AFTER_REPLIES);
