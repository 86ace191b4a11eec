//! Channels that shuttle can interrupt at each step, and faults that can be planted in them.

use actors::{Channels, Closed, LockFreeReplyQueue, Receiver, ReplyQueue, Sender, TrySendError};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use std::any::{Any, TypeId, type_name};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::shard::{CheckingShard, Work};

/// A fault of the channels, or of their users.
pub trait Fault: Send + Sync + 'static {
    /// The mailbox returns the newest batch first.
    const MAILBOX_REORDERS: bool = false;
    /// The mailbox does not wake senders when it has room again.
    const ROOM_WAKES_NOBODY: bool = false;
    /// The mailbox does not report that its last sender is gone.
    const LAST_SENDER_LEAVES_SILENTLY: bool = false;
    /// A shard returns a batch twice.
    const REPLY_COMES_TWICE: bool = false;
    /// A batch is returned without waking its connection.
    const REPLY_WAKES_NOBODY: bool = false;
    /// A waiting port checks, registers its waker, and does not check again.
    const LOOKS_ONCE: bool = false;
    /// A connection writes replies in order of arrival.
    const CONNECTION_DOES_NOT_REORDER: bool = false;
    /// A connection ignores the room in its window.
    const CONNECTION_IGNORES_ITS_WINDOW: bool = false;
    /// The gate of a group is open before all its parts are placed.
    const GATE_COMES_OPEN: bool = false;
    /// The gate of a group opens without waking the waiting shards.
    const ARMING_WAKES_NOBODY: bool = false;
    /// A rendezvous treats the last but one to arrive as the last.
    const RENDEZVOUS_STARTS_EARLY: bool = false;
    /// The lent states are returned to each other's shards.
    const STATES_GO_ASTRAY: bool = false;
    /// A connection sends single batches directly to their shards while its groups are with the sequencer.
    const CONNECTION_SENDS_PAST_ITS_GROUPS: bool = false;
    /// A part of a group is sent, and runs, twice.
    const CONNECTION_SENDS_A_PART_AGAIN: bool = false;
    /// A connection sends the parts of a group one by one.
    const CONNECTION_SCATTERS: bool = false;
    /// A mailbox says that it is empty when it is not.
    const MAILBOX_SEEMS_EMPTY: bool = false;

    /// Without a fault: whether shuttle may run another task before each operation on a channel of `T`. Fewer steps
    /// make a scenario small enough for all of its schedules.
    fn has_steps<T: 'static>() -> bool {
        true
    }
}

/// Without faults.
pub struct Sound;

impl Fault for Sound {}

/// Without faults, and with steps only at gates.
pub struct StepsAtGates;

impl Fault for StepsAtGates {
    fn has_steps<T: 'static>() -> bool {
        is::<T, Signal>()
    }
}

/// Without faults, and with steps only where states are lent and returned.
pub struct StepsInRendezvous;

impl Fault for StepsInRendezvous {
    fn has_steps<T: 'static>() -> bool {
        is::<T, (usize, Box<CheckingShard>)>() || is::<T, Box<CheckingShard>>()
    }
}

std::thread_local! {
    // Shuttle runs all tasks of a test on the test's own thread.
    static WAITS_FOR_ROOM: Cell<usize> = const { Cell::new(0) };
    static SECOND_LOOKS: Cell<usize> = const { Cell::new(0) };
    static SENDS_GIVEN_UP: Cell<usize> = const { Cell::new(0) };
    static WAITS_AT_GATES: Cell<usize> = const { Cell::new(0) };
    static WAITS_IN_RENDEZVOUS: Cell<usize> = const { Cell::new(0) };
    static WAITS_FOR_THE_SEQUENCER: Cell<usize> = const { Cell::new(0) };
    static CANCELLATIONS: Cell<usize> = const { Cell::new(0) };
    static BATCHES_IN_PLACE: Cell<usize> = const { Cell::new(0) };
    static BATCHES_NOT_IN_PLACE: Cell<usize> = const { Cell::new(0) };
}

/// Shows that the schedules of a test reached the situation that it tests.
pub struct Witness {
    seen: &'static std::thread::LocalKey<Cell<usize>>,
    before: usize,
}

impl Witness {
    /// Of senders that had to wait for room in the mailbox of a shard.
    pub fn of_waits_for_room() -> Self {
        Self { seen: &WAITS_FOR_ROOM, before: WAITS_FOR_ROOM.get() }
    }

    /// Of batches that were found by the second check.
    pub fn of_second_looks() -> Self {
        Self { seen: &SECOND_LOOKS, before: SECOND_LOOKS.get() }
    }

    /// Of sends that were dropped while they waited.
    pub fn of_sends_given_up() -> Self {
        Self { seen: &SENDS_GIVEN_UP, before: SENDS_GIVEN_UP.get() }
    }

    /// Of shards that reached a group before it was armed.
    pub fn of_waits_at_gates() -> Self {
        Self { seen: &WAITS_AT_GATES, before: WAITS_AT_GATES.get() }
    }

