//! Times that follow from the rules of the machine by hand.

use cubeyard_operators::{RowWork, Vector};

use crate::lab::{NONE, ONE, dense, machine, product, small};

/// A copy reads and writes over the same channels: twice its bytes at 256 GB/s for each PE. What is left over is the first
/// load, before which nothing is stored, and the last store.
#[test]
fn a_copy_of_local_pages_takes_its_bytes_over_the_bandwidth() {
    let machine = small();
    for pages in [64, 128, 256] {
        let x = dense(&[8 * pages * 2048]);
        let cost = machine.pointwise(&[x.clone()], &[x], NONE).unwrap();
        let bytes = u64::try_from(2 * pages * 4096).unwrap();
        let least = bytes * 1000 / 256;
        assert_eq!(cost.bound_ps, least);
        assert!(cost.local_share > 0.999_999);
        let tail = cost.ps - least;
        assert!(tail < 300_000, "{pages} pages: {tail} ps more than {least}");
    }
}

/// One page of one PE: the load crosses a router twice (8 ns for the bursts, 16 for the flits, 2 for each crossing), and the
/// store the same way; then there are dispatches and the scheduler.
#[test]
fn a_page_takes_a_load_and_a_store() {
    let x = dense(&[2048]);
    let cost = small().pointwise(&[x.clone()], &[x], NONE).unwrap();
    assert!((48_000..75_000).contains(&cost.ps), "{} ps", cost.ps);
}

/// A product on one PE: 2·256³ operations at 8 TFLOP/s are 4,194 ns. Before it, factors of 128 KiB each are loaded at 256 GB/s
/// (1,024 ns). After it, a pass fetches the sum of 256 KiB at 512 GB/s to round it, and the result is stored (512 ns each).
#[test]
fn a_product_on_one_pe_takes_the_time_of_its_loads_its_engine_and_its_store() {
    let one = machine("sips: {count: 1}\ncubes: {w: 1, h: 1}\npe: {routers: [r0c0]}\n");
    let cost = product(&one, dense(&[256, 256]), dense(&[256, 256]), [256, 256]).unwrap();
    assert_eq!((cost.flops, cost.bound_ps), (2 << 24, 4_194_304));
    assert!(cost.local_share > 0.999_999);
    let serial = 4_194_304 + 1_024_000 + 512_000 + 512_000;
    assert!((serial * 9 / 10..serial + 100_000).contains(&cost.ps), "{} ps of {serial}", cost.ps);
}

#[test]
fn special_functions_take_four_times_as_long_as_simple_ones() {
    let (machine, x) = (small(), dense(&[1 << 20]));
    let time = |vector| machine.pointwise(&[x.clone()], &[x.clone()], vector).unwrap();
    let simple = time(Vector { simple: 64, special: 0 });
    let special = time(Vector { simple: 0, special: 16 });
    assert_eq!(simple.bound_ps, special.bound_ps);
    let ratio = special.ps as f64 / simple.ps as f64;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn every_family_reaches_no_less_than_its_bound() {
    let machine = small();
    let x = dense(&[512, 1024]);
    let rows = RowWork { columns: 1024, vector: Vector { simple: 2, special: 1 }, reduces: 2 };
    let all = [
        machine.pointwise(&[x.clone(), x.clone()], &[x.clone()], ONE).unwrap(),
        machine.rows(&[x.clone()], &[x.clone()], rows).unwrap(),
        machine.reduce(&[x.clone()], &[dense(&[512])], &[1], NONE).unwrap(),
        machine.reduce(&[x.clone()], &[dense(&[1024])], &[0], NONE).unwrap(),
        machine.reduce(&[x.clone()], &[dense(&[1])], &[], NONE).unwrap(),
        product(&machine, x.clone(), dense(&[1024, 256]), [512, 256]).unwrap(),
        product(&machine, dense(&[1, 1024]), dense(&[1024, 2048]), [1, 2048]).unwrap(),
    ];
    for cost in all {
        assert!(cost.bound_ps > 0 && cost.ps >= cost.bound_ps, "{cost:?}");
    }
}
