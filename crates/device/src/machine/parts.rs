//! The network and the parts of a topology.

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Forwarding, LinkSpec, Network, NodeId, NodeSpec};

use crate::model::{ChannelsSpec, IoCpu, MCpu, Memory, Mmu, Part, PeCpu, PeDma, Requester};
use crate::pe::{Core, Shared};
use crate::topology::{Link, Node, NodeKind, Topology};

pub(super) fn network(topology: &Topology) -> Network {
    let node = |node: &Node| NodeSpec {
        overhead: node.overhead,
        forwarding: match node.kind {
            NodeKind::PcieEndpoint => Forwarding::StoreAndForward,
            _ => Forwarding::CutThrough,
        },
        is_serial: topology.spec().serial_nodes.includes(node.kind),
    };
    let link = |link: &Link| LinkSpec {
        from: link.from,
        to: link.to,
        bandwidth: link.bandwidth,
        propagation: link.propagation,
    };
    let nodes = topology.nodes().iter().map(node).collect();
    let links = topology.links().iter().map(link).collect();
    let flit = topology.spec().flit.get();
    let network = Network::new(flit, nodes, links);
    let network = network.expect("a topology numbers its links by destination");
    network.with_headers(topology.spec().flit_header.get())
}

/// Creates the built-in parts, except at nodes with a custom component.
pub(super) fn parts(
    shared: &Rc<Shared>,
    replaced: Vec<(NodeId, Part)>,
) -> impl Iterator<Item = (NodeId, Part)> {
    let mut replaced: BTreeMap<NodeId, Part> = replaced.into_iter().collect();
    let nodes = shared.wiring.topology().nodes().iter().enumerate();
    nodes.filter_map(move |(index, node)| {
        let id = NodeId::new(index);
        let part = replaced.remove(&id).or_else(|| part(shared, node))?;
        Some((id, part))
    })
}

fn part(shared: &Rc<Shared>, node: &Node) -> Option<Part> {
    let topology = shared.wiring.topology();
    let spec = topology.spec();
    let is_serial = spec.serial_nodes.includes(node.kind);
    let requester = if is_serial { Requester::serial } else { Requester::new }(node.overhead);
    let memory = |channels| Part::Memory(Memory::new(channels, spec.flit.get()));
    let part = match node.kind {
        NodeKind::Hbm => memory(ChannelsSpec {
            burst_bytes: spec.hbm.burst.get(),
            channels: spec.hbm.channels.into(),
            burst: spec.hbm.channel_bandwidth.span(spec.hbm.burst.get()),
            turn_around: spec.hbm.turn_around,
            rows: spec.hbm.rows,
        }),
        // An SRAM is as fast as its link, and serves one flit at a time.
        NodeKind::Sram => memory(ChannelsSpec {
            burst_bytes: spec.hbm.burst.get(),
            channels: 1,
            burst: spec.sram.link.bandwidth.span(spec.hbm.burst.get()),
            turn_around: cubeyard_sim::Span::ZERO,
            rows: None,
        }),
        NodeKind::PcieEndpoint => Part::Requester(requester),
        NodeKind::PeDma => {
            let pe = node.place.pe_ref()?;
            let beside = [topology.pe_cpu(pe), topology.hbm(pe)];
            Part::PeDma(PeDma::new(requester, beside, Mmu::new(spec.pe.mmu), Rc::clone(shared)))
        }
        NodeKind::IoCpu => Part::IoCpu(IoCpu::default()),
        NodeKind::MCpu => Part::MCpu(MCpu::new(requester)),
        NodeKind::PeCpu => {
            let dma = topology.pe_dma(node.place.pe_ref()?);
            Part::PeCpu(PeCpu::new(Core::new(dma, Rc::clone(shared))))
        }
        _ => return None,
    };
    Some(part)
}
