//! Copy bandwidth of PEs: from local memory, from a neighbour's, or from the memory of a single PE.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::inputs::{compare, place, spread};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::{CopyFrom, copy};

pub(super) struct Copy;

const PATTERNS: &[&str] = &["local", "remote", "all-to-one"];

impl Bench for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn summary(&self) -> &'static str {
        "each PE copies memory: its own, the next cube's, or one PE's"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::choice("pattern", PATTERNS, "memory that is read; each PE writes its own"),
            Parameter::whole("bytes", 1 << 20, (1, 1 << 32), "bytes per PE"),
            Parameter::whole("block", 1 << 15, (1, 1 << 23), "bytes per load"),
            Parameter::whole("cubes", 2, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [bytes, block, cubes, pes] = values.wholes(["bytes", "block", "cubes", "pes"]);
        let blocks = Needs::commands([2, cubes, pes, bytes.div_ceil(block)]);
        Needs::elements([2, cubes, pes, bytes]) + blocks
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let (cubes, pes) = (values.whole("cubes"), values.whole("pes"));
        let (from, bytes) = (pattern(values)?, values.whole("bytes"));
        let (all, shape) = (cubes * pes, [cubes * pes, bytes]);
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let numbers = spread(lab, all * bytes, DType::U8, 1, [0.0, 255.0])?;
        let x = place(lab, &shape, DType::U8, &over, &numbers)?;
        let y = lab.context.empty(&shape, DType::U8)?.to(&over)?;
        lab.launch(&copy(from), vec![&x, &y], vec![values.whole("block")], cubes, pes)?;
        // A copy is exact.
        let check = compare(lab, &y, 0.0, || copied(from, &numbers, all, pes))?;
        Ok(Outcome {
            work: work(from, bytes, all),
            check,
            notes: vec![note(from, lab)],
            ..Outcome::default()
        })
    }
}

fn pattern(values: &Values) -> Result<CopyFrom, BenchError> {
    match (values.choice("pattern"), values.whole("cubes")) {
        ("remote", 1) => Err(BenchError::Unfit(
            "copy: cubes=1 with pattern=remote: expected 2 or more, to have a next one".to_owned(),
        )),
        ("remote", _) => Ok(CopyFrom::NextCube),
        ("all-to-one", _) => Ok(CopyFrom::First),
        _ => Ok(CopyFrom::Own),
    }
}

/// Returns the expected rows, one per PE.
fn copied(from: CopyFrom, numbers: &[f64], all: u64, pes: u64) -> Vec<f64> {
    let [all, pes] = [all, pes].map(|count| usize::try_from(count).expect("a machine has fewer"));
    let length = numbers.len() / all;
    let row = |pe: usize| match from {
        CopyFrom::Own => pe,
        CopyFrom::NextCube => (pe + pes) % all,
        CopyFrom::First => 0,
    };
    (0..all).flat_map(|pe| &numbers[row(pe) * length..][..length]).copied().collect()
}

/// Returns the work: every byte is read and written. If all PEs read from one PE, its memory serves all reads and also
/// receives the PE's own copy; the other memories do less.
fn work(from: CopyFrom, bytes: u64, all: u64) -> Work {
    match from {
        CopyFrom::First => Work { bytes: (all + 1) * bytes, memories: Some(1), ..Work::default() },
        _ => Work { bytes: 2 * all * bytes, ..Work::default() },
    }
}

fn note(from: CopyFrom, lab: &Lab) -> String {
    let link = lab.context.machine(|machine| machine.topology().spec().ucie.router_link.bandwidth);
    let link = link.bytes_per_second() / 1_000_000_000;
    match from {
        CopyFrom::Own => "the bandwidth counts reads and writes: the channels of a PE's \
             memory serve both"
            .to_owned(),
        CopyFrom::NextCube => format!(
            "data from another cube passes a UCIe connection of {link} GB/s, which several PEs may \
             share; the bound counts the memories alone"
        ),
        CopyFrom::First => format!(
            "the bound is the memory of the first PE, which all PEs read; PEs of other cubes share UCIe \
             connections of {link} GB/s on the way"
        ),
    }
}
