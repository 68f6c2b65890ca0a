//! Execution of the workers of all ranks, in turn.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Worker;
use crate::distributed::{DistError, Distributed, ProcessGroup};

type Task<'a> = Pin<Box<dyn Future<Output = Result<(), DistError>> + 'a>>;

impl Distributed {
    /// Runs a worker for each rank until all have returned, as `torch.multiprocessing.spawn`. The first error
    /// ends all of them.
    pub fn spawn<'a, F, W>(&'a self, work: F) -> Result<(), DistError>
    where
        F: Fn(Worker<'a>) -> W,
        W: Future<Output = Result<(), DistError>> + 'a,
    {
        let world = self.world()?;
        self.check_outside(&"spawn")?;
        self.matcher.reset(world.size());
        let task = |rank| -> Option<Task<'a>> {
            Some(Box::pin(work(Worker::new(self, world.clone(), rank))))
        };
        let mut tasks: Vec<_> = (0..world.size()).map(task).collect();
        let done = self.drive(&mut tasks, &world);
        self.current.set(None);
        done
    }

    fn drive(&self, tasks: &mut [Option<Task<'_>>], world: &ProcessGroup) -> Result<(), DistError> {
        while tasks.iter().any(Option::is_some) {
            for (rank, place) in tasks.iter_mut().enumerate() {
                let Some(task) = place else { continue };
                self.current.set(Some(rank));
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
                    *place = None;
                    result?;
                }
                self.matcher.check()?;
            }
            self.current.set(None);
            let met = self.meet()?;
            let waiting = tasks.iter().any(Option::is_some);
            if waiting && !met {
                return Err(DistError::Apart(self.who_waits(tasks, world)));
            }
        }
        match self.leftover(world) {
            Some(what) => Err(DistError::Apart(what)),
            None => Ok(()),
        }
    }

    /// Describes the state of each rank in a deadlock.
    fn who_waits(&self, tasks: &[Option<Task<'_>>], world: &ProcessGroup) -> String {
        let state = |(rank, task): (usize, &Option<Task<'_>>)| match (
            self.matcher.waits(rank, world),
            task,
        ) {
            (Some(what), _) => format!("rank {rank} waits in {what}"),
            (None, None) => format!("rank {rank} has returned"),
            (None, Some(_)) => format!("rank {rank} awaits something other than a collective"),
        };
        tasks.iter().enumerate().map(state).collect::<Vec<_>>().join("; ")
    }

    /// Describes a call that no other rank has matched, although all have returned.
    fn leftover(&self, world: &ProcessGroup) -> Option<String> {
        let mut ranks = 0..world.size();
        let left = ranks.find_map(|rank| Some((rank, self.matcher.waits(rank, world)?)));
        left.map(|(rank, what)| {
            format!("rank {rank} called {what} and did not wait for it; others did not call it")
        })
    }
}
