//! Verdict on designs, in sentences.

use cubeyard_units::Span;
use cubeyard_units::text::{significant, span};

use super::{Design, Designs};

impl Designs {
    /// Returns the verdict: the fastest and the cheapest design, the number of designs on the front, and the knee.
    /// Without costs, the fastest and the slowest design. Empty if nothing was measured.
    pub fn verdict(&self) -> String {
        let Some(fastest) = self.fastest().and_then(|place| self.design(place)) else {
            return String::new();
        };
        match self.cheapest().and_then(|place| self.design(place)) {
            Some(cheapest) => self.with_costs(fastest, cheapest),
            None => self.of_times(fastest),
        }
    }

    fn design(&self, place: usize) -> Option<&Design> {
        self.all().get(place)?.as_ref()
    }

    fn of_times(&self, fastest: &Design) -> String {
        let slowest = self.slowest().and_then(|place| self.design(place)).unwrap_or(fastest);
        let (name, least) = (&fastest.name, time(fastest.time_ns));
        if slowest.time_ns <= fastest.time_ns {
            return format!("All designs take {least}.");
        }
        let ratio = slowest.time_ns / fastest.time_ns;
        format!(
            "{name} is fastest ({least}): {} times as fast as {}, the slowest ({}).",
            significant(ratio),
            slowest.name,
            time(slowest.time_ns)
        )
    }

    fn with_costs(&self, fastest: &Design, cheapest: &Design) -> String {
        let of_cost = |it: &Design| significant(it.cost.unwrap_or_default());
        let (time_of, name) = (|it: &Design| time(it.time_ns), &fastest.name);
        let ends = if fastest == cheapest {
            format!(
                "{name} is fastest and costs least ({}, cost {})",
                time_of(fastest),
                of_cost(fastest)
            )
        } else {
            format!(
                "{name} is fastest ({}, cost {}); {} costs least ({}, {})",
                time_of(fastest),
                of_cost(fastest),
                cheapest.name,
                of_cost(cheapest),
                time_of(cheapest)
            )
        };
        let on_front = self.front().iter().filter(|is_on| **is_on).count();
        let (all, verb) =
            (self.all().iter().flatten().count(), if on_front == 1 { "is" } else { "are" });
        let knee = self.knee().and_then(|place| self.design(place)).map(|knee| {
            format!("; the knee, {}, takes {} at cost {}", knee.name, time_of(knee), of_cost(knee))
        });
        format!(
            "{ends}. Of {all} designs, {on_front} {verb} on the front{}.",
            knee.unwrap_or_default()
        )
    }
}

/// Formats a time in nanoseconds with a suitable unit.
fn time(ns: f64) -> String {
    Span::from_ns(ns).map_or_else(|| format!("{} ns", significant(ns)), span)
}
