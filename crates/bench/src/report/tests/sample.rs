//! A report of a small, fictitious run.

use cubeyard_sim::Span;

use crate::report::{Bound, Check, Lane, RunReport, Slice, SliceKind, Step, Traffic, UnitUse};

pub(super) fn ns(ns: u64) -> Span {
    Span::from_ps(1000 * ns)
}

fn slice(start: u64, end: u64, kind: SliceKind, name: &str) -> Slice {
    let (start, end) = (ns(start), ns(end));
    Slice { start, end, busy: end.saturating_sub(start), kind, name: name.to_owned() }
}

fn step(start: u64, end: u64, kind: SliceKind, what: &str, why: &str) -> Step {
    let (what, place, why) = (what.to_owned(), "gemm.rs:41".to_owned(), why.to_owned());
    Step { start: ns(start), end: ns(end), what, kind, place, why, access: None }
}

fn unit(unit: &str, mean: f64, max: f64) -> UnitUse {
    UnitUse { unit: unit.to_owned(), mean, max, busiest: "sip0.cube0.pe0".to_owned() }
}

fn bound(resource: &str, span: u64) -> Bound {
    Bound { resource: resource.to_owned(), span: ns(span) }
}

/// Two tiles are read and multiplied, and the result is written.
pub(super) fn small() -> RunReport {
    let read = slice(0, 50, SliceKind::DmaRead, "A and B");
    let gemm = slice(50, 80, SliceKind::Gemm, "dot");
    let write = slice(80, 100, SliceKind::DmaWrite, "C");
    RunReport {
        bench: "gemm".to_owned(),
        summary: "C = A × B".to_owned(),
        parameters: vec![("m".to_owned(), "64".to_owned()), ("dtype".to_owned(), "f16".to_owned())],
        machine: "1 SIP × 1 cube × 8 PEs".to_owned(),
        pes: 8,
        kernel: ns(100),
        host: ns(400),
        traffic: Traffic { read: 16_384, written: 8192 },
        flop: 524_288,
        bounds: vec![bound("GEMM f16", 30), bound("HBM of a PE", 70)],
        peak_rate: 2e13,
        peak_bandwidth: 2e12,
        limited_by: "the HBM of each PE".to_owned(),
        units: vec![unit("DMA read", 0.5, 0.5), unit("GEMM", 0.25, 0.3)],
        lanes: vec![
            Lane { name: "sip0.cube0.pe0 DMA read".to_owned(), slices: vec![read] },
            Lane { name: "sip0.cube0.pe0 GEMM".to_owned(), slices: vec![gemm] },
            Lane { name: "sip0.cube0.pe1 DMA write".to_owned(), slices: vec![write] },
        ],
        critical: vec![
            step(0, 50, SliceKind::DmaRead, "DMA read of A and B", "the kernel began"),
            step(50, 80, SliceKind::Gemm, "dot", "B arrived"),
            step(80, 100, SliceKind::DmaWrite, "DMA write of C", "the product was there"),
        ],
        breakdown: vec![
            (SliceKind::DmaRead, ns(50)),
            (SliceKind::Gemm, ns(30)),
            (SliceKind::DmaWrite, ns(20)),
        ],
        check: Some(Check { elements: 4096, worst: 0.001, tolerance: 0.01 }),
        assertions: None,
        launches: vec![("gemm".to_owned(), ns(400))],
        notes: vec!["One tile for each PE.".to_owned()],
    }
}

/// Returns a lane of `count` slices of 2 ns with 1 ns between them.
pub(super) fn lane(name: &str, count: u64) -> Lane {
    let slices = (0..count).map(|at| slice(3 * at, 3 * at + 2, SliceKind::Gemm, "dot of a tile"));
    Lane { name: name.to_owned(), slices: slices.collect() }
}
