//! How keys are written.

/// The most digits of a number.
pub(crate) const KEY_DIGITS_MAX: usize = 20;

/// How keys are written: `PREFIX12`, or `PREFIX{12}:3` where several share a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyNames<'a> {
    pub(crate) prefix: &'a str,
    /// Keys of a tag, and of a command over several.
    pub(crate) keys_per_tag: usize,
}

/// What follows the digits of a key, by member; all of one length. A key on its own ends with them.
pub(crate) fn key_endings(keys_per_tag: usize) -> Vec<Vec<u8>> {
    if keys_per_tag == 1 {
        return vec![Vec::new()];
    }
    let digits = (keys_per_tag - 1).to_string().len();
    (0..keys_per_tag).map(|member| format!("}}:{member:0digits$}").into_bytes()).collect()
}
