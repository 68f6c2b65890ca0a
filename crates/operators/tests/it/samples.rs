//! Kernels of which a part is simulated, against the whole simulation.

use cubeyard_operators::{OperatorCost, OperatorMachine, RowWork, Vector};

use crate::lab::{NONE, ONE, dense, machine, small, turned};

fn both(run: impl Fn(&OperatorMachine) -> OperatorCost) -> [OperatorCost; 2] {
    [0, u64::MAX].map(|hops| {
        let machine = machine("sips: {count: 1}\ncubes: {w: 2, h: 2}\n");
        machine.simulate_up_to(hops);
        machine.simulate_all_steps(true);
        run(&machine)
    })
}

/// The steps of a kernel are alike: a few of them give the time of all within 2 %.
#[test]
fn a_few_steps_give_the_time_of_all() {
    let rows = RowWork { columns: 1024, vector: Vector { simple: 2, special: 1 }, reduces: 2 };
    let (x, y) = (dense(&[8 * 16 * 2048 * 60]), dense(&[8192, 1024]));
    let run = |machine: &OperatorMachine| {
        [
            machine.pointwise(&[x.clone(), x.clone()], &[x.clone()], ONE).unwrap(),
            machine.rows(&[y.clone()], &[y.clone()], rows).unwrap(),
            machine
                .product(&[dense(&[256, 8192]), dense(&[8192, 256])], &[dense(&[256, 256])], NONE)
                .unwrap(),
            machine
                .product(&[dense(&[1, 4096]), turned([4096, 4096])], &[dense(&[1, 4096])], NONE)
                .unwrap(),
        ]
    };
    let machine = small();
    machine.simulate_up_to(u64::MAX);
    let few = run(&machine);
    machine.simulate_all_steps(true);
    for (few, all) in few.iter().zip(&run(&machine)) {
        assert!(few.extrapolated && !all.extrapolated, "{few:?}");
        let ratio = few.ps as f64 / all.ps as f64;
        assert!((0.98..1.02).contains(&ratio), "{few:?} {all:?}");
    }
}

/// Times of one simulated PE with the load of the links are within a third of the whole simulation.
#[test]
fn the_load_of_links_is_near_the_whole_simulation() {
    type Case = (&'static str, fn(&OperatorMachine) -> OperatorCost);
    let cases: [Case; 3] = [
        ("transpose", |machine| {
            machine.pointwise(&[turned([512, 512])], &[dense(&[512, 512])], NONE).unwrap()
        }),
        ("product", |machine| {
            machine
                .product(&[dense(&[256, 512]), dense(&[512, 256])], &[dense(&[256, 256])], NONE)
                .unwrap()
        }),
        ("sum", |machine| {
            machine.reduce(&[dense(&[512, 2048])], &[dense(&[2048])], &[0], NONE).unwrap()
        }),
    ];
    for (name, run) in cases {
        let [sampled, whole] = both(run);
        assert!(sampled.extrapolated && !whole.extrapolated, "{name}");
        assert!((sampled.local_share - whole.local_share).abs() < 1e-12, "{name}");
        let ratio = sampled.ps as f64 / whole.ps as f64;
        assert!((0.67..1.5).contains(&ratio), "{name}: {} of {}", sampled.ps, whole.ps);
    }
}
