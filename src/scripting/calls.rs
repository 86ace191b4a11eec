//! The commands that a script calls.

use super::busy::{TheWatchdog, Watchdog};
use super::conversions;
use super::pacing::Pace;
use super::stack::Stack;
use crate::resp::{Args, Span};
use scoped_tls_hkt::scoped_thread_local;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::time::Instant;

/// The most bytes of the arguments of a command that a script calls.
const CALL_BYTES_MAX: usize = 512 * 1024 * 1024;
/// After a command whose request and reply have this many bytes, a script's time is checked: they take as long as many
/// instructions.
const LONG: usize = 1 << 16;

/// The commands that a script can call.
pub trait Calls {
    /// Runs a command and appends its reply to `out`. The error says why it does not run.
    fn call(
        &mut self,
        args: Args<'_>,
        is_resp3: bool,
        watchdog: &Watchdog,
        out: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>>;
    /// Whether the user may run a command; `None` if there is no such command: `redis.acl_check_cmd`.
    fn check(&self, args: Args<'_>) -> Option<bool>;
}

scoped_thread_local! {
    /// The commands for the script that runs on this thread.
    static mut CALLS: for<'a> &'a mut (dyn Calls + 'a)
}

/// Runs `act`, in which scripts call these commands.
pub fn with_calls<R>(calls: &mut dyn Calls, act: impl FnOnce() -> R) -> R {
    CALLS.set(calls, act)
}

/// What the functions of one Lua state share.
#[derive(Default)]
pub struct Shared {
    /// The protocol that the script has chosen for itself.
    pub is_resp3: Cell<bool>,
    /// The time limit of the script that runs.
    pub watchdog: TheWatchdog,
    /// Whether a script has ever changed an environment, which may be that of a script to come.
    pub has_set_environments: Cell<bool>,
    /// How long instructions take.
    pub pace: Cell<Pace>,
    buffers: RefCell<CallBuffers>,
    /// What a function makes before it is on Lua's stack; kept for all functions while it is small.
    made: RefCell<Vec<u8>>,
}

/// The most bytes of memory that functions keep for what they make.
const MADE_KEPT: usize = 1 << 16;

/// The arguments and replies of commands; kept for the calls of all scripts.
#[derive(Default)]
struct CallBuffers {
    arena: Vec<u8>,
    spans: Vec<Span>,
    /// The reply, or the text of an error.
    reply: Vec<u8>,
}

/// A function of `redis` that takes a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `redis.call`, which raises errors.
    Call,
    /// `redis.pcall`, which returns them.
    ProtectedCall,
    /// `redis.acl_check_cmd`.
    Check,
}

/// What such a function comes to. Texts are in [`Shared::reply`].
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// A reply, to be converted.
    Reply,
    /// True.
    Yes,
    /// False.
    No,
    /// An error.
    Error {
        /// Whether the counts of error replies include it already.
        is_counted: bool,
        /// Whether it is raised.
        is_raised: bool,
    },
}

impl Shared {
    /// The reply, or the text of the error, of the last answer.
    pub fn reply(&self) -> *const [u8] {
        self.buffers.borrow().reply.as_slice()
    }

    /// Makes more of what a function makes, with nothing of Lua's. A function clears first what another has made.
    pub fn make<R>(&self, make: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        make(&mut self.made.borrow_mut())
    }

    /// What was made last.
    pub fn made(&self) -> *const [u8] {
        self.made.borrow().as_slice()
    }

    /// Frees the memory of what was made if it is much.
    pub fn forget_large(&self) {
        let mut made = self.made.borrow_mut();
        if made.capacity() > MADE_KEPT {
            *made = Vec::new();
        }
    }

    /// Whether the script that runs may go on. The error says why it must end.
    pub fn look(&self) -> Result<(), &'static str> {
        self.look_at(Instant::now())
    }

    /// The same, where the time is known.
    pub fn look_at(&self, now: Instant) -> Result<(), &'static str> {
        self.watchdog.borrow().as_ref().map_or(Ok(()), |watchdog| watchdog.look_at(now))
    }

    /// Why the script that runs must end, if it must.
    pub fn end(&self) -> Option<&'static str> {
        self.watchdog.borrow().as_ref().and_then(Watchdog::end)
    }

    /// Runs a function of `redis` with the arguments on Lua's stack.
    pub fn answer(&self, kind: Kind, arguments: Stack) -> Answer {
        let mut buffers = self.buffers.borrow_mut();
        buffers.reply.clear();
        let refused = |buffers: &mut CallBuffers, text: &str, is_counted| {
            buffers.reply.clear();
            buffers.reply.extend_from_slice(text.as_bytes());
            Answer::Error { is_counted, is_raised: kind != Kind::ProtectedCall }
        };
        if let Err(text) = buffers.take(arguments) {
            return refused(&mut buffers, text, false);
        }
        if kind == Kind::Check {
            return match CALLS.with(|calls| calls.check(buffers.args())) {
                Some(true) => Answer::Yes,
                Some(false) => Answer::No,
                None => refused(&mut buffers, "ERR Invalid command passed to redis.acl_check_cmd()", false),
            };
        }
        let watchdog = self.watchdog.borrow();
        let watchdog = watchdog.as_ref().expect("commands are called while a script runs");
        let CallBuffers { arena, spans, reply } = &mut *buffers;
        let called = CALLS.with(|calls| calls.call(Args::new(arena, spans), self.is_resp3.get(), watchdog, reply));
        if arena.len() + reply.len() >= LONG
            && let Err(reason) = watchdog.look()
        {
            refused(&mut buffers, reason, false);
            return Answer::Error { is_counted: false, is_raised: true };
        }
        match called {
            Err(reason) => refused(&mut buffers, &reason, true),
            Ok(()) if kind == Kind::Call && reply.first() == Some(&b'-') => {
                reply.truncate(reply.len() - b"\r\n".len());
                reply.remove(0);
                Answer::Error { is_counted: true, is_raised: true }
            }
            Ok(()) => Answer::Reply,
        }
    }
}

impl CallBuffers {
    fn args(&self) -> Args<'_> {
        Args::new(&self.arena, &self.spans)
    }

    /// Reads the arguments of a call; the error is a message.
    fn take(&mut self, arguments: Stack) -> Result<(), &'static str> {
        self.arena.clear();
        self.spans.clear();
        if arguments.len() == 0 {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        for index in 1..=arguments.len() {
            let start = self.arena.len();
            if !conversions::write_argument(arguments.plain(index), &mut self.arena) {
                return Err("ERR Lua redis lib command arguments must be strings or integers");
            }
            if self.arena.len() > CALL_BYTES_MAX {
                return Err("ERR the arguments of a command that a script calls are longer than 512 MB");
            }
            self.spans.push(Span::new(start, self.arena.len() - start));
        }
        Ok(())
    }
}
