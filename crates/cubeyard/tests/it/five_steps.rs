//! The walk of `docs/kernels.md` from a naive kernel to a fast one.

use cubeyard::machine::Span;
use expect_test::expect;

#[path = "../../examples/five_steps.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod example;

#[test]
fn the_walk_prints_what_the_page_shows() {
    let mut out = Vec::new();
    example::walk(&mut out).unwrap();
    expect![[r#"
        1. row by row: 82077.568 ns
           limited by TCM read (52 % of the critical path), above all for `fma f32[1, 1024]` at five_steps.rs:38 (15 %), `mul f32[1, 1024]` at five_steps.rs:36 (10 %)
        2. tiles of 32 rows: 40076.784 ns
           limited by TCM read (64 % of the critical path), above all for `mul f32[32, 1024]` at five_steps.rs:36 (20 %), `fma f32[32, 1024]` at five_steps.rs:38 (11 %), `mul f32[32, 1024]` at five_steps.rs:37 (10 %)
        3. chains: 27509.696 ns
           limited by MATH (97 % of the critical path), above all in `cast+sub+mul+sum+mul+add+rsqrt f32[32, 1]` at five_steps.rs:47 (37 %), `cast+sub+mul+fma+cast f16[32, 1024]` at five_steps.rs:48 (37 %), `cast+sum+mul f32[32, 1]` at five_steps.rs:44 (22 %)
        4. one pass: 21093.416 ns
           limited by MATH (97 % of the critical path) in `cast+sum+mul+sub+mul+sum+mul+add+rsqrt+mul+fma+cast f16[32, 1024]` at five_steps.rs:57
        5. two engines: 17267.842 ns
           limited by MATH (95 % of the critical path) in `cast+mul+sub+mul+sum+mul+add+rsqrt+mul+fma+cast f16[32, 1024]` at five_steps.rs:67
    "#]].assert_eq(&String::from_utf8(out).unwrap());
}

/// Each step is at most 6 % above the work of the vector unit in its chains, which is known beforehand: 2,048 ns for
/// each simple operation on all elements, twice that for a sum.
#[test]
fn each_step_of_the_walk_takes_what_its_passes_take() {
    let times: Vec<Span> =
        example::STEPS.iter().map(|step| example::measure(step).unwrap().kernel).collect();
    assert!(times.is_sorted_by(|before, after| before > after), "{times:?}");
    // Three passes of cast and sum; cast, difference, square and sum; and five operations. One pass of eight and two
    // sums, less one sum on two engines.
    for (time, units) in times[2..].iter().zip([3 + 5 + 5, 10, 8]) {
        let work = 2048 * units;
        let least = Span::from_ps(1000 * work);
        assert!(*time >= least && time.ps() < 1060 * work, "{time} of {least}");
    }
}
