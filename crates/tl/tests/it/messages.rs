//! Messages between PEs: contents, times, and the waiting PEs when nothing arrives.

use cubeyard_device::pe::WaitMode;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{
    Context, ContextConfig, Launch, LaunchReport, RingConfig, RuntimeError, SlotKind,
};
use cubeyard_sim::Span;
use cubeyard_tl::Port;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

use crate::lab::{around, burst, ring};

fn run(
    count: u32,
    elements: u64,
    config: &RingConfig,
    kernel: &Kernel,
) -> Result<(LaunchReport, Vec<f32>), RuntimeError> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let (cubes, pes) = (Some(1), Some(count));
    let rows = Placement { pe: Split::RowWise, cubes, pes, ..Placement::default() };
    let values: Vec<f32> = (0..u64::from(count) * elements).map(|value| value as f32).collect();
    let x = context.from_slice(&[u64::from(count), elements], &values)?.to(&rows)?;
    let y = context.empty(&[u64::from(count), elements], DType::F32)?.to(&rows)?;
    let channels = context.connect(&ring(count), config)?;
    assert!(channels.latency() > Span::ZERO);
    let launcher = Launcher::new(&context);
    let launch = Launch::new(SipId::new(0).unwrap())
        .arguments([&x, &y])
        .cubes(vec![CubeId::new(0).unwrap()])
        .pes((0..count).map(|number| PeId::new(number).unwrap()).collect());
    let report = launcher.run(kernel, &launch)?;
    let sums = y.read::<f32>()?.known()?;
    drop((x, y, channels));
    assert!(context.is_pristine());
    Ok((report, sums))
}

#[test]
fn a_ring_of_any_number_of_pes_adds_up_in_every_memory() {
    for kind in [SlotKind::Tcm, SlotKind::Sram, SlotKind::Hbm] {
        for count in 2..=8 {
            let config = RingConfig { kind, ..RingConfig::default() };
            let (_, sums) = run(count, 100, &config, &around()).unwrap();
            let total =
                |column: u32| (0..count).map(|row| (row * 100 + column) as f32).sum::<f32>();
            let wanted: Vec<_> = (0..count).flat_map(|_| (0..100).map(total)).collect();
            assert_eq!(sums, wanted, "{kind:?} {count}");
        }
    }
}

#[test]
fn who_polls_notices_later() {
    let time = |waiting| {
        let config = RingConfig { waiting, ..RingConfig::default() };
        run(4, 64, &config, &around()).unwrap().0.max()
    };
    let sleeps = time(WaitMode::Sleep);
    assert_eq!(time(WaitMode::Poll(Span::ZERO)), sleeps);
    assert!(time(WaitMode::Poll(Span::from_ps(50_000))) > sleeps);
}

#[test]
fn a_message_that_nobody_sends_is_reported_with_both_ends() {
    let waits = Kernel::new("waits", |tl, args| {
        Box::pin(async move {
            let own = args.tensor(0).local();
            let from = if tl.program_id(0) == 0 { Port::W } else { Port::E };
            let tile = tl.recv(from, &own.ty().shape, own.ty().dtype);
            tl.store(&args.tensor(1).local(), &tile);
        })
    });
    let error = run(2, 16, &RingConfig::default(), &waits).unwrap_err().to_string();
    assert!(error.contains("receive f32[1, 16] from W at messages.rs:"), "{error}");
    assert!(error.contains("a message from sip0.cube0.pe1"), "{error}");
    assert!(error.contains("a message from sip0.cube0.pe0"), "{error}");
}

#[test]
fn messages_of_another_length_and_too_long_ones_are_refused() {
    let uneven = Kernel::new("uneven", |tl, args| {
        Box::pin(async move {
            let own = args.tensor(0).local();
            tl.send(Port::E, &tl.load(&own));
            let tile = tl.recv(Port::W, &[1, 8], own.ty().dtype);
            tl.store(&own.block(&[0, 0], &[1, 8]), &tile);
        })
    });
    let error = run(2, 16, &RingConfig::default(), &uneven).unwrap_err().to_string();
    assert!(error.contains("has 64 bytes"), "{error}");
    let error = run(2, 2048, &RingConfig::default(), &around()).unwrap_err().to_string();
    assert!(error.contains("8192 bytes, but a slot has 4096"), "{error}");
}

#[test]
fn a_sender_waits_for_a_free_slot() {
    let time = |slots| {
        let config = RingConfig { slots, ..RingConfig::default() };
        let report = run(2, 16, &config, &burst()).unwrap().0;
        report.pes[0].1
    };
    // With eight slots the sender is done long before the receiver begins.
    assert!(time(8) * 3 < time(1), "{} {}", time(8), time(1));
}
