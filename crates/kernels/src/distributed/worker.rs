//! Workers: what each rank does, written as if it were alone.
//!
//! All workers run in one thread, by turns. One that calls a collective waits until every rank has called
//! it; then the collective runs on the machine, and they go on.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use cubeyard_memory::address::SipId;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, Tensor};

use super::group::Pending;
use super::{CollectiveReport, DistError, Distributed};
use crate::collective::{Operation, ReduceOp};
use crate::tl::place;

/// What a rank has called.
#[derive(Clone, Debug)]
enum Call {
    Collective(Operation, Tensor, Tensor),
    Barrier,
    Send(usize, Tensor),
    Receive(usize, Tensor),
}

impl Call {
    /// What ranks that meet must have in common.
    fn name(&self) -> String {
        match self {
            Self::Collective(operation, ..) => operation.to_string(),
            Self::Barrier => "barrier".to_owned(),
            Self::Send(to, _) => format!("send to {to}"),
            Self::Receive(from, _) => format!("recv from {from}"),
        }
    }
}

/// The outcome of a call, once there is one. A failure is told to every rank of it, as text.
type Answer = Rc<RefCell<Option<Result<Option<CollectiveReport>, String>>>>;

#[derive(Clone, Debug)]
struct Posted {
    call: Call,
    at: &'static Location<'static>,
    answer: Answer,
}

/// Where ranks meet.
#[derive(Debug, Default)]
pub(super) struct Hub {
    calls: RefCell<Vec<VecDeque<Posted>>>,
}

impl Hub {
    pub(super) fn reset(&self, ranks: usize) {
        self.calls.replace(vec![VecDeque::new(); ranks]);
    }
}

/// A rank at work.
#[derive(Debug)]
pub struct Worker<'a> {
    dist: &'a Distributed<'a>,
    rank: usize,
    device: Cell<usize>,
}

/// A call that has been made and can be waited for.
#[derive(Debug)]
#[must_use = "a call is done when it has been awaited"]
pub struct WorkHandle {
    answer: Answer,
}

impl Future for WorkHandle {
    type Output = Result<(), DistError>;

    fn poll(self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<Self::Output> {
        match self.answer.borrow().as_ref() {
            Some(Ok(_)) => Poll::Ready(Ok(())),
            Some(Err(what)) => Poll::Ready(Err(DistError::Apart(what.clone()))),
            None => Poll::Pending,
        }
    }
}

impl WorkHandle {
    /// What the collective took, if it is done.
    pub fn report(&self) -> Option<CollectiveReport> {
        self.answer.borrow().as_ref()?.as_ref().ok()?.clone()
    }
}

impl<'a> Worker<'a> {
    /// Which rank it is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> usize {
        self.dist.hub.calls.borrow().len()
    }

