//! Values that are written to a device and read back.

use cubeyard_memory::Bytes;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RuntimeError, TensorId};
use cubeyard_sim::Span;
use proptest::prelude::*;

pub(crate) fn with_data() -> Context {
    Context::new(ContextConfig { data: true, ..ContextConfig::default() })
}

pub(crate) fn splits() -> impl Strategy<Value = Split> {
    prop_oneof![Just(Split::Replicate), Just(Split::RowWise), Just(Split::ColumnWise)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(
        (cube, pe) in (splits(), splits()),
        (cubes, pes) in (1..5_u32, 1..9_u32),
        (rows, columns) in (1..40_u64, 1..40_u64),
    ) {
        let context = with_data();
        let placement = Placement { cube, pe, cubes: Some(cubes), pes: Some(pes), ..Placement::default() };
        let values: Vec<f32> = (0..rows * columns).map(|value| value as f32 * 0.5).collect();
        let tensor = context.from_slice(&[rows, columns], &values).unwrap().to(&placement).unwrap();
        prop_assert_eq!(tensor.read::<f32>().unwrap(), values.clone());
        let turned: Vec<f32> = values.iter().rev().copied().collect();
        tensor.write(&turned).unwrap();
        prop_assert_eq!(tensor.read::<f32>().unwrap(), turned);
        drop(tensor);
        prop_assert!(context.is_pristine());
        prop_assert!(context.close().is_clean());
    }
}

#[test]
fn tensors_are_made_with_what_they_are_to_hold() {
    let context = with_data();
    let place = Placement::default();
    let read = |tensor: cubeyard_runtime::Tensor| {
        tensor.to(&place).unwrap().read::<i32>().unwrap().known().unwrap()
    };
    assert_eq!(read(context.zeros(&[3], DType::I32).unwrap()), [0, 0, 0]);
    assert_eq!(read(context.ones(&[2], DType::I32).unwrap()), [1, 1]);
    assert_eq!(read(context.full(&[2], DType::I32, -7.0).unwrap()), [-7, -7]);
    assert_eq!(read(context.arange(5.0, -2.0, 4, DType::I32).unwrap()), [5, 3, 1, -1]);
    let rand = || {
        let tensor = context.rand(&[100], DType::F64, 7).unwrap().to(&place).unwrap();
        tensor.read::<f64>().unwrap().known().unwrap()
    };
    assert_eq!(rand(), rand());
    assert!(rand().iter().all(|value| (0.0..=1.0).contains(value)));
}

#[test]
fn views_share_memory_with_their_tensor() {
    let context = with_data();
    let place = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let values: Vec<i16> = (0..24).collect();
    let tensor = context.from_slice(&[6, 4], &values).unwrap().to(&place).unwrap();
    let flat = tensor.view(&[24]).unwrap();
    let middle = tensor.rows(2..4).unwrap();
    assert_eq!(middle.read::<i16>().unwrap(), (8..16).collect::<Vec<_>>());
    assert_eq!(
        middle.va_base().unwrap(),
        tensor.va_base().unwrap().and_then(|base| base.checked_add(Bytes::new(16)))
    );
    middle.write::<i16>(&[-1; 8]).unwrap();
    assert_eq!(&flat.read::<i16>().unwrap().known().unwrap()[6..10], [6, 7, -1, -1]);
    // The memory stays allocated until the last of them is dropped.
    drop((tensor, flat));
    assert_eq!(context.memory_stats().tensors, 1);
    drop(middle);
    assert!(context.is_pristine());
}

#[test]
fn columns_that_are_apart_have_no_view_of_their_rows() {
    let context = with_data();
    let place = Placement { pe: Split::ColumnWise, ..Placement::default() };
    let tensor = context.zeros(&[4, 16], DType::F16).unwrap().to(&place).unwrap();
    assert!(matches!(tensor.rows(0..2), Err(RuntimeError::NotContiguous { .. })));
    assert!(matches!(tensor.view(&[64]), Err(RuntimeError::NotContiguous { .. })));
    assert!(tensor.view(&[2, 2, 16]).is_ok());
}

#[test]
fn types_are_converted_on_the_host() {
    let context = with_data();
    let place = Placement::default();
    let tensor = context.from_slice(&[3], &[1.5_f32, -2.25, 1000.0]).unwrap().to(&place).unwrap();
    let halves = tensor.to_dtype(DType::F64).unwrap().to(&place).unwrap();
    assert_eq!(halves.read::<f64>().unwrap(), [1.5, -2.25, 1000.0]);
    assert!(matches!(tensor.to_dtype(DType::I8), Err(RuntimeError::Value(_))));
}

#[test]
fn what_cannot_be_is_refused() {
    let context = Context::new(ContextConfig::default());
    assert!(matches!(context.zeros(&[u64::MAX, 2], DType::F16), Err(RuntimeError::Shape(_))));
    assert!(matches!(context.full(&[2], DType::U8, 300.0), Err(RuntimeError::Value(_))));
    let wrong = context.from_slice(&[3], &[1_u8, 2]);
    assert_eq!(wrong.unwrap_err().to_string(), "expected 3 elements for a tensor of 3, found 2");
    let host = context.zeros(&[4], DType::F32).unwrap();
    assert!(matches!(host.va_base(), Err(RuntimeError::NotDeployed)));
    let placed = host.to(&Placement::default()).unwrap();
    assert!(matches!(placed.read::<f32>().unwrap().known(), Err(RuntimeError::NoData)));
    assert!(matches!(placed.rows(3..5), Err(RuntimeError::Rows { start: 3, end: 5, .. })));
    assert!(matches!(placed.read::<f64>(), Err(RuntimeError::Type { .. })));
    let many = Placement { pes: Some(9), ..Placement::default() };
    assert!(matches!(host.to(&many), Err(RuntimeError::Placement(_))));
    let report = context.close();
    assert_eq!(report.tensors.len(), 1, "{report}");
    assert!(matches!(placed.va_base(), Err(RuntimeError::Closed)));
    assert!(matches!(host.to(&Placement::default()), Err(RuntimeError::Closed)));
}

#[test]
fn a_snapshot_says_what_lies_where() {
    let context = with_data();
    let place = Placement {
        cube: Split::RowWise,
        pe: Split::RowWise,
        cubes: Some(1),
        pes: Some(2),
        ..Placement::default()
    };
    let first = context.zeros(&[1000], DType::U8).unwrap().to(&place).unwrap();
    let second = context.zeros(&[4, 100], DType::F16).unwrap().to(&place).unwrap();
    drop(first);
    let snapshot = context.snapshot();
    assert_eq!(snapshot.len(), 2, "two PEs were used");
    let pe = &snapshot[0];
    // 500 bytes take two bursts of 256, which are free again; 400 bytes take two more.
    let [shard] = pe.shards.as_slice() else { panic!("{pe:?}") };
    assert_eq!(
        (shard.tensor, shard.shape.to_string(), shard.dtype),
        (TensorId(1), "4x100".into(), DType::F16)
    );
    assert_eq!(shard.shard, second.shards().unwrap()[0]);
    let holes = [(0, 512), (1024, (6 << 30) - 1024)];
    assert_eq!(pe.holes, holes.map(|(offset, size)| (Bytes::new(offset), Bytes::new(size))));
}

/// The rows of a tensor over a SIP are read back, and its memory is returned.
#[test]
fn a_tensor_over_a_sip_comes_back() -> Result<(), Box<dyn std::error::Error>> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let over_a_sip = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let values: Vec<f32> = (0..1024).map(|value| value as f32).collect();
    let tensor = context.from_slice(&[256, 4], &values)?.to(&over_a_sip)?; // two rows in each of 128 PEs
    assert_eq!(tensor.read::<f32>()?, values);
    assert!(tensor.mapping_latency()? > Span::ZERO);
    drop(tensor); // unmaps through the fabric, and returns addresses and memory
    assert!(context.is_pristine());
    Ok(())
}
