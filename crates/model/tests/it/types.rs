//! Element types of activations: supported types, and errors for the others.

use cubeyard_model::{ModelError, Phase, Workload};
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
