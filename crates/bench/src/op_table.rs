//! Operations of a run as numbers and a table of names, for records.

use cubeyard_device::pe::OpRecord;
use serde::{Deserialize, Serialize};

use crate::RunLog;
use crate::path::what;

/// Every operation of every unit of a run. Names are stored once, and operations refer to them by number.
///
/// Equal names share a number, so that a million operations take about 30 MB of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpTable {
    /// Units, such as `sip0.cube0.pe0 DMA read`.
    pub units: Vec<String>,
    /// Names of operations with their kernel line, such as `load f16[64, 32] (gemm.rs:41)`.
    pub names: Vec<String>,
    /// Unit, name, start and end of each operation; times in picoseconds since the first launch.
    pub rows: Vec<[u64; 4]>,
}

impl OpTable {
    pub(crate) fn of(log: &RunLog) -> Self {
        let (mut units, mut names) = (Numbers::default(), Numbers::default());
        let started = log.started();
        let rows = log.ops().records().iter().filter_map(|record| {
            let unit = units.number(format!("{} {}", log.pe(record)?, record.unit.name()));
            let since = |time: cubeyard_sim::Time| time.since(started).ps();
            Some([unit, names.number(name(log, record)), since(record.start), since(record.end)])
        });
        let rows = rows.collect();
        Self { units: units.names, names: names.names, rows }
    }
}

/// Describes an operation, with its kernel line.
fn name(log: &RunLog, record: &OpRecord) -> String {
    let Some(operation) = log.operation(record) else { return what(record.unit, "") };
    let name = what(record.unit, &operation.name());
    if operation.place.is_empty() { name } else { format!("{name} ({})", operation.place) }
}

/// Names in the order of their first occurrence, with their numbers.
#[derive(Default)]
struct Numbers {
    names: Vec<String>,
    numbers: std::collections::BTreeMap<String, u64>,
}

impl Numbers {
    fn number(&mut self, name: String) -> u64 {
        let next = self.names.len() as u64;
        if let Some(&known) = self.numbers.get(&name) {
            return known;
        }
        self.names.push(name.clone());
        self.numbers.insert(name, next);
        next
    }
}
