//! A multishot accept, a multishot receive for each connection with provided buffers, and the sends of a round submitted
//! in the call that waits.
use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd, Fixed, SubmitArgs};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::Options;
use crate::resp::{Input, Store};

const ENTRIES: u32 = 1024;
const COMPLETIONS: u32 = 8192;
const FILES: u32 = 4096;
const GROUP: u16 = 0;
const INCREMENTAL: u16 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive,
    Send,
    Writable,
    Accept,
    Close,
}

fn user_data(kind: Kind, index: usize, bytes: usize) -> u64 {
    (bytes as u64) << 32 | (index as u64) << 3 | kind as u64
}

fn parse_user_data(data: u64) -> (Kind, usize, usize) {
    let kind = match data & 7 {
        0 => Kind::Receive,
        1 => Kind::Send,
        2 => Kind::Writable,
        3 => Kind::Accept,
        _ => Kind::Close,
    };
    (kind, (data as u32 >> 3) as usize, (data >> 32) as usize)
}

struct Connection {
    input: Input,
    unsent: Vec<u8>,
}

struct Batch {
    index: usize,
    from: usize,
    to: usize,
}

struct Server {
    options: Options,
    connections: Vec<Option<Box<Connection>>>,
    store: Store,
    buffers: Buffers,
    out: Vec<u8>,
    batches: Vec<Batch>,
    requests: Vec<squeue::Entry>,
}

pub fn run(listener: i32, options: &Options) -> io::Result<()> {
    let mut builder = IoUring::builder();
    builder.setup_submit_all().setup_cqsize(COMPLETIONS);
    match options.setup.as_str() {
        "plain" => &mut builder,
        "coop" => builder.setup_coop_taskrun(),
        "single" => builder.setup_coop_taskrun().setup_single_issuer(),
        "defer" => builder.setup_single_issuer().setup_defer_taskrun(),
        other => panic!("unknown: {other}"),
    };
    if !options.sqarray {
        builder.setup_no_sqarray();
    }
    let mut ring: IoUring = builder.build(ENTRIES)?;
    if options.ringfd {
        ring.submitter().register_ring_fd()?;
    }
    if options.fixed {
        ring.submitter().register_files_sparse(FILES)?;
    }
    let buffers = Buffers::new(&ring, options)?;
    let mut server = Server {
        options: options.clone(),
        connections: Vec::new(),
        store: Store::new(),
        buffers,
        out: Vec::new(),
        batches: Vec::new(),
        requests: Vec::new(),
    };
    let accept = opcode::AcceptMulti::new(Fd(listener)).allocate_file_index(options.fixed).build();
    let accept = accept.user_data(user_data(Kind::Accept, 0, 0));
    server.requests.push(accept.clone());
    let mut completions: Vec<cqueue::Entry> = Vec::new();
    loop {
        server.submit(&mut ring)?;
        server.wait(&mut ring)?;
        server.store.counters.waits += 1;
        completions.extend(ring.completion());
        server.after_submission(&completions);
        server.store.counters.events += completions.len() as u64;
        for completion in completions.drain(..) {
            server.complete(&completion, &accept);
            if server.batches.len() >= server.options.flush {
                // The rest of the completions does not wait; this only submits.
                server.submit(&mut ring)?;
                ring.submit()?;
                // Failures of these are seen by the messages of the next round.
                server.keep_batches_sent();
            }
        }
        server.buffers.publish();
    }
}

macro_rules! on_file {
    ($server:expr, $index:expr, $build:expr) => {
        if $server.options.fixed { $build(Fixed($index as u32).into()) } else { $build(Fd($index as i32).into()) }
    };
}

/// A connection's file, either kind.
enum File {
    Fixed(Fixed),
    Fd(Fd),
}

impl From<Fixed> for File {
    fn from(file: Fixed) -> Self {
        Self::Fixed(file)
    }
}

impl From<Fd> for File {
    fn from(file: Fd) -> Self {
        Self::Fd(file)
    }
}

macro_rules! either {
    ($file:expr, $name:ident => $build:expr) => {
        match $file {
            File::Fixed($name) => $build,
            File::Fd($name) => $build,
        }
    };
}

impl Server {
    fn file(&self, index: usize) -> File {
        on_file!(self, index, |file: File| file)
    }

    fn receive(&self, index: usize) -> squeue::Entry {
        let entry = if self.options.bundle {
            either!(self.file(index), file => opcode::RecvMultiBundle::new(file, GROUP).build())
        } else {
            either!(self.file(index), file => opcode::RecvMulti::new(file, GROUP).build())
        };
        entry.user_data(user_data(Kind::Receive, index, 0))
    }

