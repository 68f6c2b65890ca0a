//! Launches, streams and events.

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Argument, Context, ContextConfig, Launch, RuntimeError};
use cubeyard_sim::Span;

use crate::programs::busy;

fn context() -> Context {
    Context::new(ContextConfig::default())
}

fn scale(arguments: Vec<Argument<'_>>) -> Launch<'_> {
    Launch::new(SipId::new(0).unwrap()).arguments(arguments)
}

#[test]
fn a_launch_runs_on_all_pes_from_one_instant_on() {
    let context = context();
    let tensor = context.zeros(&[64], DType::F16).unwrap().to(&Placement::default()).unwrap();
    let handle =
        busy(&context.stream(), &scale(vec![Argument::Tensor(&tensor), Argument::from(2.0)]), 100)
            .unwrap();
    let report = handle.wait().unwrap();
    assert_eq!(report.pes.len(), 128);
    assert_eq!((report.max(), report.mean()), (Span::from_ps(100_000), Span::from_ps(100_000)));
    assert!(report.started > report.made && report.done > report.started + report.max());
    assert_eq!(handle.wait().unwrap(), report);
}

#[test]
fn launches_of_one_stream_follow_each_other_and_those_of_two_overlap() {
    let context = context();
    let tensor = context.zeros(&[64], DType::F16).unwrap().to(&Placement::default()).unwrap();
    let launch = scale(vec![Argument::Tensor(&tensor), Argument::from(2.0)]);
    let (first, second) = (context.stream(), context.stream());
    let a = busy(&first, &launch, 1000).unwrap();
    let b = busy(&first, &launch, 1000).unwrap();
    let c = busy(&second, &launch, 1000).unwrap();
    second.wait(&first.record());
    let d = busy(&second, &launch, 1000).unwrap();
    context.synchronize().unwrap();
    let [a, b, c, d] = [a, b, c, d].map(|handle| handle.wait().unwrap());
    assert!(b.started > a.done);
    assert!(c.started < a.done);
    assert!(d.started > b.done && d.started > c.done);
}

#[test]
fn a_tensor_dropped_during_a_launch_keeps_its_memory_until_the_end() {
    let context = context();
    let tensor = context.empty(&[64], DType::F16).unwrap().to(&Placement::default()).unwrap();
    let handle =
        busy(&context.stream(), &scale(vec![Argument::Tensor(&tensor), Argument::from(2.0)]), 1000)
            .unwrap();
    drop(tensor);
    assert_eq!(context.memory_stats().tensors, 1);
    handle.wait().unwrap();
    assert!(context.is_pristine());
}

#[test]
fn wrong_arguments_are_named() {
    let context = context();
    let other = Context::new(ContextConfig::default());
    let place = Placement::default();
    let tensor = context.empty(&[64], DType::F16).unwrap();
    let placed = tensor.to(&place).unwrap();
    let foreign = other.empty(&[64], DType::F16).unwrap().to(&place).unwrap();
    let start = |launch: &Launch<'_>| busy(&context.stream(), launch, 1);
    let refused = |arguments| start(&scale(arguments)).unwrap_err().to_string();
    assert_eq!(
        refused(vec![Argument::Tensor(&tensor), Argument::from(1.0)]),
        "the tensor is not on a device; deploy it with `to`"
    );
    assert_eq!(
        refused(vec![Argument::Tensor(&foreign), Argument::from(1.0)]),
        "the tensor belongs to another context"
    );
    let mut launch = scale(vec![Argument::Tensor(&placed), Argument::from(1.0)]);
    launch.cubes = vec![CubeId::new(0).unwrap()];
    launch.pes = vec![PeId::new(9).unwrap()];
    assert!(matches!(start(&launch), Err(RuntimeError::Request(_))));
    assert_eq!(context.memory_stats().tensors, 1);
}

/// The latency of a mapping was once searched for in everything sent since the first launch began.
#[test]
fn tensors_that_come_and_go_during_a_launch_are_told_their_own_mapping_latency() {
    let context = context();
    let held = context.empty(&[64], DType::F16).unwrap().to(&Placement::default()).unwrap();
    let handle = busy(
        &context.stream(),
        &scale(vec![Argument::Tensor(&held), Argument::from(2.0)]),
        1_000_000,
    )
    .unwrap();
    for _ in 0..3 {
        let tensor = context.empty(&[64], DType::F16).unwrap().to(&Placement::default()).unwrap();
        let stages = tensor.mapping_stages().unwrap();
        let sum: Span = stages.iter().map(|&(_, span)| span).sum();
        assert_eq!((stages.len(), sum), (6, tensor.mapping_latency().unwrap()));
        assert!(sum > Span::ZERO);
    }
    assert_eq!(handle.wait().unwrap().pes.len(), 128);
    drop(held);
    assert!(context.is_pristine());
}