    /// Of shards whose state was lent.
    pub fn of_waits_in_rendezvous() -> Self {
        Self { seen: &WAITS_IN_RENDEZVOUS, before: WAITS_IN_RENDEZVOUS.get() }
    }

    /// Of connections that had to wait for room in the mailbox of the sequencer.
    pub fn of_waits_for_the_sequencer() -> Self {
        Self { seen: &WAITS_FOR_THE_SEQUENCER, before: WAITS_FOR_THE_SEQUENCER.get() }
    }

    /// Of connections whose task was cancelled before its end.
    pub fn of_cancellations() -> Self {
        Self { seen: &CANCELLATIONS, before: CANCELLATIONS.get() }
    }

    /// Of batches that ran in place.
    pub fn of_batches_in_place() -> Self {
        Self { seen: &BATCHES_IN_PLACE, before: BATCHES_IN_PLACE.get() }
    }

    /// Of batches that could not run in place.
    pub fn of_batches_not_in_place() -> Self {
        Self { seen: &BATCHES_NOT_IN_PLACE, before: BATCHES_NOT_IN_PLACE.get() }
    }

    pub fn assert_seen(&self) {
        assert!(self.seen.get() > self.before, "no schedule met the case: the test shows nothing");
    }
}

/// Records that a send was dropped while it waited.
pub fn note_send_given_up() {
    SENDS_GIVEN_UP.set(SENDS_GIVEN_UP.get() + 1);
}

/// Records that a connection's task was cancelled before its end.
pub fn note_cancellation() {
    CANCELLATIONS.set(CANCELLATIONS.get() + 1);
}

/// Records whether a batch ran in place.
pub fn note_in_place(has_run: bool) {
    let seen = if has_run { &BATCHES_IN_PLACE } else { &BATCHES_NOT_IN_PLACE };
    seen.set(seen.get() + 1);
}

/// The family of channels with the fault `F`.
pub struct Interleaved<F>(PhantomData<F>);

impl<F: Fault> Channels for Interleaved<F> {
    type Sender<T: Send + 'static> = MailboxSender<T, F>;
    type Receiver<T: Send + 'static> = MailboxReceiver<T, F>;
    type ReplyQueue<T: Send + 'static> = SteppedReplyQueue<T, F>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        let state = State {
            queue: VecDeque::new(),
            senders: 1,
            receiver_gone: false,
            waits_for_value: None,
            wait_for_room: Vec::new(),
        };
        let shared = Arc::new(Shared { capacity, steps: Steps::new(), state: Mutex::new(state) });
        (MailboxSender(Arc::clone(&shared)), MailboxReceiver(shared))
    }
}

/// Points at which shuttle may run another task.
struct Steps<T, F>(AtomicUsize, PhantomData<fn() -> (T, F)>);

impl<T: 'static, F: Fault> Steps<T, F> {
    fn new() -> Self {
        Self(AtomicUsize::new(0), PhantomData)
    }

    fn step(&self) {
        if F::has_steps::<T>() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

struct Shared<T, F> {
    capacity: usize,
    steps: Steps<T, F>,
    state: Mutex<State<T>>,
}

/// Invariant: `queue.len() <= capacity`.
struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    receiver_gone: bool,
    waits_for_value: Option<Waker>,
    /// All are woken when there is room, so that one that has given up does not consume a wake-up.
    wait_for_room: Vec<Waker>,
}

impl<T: 'static, F: Fault> Shared<T, F> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.steps.step();
        // A failing task unwinds through here; its own message is the relevant one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, state: &mut State<T>) -> Option<T> {
        let value = if F::MAILBOX_REORDERS { state.queue.pop_back() } else { state.queue.pop_front() }?;
        if !F::ROOM_WAKES_NOBODY {
            state.wait_for_room.drain(..).for_each(Waker::wake);
        }
        Some(value)
    }
}

pub struct MailboxSender<T: 'static, F: Fault>(Arc<Shared<T, F>>);

