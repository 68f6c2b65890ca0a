//! Errors of the language, with their lines; the context stays usable afterwards.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Argument, Context};
use cubeyard_sim::Span;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::numeric::Binary;
use cubeyard_tl::{Epilogue, Mask, Tl};
use expect_test::{Expect, expect};

use crate::lab::{context, kernel, launch, place, run, tensors};

/// Checks an error. The arguments are a matrix of f32[32, 32], a vector of f32[64], and 3.
fn refused_by(mode: Mode, kernel: &Kernel, expected: &Expect) {
    let context = context("", true);
    let (x, y) =
        (place(&context, &[32, 32], &[1.0_f32; 1024]), place(&context, &[64], &[2.0_f32; 64]));
    let launcher = Launcher::with_mode(&context, mode).limit(1000);
    let arguments = || {
        let mut arguments = tensors(&[&x, &y]);
        arguments.push(Argument::from(3.0));
        arguments
    };
    let error = run(&launcher, kernel, arguments()).unwrap_err().to_string();
    expected.assert_eq(&without_lines(&error));
    // The context stays usable, and nothing is lost.
    let good = self::kernel("good", |tl, args| {
        tl.store(&args.tensor(1).local(), &tl.full(&[64], 5.0, DType::F32));
    });
    run(&launcher, &good, arguments()).unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [5.0; 64]);
    assert_eq!(launcher.findings(), []);
    drop((x, y));
    assert!(context.is_pristine());
}

/// Removes line numbers, which change with this file; only their presence matters.
fn without_lines(error: &str) -> String {
    let mut text = String::new();
    let mut rest = error;
    while let Some((before, after)) = rest.split_once("language.rs:") {
        text += before;
        text += "language.rs:LINE";
        rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    text + rest
}

fn refused(body: impl Fn(&Tl, &Args) + Copy + 'static, expected: &Expect) {
    refused_by(Mode::Recorded, &kernel("wrong", body), expected);
}

#[test]
fn a_tile_larger_than_the_tcm() {
    refused(
        |tl, _| drop(tl.zeros(&[4096, 1024], DType::F32)),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: a tile of 16.00 MiB, but the TCM has 8.00 MiB for the tiles of a kernel"
        ],
    );
    refused(
        |tl, _| {
            let _first = tl.zeros(&[1024, 1024], DType::F32);
            tl.zeros(&[1024, 1025], DType::F32);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: no room for a tile of 4.00 MiB: of 8.00 MiB, 4.00 MiB are free, 4.00 MiB at most in one piece"
        ],
    );
}

#[test]
fn shapes_and_types_that_do_not_go_together() {
    refused(
        |tl, args| {
            let x = tl.load(&args.tensor(0).local());
            tl.dot(&x, &tl.zeros(&[31, 8], DType::F32));
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: dot of f32[32, 32] and f32[31, 8]: 32 columns against 31 rows"
        ],
    );
    refused(
        |tl, args| {
            let x = args.tensor(0).local();
            tl.gemm(&x, &x.block(&[0, 0], &[8, 32])).store(&x);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: dot of f32[32, 32] and f32[8, 32]: 32 columns against 8 rows"
        ],
    );
    refused(
        |tl, args| drop(&tl.load(&args.tensor(0).local()) + &tl.zeros(&[5], DType::F32)),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: add of f32[32, 32] and f32[5]: the shapes do not broadcast"
        ],
    );
    refused(
        |tl, args| drop(&tl.load(&args.tensor(0).local()) + &tl.zeros(&[32], DType::F16)),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: add of f32[32, 32] and f16[32]: the types differ"
        ],
    );
    refused(
        |tl, args| tl.store(&args.tensor(0).local(), &tl.zeros(&[32, 32], DType::F16)),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: store of f16[32, 32] to f32[32, 32]: they must be equal"
        ],
    );
    refused(
        |tl, args| {
            let (x, row) = (args.tensor(0).local(), tl.zeros(&[31], DType::F32));
            tl.gemm(&x, &x).after_tile(Epilogue::With(Binary::Add, row)).tile(DType::F32);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: an epilogue with f32[31] on f32[32, 32]: expected a row or a column of it, or its shape"
        ],
    );
    refused(
        |tl, args| {
            let x = args.tensor(0).local();
            tl.gemm(&x, &x).at_the_end(Epilogue::Scale(Binary::Mul, 2.0.into())).store(&x);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: an epilogue at the end needs an output that stays in the TCM: use tile()"
        ],
    );
}

