//! A client of data that all connections share under one lock.

use super::super::connection::{Client, Replies, Waits};
use super::super::load::Batch;
use super::super::options::Options;
use super::requests::Requests;
use crate::resp::RequestParser;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Data that run requests under a lock of this kind.
pub trait Data<L>: 'static {
    /// Runs a range of a batch's requests under one acquisition.
    fn run(lock: &L, waits: &mut Waits, requests: &Requests, range: Range<usize>, out: &mut Vec<u8>);
}

/// A client of data under a lock.
pub struct UnderLock<L, D> {
    lock: Arc<L>,
    parser: RequestParser,
    requests: Requests,
    waits: Waits,
    is_by_read: bool,
    _data: PhantomData<fn() -> D>,
}

impl<L, D: Data<L>> UnderLock<L, D> {
    /// Makes clients.
    pub fn begin(options: &Options, lock: L) -> impl FnMut() -> Self + use<L, D> {
        let (lock, is_by_read) = (Arc::new(lock), options.is_by_read());
        move || Self {
            lock: Arc::clone(&lock),
            parser: RequestParser::default(),
            requests: Requests::default(),
            waits: Waits::default(),
            is_by_read,
            _data: PhantomData,
        }
    }
}

impl<L: Send + Sync + 'static, D: Data<L>> Client for UnderLock<L, D> {
    async fn call(&mut self, batch: &Batch, replies: &mut Replies) {
        self.requests.take(&mut self.parser, batch);
        for range in self.requests.ranges(self.is_by_read) {
            D::run(&self.lock, &mut self.waits, &self.requests, range, replies.out.buffer());
        }
        actors::yield_now().await;
        replies.drop_all();
    }

    fn waits(&self) -> Waits {
        self.waits
    }
}
