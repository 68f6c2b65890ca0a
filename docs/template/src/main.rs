//! A bench of your own, with everything that the command offers: `cargo run --release -- run scale --data`.

use std::process::ExitCode;

use cubeyard::bench::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard::kernels::{Args, Kernel, Tl};
use cubeyard::machine::Topology;
use cubeyard::tensors::{DType, Split};

fn main() -> ExitCode {
    cubeyard::command::run_with(std::env::args_os(), &benches).into()
}

/// Returns the benches that are added to the command.
fn benches() -> Vec<Box<dyn Bench>> {
    vec![Box::new(Scale)]
}

/// Columns of the matrix, and elements of a tile.
const COLUMNS: u64 = 64;

/// Multiplies the rows that a PE holds by a number. Arguments: x, y, and the number.
fn scale(tl: &Tl, args: &Args) {
    let [x, y] = [0, 1].map(|position| args.tensor(position).local());
    for row in 0..x.dim(0) {
        let tile = tl.load(&x.block(&[row, 0], &[1, COLUMNS]));
        tl.store(&y.block(&[row, 0], &[1, COLUMNS]), &(&tile * args.number(2)));
    }
}

/// The bench: inputs, a launch, and a check.
struct Scale;

impl Bench for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn summary(&self) -> &'static str {
        "each row times n"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("rows", 256, (1, 1 << 20), "rows of the matrix"),
            Parameter::whole("n", 3, (0, 1000), "the factor"),
        ]
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        // Two tensors on the host, and three commands for each row: runs beyond --memory are refused.
        let rows = values.whole("rows");
        Needs::elements([2, rows * COLUMNS]) + Needs::commands([3, rows])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let [rows, n] = values.wholes(["rows", "n"]);
        let (cubes, pes) = lab.counts();
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let x = lab.context.rand(&[rows, COLUMNS], DType::F32, 1)?.to(&over)?;
        let y = lab.context.empty(&[rows, COLUMNS], DType::F32)?.to(&over)?;
        let kernel = Kernel::new("scale", |tl, args| Box::pin(async move { scale(&tl, &args) }));
        lab.launch(&kernel, vec![&x, &y], vec![n], cubes, pes)?;

        // With --data, the numbers are compared; a product of f32 is rounded once.
        let inputs = lab.values(&x)?;
        let expected = || inputs.iter().flatten().map(|value| value * n as f64).collect();
        let check = lab.check(&y, f64::from(f32::EPSILON), expected)?;

        // The work that any implementation must do, from which bounds are computed.
        let elements = rows * COLUMNS;
        let work = Work { elements, bytes: 2 * elements * DType::F32.size(), ..Work::default() };
        Ok(Outcome { work, check, ..Outcome::default() })
    }
}
