//! A worker for each SIP, written like a script for PyTorch's `DistributedDataParallel`, and the output of each rank.
//!
//! `cargo run --release -p cubeyard --example ddp`

use std::cell::RefCell;
use std::error::Error;
use std::io::{self, Write};

use cubeyard::collectives::{DistError, Distributed, ReduceOp, Worker};
use cubeyard::tensors::{Context, ContextConfig};

/// Gradients of each rank: 8 KiB for each of the 128 PEs of a SIP.
const ELEMENTS: usize = 262_144;

/// Output lines of the ranks, in their order.
type Said = RefCell<Vec<String>>;

async fn train(worker: Worker, said: &Said) -> Result<(), DistError> {
    let (rank, context) = (worker.rank(), worker.context());
    let say = |what: String| said.borrow_mut().push(format!("rank {rank}: {what}"));

    worker.set_device(rank)?;
    let mine = vec![2.0 * rank as f32 + 1.0; ELEMENTS]; // what a backward pass would leave
    let gradient = context.from_slice(&[ELEMENTS as u64], &mine)?.to(&worker.placement())?;
    let shards = gradient.shards()?;
    let (first, last) = (shards[0].at, shards[shards.len() - 1].at);
    say(format!("every gradient is {}, on {first} to {last}", mine[0]));

    let mut work = worker.all_reduce(&gradient, ReduceOp::Avg);
    (&mut work).await?;
    let took = work.report().map(|report| report.kernel).unwrap_or_default();
    let mean = gradient.read::<f32>()?.known()?;
    let alike = mean.iter().filter(|value| value.to_bits() == mean[0].to_bits()).count();
    say(format!("all_reduce(avg) took {took}; {alike} of them are {}", mean[0]));

    worker.barrier().await?;
    say(format!("past the barrier, as are all {}", worker.world_size()));
    Ok(())
}

/// Trains, and writes the output of the ranks.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let said = Said::default();
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm")?;
    dist.spawn(|worker| train(worker, &said))?;
    said.take().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}
