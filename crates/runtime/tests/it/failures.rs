//! Whatever fails, everything is freed.

use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::free_list::{AllocateCause, NoRoom};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{
    AllocateError, Context, ContextConfig, Faults, Launch, RuntimeError, Tensor,
};
use proptest::prelude::*;

use crate::long_tests::cases;
use crate::programs::busy;
use crate::tensors::splits;

/// Creates a small machine, so that programs are quick.
fn small() -> Context {
    let text = "sips: {count: 1}\ncubes: {w: 2, h: 1}\nhbm: {bytes_per_cube: 64 KiB}\n";
    let topology = Topology::read("small.yaml", text).unwrap();
    Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() })
}

#[test]
fn a_failure_at_every_step_of_a_deployment_leaves_nothing_behind() {
    let context = small();
    let tensor = context.ones(&[32, 8], DType::F16).unwrap();
    let place = Placement {
        cube: cubeyard_runtime::placement::Split::RowWise,
        pe: cubeyard_runtime::placement::Split::ColumnWise,
        ..Placement::default()
    };
    let counter = Faults::new(&context, None);
    drop(tensor.to(&place).unwrap());
    let steps = counter.steps();
    assert!(steps > 16, "{steps}");
    for step in 0..steps {
        let faults = Faults::new(&context, Some(step));
        assert!(matches!(tensor.to(&place), Err(RuntimeError::Injected { .. })), "step {step}");
        drop(faults);
        assert!(context.is_pristine(), "after a failure at step {step}");
    }
}

#[test]
fn a_pe_without_room_is_named_with_its_largest_range() {
    let context = small();
    // Slices have 8 KiB. Three quarters are allocated, and then the first is freed again: two ranges of 2 KiB.
    let one = Placement { cubes: Some(1), pes: Some(1), ..Placement::default() };
    let quarter = || context.empty(&[2048], DType::U8).unwrap().to(&one).unwrap();
    let [first, second, third] = [quarter(), quarter(), quarter()];
    drop(first);
    let wanted = |bytes: u64| context.empty(&[bytes], DType::U8).unwrap().to(&one);
    let error = wanted(2049).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("sip0.cube0.pe0: "), "{text}");
    let RuntimeError::Allocate(AllocateError::Pe { pe, source }) = error else { panic!("{text}") };
    assert_eq!(pe.to_string(), "sip0.cube0.pe0");
    let [wanted_bytes, free, largest, capacity] = [2304, 4096, 2048, 8192].map(Bytes::new);
    let room = NoRoom { asked: wanted_bytes, wanted: wanted_bytes, free, largest, capacity };
    assert_eq!(source.cause, AllocateCause::NoRoom(room));
    // The size that the error names does fit.
    drop((wanted(2048).unwrap(), second, third));
    assert!(context.is_pristine());
}

#[derive(Clone, Debug)]
enum Step {
    Make { rows: u64, columns: u64, placement: Placement, fail: Option<u64> },
    View(prop::sample::Index),
    Launch(prop::sample::Index),
    Drop(prop::sample::Index),
    Wait,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let placement = (splits(), splits(), 1..3_u32, 1..9_u32).prop_map(|(cube, pe, cubes, pes)| {
        Placement { cube, pe, cubes: Some(cubes), pes: Some(pes), ..Placement::default() }
    });
    let make = (1..20_u64, 1..20_u64, placement, prop::option::weighted(0.3, 0..40_u64));
    let step = prop_oneof![
        4 => make.prop_map(|(rows, columns, placement, fail)| Step::Make { rows, columns, placement, fail }),
        2 => any::<prop::sample::Index>().prop_map(Step::View),
        2 => any::<prop::sample::Index>().prop_map(Step::Launch),
        3 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => Just(Step::Wait),
    ];
    proptest::collection::vec(step, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(10_000)))]

    #[test]
    fn after_the_last_drop_all_is_as_in_the_beginning(steps in steps()) {
        let context = small();
        let mut tensors: Vec<Tensor> = Vec::new();
        for step in steps {
            match step {
                Step::Make { rows, columns, placement, fail } => {
                    let _faults = Faults::new(&context, fail);
                    let made = context.empty(&[rows, columns], DType::U8).unwrap().to(&placement);
                    tensors.extend(made.ok());
                }
                Step::View(which) if !tensors.is_empty() => {
                    let tensor = which.get(&tensors);
                    let dimensions = tensor.shape().dimensions().to_vec();
                    let view = tensor.view(&[&[1], dimensions.as_slice()].concat());
                    tensors.extend(view.ok());
                }
                Step::Launch(which) if !tensors.is_empty() => {
                    let tensor = which.get(&tensors);
                    let sip = SipId::new(0).unwrap();
                    let launch = Launch::new(sip).arguments([tensor]);
                    busy(&context.stream(), &launch, 5).unwrap();
                }
                Step::Drop(which) if !tensors.is_empty() => {
                    tensors.swap_remove(which.index(tensors.len()));
                }
                Step::Wait => context.synchronize().unwrap(),
                _ => {}
            }
        }
        drop(tensors);
        context.synchronize().unwrap();
        prop_assert!(context.is_pristine());
        let report = context.close();
        prop_assert!(report.is_clean(), "{}", report);
    }
}
