//! Remark of a report on several streams.

use super::Report;
use crate::trace::Lag;
use cubeyard_units::text::count;

impl Report {
    /// Returns a remark on the completion of work and on the waits for it, if the trace has several streams.
    pub fn stream_remark(&self) -> Option<String> {
        let rule = match self.lag {
            Lag::Recorded => {
                "work completes as recorded, and otherwise only when it is waited for".to_owned()
            }
            Lag::Launches(0) => "all work is taken to be complete at once (lag 0)".to_owned(),
            Lag::Launches(1) => "each lags 1 launch behind the host".to_owned(),
            Lag::Launches(lag) => format!("each lags {} launches behind the host", count(lag)),
        };
        let waiting = self.rows.iter().filter(|row| row.outcome.waits > 0);
        let waits = waiting.map(|row| format!("{} {}", row.policy.name, count(row.outcome.waits)));
        let waits = waits.collect::<Vec<_>>().join(", ");
        let waits = if waits.is_empty() { waits } else { format!(" Waits: {waits}.") };
        (self.streams > 1).then(|| format!("{} streams; {rule}.{waits}", self.streams))
    }
}
