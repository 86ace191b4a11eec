//! Users and what they may do: Redis's ACL.
//!
//! A [`User`] is an immutable value: a change makes another, which takes its place in the user's [`Account`]. A
//! connection holds the account that it has logged in to and the value that it saw last; it looks for another when
//! the version of [`Users`] has changed, once per read. The check of a command is [`User::check`].

mod denials;
mod selector;
mod user;
mod users;

pub use denials::{Denials, Entry, Place, Reason};
pub use selector::{Denial, Selector};
pub use user::User;
pub use users::{Account, Users};

/// The name of the user that connections have at first.
pub const DEFAULT: &[u8] = b"default";

/// Why a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleError {
    /// A command or category that does not exist.
    Unknown,
    /// It is not a rule.
    Syntax,
    /// A pattern of keys where all are allowed.
    KeysAfterAll,
    /// A pattern of channels where all are allowed.
    ChannelsAfterAll,
    /// A password to remove that the user does not have.
    NoSuchPassword,
    /// Not the hash of a password.
    Hash,
    /// `+command|subcommand|argument`.
    ArgumentOfSubcommand,
}

impl RuleError {
    /// The text of Redis.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// Whether a name or a pattern has spaces or null characters.
fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|&byte| byte.is_ascii_whitespace() || byte == 0x0b || byte == 0)
}
