//! Kernels written in another language: their lines, and errors that do not unwind.

use cubeyard_tl::ScriptLine;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

use crate::lab::{context, kernel, place, run, tensors};

fn line(line: u32) -> ScriptLine {
    ScriptLine { file: "folder/scale.py".to_owned(), line }
}

#[test]
fn commands_and_errors_name_the_line_that_was_set() {
    let context = context("", true);
    let x = place(&context, &[4], &[1.0_f32; 4]);
    let scripted = kernel("scale", |tl, args| {
        let [first, second] = [3, 4].map(|number| tl.new_line(line(number)));
        tl.set_line(first);
        let tile = tl.load(&args.tensor(0).local());
        tl.set_line(second);
        tl.store(&args.tensor(0).local(), &tile);
    });
    let launcher = Launcher::new(&context);
    run(&launcher, &scripted, tensors(&[&x])).unwrap();
    let tape = launcher.recordings()[0].tape().to_string();
    assert_eq!(
        tape,
        "     0  load f32[4] at scale.py:3\n     1  store f32[4] at scale.py:4  after [0]\n"
    );

    let fails = kernel("scale", |tl, args| {
        tl.set_line(tl.new_line(line(7)));
        let _ = tl.load(&args.tensor(0).local().block(&[4], &[4]));
    });
    let error = run(&launcher, &fails, tensors(&[&x])).unwrap_err().to_string();
    assert!(error.contains("scale on sip0.cube0.pe0, scale.py:7: read of 16 bytes"), "{error}");
}

#[test]
fn an_attempt_that_fails_returns_the_error_and_the_run_fails_with_it() {
    let context = context("", true);
    let goes_on = kernel("goes_on", |tl, _| {
        let error = tl.attempt(|| tl.program_id(2)).unwrap_err();
        assert!(error.contains("axis 2: expected 0"), "{error}");
        assert_eq!(tl.attempt(|| tl.program_id(0)), Ok(0));
        assert!(tl.note_failure(&"and once more").ends_with("and once more"));
    });
    let error = run(&Launcher::new(&context), &goes_on, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("axis 2: expected 0"), "{error}");
}

#[test]
fn a_live_kernel_reads_values_under_any_launcher() {
    let context = context("", true);
    let x = place(&context, &[2], &[3.0_f32, 4.0]);
    let looks = Kernel::new("looks", |tl, args| {
        Box::pin(async move {
            let tile = tl.load(&args.tensor(0).local());
            assert!(!tl.is_recorded());
            assert_eq!(tl.contents(&tile).await.values(), [3.0, 4.0]);
        })
    });
    let launcher = Launcher::new(&context);
    assert!(run(&launcher, &looks, tensors(&[&x])).is_err());
    run(&launcher, &looks.live(), tensors(&[&x])).unwrap();
}
