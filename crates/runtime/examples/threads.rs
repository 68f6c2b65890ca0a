//! One context that several threads use: it stays on the thread that made it, and the others send it closures.
//!
//! `cargo run --release -p cubeyard-runtime --example threads`. Calls run one at a time, in the order in which they
//! come. Tensors that outlive a call stay on the context's thread, too. A panic of a call ends that thread: later
//! calls then have no answer.

use std::error::Error;
use std::sync::mpsc::{self, Sender};
use std::thread;

use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RuntimeError};

/// A call to the thread of the context.
type Call = Box<dyn FnOnce(&Context) + Send>;

fn main() -> Result<(), Box<dyn Error>> {
    run()
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let (calls, received) = mpsc::channel::<Call>();
    let owner = thread::spawn(move || {
        let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
        received.into_iter().for_each(|call| call(&context));
        context.is_pristine()
    });
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let calls = calls.clone();
            scope.spawn(move || {
                let values = vec![f32::from(number); 64];
                let read = call(&calls, move |context| there_and_back(context, &values));
                assert_eq!(read.expect("the machine has room"), [f32::from(number); 64]);
            });
        }
    });
    // The thread ends when nobody can call it any more.
    drop(calls);
    assert!(owner.join().map_err(|_| "a call has panicked")?);
    Ok(())
}

/// Runs a closure on the thread of the context and returns its result.
fn call<R: Send + 'static>(
    calls: &Sender<Call>,
    act: impl FnOnce(&Context) -> R + Send + 'static,
) -> R {
    let (answer, answered) = mpsc::channel();
    let call = move |context: &Context| answer.send(act(context)).expect("the caller waits");
    calls.send(Box::new(call)).expect("the context is there as long as it can be called");
    answered.recv().expect("no call has panicked")
}

/// Deploys values over the PEs, and reads them back.
fn there_and_back(context: &Context, values: &[f32]) -> Result<Vec<f32>, RuntimeError> {
    let placement = Placement { pe: Split::RowWise, ..Placement::default() };
    context.from_slice(&[values.len() as u64], values)?.to(&placement)?.read::<f32>()?.known()
}
