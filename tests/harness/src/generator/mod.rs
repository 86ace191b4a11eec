//! Random requests of every family, with arguments at the edge: of a grammar for each command, and of atoms in it.

pub mod atoms;
pub mod families;
pub mod grammar;
pub mod parts;
pub mod requests;

/// The words of a request.
pub type Request = Vec<Vec<u8>>;
