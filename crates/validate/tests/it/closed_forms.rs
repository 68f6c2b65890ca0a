//! The closed forms of collectives, compared with the simulation.

use cubeyard_validate::collectives;
use cubeyard_validate::{Check, CheckKind, Verdict};

#[test]
fn every_collective_takes_what_its_closed_form_says_within_1_percent() {
    let rows: Vec<_> = collectives::checks().iter().map(Check::run).collect();
    for start in ["lrab ", "direct between two", "ring of ", "tree of "] {
        assert!(rows.iter().any(|row| row.name.starts_with(start)), "{start}");
    }
    for row in rows.into_iter().filter(|row| row.family == "collectives") {
        assert!(row.own, "{row:?}");
        let off = row.deviation.unwrap();
        assert_eq!(row.verdict, Verdict::Passed, "{row:?}");
        assert!(off.abs() < 0.01, "{row:?}");
        assert!(row.kind == CheckKind::Exact || row.kind == CheckKind::Predicted, "{row:?}");
    }
}

/// The all-reduce and the product of the published machine were analysed on pages, but missing from `validate`.
#[test]
fn what_was_published_of_other_models_is_shown_with_its_deviation() {
    let checks = collectives::checks();
    let of_others = checks.iter().filter(|check| check.family() == "published, of other models");
    let rows: Vec<_> = of_others.map(Check::run).collect();
    assert_eq!(rows.len(), 13);
    for row in &rows {
        assert_eq!(
            (row.kind, row.verdict, row.own),
            (CheckKind::Indicative, Verdict::Shown, false)
        );
        assert!(row.deviation.is_some() && row.reason.is_some(), "{row:?}");
    }
    let ours = |start: &str| rows.iter().find(|row| row.name.starts_with(start)).unwrap().ours;
    assert_eq!(ours("GEMM of 32x3072x32"), Some(2245.384));
    assert_eq!(ours("all-reduce of 3x2 SIPs of 4x4 cubes, 256 B, tcm"), Some(1071.145));
}
