//! The closed forms of collectives, and the simulation beside them.

use cubeyard_device::validate::{Check, Kind, Verdict};
use cubeyard_kernels::validate;

#[test]
fn every_collective_takes_what_its_closed_form_says_within_1_percent() {
    let rows: Vec<_> = validate::checks().iter().map(Check::run).collect();
    for start in ["lrab ", "direct between two", "ring of ", "tree of "] {
        assert!(rows.iter().any(|row| row.name.starts_with(start)), "{start}");
    }
    for row in rows {
        let off = row.deviation().unwrap();
        assert_eq!(row.verdict, Verdict::Passed, "{row:?}");
        assert!(off.abs() < 0.01, "{row:?}");
        assert!(row.kind == Kind::Exact || row.kind == Kind::Predicted, "{row:?}");
    }
}