/// The first row of the first tile was considered the whole tile.
#[test]
fn a_composite_of_a_matrix_without_rows() {
    refused(
        |tl, args| {
            let x = args.tensor(0).local();
            tl.gemm(&x, &x.transposed()).tile(DType::F32);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: f32[32, 32] in memory: its rows are not contiguous: load it and use the tile, or trans() of it"
        ],
    );
}

#[test]
fn a_type_that_the_matrix_engine_has_no_rate_for() {
    refused(
        |tl, _| {
            let x = tl.zeros(&[32, 32], DType::F64);
            tl.dot(&x, &x);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: dot of f64: GEMM has no rate for it; it has bf16, f16, f32, fp8_e4m3, fp8_e5m2, i8, u8"
        ],
    );
}

#[test]
fn masks_and_axes_that_are_not_there() {
    refused(
        |tl, args| {
            let mask = Mask::below(&[32], &[16]);
            tl.load_masked(&args.tensor(0).local(), &mask, 0.0);
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: a mask of shape [32] for f32[32, 32]: the shapes must be the same"
        ],
    );
    refused(
        |tl, args| {
            let y = args.tensor(1).local();
            tl.store_masked(&y, &tl.load(&y), &Mask::below(&[63], &[16]));
        },
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: a mask of shape [63] for f32[64]: the shapes must be the same"
        ],
    );
    refused(
        |tl, args| drop(tl.sum(&tl.load(&args.tensor(0).local()), 2)),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: sum of f32[32, 32] along axis 2: there is no such axis"
        ],
    );
    refused(
        |tl, _| assert_ne!(tl.program_id(2), 9),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: axis 2: expected 0 (PEs of a cube) or 1 (cubes)"
        ],
    );
    refused(
        |tl, _| assert_ne!(tl.cdiv(5, 0), 9),
        &expect!["wrong on sip0.cube0.pe0, language.rs:LINE: cdiv by 0"],
    );
}

#[test]
fn arguments_that_are_missing_or_of_another_kind() {
    refused(
        |_, args| assert_ne!(args.tensor(7).local().dim(0), 0),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: argument 7: expected a tensor, found nothing"
        ],
    );
    refused(
        |_, args| assert_ne!(args.tensor(2).local().dim(0), 0),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: argument 2: expected a tensor, found a number"
        ],
    );
    refused(
        |_, args| assert!(args.number(0).nearest() > 0.0),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: argument 0: expected a number, found a tensor"
        ],
    );
    refused(
        |tl, args| drop(tl.add(args.number(2), args.number(2))),
        &expect![
            "wrong on sip0.cube0.pe0, language.rs:LINE: add of numbers alone: one operand must be a tile"
        ],
    );
}

#[test]
fn a_pe_that_holds_nothing() {
    let context = context("", true);
    let x = place(&context, &[8], &[1.0_f32; 8]);
    let local = kernel("local", |_, args| drop(args.tensor(0).local()));
    let launcher = Launcher::new(&context);
    let error = launcher.run(&local, &launch(tensors(&[&x]), 2)).unwrap_err();
    expect![
        "local on sip0.cube0.pe1, language.rs:LINE: argument 0: sip0.cube0.pe1 holds no part of it"
    ]
    .assert_eq(&without_lines(&error.to_string()));
}

#[test]
fn a_kernel_that_panics() {
    let panics = |_: &Tl, _: &Args| std::panic::resume_unwind(Box::new("out of ideas"));
    refused_by(
        Mode::Recorded,
        &kernel("panics", panics),
        &expect!["panics panicked: out of ideas"],
    );
    refused_by(
        Mode::Live,
        &kernel("panics", panics),
        &expect!["sip0.cube0.pe0.pe_cpu: panics panicked: out of ideas"],
    );
}

