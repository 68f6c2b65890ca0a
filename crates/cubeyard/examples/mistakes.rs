//! Error messages of wrong collective calls; and a ring of two ranks, whose two neighbours are the same rank.
//!
//! `cargo run --release -p cubeyard --example mistakes`

use std::error::Error;
use std::io::{self, Write};

use cubeyard::collectives::{CclConfig, DistError, Distributed, ReduceOp, Worker};
use cubeyard::tensors::{Context, ContextConfig, DType};

/// Performs an all-reduce on a new tensor of a rank.
async fn reduce(worker: &Worker, elements: u64, dtype: DType) -> Result<(), DistError> {
    let tensor = worker.context().zeros(&[elements], dtype)?.to(&worker.placement())?;
    worker.all_reduce(&tensor, ReduceOp::Sum).await
}

/// Runs a worker on two ranks; returns its outcome.
fn ranks(work: &impl AsyncFn(Worker) -> Result<(), DistError>) -> Result<(), DistError> {
    let context = Context::new(ContextConfig::default());
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm")?;
    dist.spawn(|worker| work(worker))
}

/// Returns the result of two ranks that send 1 and 2 around a ring.
fn ring_of_two() -> Result<String, Box<dyn Error>> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let dist = Distributed::new(&context);
    let ring = CclConfig::read("ccl.yaml", "defaults: {algorithm: ring}")?;
    dist.init_with("ahbm", &ring)?;
    let sums = std::cell::RefCell::new(Vec::new());
    dist.spawn(|worker| async {
        let worker = worker;
        let mine = vec![worker.rank() as f32 + 1.0; 3000];
        let tensor = worker.context().from_slice(&[3000], &mine)?.to(&worker.placement())?;
        let mut work = worker.all_reduce(&tensor, ReduceOp::Sum);
        (&mut work).await?;
        let algorithm = work.report().map_or("", |report| report.algorithm);
        let all_three =
            tensor.read::<f32>()?.known()?.iter().all(|value| (value - 3.0).abs() < 1e-9);
        sums.borrow_mut().push(format!("{algorithm} {}", if all_three { "3" } else { "wrong" }));
        Ok(())
    })?;
    Ok(sums.take().join(", "))
}

/// Makes the wrong calls, and writes their error messages.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "a ring of two: {}", ring_of_two()?)?;
    let missing = ranks(&async |worker| match worker.rank() {
        0 => worker.barrier().await,
        _ => Ok(()),
    });
    let sizes =
        ranks(&async |worker| reduce(&worker, 1000 + worker.rank() as u64, DType::F32).await);
    let types = ranks(&async |worker| {
        let dtype = [DType::F32, DType::F16][worker.rank()];
        reduce(&worker, 1000, dtype).await
    });
    let calls = ranks(&async |worker| match worker.rank() {
        0 => reduce(&worker, 1000, DType::F32).await,
        _ => worker.barrier().await,
    });
    let bits = ranks(&async |worker| {
        let tensor = worker.context().zeros(&[8], DType::F32)?.to(&worker.placement())?;
        worker.all_reduce(&tensor, ReduceOp::Bxor).await
    });
    let context = Context::new(ContextConfig::default());
    let early = Distributed::new(&context).barrier().map(drop);
    let nccl = Distributed::new(&context).init_process_group("nccl");
    let reports: [(&str, Result<(), DistError>); 7] = [
        ("a rank that never calls", missing),
        ("other sizes", sizes),
        ("other types", types),
        ("other calls", calls),
        ("bits of floats", bits),
        ("before init_process_group", early),
        ("another backend", nccl),
    ];
    for (what, result) in reports {
        let error = result.err().ok_or("it went well")?;
        writeln!(out, "{what}: {error}")?;
    }
    let algorithm = CclConfig::read("ccl.yaml", "defaults: {algorithm: rign}");
    writeln!(out, "another algorithm: {}", algorithm.err().ok_or("it is there")?)?;
    let op = "summ".parse::<ReduceOp>();
    writeln!(out, "another op: {}", op.err().ok_or("it is there")?)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}