    /// The context of all ranks.
    pub fn context(&self) -> &'a Context {
        self.dist.context
    }

    /// Chooses the SIP that [`placement`](Self::placement) is on, as `torch.accelerator.set_device_index`. Without
    /// it, that is the rank's own.
    pub fn set_device(&self, device: usize) -> Result<(), DistError> {
        self.dist.with(|backend| {
            let world = backend.sips.len();
            (device < world).then_some(()).ok_or(DistError::Rank { rank: device, world })
        })?;
        self.device.set(device);
        Ok(())
    }

    /// Row by row over all PEs of the device.
    pub fn placement(&self) -> Placement {
        let sip = self.dist.with(|backend| Ok(backend.sips[self.device.get()]));
        let sip = sip.unwrap_or_else(|_| SipId::new(0).expect("there is a first one"));
        let (cube, pe) = (Split::RowWise, Split::RowWise);
        Placement { cube, pe, sips: vec![sip], ..Placement::default() }
    }

    /// Every rank's tensor becomes what joins all of them.
    #[track_caller]
    pub fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> WorkHandle {
        self.collective(Operation::AllReduce(op), tensor, tensor)
    }

    /// One rank's tensor becomes what joins all of them.
    #[track_caller]
    pub fn reduce(&self, tensor: &Tensor, root: usize, op: ReduceOp) -> WorkHandle {
        self.collective(Operation::Reduce(op, root), tensor, tensor)
    }

    /// Every rank's tensor becomes that of one.
    #[track_caller]
    pub fn broadcast(&self, tensor: &Tensor, root: usize) -> WorkHandle {
        self.collective(Operation::Broadcast(root), tensor, tensor)
    }

    /// `output` becomes all ranks' inputs: in each PE, those of the same PE of each rank one after the other.
    #[track_caller]
    pub fn all_gather(&self, output: &Tensor, input: &Tensor) -> WorkHandle {
        self.collective(Operation::AllGather, input, output)
    }

    /// `output` becomes this rank's part of what joins all inputs, in each PE.
    #[track_caller]
    pub fn reduce_scatter(&self, output: &Tensor, input: &Tensor, op: ReduceOp) -> WorkHandle {
        self.collective(Operation::ReduceScatter(op), input, output)
    }

    /// `output` becomes this rank's part of every input, in each PE.
    #[track_caller]
    pub fn all_to_all(&self, output: &Tensor, input: &Tensor) -> WorkHandle {
        self.collective(Operation::AllToAll, input, output)
    }

    /// One rank's `output` becomes all inputs, in each PE.
    #[track_caller]
    pub fn gather(&self, output: &Tensor, input: &Tensor, root: usize) -> WorkHandle {
        self.collective(Operation::Gather(root), input, output)
    }

    /// `output` becomes this rank's part of one rank's input, in each PE.
    #[track_caller]
    pub fn scatter(&self, output: &Tensor, input: &Tensor, root: usize) -> WorkHandle {
        self.collective(Operation::Scatter(root), input, output)
    }

    /// Sends a tensor to a rank that receives it.
    #[track_caller]
    pub fn send(&self, tensor: &Tensor, to: usize) -> WorkHandle {
        self.post(Call::Send(to, tensor.clone()))
    }

    /// Receives a tensor that a rank sends.
    #[track_caller]
    pub fn recv(&self, tensor: &Tensor, from: usize) -> WorkHandle {
        self.post(Call::Receive(from, tensor.clone()))
    }

    /// Waits for all ranks, in simulated time, too.
    #[track_caller]
    pub fn barrier(&self) -> WorkHandle {
        self.post(Call::Barrier)
    }

    #[track_caller]
    fn collective(&self, operation: Operation, input: &Tensor, output: &Tensor) -> WorkHandle {
        self.post(Call::Collective(operation, input.clone(), output.clone()))
    }

    #[track_caller]
    fn post(&self, call: Call) -> WorkHandle {
        let answer = Answer::default();
        let posted = Posted { call, at: Location::caller(), answer: Rc::clone(&answer) };
        self.dist.hub.calls.borrow_mut()[self.rank].push_back(posted);
        WorkHandle { answer }
    }
}

/// Calls that were carried out, and what came of it so far.
type Begun = (Vec<Posted>, Result<Option<Pending>, DistError>);

type Task<'a> = Pin<Box<dyn Future<Output = Result<(), DistError>> + 'a>>;

