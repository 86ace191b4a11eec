//! Shared code of random tests: their seeds, and the reduction of what leads to a failure.

/// Leaves out parts of `left` while `fails` finds the failure without them: halves first, then smaller and smaller
/// ones. `fails` replaces `left` by what it needs of the rest, and returns whether it failed.
pub fn without_parts<T: Clone>(
    left: &mut Vec<T>,
    is_over: &mut dyn FnMut() -> bool,
    mut fails: impl FnMut(Vec<T>, &mut Vec<T>) -> bool,
) {
    let mut len = left.len().div_ceil(2);
    while len > 0 && !is_over() {
        let mut end = left.len();
        while end > 0 && !is_over() {
            let from = end.saturating_sub(len);
            let rest = [&left[..from], &left[end.min(left.len())..]].concat();
            fails(rest, left);
            end = from.min(left.len());
        }
        len = if len == 1 { 0 } else { len.div_ceil(2) };
    }
}

/// The seed of a test whose short form is always the same, so that a failure is caused by a change: `make soak` draws a
/// new one each time, and `SEED` overrides it.
pub fn seed_or(of_make_test: u64) -> u64 {
    match std::env::var_os("SOAK").or(std::env::var_os("SEED")) {
        Some(_) => crate::seed(),
        None => {
            println!("SEED={of_make_test}");
            of_make_test
        }
    }
}
