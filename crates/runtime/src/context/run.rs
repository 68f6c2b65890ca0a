//! Requests of the host, and running the machine until they or launches are done.

use cubeyard_device::machine::Machine;
use cubeyard_device::message::{Buffer, RequestId};
use cubeyard_device::request::{Completion, Outcome, Request, Submission};
use cubeyard_sim::{Span, Stop, Time, interruptible, uninterrupted};

use super::Inner;
use crate::error::RuntimeError;

impl Inner {
    /// Submits requests at the same time, runs the machine until all are done, and returns the duration. The first
    /// failure is returned as the error.
    pub(crate) fn perform(
        &self,
        requests: impl IntoIterator<Item = (Request, Option<Buffer>)>,
    ) -> Result<Span, RuntimeError> {
        self.perform_and(requests, |_, _| ()).map(|(span, ())| span)
    }

    /// Does the same as [`perform`](Self::perform), and calls `look` for the request that was done last, if any.
    pub(crate) fn perform_and<T: Default>(
        &self,
        requests: impl IntoIterator<Item = (Request, Option<Buffer>)>,
        look: impl FnOnce(&Machine, RequestId) -> T,
    ) -> Result<(Span, T), RuntimeError> {
        let mut machine = self.machine_mut()?;
        let now = machine.now();
        let requests = requests.into_iter();
        let mut ids = Vec::with_capacity(requests.size_hint().0);
        let mut refused = None;
        for (request, buffer) in requests {
            let submission = Submission { buffer: buffer.as_ref(), ..request.into() };
            match machine.submit_with(submission) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        drop(machine);
        self.run_until_done(&ids)?;
        let mut machine = self.machine.borrow_mut();
        let (mut last, mut failed) = (None, Ok(()));
        for completion in ids.iter().filter_map(|&id| machine.completion(id)) {
            last = last.max(Some((completion.done, completion.request)));
            failed = failed.and_then(|()| check(&completion));
        }
        let span = last.map_or(Span::ZERO, |(done, _)| done.since(now));
        let seen = last.map(|(_, request)| look(&machine, request)).unwrap_or_default();
        ids.into_iter().for_each(|id| machine.retire(id));
        if self.in_flight.borrow().is_empty() {
            machine.watch_mut().forget();
        }
        drop(machine);
        if let Some(error) = refused {
            return Err(error.into());
        }
        failed.map(|()| (span, seen))
    }

    /// Submits reads at the same time; returns the bytes of each, if there is data, and the duration.
    pub(crate) fn fetch(
        &self,
        requests: Vec<Request>,
    ) -> Result<(Vec<Vec<u8>>, Span), RuntimeError> {
        let zeros = |request: &Request| {
            let bytes = request.bytes().filter(|_| self.data)?;
            Some(Buffer::new(vec![0; usize::try_from(bytes).expect("it fits memory")].into()))
        };
        let requests: Vec<_> =
            requests.into_iter().map(|request| (zeros(&request), request)).collect();
        let buffers: Vec<Buffer> =
            requests.iter().filter_map(|(buffer, _)| buffer.clone()).collect();
        let requests = requests.into_iter().map(|(buffer, request)| (request, buffer));
        let span = self.perform(requests)?;
        Ok((buffers.iter().map(|buffer| buffer.take()).collect(), span))
    }

    /// Runs the machine until these requests are done; launches in flight continue in the meantime.
    fn run_until_done(&self, ids: &[RequestId]) -> Result<(), RuntimeError> {
        let mut machine = self.machine.borrow_mut();
        if self.in_flight.borrow().is_empty() {
            // A transfer by the host is not interrupted: its memory may be freed right after it.
            let stop = uninterrupted(|| machine.run());
            return stopped(&machine, stop);
        }
        // A stalled launch is reported to the caller that waits for it, not here.
        let mut open = ids.to_vec();
        loop {
            while open.pop_if(|id| machine.completion(*id).is_some()).is_some() {}
            if open.is_empty() {
                return Ok(());
            }
            let next = machine.view().engine().next_time().unwrap_or(Time::NEVER);
            let stop = uninterrupted(|| machine.run_until(next));
            if stop != Stop::Deadline {
                let is_done = ids.iter().all(|&id| machine.completion(id).is_some());
                return if is_done { Ok(()) } else { stopped(&machine, stop) };
            }
        }
    }

    /// Runs the machine until no event is left, and processes the outcomes of launches.
    pub(crate) fn run_and_settle(&self) -> Result<(), RuntimeError> {
        self.run()?;
        self.settle_all()
    }

    fn settle_all(&self) -> Result<(), RuntimeError> {
        let settled = self.settle();
        self.tidy()?;
        settled
    }

    /// Runs the machine until no event is left. Launches that stall are stopped and returned as the error.
    fn run(&self) -> Result<(), RuntimeError> {
        let mut machine = self.machine_mut()?;
        let stop = machine.run();
        let stopped = stopped(&machine, stop);
        drop(machine);
        stopped.or_else(|error| self.abandon(error))
    }

    /// Once no launch is in flight, drops the launches' records and the messages that were not received.
    pub(super) fn tidy(&self) -> Result<(), RuntimeError> {
        if self.in_flight.borrow().is_empty() {
            let mut machine = self.machine_mut()?;
            machine.watch_mut().forget();
            machine.clear_mail();
        }
        self.give_back_dropped();
        Ok(())
    }

    /// Runs the machine until a launch is done or the limit has passed; then the launch's programs are stopped.
    pub(crate) fn run_for(&self, limit: Span, launch: RequestId) -> Result<(), RuntimeError> {
        let mut machine = self.machine_mut()?;
        let deadline = machine.now() + limit;
        let stop = machine.run_until(deadline);
        if stop != Stop::Deadline || machine.completion(launch).is_some() {
            let stopped = stopped(&machine, stop);
            drop(machine);
            stopped.or_else(|error| self.abandon(error))?;
            return self.settle_all();
        }
        let waiting = machine.stop_programs(launch);
        drop(machine);
        // Launches that wait for its messages are stopped as well; their own handles report that.
        self.run().or_else(told_otherwise)?;
        self.settle().or_else(told_otherwise)?;
        self.tidy()?;
        Err(RuntimeError::Deadline { limit, waiting: waiting.join("; ") })
    }

    /// Stops all launches in flight after a stall or an interruption, and later ones that then stall. The handle of
    /// each reports it; the first reason is returned as the error.
    fn abandon(&self, first: RuntimeError) -> Result<(), RuntimeError> {
        match first {
            RuntimeError::Stalled(_) => self.stop_stalled(first.clone())?,
            RuntimeError::Interrupted => self.stop_all()?,
            other => return Err(other),
        }
        self.tidy()?;
        Err(first)
    }

    fn stop_stalled(&self, mut reason: RuntimeError) -> Result<(), RuntimeError> {
        while self.stop_launches(&reason)? {
            let mut machine = self.machine_mut()?;
            let stop = machine.run();
            let ended = stopped(&machine, stop);
            drop(machine);
            self.settle().or_else(told_otherwise)?;
            match ended {
                Err(next @ RuntimeError::Stalled(_)) => reason = next,
                _ => break,
            }
        }
        Ok(())
    }

    /// Runs the machine to its end, and stops every program soon after it has begun.
    fn stop_all(&self) -> Result<(), RuntimeError> {
        loop {
            self.stop_launches(&RuntimeError::Interrupted)?;
            let mut machine = self.machine_mut()?;
            let stop = interruptible(|| true, || machine.run());
            drop(machine);
            self.settle().or_else(told_otherwise)?;
            if stop != Stop::Interrupted {
                return Ok(());
            }
        }
    }

    /// Stops the programs of all launches in flight; returns whether there were any.
    fn stop_launches(&self, reason: &RuntimeError) -> Result<bool, RuntimeError> {
        let mut machine = self.machine_mut()?;
        let mut in_flight = self.in_flight.borrow_mut();
        let mut is_any = false;
        for (&launch, flight) in in_flight.iter_mut() {
            if !machine.stop_programs(launch).is_empty() {
                flight.stopped = Some(reason.clone());
                is_any = true;
            }
        }
        Ok(is_any)
    }
}

fn check(completion: &Completion) -> Result<(), RuntimeError> {
    match &completion.outcome {
        Outcome::Failed { origin, what } => {
            Err(RuntimeError::Machine { origin: origin.clone(), what: what.clone() })
        }
        _ => Ok(()),
    }
}

/// Ignores errors that the handle of a launch reports.
fn told_otherwise(error: RuntimeError) -> Result<(), RuntimeError> {
    match error {
        RuntimeError::Machine { .. } | RuntimeError::Stalled(_) | RuntimeError::Interrupted => {
            Ok(())
        }
        other => Err(other),
    }
}

fn stopped(machine: &Machine, stop: Stop) -> Result<(), RuntimeError> {
    match stop {
        Stop::Deadlock(waiting) => {
            let lines: Vec<_> =
                waiting.iter().map(|waiting| machine.view().describe(waiting)).collect();
            Err(RuntimeError::Stalled(lines.join("; ")))
        }
        Stop::OutOfTime => Err(RuntimeError::OutOfTime),
        Stop::Interrupted => Err(RuntimeError::Interrupted),
        Stop::Idle | Stop::Deadline => Ok(()),
    }
}
