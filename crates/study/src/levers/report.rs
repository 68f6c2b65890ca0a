//! Levers as a verdict in sentences, and as data for other programs.

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::{VERSION, plain_json};
use cubeyard_units::Span;
use cubeyard_units::text::{percent, significant, span};
use serde_json::{Map, Value, json};

use super::{FACTOR, Lever, Levers, Limit};

impl Levers {
    /// Returns the limit of the workload; the limit of its longest time, if it has several.
    pub fn limit(&self) -> Option<Limit> {
        Limit::of(&self.longest()?)
    }

    fn longest(&self) -> Option<Measured> {
        let rows = Measured::all(&self.base).into_iter().rev();
        rows.max_by(|one, other| one.time_ns.total_cmp(&other.time_ns))
    }

    /// Returns the verdict: time, limit and best lever of the workload that `title` names. If the best lever does not
    /// belong to the limit, the verdict says why.
    pub fn verdict(&self, title: &str) -> String {
        [Some(self.limited(title)), Some(self.advice()), self.together(), self.contradiction()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn limited(&self, title: &str) -> String {
        let rows = Measured::all(&self.base).len();
        let all = time(self.time_ns());
        let text = match (rows, self.longest()) {
            (0 | 1, _) | (_, None) => format!("{title} takes {all}"),
            (rows, Some(longest)) => {
                format!("{title} takes {all} for {rows} times; the longest, {},", longest.name)
            }
        };
        let verb = if rows > 1 { " is" } else { "," };
        let limit = self.limit().map(|limit| format!("{verb} limited by {}", limit.text));
        text + &limit.unwrap_or_default() + "."
    }

    fn advice(&self) -> String {
        let Some((best, saved)) = self.best().and_then(|best| Some((best, best.saved?))) else {
            return "No resource alone saves time if it is twice as fast.".to_owned();
        };
        let Lever { name, resource, .. } = best;
        let faster = time(best.time_ns().unwrap_or_default());
        format!(
            "The best lever is {name}, {resource}: twice as fast saves {}, {faster} remain.",
            percent(saved)
        )
    }

    /// Returns the best pair, if it saves more than the best lever.
    fn together(&self) -> Option<String> {
        let pair = self.best_pair()?;
        Some(format!(
            "Together, {} save {}.",
            pair.name.replace('+', " and "),
            percent(pair.saved?)
        ))
    }

    /// Returns the reason if the best lever does not belong to the limit.
    fn contradiction(&self) -> Option<String> {
        let (limit, best) = (self.limit()?, self.best()?);
        if limit.groups.contains(&&*best.name) || limit.groups.is_empty() {
            return None;
        }
        let own = self.levers.iter().find(|lever| limit.groups.contains(&&*lever.name));
        let saved = own.and_then(|own| Some((own, own.saved?)));
        let at_most = limit.share * (1.0 - 1.0 / FACTOR);
        let reason = match saved {
            None => "no lever of the machine belongs to it".to_owned(),
            Some(_) if at_most <= best.saved? => {
                format!("twice as fast, it could save at most {}", percent(at_most))
            }
            Some((own, saved)) => format!(
                "twice as fast, {} saves {}, and other work takes its place on the critical path",
                own.name,
                percent(saved)
            ),
        };
        Some(format!("The limit is not the best lever: {reason}."))
    }

    /// Returns levers, pairs and verdict as JSON, with times in nanoseconds.
    pub fn json(&self, title: &str) -> Value {
        let limit = self.limit().map(
            |limit| json!({ "text": limit.text, "share": limit.share, "groups": limit.groups }),
        );
        json!({
            "version": VERSION,
            "topology": self.base.topology,
            "command": title,
            "factor": FACTOR,
            "time_ns": self.time_ns(),
            "times": times(&self.base),
            "limit": limit,
            "verdict": self.verdict(title),
            "levers": self.levers.iter().map(lever).collect::<Vec<_>>(),
            "pairs": self.pairs.iter().map(lever).collect::<Vec<_>>(),
            "absent": self.absent,
        })
    }
}

fn lever(lever: &Lever) -> Value {
    let entry = |(key, value): &(String, _)| (key.clone(), plain_json(value));
    json!({
        "name": lever.name,
        "resource": lever.resource,
        "with": lever.changes.iter().map(entry).collect::<Map<_, _>>(),
        "time_ns": lever.time_ns(),
        "saved": lever.saved,
        "topology": lever.outcome.as_ref().ok().map(|record| &record.topology),
        "times": lever.outcome.as_ref().ok().map(times),
        "error": lever.outcome.as_ref().err(),
    })
}

/// Returns the names and times of a record.
fn times(record: &cubeyard_bench::record::Record) -> Value {
    let row = |row: Measured| json!({ "name": row.name, "time_ns": row.time_ns, "limited_by": row.limited_by });
    Measured::all(record).into_iter().map(row).collect()
}

/// Formats a time in nanoseconds with a suitable unit.
fn time(ns: f64) -> String {
    Span::from_ns(ns).map_or_else(|| format!("{} ns", significant(ns)), span)
}
