//! Channel-routed sharding.