impl<T: 'static, F: Fault> Clone for MailboxSender<T, F> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T: 'static, F: Fault> Drop for MailboxSender<T, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // The execution has failed and there are no waiters any more.
        }
        let mut state = self.0.lock();
        state.senders -= 1;
        if state.senders == 0 && !F::LAST_SENDER_LEAVES_SILENTLY {
            let waker = state.waits_for_value.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T: Send + 'static, F: Fault> Sender<T> for MailboxSender<T, F> {
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = self.0.lock();
        if state.receiver_gone {
            return Err(TrySendError::Closed(value));
        }
        if state.queue.len() == self.0.capacity {
            return Err(TrySendError::Full(value));
        }
        state.queue.push_back(value);
        let waker = state.waits_for_value.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    async fn send(&self, value: T) -> Result<(), Closed<T>> {
        let mut unsent = Some(value);
        poll_fn(|context| {
            let value = unsent.take().expect("a future is not polled after it is ready");
            match self.try_send(value) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(TrySendError::Closed(value)) => return Poll::Ready(Err(Closed(value))),
                Err(TrySendError::Full(value)) => unsent = Some(value),
            }
            let mut state = self.0.lock();
            if state.queue.len() < self.0.capacity || state.receiver_gone {
                context.waker().wake_by_ref(); // There is room by now: try again.
            } else {
                let waits = if leads_to_the_sequencer::<T>() { &WAITS_FOR_THE_SEQUENCER } else { &WAITS_FOR_ROOM };
                waits.set(waits.get() + 1);
                state.wait_for_room.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn len(&self) -> usize {
        if F::MAILBOX_SEEMS_EMPTY { 0 } else { self.0.lock().queue.len() }
    }
}

pub struct MailboxReceiver<T: 'static, F: Fault>(Arc<Shared<T, F>>);

impl<T: Send + 'static, F: Fault> Receiver<T> for MailboxReceiver<T, F> {
    fn try_recv(&mut self) -> Option<T> {
        self.0.take(&mut self.0.lock())
    }

    async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if let Some(value) = self.0.take(&mut state) {
                return Poll::Ready(Some(value));
            }
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.waits_for_value = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T: 'static, F: Fault> Drop for MailboxReceiver<T, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // The execution has failed and there are no waiters any more.
        }
        let mut state = self.0.lock();
        state.receiver_gone = true;
        let abandoned = std::mem::take(&mut state.queue);
        let wakers = std::mem::take(&mut state.wait_for_room);
        drop(state);
        drop(abandoned);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Production's reply queue with a point for shuttle to interrupt before each of its operations, which are atomic.
pub struct SteppedReplyQueue<T, F> {
    queue: LockFreeReplyQueue<T>,
    steps: Steps<T, F>,
    /// The waker has just been registered.
    is_registered: AtomicBool,
}

impl<T: Send + 'static, F: Fault> ReplyQueue<T> for SteppedReplyQueue<T, F> {
    fn with_capacity(capacity: usize) -> Self {
        let is_too_small = F::RENDEZVOUS_STARTS_EARLY && is::<T, (usize, Box<CheckingShard>)>() && capacity > 1;
        let queue = LockFreeReplyQueue::with_capacity(capacity - usize::from(is_too_small));
        if F::GATE_COMES_OPEN && is::<T, Signal>() {
            queue.push(cast(()).expect("a signal")).unwrap_or_else(|_| unreachable!("the queue is new"));
        }
        Self { queue, steps: Steps::new(), is_registered: AtomicBool::new(false) }
    }

    fn push(&self, value: T) -> Result<(), T> {
        self.steps.step();
        if F::GATE_COMES_OPEN && is::<T, Signal>() {
            return Ok(()); // It is open from the start.
        }
        let copy = if F::REPLY_COMES_TWICE { copy_of(&value) } else { None };
        self.queue.push(value)?;
        copy.map_or(Ok(()), |copy| self.queue.push(copy))
    }

    fn pop(&self) -> Option<T> {
        self.steps.step();
        let is_second_look = self.is_registered.swap(false, Ordering::SeqCst);
        if is_second_look && F::LOOKS_ONCE {
            return None;
        }
        let value = self.queue.pop()?;
        SECOND_LOOKS.set(SECOND_LOOKS.get() + usize::from(is_second_look));
        Some(value)
    }

    fn register(&self, waker: &Waker) {
        self.steps.step();
        WAITS_AT_GATES.set(WAITS_AT_GATES.get() + usize::from(is::<T, Signal>()));
        WAITS_IN_RENDEZVOUS.set(WAITS_IN_RENDEZVOUS.get() + usize::from(is::<T, Box<CheckingShard>>()));
        self.queue.register(waker);
        self.is_registered.store(true, Ordering::SeqCst);
    }

    fn wake(&self) {
        self.steps.step();
        let is_silent = F::REPLY_WAKES_NOBODY && is::<T, Work>() || F::ARMING_WAKES_NOBODY && is::<T, Signal>();
        if !is_silent {
            self.queue.wake();
        }
    }
}

/// The items of the queues of gates. The other queues carry [`Work`] on its way back, and lent states.
type Signal = ();

/// The type of a mailbox item for the sequencer contains the channels, and so cannot be written down here.
fn leads_to_the_sequencer<T>() -> bool {
    type_name::<T>().starts_with("actors::sequencer::Placement<")
}

fn is<T: 'static, U: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<U>()
}

fn copy_of<T: 'static>(value: &T) -> Option<T> {
    cast((value as &dyn Any).downcast_ref::<Work>()?.clone())
}

/// The queue is generic over its items; its faults are not.
fn cast<T: 'static, U: 'static>(value: T) -> Option<U> {
    let value: Box<dyn Any> = Box::new(value);
    value.downcast().ok().map(|value| *value)
}
