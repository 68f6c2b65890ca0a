//! Where the ticks of an axis are, and what is written at them.

use crate::Timeline;
use crate::report::grouped;
use cubeyard_units::Bytes;

/// An axis from zero to `end`, in units of what it measures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// The last value on the axis.
    pub(super) end: f64,
    /// Values with what to write there.
    pub(super) ticks: Vec<(f64, String)>,
    /// What the axis measures.
    pub(super) title: String,
}

const BYTE_UNITS: [(f64, &str); 6] = [
    (1.0, "bytes"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
];

const TIME_UNITS: [(f64, &str); 5] = [
    (1.0, "microseconds"),
    (1e3, "milliseconds"),
    (1e6, "seconds"),
    (60e6, "minutes"),
    (3600e6, "hours"),
];

impl Axis {
    /// An axis for up to `most` bytes, with a little room above them.
    pub(super) fn bytes(most: Bytes) -> Self {
        let end = (most.get().max(1) as f64) * 1.05;
        let (unit, name) = unit(&BYTE_UNITS, end);
        Self { end, ticks: ticks(end, unit, 6), title: name.to_owned() }
    }

    /// An axis for the events of a replay: when they were, or their numbers where nobody knows.
    pub(super) fn events(timeline: &Timeline) -> Self {
        if timeline.is_timed() {
            let end = timeline.end_us() as f64;
            let (unit, name) = unit(&TIME_UNITS, end);
            return Self { end, ticks: ticks(end, unit, 8), title: format!("time in {name}") };
        }
        let end = timeline.total_events().max(1);
        let step = nice_step(end as f64 / 8.0).max(1.0);
        let numbers = multiples(step, end as f64);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to `end`")]
        let tick = |number: f64| (number, grouped(number as usize));
        Self { end: end as f64, ticks: numbers.map(tick).collect(), title: "events".to_owned() }
    }
}

/// The largest unit of which there are two, so that ticks are seldom broken numbers.
fn unit(units: &[(f64, &'static str)], end: f64) -> (f64, &'static str) {
    let fitting = units.iter().rev().find(|(unit, _)| *unit * 2.0 <= end);
    *fitting.unwrap_or(&units[0])
}

fn ticks(end: f64, unit: f64, at_most: u32) -> Vec<(f64, String)> {
    let step = nice_step(end / unit / f64::from(at_most));
    let decimals = if step >= 1.0 { 0 } else { 1 + usize::from(step < 0.1) };
    multiples(step, end / unit).map(|value| (value * unit, format!("{value:.decimals$}"))).collect()
}

/// The smallest of 1, 2, 5, 10, 20, 50, … (and 0.5, 0.2, …) that is not below `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn multiples(step: f64, end: f64) -> impl Iterator<Item = f64> {
    (0..).map(move |count| f64::from(count) * step).take_while(move |value| *value <= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn bytes_are_counted_in_the_unit_that_fits() {
        let axis = Axis::bytes(Bytes::gib(8));
        assert_eq!((texts(&axis), axis.title.as_str()), (vec!["0", "2", "4", "6", "8"], "GiB"));
        let axis = Axis::bytes(Bytes::mib(1300));
        assert_eq!(texts(&axis), ["0", "500", "1000"]);
        assert_eq!(texts(&Axis::bytes(Bytes::mib(2))), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(Axis::bytes(Bytes::ZERO).title, "bytes");
        assert!(Axis::bytes(Bytes::MAX).ticks.len() < 8);
    }

    #[test]
    fn steps_are_round() {
        for (least, step) in
            [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (30.0, 50.0), (0.06, 0.1), (6.0, 10.0)]
        {
            assert!((nice_step(least) - step).abs() < 1e-9, "{least}");
        }
    }
}
