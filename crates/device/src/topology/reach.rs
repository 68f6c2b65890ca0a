//! Checks a topology for bandwidth that no traffic in one direction can reach.

use cubeyard_sim::Bandwidth;
use thiserror::Error;

use super::summary::times;
use super::{Spec, Topology};

/// Bandwidth that cannot be reached, because all traffic to it passes a slower part. The machine can still be
/// simulated; the slower part limits its bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreachable {
    /// The channels of a PE's HBM together are faster than the link to them.
    #[error(
        "hbm.channel_bandwidth_gbs: {channels} channels of {channel} are {all}, but hbm.link carries {link} each way: reads alone, or writes alone, reach {link}"
    )]
    Channels {
        /// Number of channels of a PE's HBM.
        channels: u32,
        /// Bandwidth of one channel.
        channel: Bandwidth,
        /// Bandwidth of all channels together.
        all: Bandwidth,
        /// Bandwidth of the link to the controller.
        link: Bandwidth,
    },
    /// The HBM of a PE is faster than the link to the PE's DMA engine.
    #[error(
        "hbm: {hbm} for each PE, but pe.link carries {link} each way: a PE reads, or writes, its own HBM at {link}"
    )]
    OwnHbm {
        /// Bandwidth of the HBM or of its link, whichever is slower.
        hbm: Bandwidth,
        /// Bandwidth of the link to the DMA engine.
        link: Bandwidth,
    },
    /// The link between a SIP and the switch is faster than the link behind its endpoint.
    #[error(
        "pcie.link.bandwidth_gbs: {pcie}, but io.endpoint_link carries {link} each way: transfers reach {link}"
    )]
    Pcie {
        /// Bandwidth of the link to the switch.
        pcie: Bandwidth,
        /// Bandwidth between the endpoint and the IO chiplet's network.
        link: Bandwidth,
    },
}

impl Topology {
    /// Returns the bandwidths of the file that no traffic can reach.
    pub fn unreachable(&self) -> Vec<Unreachable> {
        [channels, own_hbm, pcie].iter().filter_map(|check| check(self.spec())).collect()
    }
}

fn hbm_bandwidth(spec: &Spec) -> Bandwidth {
    times(spec.hbm.channel_bandwidth, spec.hbm.channels as usize)
}

fn channels(spec: &Spec) -> Option<Unreachable> {
    let (all, link) = (hbm_bandwidth(spec), spec.hbm.link.bandwidth);
    let (channels, channel) = (spec.hbm.channels, spec.hbm.channel_bandwidth);
    (all > link).then_some(Unreachable::Channels { channels, channel, all, link })
}

fn own_hbm(spec: &Spec) -> Option<Unreachable> {
    let hbm = hbm_bandwidth(spec).min(spec.hbm.link.bandwidth);
    let link = spec.pe.link.bandwidth;
    (hbm > link).then_some(Unreachable::OwnHbm { hbm, link })
}

fn pcie(spec: &Spec) -> Option<Unreachable> {
    let (pcie, link) = (spec.pcie.link.bandwidth, spec.io.endpoint_link.bandwidth);
    (pcie > link).then_some(Unreachable::Pcie { pcie, link })
}
