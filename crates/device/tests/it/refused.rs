//! Refused requests change nothing.

use cubeyard_device::message::Direction::Read;
use cubeyard_device::request::{PeGrid, Request, RequestError};
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_sim::{Stop, Time};

use crate::bench::{default_machine, dma, shard};

#[test]
fn what_is_refused_says_why_and_leaves_the_machine_as_it_was() {
    let mut machine = default_machine();
    let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
    let (sip, cube) = (SipId::new(1).unwrap(), CubeId::new(2).unwrap());
    let tcm = PhysAddr::pe_tcm(sip, cube, PeId::new(0).unwrap(), Bytes::ZERO).unwrap();
    let far = PhysAddr::cube_hbm(sip, cube, Bytes::gib(48)).unwrap();
    let end = PhysAddr::cube_hbm(sip, cube, Bytes::gib(48) - Bytes::new(64)).unwrap();
    let edge = PhysAddr::cube_hbm(sip, cube, Bytes::gib(6) - Bytes::new(64)).unwrap();
    let other_sip = PhysAddr::cube_hbm(SipId::new(5).unwrap(), cube, Bytes::ZERO).unwrap();
    let read = |address, bytes| Request::PeDma { from: pe, direction: Read, address, bytes };
    let mut wrong_tag = shard(&machine, "sip0.cube0.pe1", 64);
    wrong_tag.at.pe = PeId::new(2).unwrap();
    let cases = [
        (
            read(far, 64),
            "sip1.cube2.hbm+0xc00000000 is outside the HBM, which is 51539607552 bytes long",
        ),
        (
            read(end, 65),
            "65 bytes from sip1.cube2.hbm+0xbffffffc0 end outside of the memory: sip1.cube2.hbm+0xc00000000 is outside the HBM, which is 51539607552 bytes long",
        ),
        (
            read(edge, 65),
            "65 bytes from sip1.cube2.hbm+0x17fffffc0 begin in sip1.cube2.hbm_ctrl.pe0 and end in sip1.cube2.hbm_ctrl.pe1: expected one memory",
        ),
        (
            read(tcm, 64),
            "sip1.cube2.pe0.tcm+0x0 is in sip1.cube2.pe0.pe_dma: expected an address in HBM or SRAM",
        ),
        (read(other_sip, 64), "sip5.cube2.hbm+0x0 is outside the machine, which has 2 SIPs"),
        (read(edge, 0), "a request of 0 bytes: expected 1 byte to 1 TiB"),
        (
            Request::MemoryRead(wrong_tag),
            "sip0.cube0.hbm+0x180000000 belongs to sip0.cube0.hbm_ctrl.pe1, but the request names sip0.cube0.pe2",
        ),
    ];
    for (request, expected) in cases {
        let error = machine.submit(request.clone()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{request:?}");
    }
    assert_eq!(machine.run(), Stop::Idle);
    assert_eq!((machine.now(), machine.view().envelopes().len()), (Time::ZERO, 0));
    // The machine still works.
    let read = dma(&machine, "sip0.cube0.pe0", "sip0.cube0.pe0", Read, 256);
    let id = machine.submit(read).unwrap();
    machine.run();
    assert!(machine.completion(id).is_some());
}

#[test]
fn a_launch_needs_cubes_and_pes_that_are_there_each_once() {
    let mut machine = default_machine();
    let (sip, zero) = (SipId::new(0).unwrap(), CubeId::new(0).unwrap());
    let pe = |pe| PeId::new(pe).unwrap();
    let mut launch = |cubes: &[CubeId], pes: &[PeId]| {
        let on = PeGrid { sip, cubes: cubes.to_vec(), pes: pes.to_vec() };
        let work = cubeyard_sim::Span::ZERO;
        machine.submit(Request::KernelLaunch { kernel: "k".into(), on, work })
    };
    assert_eq!(launch(&[], &[pe(0)]), Err(RequestError::Targets { what: "cubes" }));
    assert_eq!(launch(&[zero], &[]), Err(RequestError::Targets { what: "PEs" }));
    assert_eq!(launch(&[zero], &[pe(0), pe(0)]), Err(RequestError::Targets { what: "PEs" }));
    let error = launch(&[zero], &[pe(8)]).unwrap_err();
    assert_eq!(error.to_string(), "the machine has no sip0.cube0.pe8");
}