#[test]
fn a_kernel_that_never_ends() {
    let endless = |tl: &Tl, args: &Args| loop {
        tl.load(&args.tensor(0).local());
    };
    refused_by(
        Mode::Recorded,
        &kernel("endless", endless),
        &expect![
            "endless on sip0.cube0.pe0, language.rs:LINE: more than 1000 calls of tl: the kernel seems not to end"
        ],
    );
    refused_by(
        Mode::Live,
        &kernel("endless", endless),
        &expect![
            "sip0.cube0.pe0.pe_cpu: endless on sip0.cube0.pe0, language.rs:LINE: more than 1000 calls of tl: the kernel seems not to end"
        ],
    );
}

#[test]
fn a_kernel_that_waits_for_something_foreign() {
    let foreign = || Kernel::new("foreign", |_, _| Box::pin(std::future::pending()));
    refused_by(
        Mode::Recorded,
        &foreign(),
        &expect!["foreign awaits a future that is not of tl: it cannot be recorded"],
    );
    refused_by(
        Mode::Live,
        &foreign(),
        &expect!["sip0.cube0.pe0.pe_cpu: foreign awaits a future that is not of tl"],
    );
}

fn looks() -> Kernel {
    Kernel::new("looks", |tl, args| {
        Box::pin(async move {
            let x = tl.load(&args.tensor(1).local());
            if tl.value(&x).await[0] > 1.0 {
                tl.store(&args.tensor(1).local(), &(&x * 2.0));
            }
        })
    })
}

#[test]
fn a_kernel_that_looks_runs_live_and_with_data() {
    refused_by(
        Mode::Recorded,
        &looks(),
        &expect![
            "looks on sip0.cube0.pe0, language.rs:LINE: the kernel reads loaded values, so it cannot be recorded: run it live"
        ],
    );
    let without = context("", false);
    let y = without.empty(&[64], DType::F32).unwrap().to(&crate::lab::one()).unwrap();
    let launcher = Launcher::with_mode(&without, Mode::Live);
    let error = run(&launcher, &looks(), tensors(&[&y, &y])).unwrap_err();
    expect!["sip0.cube0.pe0.pe_cpu: looks on sip0.cube0.pe0, language.rs:LINE: the kernel reads loaded values, so it needs data mode"].assert_eq(&without_lines(&error.to_string()));
    let with = context("", true);
    let y = place(&with, &[64], &[2.0_f32; 64]);
    run(&Launcher::with_mode(&with, Mode::Live), &looks(), tensors(&[&y, &y])).unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [4.0; 64]);
}

/// The oldest command of a full window was considered done, and the kernel received a value that was not available.
#[test]
fn a_kernel_may_look_at_the_oldest_command_of_the_window() {
    let looks = Kernel::new("looks", |tl, args| {
        Box::pin(async move {
            let x = tl.load(&args.tensor(0).local());
            let _others: Vec<_> = (0..3).map(|_| tl.zeros(&[8], DType::F32)).collect();
            assert!((tl.value(&x).await[0] - 2.0).abs() < 1e-9);
        })
    });
    let context = context("pe:\n  core:\n    window: 4\n", true);
    let y = place(&context, &[64], &[2.0_f32; 64]);
    run(&Launcher::with_mode(&context, Mode::Live), &looks, tensors(&[&y])).unwrap();
}

fn slow(context: &Context) -> String {
    let y = place(context, &[64], &[2.0_f32; 64]);
    let launcher = Launcher::with_mode(context, Mode::Live);
    let endless = kernel("endless", |tl, args| {
        (0..100_000).for_each(|_| drop(tl.load(&args.tensor(0).local())));
    });
    let handle = launcher.launch(&context.stream(), &endless, &launch(tensors(&[&y]), 1)).unwrap();
    let error = handle.wait_within(Span::from_ps(5_000_000)).unwrap_err();
    let again = kernel("again", |tl, args| drop(tl.load(&args.tensor(0).local())));
    run(&launcher, &again, tensors(&[&y])).unwrap();
    error.to_string()
}

#[test]
fn a_deadline_says_who_waits_for_what() {
    let context = context("", true);
    let error = slow(&context);
    expect!["not done after 5000 ns: sip0.cube0.pe0.pe_cpu waits for load f32[64] at language.rs:LINE of endless"].assert_eq(&without_lines(&error));
    assert!(context.is_pristine());
}
