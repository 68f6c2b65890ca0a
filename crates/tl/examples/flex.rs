//! A kernel on blocks of a Flex allocator, with a SIP as a physical and as a virtual function.
//!
//! `cargo run --release -p cubeyard-tl --example flex`

use std::error::Error;
use std::io::{self, Write};

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, SipId};
use cubeyard_memory::flex::FlexConfig;
use cubeyard_runtime::dtype::{DType, Element};
use cubeyard_runtime::{Context, ContextConfig, FlexArray, Launch, SipFunction};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

/// Number of elements per PE, for the 8 PEs of a cube.
const EACH: u64 = 512;
const ALL: u64 = 8 * EACH;

/// `y = 2 x + y`, with one part per PE.
fn axpy() -> Kernel {
    Kernel::new("axpy", |tl, args| {
        Box::pin(async move {
            let first = tl.program_id(0) * EACH;
            let part = |position| args.tensor(position).whole().at(first, &[EACH]);
            let (x, y) = (tl.load(&part(0)), tl.load(&part(1)));
            tl.store(&part(1), &(&(&x + &x) + &y));
        })
    })
}

/// Launches the kernel twice on a stream, on the first and on the second half of `y`.
fn on(function: SipFunction, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let sip = SipId::new(1)?;
    let device = context.flex_function(sip, function, FlexConfig::default())?;
    let bytes = ALL * DType::F32.size();
    let x = device.allocator().allocate(Bytes::new(bytes))?;
    let y = device.allocator().allocate(Bytes::new(2 * bytes))?;
    let numbers: Vec<f32> = (0..ALL).map(|number| number as f32).collect();
    device.write(&x, Bytes::ZERO, &f32::slice_to_bytes(&numbers))?;
    device.write(&y, Bytes::ZERO, &f32::slice_to_bytes(&vec![0.5; 2 * numbers.len()]))?;

    let program = device.load(&[0; 1024], 2)?;
    let array =
        |block, at| FlexArray::new(block, &[ALL], DType::F32).map(|array| array.at(Bytes::new(at)));
    let launcher = Launcher::new(&context);
    let (kernel, stream) = (axpy(), context.stream());
    // Each launch has a separate block for its operand addresses, so both can be in flight.
    let first = device.operands(&program, &[array(&x, 0)?, array(&y, 0)?])?;
    let second = device.operands(&program, &[array(&x, 0)?, array(&y, bytes)?])?;
    let mut handles = Vec::new();
    for operands in [&first, &second] {
        let cubes = vec![CubeId::new(0)?];
        let launch = Launch::new(sip).arguments(operands.arguments()).cubes(cubes);
        handles.push(launcher.launch(&stream, &kernel, &launch)?);
        for (name, operand) in ["x", "y"].iter().zip(operands.resolved()) {
            writeln!(
                out,
                "  {name}: {} + {:#x}, flat {:#x}",
                operand.segment,
                operand.offset.get(),
                operand.flat
            )?;
        }
    }
    for handle in &handles {
        writeln!(out, "  axpy took {}", handle.wait()?.max())?;
    }
    let read = device.read(&y, Bytes::ZERO, usize::try_from(2 * bytes)?)?.known()?;
    let found = f32::slice_from_bytes(&read).ok_or("whole elements")?;
    let expected: Vec<f32> = numbers.iter().chain(&numbers).map(|x| 2.0 * x + 0.5).collect();
    assert_eq!(found, expected);
    assert_eq!(launcher.findings(), []);
    let (region, size) = (x.address().region_id, found.len());
    let place =
        context.machine(|machine| machine.view().region_address(sip, region, Bytes::ZERO))?;
    writeln!(out, "  region {region} is {place}; {size} numbers are right")?;
    drop((first, second, program, x, y, device));
    assert!(context.is_pristine());
    Ok(())
}

/// Runs the kernel with either function, and writes its operands.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    for (name, function) in [
        ("physical function", SipFunction::Physical),
        ("virtual function, a table of 8", SipFunction::Virtual { entries: 8 }),
    ] {
        writeln!(out, "{name}")?;
        on(function, out)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}
