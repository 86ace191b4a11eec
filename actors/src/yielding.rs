//! Yields to ready tasks, on any executor.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets every task that is ready now run before the caller continues.
///
/// Unlike the runtime's own yield this does not poll the I/O driver: the task goes to the back of the run queue.
pub async fn yield_now() {
    struct Yield(bool);
    impl Future for Yield {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.0 {
                return Poll::Ready(());
            }
            self.0 = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Yield(false).await;
}
