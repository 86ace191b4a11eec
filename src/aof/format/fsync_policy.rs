//! When what was appended to a log has to be on the disk.

/// When records go to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FsyncPolicy {
    /// Once a second.
    Everysec,
    /// Before the reply.
    Always,
    /// When the operating system chooses.
    No,
}

impl FsyncPolicy {
    /// The policies as `--appendfsync` names them, in the order of their numbers.
    pub const NAMES: [&'static str; 3] = ["everysec", "always", "no"];

    /// The policy at this position of [`NAMES`](Self::NAMES), if there is one.
    pub fn checked(number: u8) -> Option<Self> {
        [Self::Everysec, Self::Always, Self::No].get(usize::from(number)).copied()
    }

    /// The policy at this position of [`NAMES`](Self::NAMES).
    pub fn from_number(number: u8) -> Self {
        Self::checked(number).expect("a policy has one of the numbers of NAMES")
    }
}
