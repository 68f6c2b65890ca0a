//! Defects of kernels that run to completion are found, with their lines.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, Tensor};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::{Launcher, Mode};
use expect_test::{Expect, expect};

use crate::lab::{context, kernel, launch, one, place, run, sip, tensors};

fn writes(name: &str) -> Kernel {
    kernel(name, |tl, args| {
        tl.store(&args.tensor(0).whole(), &tl.full(&[64], 1.0, DType::F32));
    })
}

fn reads(name: &str) -> Kernel {
    kernel(name, |tl, args| drop(tl.load(&args.tensor(0).whole())))
}

/// Compares the findings of a launcher, which include the lines of the kernels above.
fn check(launcher: &Launcher, expected: &Expect) {
    let lines: Vec<_> = launcher.findings().iter().map(ToString::to_string).collect();
    expected.assert_eq(&lines.join("\n"));
}

fn shared(context: &Context) -> Tensor {
    place(context, &[64], &[0.5_f32; 64])
}

#[test]
fn two_pes_that_store_to_the_same_tile_race() {
    for mode in [Mode::Recorded, Mode::Live] {
        let context = context("", true);
        let x = shared(&context);
        let launcher = Launcher::with_mode(&context, mode);
        launcher.run(&writes("writes"), &launch(tensors(&[&x]), 2)).unwrap();
        check(
            &launcher,
            &expect![
                "writes on sip0.cube0.pe1, races.rs:14: store f32[64] writes bytes 0x0 to 0xff of sip0.cube0.hbm_ctrl.pe0, which writes on sip0.cube0.pe0, races.rs:14: store f32[64] writes, with no order between the two"
            ],
        );
    }
}

#[test]
fn a_pe_that_loads_what_another_stores_races() {
    let context = context("", true);
    let x = shared(&context);
    let launcher = Launcher::new(&context);
    let either = kernel("either", |tl, args| {
        let x = args.tensor(0).whole().at(0, &[16]);
        if tl.program_id(0) == 0 {
            tl.store(&x.at(8, &[8]), &tl.zeros(&[8], DType::F32));
        } else {
            tl.load(&x);
        }
    });
    launcher.run(&either, &launch(tensors(&[&x]), 2)).unwrap();
    check(
        &launcher,
        &expect![
            "either on sip0.cube0.pe0, races.rs:56: store f32[8] writes bytes 0x20 to 0x3f of sip0.cube0.hbm_ctrl.pe0, which either on sip0.cube0.pe1, races.rs:58: load f32[16] reads, with no order between the two"
        ],
    );
}

#[test]
fn memory_that_nobody_wrote_is_found() {
    let context = context("", true);
    let x = context.empty(&[64], DType::F32).unwrap().to(&one()).unwrap();
    let launcher = Launcher::new(&context);
    run(&launcher, &reads("reads"), tensors(&[&x])).unwrap();
    check(
        &launcher,
        &expect![
            "reads on sip0.cube0.pe0, races.rs:19: load f32[64] reads memory that nobody wrote, at 0x0"
        ],
    );
}

#[test]
fn what_is_outside_every_tensor_is_refused() {
    let context = context("", true);
    let x = shared(&context);
    let beyond = kernel("beyond", |tl, args| drop(tl.load(&args.tensor(0).whole().at(32, &[64]))));
    let error = run(&Launcher::new(&context), &beyond, tensors(&[&x])).unwrap_err();
    expect!["beyond on sip0.cube0.pe0, races.rs:88: read of 256 bytes from 0x8000000000080 on: 0x8000000000100 is outside every tensor"].assert_eq(&error.to_string());
}

/// A load was issued to another engine than the preceding store and ran first: the second round was lost.
#[test]
fn kernels_that_keep_to_their_own_have_no_race() {
    let context = context("", true);
    let rows =
        Placement { pe: Split::RowWise, cubes: Some(1), sips: vec![sip()], ..Placement::default() };
    let x = context.from_slice(&[64, 8], &[1.0_f32; 512]).unwrap().to(&rows).unwrap();
    let shared = shared(&context);
    let own = kernel("own", |tl, args| {
        // All PEs read the same data, and each writes its own part; twice, so that each reads what it wrote.
        let row = tl.reshape(&tl.load(&args.tensor(1).whole().at(0, &[8])), &[1, 8]);
        for _ in 0..2 {
            let x = args.tensor(0).local();
            tl.store(&x, &(&tl.load(&x) + &row));
        }
    });
    let launcher = Launcher::new(&context);
    launcher.run(&own, &launch(tensors(&[&x, &shared]), 8)).unwrap();
    assert_eq!(launcher.findings(), []);
    assert_eq!(x.read::<f32>().unwrap(), [2.0; 512]);
}

