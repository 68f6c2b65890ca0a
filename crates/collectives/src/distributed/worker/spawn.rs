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
        F: Fn(Worker) -> W,
        W: Future<Output = Result<(), DistError>> + 'a,
    {
        let mut ranks = self.workers()?;
        let task = |rank| -> Option<Task<'a>> { Some(Box::pin(work(ranks.worker(rank)))) };
        let mut tasks: Vec<_> = (0..ranks.size()).map(task).collect();
        while tasks.iter().any(Option::is_some) {
            for (rank, place) in tasks.iter_mut().enumerate() {
                let Some(task) = place else { continue };
                ranks.enter(rank);
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
                    *place = None;
                    result?;
                    ranks.returned(rank);
                }
                ranks.check()?;
            }
            ranks.meet()?;
        }
        ranks.finish()
    }

    /// Returns the workers of all ranks for a front that runs them itself, such as threads of another language.
    ///
    /// In each round every rank runs until it waits for a call or returns. Then [`meet`](Spawned::meet) performs the
    /// calls that match.
    pub fn workers(&self) -> Result<Spawned, DistError> {
        let world = self.world()?;
        self.check_outside(&"spawn")?;
        self.state.matcher.reset(world.size());
        let returned = vec![false; world.size()];
        Ok(Spawned { dist: self.clone(), world, returned })
    }
}

/// The workers of all ranks, run by a front. See [`Distributed::workers`].
#[derive(Debug)]
pub struct Spawned {
    dist: Distributed,
    world: ProcessGroup,
    /// The ranks whose workers have returned.
    returned: Vec<bool>,
}

impl Spawned {
    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Returns the worker of a rank.
    pub fn worker(&self, rank: usize) -> Worker {
        Worker::new(&self.dist, self.world.clone(), rank)
    }

    /// Sets the running rank, which [`Distributed::get_rank`] returns.
    pub fn enter(&self, rank: usize) {
        self.dist.state.current.set(Some(rank));
    }

    /// Notes that a rank has returned.
    pub fn returned(&mut self, rank: usize) {
        self.returned[rank] = true;
    }

    /// Fails if a rank has made a call that can never match.
    pub fn check(&self) -> Result<(), DistError> {
        self.dist.state.matcher.check()
    }

    /// Performs the calls that match. No rank runs meanwhile. Fails if ranks wait and none of their calls match.
    pub fn meet(&self) -> Result<(), DistError> {
        self.dist.state.current.set(None);
        let met = self.dist.meet()?;
        let is_over = self.returned.iter().all(|&returned| returned);
        if met || is_over { Ok(()) } else { Err(DistError::Apart(self.who_waits())) }
    }

    /// Ends the run once all ranks have returned. Fails if a call was left unmatched.
    pub fn finish(self) -> Result<(), DistError> {
        self.leftover().map_or(Ok(()), |what| Err(DistError::Apart(what)))
    }

    /// Describes the state of each rank in a deadlock.
    fn who_waits(&self) -> String {
        let state = |(rank, &returned)| match (self.waits(rank), returned) {
            (Some(what), _) => format!("rank {rank} waits in {what}"),
            (None, true) => format!("rank {rank} has returned"),
            (None, false) => format!("rank {rank} awaits something other than a collective"),
        };
        self.returned.iter().enumerate().map(state).collect::<Vec<_>>().join("; ")
    }

    /// Describes a call that no other rank has matched, although all have returned.
    fn leftover(&self) -> Option<String> {
        let left = (0..self.size()).find_map(|rank| Some((rank, self.waits(rank)?)));
        left.map(|(rank, what)| {
            format!("rank {rank} called {what} and did not wait for it; others did not call it")
        })
    }

    fn waits(&self, rank: usize) -> Option<String> {
        self.dist.state.matcher.waits(rank, &self.world)
    }
}

/// Drops the unmatched calls and their tensors.
impl Drop for Spawned {
    fn drop(&mut self) {
        self.dist.state.current.set(None);
        self.dist.state.matcher.reset(self.size());
    }
}
