//! Reads and writes by the host: only its own bytes, in the same time with data and without.

use cubeyard_device::race::Races;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, Launch, LaunchHandle, Tensor};
use cubeyard_sim::Span;

use crate::programs::Stores;
use crate::tensors::with_data;

fn rows() -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() }
}

/// Starts a program on one PE that stores bytes at the start of a tensor.
fn store(context: &Context, tensor: &Tensor, wait: u32, bytes: &[u8]) -> LaunchHandle {
    let at = tensor.va_base().unwrap().unwrap().to_bits();
    let (sip, cubes, pes) =
        (SipId::new(0).unwrap(), vec![CubeId::new(0).unwrap()], vec![PeId::new(0).unwrap()]);
    let launch = Launch::new(sip).arguments([tensor]).cubes(cubes).pes(pes);
    let mut program = |_: &_, _: &[_]| Ok(Stores::after(wait, at, bytes));
    context.stream().launch_programs("store", &launch, &mut program).unwrap()
}

/// A view's write once read the whole storage, inserted its bytes, and wrote everything back: data that a kernel had
/// stored in between was lost.
#[test]
fn a_write_through_a_view_leaves_what_a_kernel_stores_meanwhile() {
    let mut checked = 0;
    for wait in (0..600).step_by(50) {
        let context = with_data();
        let tensor = context.zeros(&[128, 64], DType::U8).unwrap().to(&rows()).unwrap();
        let handle = store(&context, &tensor, wait, &[7; 64]);
        tensor.rows(1..2).unwrap().write(&[9_u8; 64]).unwrap();
        handle.wait().unwrap();
        let expected: Vec<u8> = [[7; 64], [9; 64]].concat();
        assert_eq!(tensor.rows(0..2).unwrap().read::<u8>().unwrap(), expected, "wait {wait}");
        checked += 1;
    }
    assert_eq!(checked, 12);
}

#[test]
fn a_view_costs_as_much_as_a_tensor_of_its_size() {
    let context = with_data();
    let whole = context.zeros(&[1024, 256], DType::U8).unwrap().to(&rows()).unwrap();
    // The first PE of the first cube holds rows 0 to 7.
    let view = whole.rows(0..8).unwrap();
    let one = Placement { cubes: Some(1), pes: Some(1), ..rows() };
    let alone = context.zeros(&[8, 256], DType::U8).unwrap().to(&one).unwrap();
    let took = |act: &dyn Fn()| {
        let start = context.now();
        act();
        context.now() - start
    };
    let write = |tensor: &Tensor| took(&|| tensor.write(&[1_u8; 2048]).unwrap());
    let read = |tensor: &Tensor| took(&|| drop(tensor.read::<u8>().unwrap()));
    assert_eq!(write(&view), write(&alone));
    assert_eq!(read(&view), read(&alone));
    assert!(read(&whole) > read(&view) * 2);
}

/// Runs a host program on tensors; returns the duration of each step.
fn host_program(data: bool) -> Vec<(&'static str, Span)> {
    let context = Context::new(ContextConfig { data, ..ContextConfig::default() });
    let start = context.now();
    let mut times = Vec::new();
    let mut step = |name| times.push((name, context.now() - start));
    let host = context.arange(0.0, 1.0, 4096, DType::F32).unwrap();
    let tensor = host.view(&[128, 32]).unwrap().to(&rows()).unwrap();
    step("deploy");
    drop(tensor.read::<f32>().unwrap());
    step("read");
    let view = tensor.rows(4..7).unwrap();
    view.write(&[1.0_f32; 96]).unwrap();
    step("write through a view");
    drop(view.read_bytes().unwrap());
    step("read of a view");
    let columns = Placement { pe: Split::ColumnWise, ..Placement::default() };
    let moved = tensor.to(&columns).unwrap();
    step("to another placement");
    let halves = moved.to_dtype(DType::F16).unwrap();
    step("to another type");
    let converted = halves.to(&rows()).unwrap();
    step("deploy what was converted");
    // Absent values are not zeros.
    assert_eq!(converted.read_bytes().unwrap().is_absent(), !data);
    times
}

