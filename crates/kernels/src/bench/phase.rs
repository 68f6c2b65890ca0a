//! A run as phases: launches that ran at once, one such set after the other.

use cubeyard_runtime::LaunchReport;
use cubeyard_sim::{Span, Time};

use super::Lab;
use super::limit::HOST;
use super::path::{Leg, path};
use crate::report::{SliceKind, Step};

/// Launches whose times overlap: a kernel on several SIPs, or several kernels.
#[derive(Debug)]
pub(super) struct Phase {
    /// Each with its kernel's name, in the order of their starts.
    pub(super) launches: Vec<(String, LaunchReport)>,
    /// What led to its end, from its start on, where operations are kept.
    pub(super) legs: Vec<Leg>,
}

impl Phase {
    /// The phases of launches that are all done, while their tensors are still mapped.
    pub(super) fn of(lab: &Lab<'_>, mut launches: Vec<(String, LaunchReport)>) -> Vec<Self> {
        launches.sort_by_key(|(_, launch)| launch.started);
        let mut phases: Vec<Self> = Vec::new();
        for launch in launches {
            match phases.last_mut().filter(|phase| launch.1.started < phase.ended()) {
                Some(phase) => phase.launches.push(launch),
                None => phases.push(Self { launches: vec![launch], legs: Vec::new() }),
            }
        }
        for phase in &mut phases {
            phase.legs = path(lab, &phase.launches, phase.started());
        }
        phases
    }

    /// When its first launch started.
    pub(super) fn started(&self) -> Time {
        // Launches are in this order, and there is one at least.
        self.launches[0].1.started
    }

    /// When its last PE was done.
    pub(super) fn ended(&self) -> Time {
        let ends = self.launches.iter().map(|(_, launch)| launch.started + launch.max());
        ends.max().unwrap_or(Time::ZERO)
    }

    /// From the one to the other.
    pub(super) fn span(&self) -> Span {
        self.ended() - self.started()
    }

    /// The kernels of its launches, and how many there are if there are several.
    pub(super) fn name(&self) -> String {
        let mut names: Vec<&str> = self.launches.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        match self.launches.len() {
            1 => names.concat(),
            count => format!("{} ({count} launches)", names.join(", ")),
        }
    }
}

/// From the first start to the last end.
pub(super) fn whole(phases: &[Phase]) -> Span {
    let ends = phases.first().zip(phases.last());
    ends.map_or(Span::ZERO, |(first, last)| last.ended() - first.started())
}

/// From the host's first launch to its last completion.
pub(super) fn host(phases: &[Phase]) -> Span {
    let launches = || phases.iter().flat_map(|phase| &phase.launches);
    let made = launches().map(|(_, launch)| launch.made).min();
    let done = launches().map(|(_, launch)| launch.done).max();
    made.zip(done).map_or(Span::ZERO, |(made, done)| done - made)
}

/// The steps that led to the end of the run: those of each phase, and the host between them. None if a phase has
/// none, since a path has no gaps.
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

/// The time between two phases.
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
