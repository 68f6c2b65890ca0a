//! Launches in flight, and their outcomes.

use std::any::Any;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::message::RequestId;
use cubeyard_device::pe::CoreReport;
use cubeyard_device::request::{Completion, Outcome, PeRef};
use cubeyard_sim::{Span, Time};

use super::Inner;
use crate::error::RuntimeError;

/// Times of a launch that has run to completion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchReport {
    /// Id of the launch on the machine.
    pub request: RequestId,
    /// Time at which the host made the launch.
    pub made: Time,
    /// Common start of all PEs.
    pub started: Time,
    /// Time at which the host received the completion.
    pub done: Time,
    /// Working time of each PE.
    pub pes: Vec<(PeRef, Span)>,
    /// Activity of each PE that ran a program.
    pub cores: Vec<(PeRef, CoreReport)>,
}

impl LaunchReport {
    /// Returns the longest working time of a PE.
    pub fn max(&self) -> Span {
        self.pes.iter().map(|&(_, span)| span).max().unwrap_or_default()
    }

    /// Returns the mean working time of the PEs.
    pub fn mean(&self) -> Span {
        Span::mean(self.pes.iter().map(|&(_, span)| span))
    }
}

/// Outcome of a launch, set once it has ended; its handles share it.
pub(crate) type FlightOutcome = Rc<OnceCell<Result<LaunchReport, RuntimeError>>>;

/// A launch whose completion has not been processed, with the memory that it keeps until then.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) pes: Vec<PeRef>,
    pub(crate) outcome: FlightOutcome,
    /// Reason why the launch was stopped, if it was.
    pub(crate) stopped: Option<RuntimeError>,
    pub(crate) _uses: Vec<Rc<dyn Any>>,
}

impl Inner {
    /// Processes the completions of finished launches, and releases their memory. The first failure is returned as the
    /// error.
    pub(crate) fn settle(&self) -> Result<(), RuntimeError> {
        let machine = self.machine.borrow();
        let is_done = |request: RequestId| machine.completion(request).is_some();
        let (done, open): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.in_flight.take().into_iter().partition(|(request, _)| is_done(*request));
        self.in_flight.replace(open);
        drop(machine);
        let mut first = Ok(());
        for (request, flight) in done {
            let outcome = self.take_outcome(request, &flight);
            first = first.and(outcome.as_ref().map(|_| ()).map_err(Clone::clone));
            flight.outcome.set(outcome).expect("a launch ends once");
        }
        first
    }

    fn take_outcome(
        &self,
        request: RequestId,
        flight: &InFlight,
    ) -> Result<LaunchReport, RuntimeError> {
        let mut machine = self.machine.borrow_mut();
        let Completion { made, done, outcome, .. } =
            machine.completion(request).expect("it is done");
        let report_of = |&pe: &PeRef| Some((pe, machine.view().core_report(request, pe)?));
        let cores: Vec<_> = flight.pes.iter().filter_map(report_of).collect();
        machine.retire(request);
        match (outcome, &flight.stopped) {
            (Outcome::Ran { started, .. }, _) => {
                let pes = cores.iter().map(|&(pe, core)| (pe, core.ended - core.started)).collect();
                Ok(LaunchReport { request, made, started, done, pes, cores })
            }
            (Outcome::Failed { .. }, Some(reason)) => Err(reason.clone()),
            (Outcome::Failed { origin, what }, None) => Err(RuntimeError::Machine { origin, what }),
            (other, _) => unreachable!("a launch runs or fails: {other:?}"),
        }
    }
}
