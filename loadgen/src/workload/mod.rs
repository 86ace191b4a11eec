//! What a load is made of: keys, values, and the commands of a workload file.

pub mod commands;
pub mod file;
pub(crate) mod key_names;
pub mod keys;
pub mod mix;
pub mod multi_key;
pub(crate) mod template;
pub(crate) mod values;
pub(crate) mod verifiable;