    fn send(&self, batch: &Batch) -> squeue::Entry {
        let bytes = &self.out[batch.from..batch.to];
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let (from, length) = (bytes.as_ptr(), bytes.len() as u32);
        let entry = either!(self.file(batch.index), file => opcode::Send::new(file, from, length).flags(flags).build());
        let skip = if self.options.skip { squeue::Flags::SKIP_SUCCESS } else { squeue::Flags::empty() };
        entry.flags(skip).user_data(user_data(Kind::Send, batch.index, batch.from))
    }

    /// Queues everything; submits what has no room.
    fn submit(&mut self, ring: &mut IoUring) -> io::Result<()> {
        self.store.counters.sends += self.batches.len() as u64;
        let requests = std::mem::take(&mut self.requests);
        let mut entries = requests.into_iter().chain(self.batches.iter().map(|batch| self.send(batch)));
        let mut kept = None;
        loop {
            let mut queue = ring.submission();
            loop {
                let Some(entry) = kept.take().or_else(|| entries.next()) else { return Ok(()) };
                if unsafe { queue.push(&entry) }.is_err() {
                    kept = Some(entry);
                    break;
                }
            }
            drop(queue);
            ring.submit()?;
        }
    }

    fn wait(&mut self, ring: &mut IoUring) -> io::Result<()> {
        loop {
            let result = if self.options.min_usec > 0 {
                ring.submitter().submit_with_args(self.options.wait, &SubmitArgs::new().min_wait_usec(self.options.min_usec))
            } else {
                ring.submit_and_wait(self.options.wait)
            };
            match result {
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// A send that did not take all: keeps the rest, which is still in `out`.
    fn after_submission(&mut self, completions: &[cqueue::Entry]) {
        for completion in completions {
            let (kind, index, from) = parse_user_data(completion.user_data());
            if kind != Kind::Send {
                continue;
            }
            let Some(batch) = self.batches.iter().find(|batch| batch.index == index && batch.from == from) else { continue };
            let length = batch.to - batch.from;
            let taken = match completion.result() {
                taken @ 0.. => taken as usize,
                error if -error == libc::EAGAIN => 0,
                _ => length,
            };
            if taken < length {
                let rest = self.out[batch.from + taken..batch.to].to_vec();
                if let Some(connection) = self.connections[index].as_mut() {
                    connection.unsent.extend_from_slice(&rest);
                    self.requests.push(self.writable(index));
                }
            }
        }
        self.keep_batches_sent();
    }

    fn keep_batches_sent(&mut self) {
        self.batches.clear();
        self.out.clear();
    }

    fn writable(&self, index: usize) -> squeue::Entry {
        let entry = either!(self.file(index), file => opcode::PollAdd::new(file, libc::POLLOUT as u32).build());
        entry.user_data(user_data(Kind::Writable, index, 0))
    }

    fn complete(&mut self, completion: &cqueue::Entry, accept: &squeue::Entry) {
        let (kind, index, _) = parse_user_data(completion.user_data());
        match kind {
            Kind::Receive => self.received(index, completion),
            Kind::Accept => {
                if completion.result() >= 0 {
                    self.accepted(completion.result() as usize);
                }
                if !cqueue::more(completion.flags()) {
                    self.requests.push(accept.clone());
                }
            }
            Kind::Writable => {
                let Some(connection) = self.connections[index].as_mut() else { return };
                let unsent = std::mem::take(&mut connection.unsent);
                self.queue(index, |out| out.extend_from_slice(&unsent));
            }
            Kind::Send | Kind::Close => {}
        }
    }

    fn accepted(&mut self, index: usize) {
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Box::new(Connection { input: Input::default(), unsent: Vec::new() }));
        self.requests.push(self.receive(index));
    }

    fn queue(&mut self, index: usize, fill: impl FnOnce(&mut Vec<u8>)) {
        let from = self.out.len();
        fill(&mut self.out);
        let to = self.out.len();
        if to > from {
            self.batches.push(Batch { index, from, to });
        }
    }

    fn received(&mut self, index: usize, completion: &cqueue::Entry) {
        let (result, flags) = (completion.result(), completion.flags());
        if result <= 0 && -result != libc::ENOBUFS && -result != libc::EINTR {
            return self.close(index);
        }
        if !cqueue::more(flags) {
            self.store.counters.rearmed += 1;
            self.requests.push(self.receive(index));
        }
        if result <= 0 {
            return;
        }
        let Some(buffer) = cqueue::buffer_select(flags) else { return };
        let mut left = result as usize;
        let mut buffer = buffer;
        let from = self.out.len();
        let mut broken = false;
        while left > 0 {
            let length = if self.options.incremental { left } else { left.min(self.options.buffer_bytes) };
            let bytes = self.buffers.bytes(buffer, length);
            if let Some(connection) = self.connections[index].as_mut() {
                broken |= connection.input.take(&mut self.store, bytes, &mut self.out).is_err();
            }
            left -= length;
            if self.options.incremental {
                self.buffers.advance(buffer, length, cqueue::buffer_more(flags));
            } else {
                let next = self.buffers.after(buffer);
                self.buffers.give_back(buffer);
                buffer = next;
            }
        }
        let to = self.out.len();
        if broken {
            self.out.truncate(from);
            self.close(index);
        } else if to > from {
            match self.connections[index].as_mut() {
                Some(connection) if !connection.unsent.is_empty() => {
                    connection.unsent.extend_from_slice(&self.out[from..to]);
                    self.out.truncate(from);
                }
                _ => self.batches.push(Batch { index, from, to }),
            }
        }
    }

    fn close(&mut self, index: usize) {
        if self.connections[index].take().is_some() {
            // A receive that goes on holds the file open. (A shutdown would be run by a worker thread, and could hit the
            // next connection with this number.)
            let cancel = opcode::AsyncCancel::new(user_data(Kind::Receive, index, 0)).build();
            self.requests.push(cancel.user_data(user_data(Kind::Close, index, 0)));
            let entry = either!(self.file(index), file => opcode::Close::new(file).build());
            self.requests.push(entry.user_data(user_data(Kind::Close, index, 0)));
        }
    }
}

struct Buffers {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    bytes: usize,
    tail: u16,
    /// By slot of the ring, the buffer that was put there last; and the other way round.
    at_slot: Vec<u16>,
    slot_of: Vec<u16>,
    offsets: Vec<usize>,
}

impl Buffers {
    fn new(ring: &IoUring, options: &Options) -> io::Result<Self> {
        let count = options.buffers.next_power_of_two();
        let allocate = |bytes: usize| unsafe { alloc_zeroed(Layout::from_size_align(bytes, 4096).expect("a layout")) };
        let mut this = Self {
            entries: allocate(usize::from(count) * size_of::<BufRingEntry>()).cast(),
            memory: allocate(usize::from(count) * options.buffer_bytes),
            count,
            bytes: options.buffer_bytes,
            tail: 0,
            at_slot: vec![0; usize::from(count)],
            slot_of: vec![0; usize::from(count)],
            offsets: vec![0; usize::from(count)],
        };
        let flags = if options.incremental { INCREMENTAL } else { 0 };
        unsafe { ring.submitter().register_buf_ring_with_flags(this.entries as u64, count, GROUP, flags)? };
        (0..count).for_each(|id| this.give_back(id));
        this.publish();
        Ok(this)
    }

    fn bytes(&self, id: u16, length: usize) -> &'static [u8] {
        let offset = self.offsets[usize::from(id)];
        assert!(id < self.count && offset + length <= self.bytes);
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id) * self.bytes + offset), length) }
    }

    fn after(&self, id: u16) -> u16 {
        let slot = self.slot_of[usize::from(id)].wrapping_add(1) & (self.count - 1);
        self.at_slot[usize::from(slot)]
    }

    fn advance(&mut self, id: u16, length: usize, more: bool) {
        self.offsets[usize::from(id)] += length;
        if !more {
            self.offsets[usize::from(id)] = 0;
            self.give_back(id);
        }
    }

    fn give_back(&mut self, id: u16) {
        let slot = self.tail & (self.count - 1);
        self.at_slot[usize::from(slot)] = id;
        self.slot_of[usize::from(id)] = slot;
        unsafe {
            let entry = &mut *self.entries.add(usize::from(slot));
            entry.set_addr(self.memory.add(usize::from(id) * self.bytes) as u64);
            entry.set_len(self.bytes as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

pub fn features() -> io::Result<()> {
    let ring = IoUring::new(8)?;
    let p = ring.params();
    println!("{p:?}");
    println!(
        "nodrop {} fast_poll {} ext_arg {} skip_cqe {} linked_file {} bundle {} min_timeout {} no_iowait {}",
        p.is_feature_nodrop(), p.is_feature_fast_poll(), p.is_feature_ext_arg(), p.is_feature_skip_cqe_on_success(),
        p.is_feature_linked_file(), p.is_feature_recvsend_bundle(), p.is_feature_min_timeout(), p.is_feature_no_iowait()
    );
    Ok(())
}