impl<'c> Distributed<'c> {
    /// Runs a worker for each rank until all have returned, as `torch.multiprocessing.spawn`. The first error
    /// ends all of them.
    pub fn spawn<'a, F, W>(&'a self, work: F) -> Result<(), DistError>
    where
        'c: 'a,
        F: Fn(Worker<'a>) -> W,
        W: Future<Output = Result<(), DistError>> + 'a,
    {
        let ranks = self.get_world_size()?;
        self.hub.reset(ranks);
        let task = |rank| -> Option<Task<'a>> {
            let worker = Worker { dist: self, rank, device: Cell::new(rank) };
            Some(Box::pin(work(worker)))
        };
        let mut tasks: Vec<_> = (0..ranks).map(task).collect();
        let done = self.drive(&mut tasks);
        self.current.set(None);
        done
    }

    fn drive(&self, tasks: &mut [Option<Task<'_>>]) -> Result<(), DistError> {
        while tasks.iter().any(Option::is_some) {
            for (rank, place) in tasks.iter_mut().enumerate() {
                let Some(task) = place else { continue };
                self.current.set(Some(rank));
                let mut context = PollContext::from_waker(Waker::noop());
                if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
                    *place = None;
                    result?;
                }
            }
            let met = self.meet()?;
            let waiting = tasks.iter().any(Option::is_some);
            if waiting && !met {
                return Err(DistError::Apart(self.who_waits(tasks)));
            }
        }
        match self.leftover() {
            Some(what) => Err(DistError::Apart(what)),
            None => Ok(()),
        }
    }

    /// Begins whatever all ranks concerned have called, then waits for all of it: whether there was any.
    fn meet(&self) -> Result<bool, DistError> {
        let mut begun: Vec<Begun> = Vec::new();
        while let Some(met) = self.next_meeting() {
            let pending = self.carry_out(&met);
            begun.push((met.into_iter().map(|(_, posted)| posted).collect(), pending));
        }
        let any = !begun.is_empty();
        let mut first = Ok(());
        for (met, pending) in begun {
            let outcome = pending.and_then(|pending| pending.map(Pending::wait).transpose());
            for posted in &met {
                let answer = outcome.as_ref().map(Clone::clone).map_err(ToString::to_string);
                posted.answer.replace(Some(answer));
            }
            first = first.and(outcome.map(drop));
        }
        first.map(|()| any)
    }

    /// Takes the next calls that belong together, if all ranks concerned have made them.
    fn next_meeting(&self) -> Option<Vec<(usize, Posted)>> {
        let mut calls = self.hub.calls.borrow_mut();
        let fronts: Vec<_> = calls.iter().map(|queue| queue.front().cloned()).collect();
        let pair = fronts.iter().enumerate().find_map(|(rank, posted)| {
            let Call::Send(to, _) = posted.as_ref()?.call else { return None };
            let other = fronts.get(to)?.as_ref()?;
            matches!(other.call, Call::Receive(from, _) if from == rank).then_some(vec![rank, to])
        });
        let name = |posted: &Option<Posted>| posted.as_ref().map(|posted| posted.call.name());
        let first = fronts.first().and_then(name);
        let is_shared = fronts
            .first()
            .and_then(Option::as_ref)
            .is_some_and(|posted| matches!(posted.call, Call::Collective(..) | Call::Barrier));
        let all = is_shared && fronts.iter().all(|posted| name(posted) == first);
        let ranks = pair.or_else(|| all.then(|| (0..fronts.len()).collect()))?;
        let take = |rank: usize| Some((rank, calls[rank].pop_front()?));
        ranks.into_iter().map(take).collect()
    }

    fn carry_out(&self, met: &[(usize, Posted)]) -> Result<Option<Pending>, DistError> {
        match &met[0].1.call {
            Call::Barrier => self.barrier().map(|_| None),
            Call::Collective(operation, ..) => {
                let tensors: Vec<_> = met
                    .iter()
                    .filter_map(|(_, posted)| match &posted.call {
                        Call::Collective(_, input, output) => Some((input, output)),
                        _ => None,
                    })
                    .collect();
                self.begin(*operation, &tensors).map(Some)
            }
            Call::Send(to, source) => match &met[1].1.call {
                Call::Receive(_, target) => {
                    self.begin_send((met[0].0, source), (*to, target)).map(Some)
                }
                other => unreachable!("a pair is a send and a receive: {other:?}"),
            },
            Call::Receive(..) => unreachable!("the sender comes first"),
        }
    }

    /// What each rank is at when they do not meet.
    fn who_waits(&self, tasks: &[Option<Task<'_>>]) -> String {
        let calls = self.hub.calls.borrow();
        let state = |(rank, task): (usize, &Option<Task<'_>>)| match (calls[rank].front(), task) {
            (Some(posted), _) => {
                format!("rank {rank} waits in {} at {}", posted.call.name(), place(posted.at))
            }
            (None, None) => format!("rank {rank} has returned"),
            (None, Some(_)) => format!("rank {rank} waits for something that is none of ours"),
        };
        tasks.iter().enumerate().map(state).collect::<Vec<_>>().join("; ")
    }

    /// Calls that no other rank has made, although all have returned.
    fn leftover(&self) -> Option<String> {
        let calls = self.hub.calls.borrow();
        let left = calls.iter().enumerate().find_map(|(rank, queue)| Some((rank, queue.front()?)));
        left.map(|(rank, posted)| {
            let (name, at) = (posted.call.name(), place(posted.at));
            format!(
                "rank {rank} called {name} at {at} and did not wait for it; others did not call it"
            )
        })
    }
}
