//! A matrix over the PEs of a SIP: placed, read by a PE that does not hold it, and dropped.
//!
//! `cargo run --release -p cubeyard --example deploy` prints the locations of its parts, the time to install
//! the mappings in all MMUs, the data that a PE reads through its own MMU, and that every allocator is empty in the
//! end.

use std::error::Error;
use std::io::{self, Write};

use cubeyard::tensors::{Context, ContextConfig, Placement, Split, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout().lock())
}

pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let values: Vec<f32> = (0..512 * 64).map(|value| value as f32).collect();
    let over_a_sip = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let tensor = context.from_slice(&[512, 64], &values)?.to(&over_a_sip)?;
    placed(&context, &tensor, out)?;
    mapped(&tensor, out)?;
    read(&context, &tensor, &values, out)?;
    drop(tensor);
    dropped(&context, out)
}

fn placed(context: &Context, tensor: &Tensor, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (shape, dtype, shards) = (tensor.shape(), tensor.dtype(), tensor.shards()?);
    let base = tensor.va_base()?.ok_or("addresses are virtual here")?.to_bits();
    let nbytes = tensor.nbytes();
    writeln!(out, "{shape} {dtype}, {nbytes} in {} shards, from va {base:#x}", shards.len())?;
    for shard in [&shards[0], &shards[1], &shards[127]] {
        let va = base + shard.offset_bytes.get();
        writeln!(
            out,
            "  {}: va {va:#x} is {}, {} bytes",
            shard.at,
            shard.address,
            shard.nbytes.get()
        )?;
    }
    let stats = context.memory_stats();
    let (hbm, space) = (stats.used, stats.virtual_used);
    writeln!(out, "taken: {hbm} of HBM in {} PEs, {space} of addresses", stats.pes.len())?;
    Ok(())
}

fn mapped(tensor: &Tensor, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "128 mappings in each of 128 MMUs took {}", tensor.mapping_latency()?)?;
    for (stage, span) in tensor.mapping_stages()? {
        writeln!(out, "  {:<20}{:>14}", stage.name(), span.to_string())?;
    }
    Ok(())
}

fn read(
    context: &Context,
    tensor: &Tensor,
    values: &[f32],
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let shard = tensor.shards()?[127];
    let from = shard.offset_bytes.get();
    let range = from..from + shard.nbytes.get();
    for name in ["sip0.cube15.pe7", "sip0.cube0.pe0"] {
        let pe = context.machine(|machine| machine.view().pe(name))?;
        let read = tensor.read_from(pe, range.clone())?;
        let bytes = read.bytes.ok_or("there is data")?;
        let expected: Vec<u8> =
            values[508 * 64..].iter().flat_map(|value| value.to_le_bytes()).collect();
        let verdict = if bytes == expected { "the last rows" } else { "something else" };
        writeln!(out, "{name} reads the shard of {} in {}: {verdict}", shard.at, read.latency)?;
    }
    Ok(())
}

fn dropped(context: &Context, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let stats = context.memory_stats();
    let whole = stats.pes.iter().filter(|pe| pe.used.is_zero() && pe.largest == pe.free).count();
    let mappings: usize =
        context.machine(|machine| machine.view().mmus().map(|(_, mmu)| mmu.mappings()).sum());
    writeln!(
        out,
        "dropped: {} bytes of HBM and {} of addresses taken, {whole} of {} PEs whole, {mappings} mappings",
        stats.used.get(),
        stats.virtual_used.get(),
        stats.pes.len()
    )?;
    let pristine = if context.is_pristine() { "is" } else { "is not" };
    writeln!(out, "every allocator {pristine} as in the beginning")?;
    Ok(())
}
