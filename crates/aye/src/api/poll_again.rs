//! A connection and its handlers are one task, in which the one wakes the other: the task is woken while it runs. The
//! runtime then wakes a second thread to run it, which finds nothing to do.

use futures_util::task::AtomicWaker;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// After so many times in a row, others get their turn.
const MOST: usize = 4;

const RESTS: u8 = 0;
const RUNS: u8 = 1;
const WOKEN: u8 = 2;

/// A future that is polled again at once if it was woken while it was polled.
pub struct PollAgain<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

struct Wakes {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Written in any case, so that whoever polls next sees all that happened before.
        if self.state.swap(WOKEN, Ordering::AcqRel) == RESTS {
            self.task.wake();
        }
    }
}

impl<F: Future> PollAgain<F> {
    pub fn new(future: F) -> Self {
        let wakes = Arc::new(Wakes { state: AtomicU8::new(RESTS), task: AtomicWaker::new() });
        Self { future: Box::pin(future), waker: wakes.clone().into(), wakes }
    }

    pub fn inner(&mut self) -> Pin<&mut F> {
        self.future.as_mut()
    }
}

impl<F: Future> Future for PollAgain<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<F::Output> {
        let Self { future, wakes, waker } = &mut *self;
        wakes.task.register(context.waker());
        for _ in 0..MOST {
            wakes.state.swap(RUNS, Ordering::AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let rests = wakes.state.compare_exchange(RUNS, RESTS, Ordering::AcqRel, Ordering::Acquire);
            if rests.is_ok() {
                return Poll::Pending;
            }
        }
        // The state stays at woken, as the task is.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    /// Is ready when it is polled for this time, and wakes itself each time before.
    fn ready_at(n: usize) -> impl Future<Output = ()> {
        let mut polled = 0;
        poll_fn(move |context| {
            polled += 1;
            context.waker().wake_by_ref();
            if polled == n { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_wakes_itself_is_polled_again_without_its_task() {
        assert_eq!(ready_at(3).now_or_never(), None);
        assert_eq!(PollAgain::new(ready_at(3)).now_or_never(), Some(()));
    }

    #[test]
    fn what_wakes_itself_all_the_time_lets_others_run() {
        let (count, mut often) = (Arc::<Count>::default(), PollAgain::new(ready_at(MOST + 1)));
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        assert_eq!(often.poll_unpin(&mut context), Poll::Pending);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(often.poll_unpin(&mut context), Poll::Ready(()));
    }

    #[test]
    fn who_is_woken_while_it_rests_wakes_its_task() {
        let (count, mut inner) = (Arc::<Count>::default(), None);
        let mut rests = PollAgain::new(poll_fn(|context| {
            inner = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        let waker = Waker::from(count.clone());
        assert_eq!(rests.poll_unpin(&mut Context::from_waker(&waker)), Poll::Pending);
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        drop(rests);
        inner.unwrap().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
