//! Element types of activations: supported types, and errors for the others.

use cubeyard_model::{ModelError, Phase, StepPart, Workload};
use cubeyard_runtime::dtype::DType;

use crate::{measured, tiny, tried, work};
use cubeyard_model::ModelSpec;
use cubeyard_model::spec::Experts;

/// `f32` failed in a kernel with "an expression without an operation", because nothing had to be cast. It has twice the
/// bytes of `f16`.
#[test]
fn activations_of_every_float_that_the_engine_multiplies_are_measured() {
    let mut experts = tiny();
    experts.family.experts = Some(Experts { count: 4, active: 2 });
    let bytes = |spec: &ModelSpec, dtype: DType, phase| {
        let of = Workload { dtype, weights: dtype, ..work(phase, 3, 40) };
        let report = measured(spec, of);
        report.parts.iter().map(|part| part.demand.bytes).sum::<u64>()
    };
    for spec in [tiny(), experts] {
        for phase in [Phase::Decode, Phase::Prefill] {
            let wide = bytes(&spec, DType::F32, phase);
            for (dtype, share) in [(DType::F16, 2), (DType::Bf16, 2), (DType::Fp8E4m3, 4)] {
                assert_eq!(bytes(&spec, dtype, phase) * share, wide, "{dtype} {phase:?}");
            }
        }
    }
}

/// `i8` failed in a kernel: "mul of i32[1, 24] and f32[1, 1]: the types differ".
#[test]
fn activations_that_cannot_be_computed_are_refused_before_anything_runs() {
    for dtype in [DType::I8, DType::U8, DType::I32, DType::F64, DType::Bool] {
        let of = Workload { dtype, weights: dtype, ..work(Phase::Decode, 1, 8) };
        let error = tried(&tiny(), of).unwrap_err();
        assert!(matches!(error, ModelError::Activations { .. }), "{dtype}: {error}");
        let expected = format!(
            "dtype={dtype}: expected a float type of GEMM: f16, bf16, f32, fp8_e4m3, fp8_e5m2"
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// Q, K and V are converted, which may take longer than a short cache saves.
#[test]
fn caches_of_8_bits_have_half_the_bytes_and_long_ones_take_no_longer() {
    for (phase, batch, context) in
        [(Phase::Decode, 1, 6000), (Phase::Decode, 9, 1500), (Phase::Prefill, 2, 512)]
    {
        let of = |kv| measured(&tiny(), Workload { kv, ..work(phase, batch, context) });
        let [wide, same, narrow] = [None, Some(DType::F16), Some(DType::Fp8E4m3)].map(of);
        assert_eq!((same.total, same.memory), (wide.total, wide.memory));
        let attention = [&wide, &narrow].map(|report| {
            let part = report.parts.iter().find(|it| it.part == StepPart::Attention).unwrap();
            assert!(part.share().is_none_or(|share| share <= 1.0), "{part:?}");
            (part.demand.bytes, part.total)
        });
        let [(wide_bytes, wide_time), (narrow_bytes, narrow_time)] = attention;
        assert_eq!(wide_bytes, 2 * narrow_bytes);
        assert!(narrow_time <= wide_time, "{narrow_time:?} and {wide_time:?}");
        // The allocator rounds K and V of each of 8 PEs up to 128 bytes.
        let apart = wide.memory.cache.all.abs_diff(2 * narrow.memory.cache.all);
        assert!(apart <= 2 * 8 * 2 * 128, "{apart} bytes");
    }
}

#[test]
fn caches_of_other_types_are_refused() {
    let refused = |dtype, kv| {
        let of = Workload { dtype, weights: dtype, kv: Some(kv), ..work(Phase::Decode, 1, 8) };
        tried(&tiny(), of).unwrap_err().to_string()
    };
    let expected = "kv_dtype=i8: expected f16, the type of activations, or fp8_e4m3 or fp8_e5m2";
    assert_eq!(refused(DType::F16, DType::I8), expected);
    let expected = "kv_dtype=fp8_e4m3: expected f32, the type of activations";
    assert_eq!(refused(DType::F32, DType::Fp8E4m3), expected);
}
