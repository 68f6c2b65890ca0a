//! Launches start all PEs at the same time.

use cubeyard_device::machine::Machine;
use cubeyard_device::message::Direction::Read;
use cubeyard_device::request::{Outcome, Request};
use cubeyard_memory::address::SipId;
use cubeyard_sim::{Span, Stop, Time};

use crate::bench::{KIB, default_machine, dma};

fn launch(machine: &Machine, work_ns: u64) -> Request {
    let on = machine.topology().grid(SipId::new(0).unwrap());
    Request::KernelLaunch { kernel: "nothing".into(), on, work: Span::from_ps(work_ns * 1000) }
}

/// The first model underestimated the time to far cubes by 63 to 113 ns, so their PEs were late.
#[test]
fn all_pes_start_at_the_instant_that_io_cpu_said() {
    let mut machine = default_machine();
    let id = machine.submit(launch(&machine, 100)).unwrap();
    assert_eq!(machine.run(), Stop::Idle);
    let completion = machine.completion(id).unwrap();
    let Outcome::Ran { started, pes } = completion.outcome else { panic!("{completion:?}") };
    assert_eq!(pes, 128);
    // The way there and the way back have the same nodes. Each charges what comes to it: on the way there
    // the endpoint charges at the start and PE_CPU (2 ns) at the end, on the way back only the endpoint.
    let way = started - completion.made;
    let back = completion.done - (started + Span::from_ps(100_000));
    assert_eq!(way, back + Span::from_ps(2000));
}

/// Traffic can delay a command. Then all PEs wait for it, and none starts before the others.
#[test]
fn traffic_delays_the_start_of_all_and_not_of_some() {
    let start = |machine: &mut Machine| {
        let id = machine.submit(launch(machine, 100)).unwrap();
        assert_eq!(machine.run(), Stop::Idle);
        let completion = machine.completion(id).unwrap();
        let Outcome::Ran { started, .. } = completion.outcome else { panic!("{completion:?}") };
        assert!(completion.done > started + Span::from_ps(100_000));
        started - completion.made
    };
    let alone = start(&mut default_machine());
    let mut machine = default_machine();
    // Data that goes east from cube 1, over the connection that the commands take as well.
    for pe in 0..8 {
        let to = format!("sip0.cube1.pe{pe}");
        let read = dma(&machine, &format!("sip0.cube3.pe{pe}"), &to, Read, 256 * KIB);
        machine.submit(read).unwrap();
    }
    machine.run_until(Time::from_ps(500_000));
    let among_others = start(&mut machine);
    assert!(among_others > alone, "{among_others} and {alone}");
}
