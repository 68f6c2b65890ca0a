//! A context that several threads drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, ContextThread, ContextThreadError, RuntimeError};
use cubeyard_sim::Time;

fn with_data() -> ContextConfig {
    ContextConfig { data: true, ..ContextConfig::default() }
}

fn deploy_and_read(context: &Context, values: &[f32]) -> Result<Vec<f32>, RuntimeError> {
    let placement = Placement { pe: Split::RowWise, ..Placement::default() };
    context.from_slice(&[values.len() as u64], values)?.to(&placement)?.read::<f32>()?.known()
}

#[test]
fn several_threads_drive_one_context_and_each_reads_its_own_data() {
    let context = ContextThread::new(with_data()).unwrap();
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let context = &context;
            scope.spawn(move || {
                for round in 0..5_u8 {
                    let values = vec![f32::from(number) * 10.0 + f32::from(round); 64];
                    let expected = values.clone();
                    let read = context.call(move |context| deploy_and_read(context, &values));
                    assert_eq!(read.unwrap().unwrap(), expected);
                }
            });
        }
    });
    assert!(context.call(|context| context.is_pristine()).unwrap());
}

#[test]
fn a_context_on_its_own_thread_takes_the_same_simulated_time() {
    let program = |context: &Context| -> Time {
        deploy_and_read(context, &[1.5; 1000]).unwrap();
        context.now()
    };
    let here = program(&Context::new(with_data()));
    let there = ContextThread::new(with_data()).unwrap();
    assert_eq!(there.call(move |context| program(context)).unwrap(), here);
}

#[test]
fn calls_of_one_thread_run_in_order_on_a_value_that_stays() {
    let list = ContextThread::with(Vec::new).unwrap();
    for number in 0..100 {
        list.call(move |list| list.push(number)).unwrap();
    }
    assert_eq!(list.call(|list| list.clone()).unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_panic_is_an_error_and_ends_the_context() {
    let context = ContextThread::new(ContextConfig::default()).unwrap();
    let panicked = context.call(|context| -> () { panic!("at {}", context.now().ps()) });
    assert_eq!(panicked, Err(ContextThreadError::Panicked("at 0".to_owned())));
    assert_eq!(context.call(|_| ()), Err(ContextThreadError::Ended));
}

#[test]
fn a_call_inside_a_call_is_refused() {
    let context = Arc::new(ContextThread::new(ContextConfig::default()).unwrap());
    let inner = Arc::clone(&context);
    let nested = context.call(move |_| inner.call(|_| ()));
    assert_eq!(nested, Ok(Err(ContextThreadError::Nested)));
}

#[test]
fn dropping_the_handle_waits_until_the_value_is_dropped() {
    struct Slow(Arc<AtomicBool>);
    impl Drop for Slow {
        fn drop(&mut self) {
            thread::sleep(std::time::Duration::from_millis(20));
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    drop(ContextThread::with(move || Slow(flag)).unwrap());
    assert!(dropped.load(Ordering::SeqCst));
}
