//! Any report gives a page that can be parsed and drawn.

use cubeyard_sim::Span;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::checked;
use crate::report::{
    Bound, Check, Lane, RunReport, Slice, SliceKind, Step, Traffic, UnitUse, page,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => vec(any::<char>(), 0..40).prop_map(String::from_iter),
        2 => "[<>&\"' a-z./\\]\\[-]{0,30}",
        1 => Just("W".repeat(300)),
        1 => Just("]]>--><!--</style></script></svg>".to_owned()),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    let ps = prop_oneof![
        Just(0),
        Just(1),
        0..1000_u64,
        0..1_000_000_000_u64,
        any::<u64>(),
        Just(u64::MAX)
    ];
    ps.prop_map(Span::from_ps)
}

fn real() -> impl Strategy<Value = f64> {
    let usual = prop_oneof![0.0..1.0, 1e9..1e16];
    prop_oneof![
        usual,
        any::<f64>(),
        select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE])
    ]
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000_000_u64, any::<u64>()]
}

fn kind() -> impl Strategy<Value = SliceKind> {
    select(SliceKind::ALL.to_vec())
}

fn lane() -> impl Strategy<Value = Lane> {
    let slice = (span(), span(), kind(), text());
    let slice = slice.prop_map(|(start, end, kind, name)| {
        let busy = end.saturating_sub(start);
        Slice { start, end, busy, kind, name }
    });
    (text(), vec(slice, 0..12)).prop_map(|(name, slices)| Lane { name, slices })
}

fn step() -> impl Strategy<Value = Step> {
    let parts = (span(), span(), text(), kind(), text(), text());
    parts.prop_map(|(start, end, what, kind, place, why)| Step {
        start,
        end,
        what,
        kind,
        place,
        why,
        access: None,
    })
}

fn unit() -> impl Strategy<Value = UnitUse> {
    let parts = (text(), real(), real(), text());
    parts.prop_map(|(unit, mean, max, busiest)| UnitUse { unit, mean, max, busiest })
}

fn bound() -> impl Strategy<Value = Bound> {
    (text(), span()).prop_map(|(resource, span)| Bound { resource, span })
}

fn check() -> impl Strategy<Value = Check> {
    let parts = (amount(), real(), real());
    parts.prop_map(|(elements, worst, tolerance)| Check { elements, worst, tolerance })
}

prop_compose! {
    /// Generates the figures, without texts and lists.
    fn measured()(
        pes in any::<usize>(), kernel in span(), host in span(), read in amount(),
        written in amount(), flop in amount(), peak_rate in real(), peak_bandwidth in real(),
        check in proptest::option::of(check()),
    ) -> RunReport {
        let traffic = Traffic { read, written };
        RunReport { pes, kernel, host, traffic, flop, peak_rate, peak_bandwidth, check, ..RunReport::default() }
    }
}

prop_compose! {
    fn report()(
        measured in measured(),
        words in (text(), text(), text(), text()),
        parameters in vec((text(), text()), 0..4),
        bounds in vec(bound(), 0..12),
        units in vec(unit(), 0..6),
        lanes in vec(lane(), 0..8),
        critical in vec(step(), 0..16),
        breakdown in vec((kind(), span()), 0..12),
        launches in vec((text(), span()), 0..3),
        notes in vec(text(), 0..3),
    ) -> RunReport {
        let (bench, summary, machine, limited_by) = words;
        RunReport {
            bench, summary, parameters, machine, bounds, limited_by, units, lanes, critical,
            breakdown, launches, notes, ..measured
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_report_gives_a_page(report in report()) {
        let page = page(&report);
        checked(&page, |document| {
            let headings = document.descendants().filter(|node| node.has_tag_name("h1"));
            assert_eq!(headings.count(), 1);
        });
    }
}
