//! How a server ends on a signal: `shutdown-on-sigterm` and `shutdown-on-sigint`.

use std::fmt;

const DEFAULT: &str = "default";
/// In the order in which CONFIG shows them.
const WORDS: [&str; 5] = [DEFAULT, "save", "nosave", "now", "force"];

/// How a server ends on a signal: options of SHUTDOWN. With `force` it waits for a first log that is being written,
/// unlike SHUTDOWN FORCE; with `nosave` it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnSignal {
    /// Whether it makes a snapshot; if nothing is said, it does where snapshots are made automatically.
    pub saves: Option<bool>,
    /// Whether it ends without waiting for replicas.
    pub is_now: bool,
    /// Whether it ends even if the snapshot cannot be written.
    pub is_forced: bool,
}

impl OnSignal {
    /// Some of the words, in any order.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_known = |word: &&str| WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
        if words.is_empty() || !words.iter().all(is_known) {
            return Err(format!("argument(s) must be one of the following: {}", WORDS.join(", ")));
        }
        let has = |wanted: &str| words.iter().any(|word| word.eq_ignore_ascii_case(wanted));
        let saves = match (has("save"), has("nosave")) {
            (true, true) => return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into()),
            (false, false) => None,
            (saves, _) => Some(saves),
        };
        Ok(Self { saves, is_now: has("now"), is_forced: has("force") })
    }

    fn has(self, word: &str) -> bool {
        match word {
            "save" => self.saves == Some(true),
            "nosave" => self.saves == Some(false),
            "now" => self.is_now,
            "force" => self.is_forced,
            _ => self == Self::default(),
        }
    }
}

impl fmt::Display for OnSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = WORDS.into_iter().filter(|word| self.has(word)).collect();
        f.write_str(&words.join(" "))
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_in_any_order_and_shown_in_one() {
        for (text, shown) in [
            ("default", "default"),
            ("Default now", "now"),
            ("force  NOW nosave", "nosave now force"),
            ("save save", "save"),
        ] {
            assert_eq!(OnSignal::parse(text).unwrap().to_string(), shown);
        }
        assert_eq!(
            OnSignal::parse("now save").unwrap(),
            OnSignal { saves: Some(true), is_now: true, is_forced: false }
        );
        for text in ["", "abort", "now later"] {
            assert!(OnSignal::parse(text).unwrap_err().ends_with("default, save, nosave, now, force"), "{text}");
        }
        assert!(OnSignal::parse("save nosave").unwrap_err().contains("simultaneously"));
    }
}