#[test]
fn launches_that_a_stream_an_event_or_the_host_orders_have_no_race() {
    let context = context("", true);
    let x = shared(&context);
    let launcher = Launcher::new(&context);
    let on = |stream: &_, kernel: &Kernel| {
        launcher.launch(stream, kernel, &launch(tensors(&[&x]), 1)).unwrap()
    };
    let (one, other) = (context.stream(), context.stream());
    on(&one, &writes("first"));
    on(&one, &reads("second"));
    other.wait(&one.record());
    let last = on(&other, &writes("third"));
    last.wait().unwrap();
    let fresh = context.stream();
    on(&fresh, &reads("fourth"));
    context.synchronize().unwrap();
    on(&context.stream(), &writes("fifth")).wait().unwrap();
    assert_eq!(launcher.findings(), []);
}

#[test]
fn launches_of_two_streams_race() {
    let context = context("", true);
    let x = shared(&context);
    let launcher = Launcher::new(&context);
    let on = |stream: &_, kernel: &Kernel| {
        launcher.launch(stream, kernel, &launch(tensors(&[&x]), 1)).unwrap()
    };
    on(&context.stream(), &writes("one"));
    on(&context.stream(), &reads("other"));
    context.synchronize().unwrap();
    check(
        &launcher,
        &expect![
            "other on sip0.cube0.pe0, races.rs:19: load f32[64] reads bytes 0x0 to 0xff of sip0.cube0.hbm_ctrl.pe0, which one on sip0.cube0.pe0, races.rs:14: store f32[64] writes, with no order between the two"
        ],
    );
}

#[test]
fn a_kernel_reads_what_it_has_written() {
    let context = context("", true);
    let (x, y) = (shared(&context), shared(&context));
    let through = kernel("through", |tl, args| {
        let (x, y) = (args.tensor(0).whole(), args.tensor(1).whole());
        // The tiles are kept, so that no TCM range is reused, which would also order the commands.
        let (seven, nine) = (tl.full(&[64], 7.0, DType::F32), tl.full(&[64], 9.0, DType::F32));
        tl.store(&x, &seven);
        let loaded = tl.load(&x);
        tl.store(&x, &nine);
        tl.store(&y, &loaded);
    });
    let launcher = Launcher::new(&context);
    run(&launcher, &through, tensors(&[&x, &y])).unwrap();
    assert_eq!(launcher.findings(), []);
    assert_eq!(x.read::<f32>().unwrap(), [9.0; 64]);
    assert_eq!(y.read::<f32>().unwrap(), [7.0; 64]);
}

#[test]
fn what_the_host_reads_and_writes_while_a_launch_is_under_way_is_found() {
    let context = context("", true);
    let x = shared(&context);
    let launcher = Launcher::new(&context);
    let start = |kernel: &Kernel| {
        launcher.launch(&context.stream(), kernel, &launch(tensors(&[&x]), 1)).unwrap()
    };
    let under_way = start(&writes("one"));
    x.rows(0..4).unwrap().write(&[2.0_f32; 4]).unwrap();
    under_way.wait().unwrap();
    // Ordered: the host has seen the end of the launch.
    x.rows(0..4).unwrap().write(&[2.0_f32; 4]).unwrap();
    let under_way = start(&reads("other"));
    x.rows(8..9).unwrap().write(&[2.0_f32]).unwrap();
    drop(x.read::<f32>().unwrap());
    under_way.wait().unwrap();
    check(
        &launcher,
        &expect![[r#"
            one on sip0.cube0.pe0, races.rs:14: store f32[64] writes bytes 0x0 to 0xf of sip0.cube0.hbm_ctrl.pe0, which the host writes, with no order between the two
            other on sip0.cube0.pe0, races.rs:19: load f32[64] reads bytes 0x20 to 0x23 of sip0.cube0.hbm_ctrl.pe0, which the host writes, with no order between the two"#]],
    );
}