/// `to` took 2,167 ns with data and 591 without, because without data nothing was read back or written.
#[test]
fn every_step_of_a_host_program_takes_the_same_time_with_data_and_without() {
    let (with, without) = (host_program(true), host_program(false));
    assert_eq!(with, without);
    assert!(with.windows(2).all(|pair| pair[0].1 < pair[1].1), "{with:?}");
}

#[test]
fn a_host_access_that_nothing_orders_with_a_launch_is_a_race() {
    let context = with_data();
    let tensor = context.zeros(&[128, 64], DType::U8).unwrap().to(&rows()).unwrap();
    let races = || context.machine(|machine| machine.races(Races::take)).unwrap_or_default().len();
    // Before the launch, and after its end was seen: ordered.
    drop(tensor.read::<u8>().unwrap());
    store(&context, &tensor, 0, &[7; 64]).wait().unwrap();
    tensor.write(&[1_u8; 8192]).unwrap();
    assert_eq!(races(), 0);
    // In flight: a write before the store, and a read after it.
    let handle = store(&context, &tensor, 0, &[7; 64]);
    tensor.rows(0..1).unwrap().write(&[9_u8; 64]).unwrap();
    // Accesses to another row do not conflict.
    tensor.rows(1..2).unwrap().write(&[9_u8; 64]).unwrap();
    handle.wait().unwrap();
    assert_eq!(races(), 1);
    let handle = store(&context, &tensor, 0, &[7; 64]);
    context.stream().wait(&context.stream().record());
    drop(context.zeros(&[128, 64], DType::U8).unwrap().to(&rows()).unwrap());
    drop(tensor.read::<u8>().unwrap());
    handle.wait().unwrap();
    assert_eq!(races(), 1);
}

/// A conversion once turned memory that was never written into zeros, and wrote them.
#[test]
fn a_conversion_makes_no_zeros_of_what_is_not_there() {
    let context = with_data();
    let converted = context.empty(&[64], DType::F32).unwrap().to_dtype(DType::F16).unwrap();
    let one = Placement { cubes: Some(1), pes: Some(1), ..rows() };
    let tensor = converted.to(&one).unwrap();
    let shard = tensor.shards().unwrap()[0];
    let from = shard.address.sub_offset().get();
    let unwritten = context.machine(|machine| {
        machine.view().memory_at(shard.address).unwrap().contents().unwrap().unwritten(from, 128)
    });
    assert_eq!((tensor.nbytes(), unwritten), (Bytes::new(128), Some(from)));
}

#[test]
fn a_tensor_without_elements_is_like_any_other() {
    for data in [true, false] {
        let context = Context::new(ContextConfig { data, ..ContextConfig::default() });
        for dimensions in [&[0][..], &[0, 4], &[4, 0], &[2, 0, 3]] {
            let host = context.full(dimensions, DType::F32, 2.0).unwrap();
            let tensor = host.to(&rows()).unwrap();
            assert_eq!((tensor.nbytes(), tensor.shards().unwrap().len()), (Bytes::ZERO, 0));
            assert_eq!(tensor.read::<f32>().unwrap() == [0.0_f32; 0], data);
            tensor.write::<f32>(&[]).unwrap();
            let other = tensor.to_dtype(DType::I8).unwrap().to(&Placement::default()).unwrap();
            assert_eq!(other.view(&[0]).unwrap().shape().elements(), 0);
        }
        let tensor = context.ones(&[4, 2], DType::F32).unwrap().to(&rows()).unwrap();
        let none = tensor.rows(2..2).unwrap();
        assert_eq!(none.shape().dimensions(), [0, 2]);
        drop((tensor, none));
        assert!(context.is_pristine());
        assert!(context.close().is_clean());
    }
}
