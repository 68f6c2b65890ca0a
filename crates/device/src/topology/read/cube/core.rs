//! Reads the keys of the parts of a PE that run kernels.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_sim::{Bandwidth, Span};

use super::super::super::spec::{Atomics, ComputeEngines, CoreSpec, GemmSpec, MathSpec};
use super::super::{Result, optional};
use cubeyard_yaml::Field;

/// Element types that can have a rate.
const DTYPES: [&str; 15] = [
    "f16", "bf16", "f32", "f64", "fp8_e4m3", "fp8_e5m2", "i8", "i16", "i32", "i64", "u8", "u16",
    "u32", "u64", "bool",
];
/// Largest number of commands in flight.
const MOST_COMMANDS: u32 = 1 << 12;
/// Largest number of engines of one kind.
const MOST_ENGINES: u32 = 64;
/// Longest edge of a tile, in elements.
const MOST_EDGE: u32 = 4096;
/// Highest rate, in its unit of 10⁹ or 10¹² per second.
const MOST_RATE: f64 = 1e6;

pub(super) fn core(field: &Field<'_>, tcm: &Field<'_>) -> Result<CoreSpec> {
    field.record(|map| {
        Ok(CoreSpec {
            dispatch: dispatch(&map.field("clock_ghz"), &map.field("dispatch_cycles"))?,
            scheduler_overhead: map.field("scheduler_overhead_ns").ns()?,
            window: map.field("window").whole(1, MOST_COMMANDS)?,
            dma_read_engines: map.field("dma_read_engines").whole(1, MOST_ENGINES)?,
            dma_write_engines: map.field("dma_write_engines").whole(1, MOST_ENGINES)?,
            compute_engines: map.field("compute_engines").choice(&ComputeEngines::NAMES)?,
            atomics: map.field("atomics").choice(&Atomics::NAMES)?,
            scratch: scratch(&map.field("scratch_bytes"), tcm)?,
            tcm_read: map.field("tcm_read_gbs").gbs()?,
            tcm_write: map.field("tcm_write_gbs").gbs()?,
            gemm: gemm(&map.field("gemm"))?,
            math: math(&map.field("math"))?,
        })
    })
}

fn dispatch(clock: &Field<'_>, cycles: &Field<'_>) -> Result<Span> {
    let ghz = clock.number("GHz", 1e3)?;
    let span = Span::from_ns(f64::from(cycles.whole(0, 1 << 20)?) / ghz);
    span.filter(|_| ghz > 0.0).ok_or_else(|| clock.unexpected("more than 0 GHz"))
}

fn scratch(field: &Field<'_>, tcm: &Field<'_>) -> Result<Bytes> {
    let (bytes, all) = (field.bytes()?, tcm.bytes()?);
    let expected = || field.unexpected(format!("at most tcm_bytes, {all}"));
    (bytes <= all).then_some(bytes).ok_or_else(expected)
}

fn gemm(field: &Field<'_>) -> Result<GemmSpec> {
    let mut map = field.map()?;
    let tile = map.field("tile");
    let edges = tile.list("M, K and N")?;
    let edges: Vec<u32> =
        edges.iter().map(|edge| edge.whole(1, MOST_EDGE)).collect::<Result<_>>()?;
    let &[m, k, n] = edges.as_slice() else { return Err(tile.unexpected("M, K and N")) };
    let rates = rates(&map.field("tflops"))?;
    map.finish()?;
    Ok(GemmSpec { m, k, n, rates })
}

/// Reads the rates of the element types that have one; `none` removes a default rate.
fn rates(field: &Field<'_>) -> Result<BTreeMap<String, u64>> {
    let mut map = field.map()?;
    let mut rates = BTreeMap::new();
    for dtype in DTYPES {
        if let Some(rate) = optional::given(map.optional(dtype), |field| rate(field, 1e3))? {
            rates.insert(dtype.to_owned(), rate.bytes_per_second());
        }
    }
    map.finish()?;
    Ok(rates)
}

fn math(field: &Field<'_>) -> Result<MathSpec> {
    field.record(|map| {
        Ok(MathSpec {
            strip: map.field("strip_elements").whole(1, 1 << 20)?,
            simple: rate(&map.field("simple_geps"), 1.0)?,
            special: rate(&map.field("special_geps"), 1.0)?,
            reduce: rate(&map.field("reduce_geps"), 1.0)?,
        })
    })
}

/// Reads a rate in units of `unit` × 10⁹ per second.
fn rate(field: &Field<'_>, unit: f64) -> Result<Bandwidth> {
    let number = field.number("a rate", MOST_RATE)?;
    let rate = Bandwidth::from_gb_per_second(number * unit);
    rate.ok_or_else(|| field.unexpected("a rate of more than 0"))
}
