//! Phases of a run: sets of launches that overlap in time, one after the other.

use cubeyard_runtime::LaunchReport;
use cubeyard_sim::{Span, Time};

use super::limit::HOST;
use super::path::{Leg, path};
use crate::report::{SliceKind, Step};
use cubeyard_tl::launch::Launcher;

/// Launches that overlap in time: a kernel on several SIPs, or several kernels.
#[derive(Debug)]
pub(super) struct Phase {
    /// Launches with their kernels' names, in the order of their starts.
    pub(super) launches: Vec<(String, LaunchReport)>,
    /// Critical path from start to end, if operations are recorded.
    pub(super) legs: Vec<Leg>,
}

impl Phase {
    /// Groups completed launches into phases, while their tensors are still mapped.
    pub(super) fn of(launcher: &Launcher, mut reports: Vec<(String, LaunchReport)>) -> Vec<Self> {
        reports.sort_by_key(|(_, launch)| launch.started);
        let mut phases: Vec<Self> = Vec::new();
        for launch in reports {
            match phases.last_mut().filter(|phase| launch.1.started < phase.ended()) {
                Some(phase) => phase.launches.push(launch),
                None => phases.push(Self { launches: vec![launch], legs: Vec::new() }),
            }
        }
        for phase in &mut phases {
            phase.legs = path(launcher, &phase.launches, phase.started());
        }
        phases
    }

    /// Returns the start of the first launch.
    pub(super) fn started(&self) -> Time {
        // Launches are sorted by start, and there is at least one.
        self.launches[0].1.started
    }

    /// Returns the end of the last PE.
    pub(super) fn ended(&self) -> Time {
        let ends = self.launches.iter().map(|(_, launch)| launch.started + launch.max());
        ends.max().unwrap_or(Time::ZERO)
    }

    /// Returns the time from start to end.
    pub(super) fn span(&self) -> Span {
        self.ended() - self.started()
    }

    /// Returns the names of the launched kernels, and the number of launches if there are several.
    pub(super) fn name(&self) -> String {
        let mut names: Vec<&str> = self.launches.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        match self.launches.len() {
            1 => names.concat(),
            count => format!("{} ({count} launches)", names.join(", ")),
        }
    }
}

/// Returns the time from the first start to the last end.
pub(super) fn whole(phases: &[Phase]) -> Span {
    let ends = phases.first().zip(phases.last());
    ends.map_or(Span::ZERO, |(first, last)| last.ended() - first.started())
}

/// Returns the time from the host's first launch to its last completion.
pub(super) fn host(phases: &[Phase]) -> Span {
    let launches = || phases.iter().flat_map(|phase| &phase.launches);
    let made = launches().map(|(_, launch)| launch.made).min();
    let done = launches().map(|(_, launch)| launch.done).max();
    made.zip(done).map_or(Span::ZERO, |(made, done)| done - made)
}

/// Returns the critical path of the run: the paths of all phases, and the host time between them. Empty if a phase has
/// no path, because the path of a run has no gaps.
pub(super) fn legs(phases: &[Phase]) -> Vec<Leg> {
    if phases.iter().any(|phase| phase.legs.is_empty()) {
        return Vec::new();
    }
    let Some(first) = phases.first() else { return Vec::new() };
    let mut legs = Vec::new();
    let mut done = Span::ZERO;
    for phase in phases {
        let offset = phase.started() - first.started();
        legs.extend((offset > done).then(|| between(done, offset)));
        legs.extend(phase.legs.iter().map(|leg| shifted(leg, offset)));
        done = offset + phase.span();
    }
    legs
}

fn shifted(leg: &Leg, offset: Span) -> Leg {
    let step = leg.step.clone();
    let step = Step { start: step.start + offset, end: step.end + offset, ..step };
    Leg { step, ..leg.clone() }
}

/// Returns the leg of host time between two phases.
fn between(start: Span, end: Span) -> Leg {
    let step = Step {
        start,
        end,
        what: "the host hears of the end and launches what comes next".to_owned(),
        kind: SliceKind::Wait,
        place: String::new(),
        why: "the next launch comes after this one".to_owned(),
        access: None,
    };
    Leg { step, command: HOST.to_owned(), record: None }
}
