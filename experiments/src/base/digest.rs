//! SHA-256, by which documents and files name the raw data that they are based on.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The SHA-256 of a text, in hexadecimal.
pub fn sha256(text: impl AsRef<[u8]>) -> String {
    let hash = Sha256::digest(text);
    hash.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        assert_eq!(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
