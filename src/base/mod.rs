//! What all rooms use and what depends on none of them: time, memory, threads, buffers, limits, patterns, the route of
//! a key.

pub(crate) mod affinity;
pub mod allocator;
pub(crate) mod buffers;
pub mod bus_error;
pub mod clock;
pub mod directories;
pub mod freeing;
pub mod glob;
pub mod lengthy;
pub mod limits;
pub(crate) mod narrowing;
pub mod network;
pub(crate) mod parallel;
pub(crate) mod planted;
pub(crate) mod pool;
pub mod pressure;
pub mod randomness;
pub mod routing;
pub(crate) mod runtime;
pub mod tasks;
pub mod tls;
pub mod tsc;
pub(crate) mod whole_file;
pub(crate) mod worker;
