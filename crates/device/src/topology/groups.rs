//! Named groups of topology keys: keys of one resource, which are scaled together.
//!
//! A group is used like a key, with a factor as its value: `hbm.bandwidth=2x` doubles the bandwidth of the channels and
//! of the links that feed them. Values that are rates or counts are multiplied by the factor, and times are divided by
//! it, so that a factor above 1 always means a faster resource.

use cubeyard_yaml::{InputProblem, PlainValue, nearest};

use super::Topology;

/// Sign between groups that are scaled together, as in `hbm.bandwidth+pe.gemm=2x`.
const PLUS: char = '+';

/// Key with its scaled value.
pub type Scaled = (String, PlainValue);

/// Keys of one resource, which move together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyGroup {
    /// Name, which no topology key has.
    pub name: &'static str,
    /// The resource, as a noun phrase.
    pub resource: &'static str,
    /// Keys whose values are multiplied by the factor. A key of a mapping stands for all numbers in it.
    pub rates: &'static [&'static str],
    /// Keys whose values are divided by the factor.
    pub times: &'static [&'static str],
}

/// All groups; units of a PE first, then memories, links and latencies.
pub const GROUPS: [KeyGroup; 19] = [
    KeyGroup {
        name: "pe.gemm",
        resource: "the matrix unit (GEMM)",
        rates: &["pe.core.gemm.tflops"],
        times: &[],
    },
    KeyGroup {
        name: "pe.vector",
        resource: "the vector unit (MATH)",
        rates: &[
            "pe.core.math.simple_geps",
            "pe.core.math.special_geps",
            "pe.core.math.reduce_geps",
        ],
        times: &[],
    },
    KeyGroup {
        name: "pe.tcm",
        resource: "TCM read and TCM write",
        rates: &["pe.core.tcm_read_gbs", "pe.core.tcm_write_gbs"],
        times: &[],
    },
    KeyGroup {
        name: "pe.dma",
        resource: "the DMA engines of a PE",
        rates: &["pe.core.dma_read_engines", "pe.core.dma_write_engines"],
        times: &["pe.dma_overhead_ns"],
    },
    KeyGroup {
        name: "pe.dispatch",
        resource: "the dispatch of commands by PE_CPU",
        rates: &["pe.core.clock_ghz"],
        times: &["pe.core.scheduler_overhead_ns"],
    },
    KeyGroup {
        name: "pe.commands",
        resource: "the number of commands in flight",
        rates: &["pe.core.window"],
        times: &[],
    },
    KeyGroup {
        name: "pe.translation",
        resource: "the translation of addresses",
        rates: &[],
        times: &["pe.mmu.tlb_overhead_ns", "pe.mmu.tlb_miss_ns"],
    },
    KeyGroup {
        name: "hbm.bandwidth",
        resource: "the HBM channels and the links that feed them",
        rates: &["hbm.channel_bandwidth_gbs", "hbm.link.bandwidth_gbs", "pe.link.bandwidth_gbs"],
        times: &[],
    },
    KeyGroup {
        name: "hbm.latency",
        resource: "the delays of the HBM",
        rates: &[],
        times: &[
            "hbm.overhead_ns",
            "hbm.turn_around_ns",
            "hbm.rows.activate_ns",
            "hbm.rows.precharge_ns",
            "hbm.rows.refresh.takes_ns",
        ],
    },
    KeyGroup {
        name: "sram.bandwidth",
        resource: "the link of the SRAM",
        rates: &["sram.link.bandwidth_gbs"],
        times: &[],
    },
    KeyGroup {
        name: "mesh.bandwidth",
        resource: "the links between routers",
        rates: &["routers.link.bandwidth_gbs"],
        times: &[],
    },
    KeyGroup {
        name: "mesh.buffers",
        resource: "the buffers behind links",
        rates: &["buffers.flits"],
        times: &[],
    },
    KeyGroup {
        name: "ucie.bandwidth",
        resource: "the UCIe links between cubes, and to IO chiplets",
        rates: &[
            "ucie.router_link.bandwidth_gbs",
            "ucie.port_link.bandwidth_gbs",
            "ucie.phy.bandwidth_gbs",
            "io.connection_link.bandwidth_gbs",
            "io.port_link.bandwidth_gbs",
        ],
        times: &[],
    },
    KeyGroup {
        name: "pcie.bandwidth",
        resource: "the PCIe links between SIPs",
        rates: &["pcie.link.bandwidth_gbs", "io.endpoint_link.bandwidth_gbs"],
        times: &[],
    },
    KeyGroup {
        name: "mesh.latency",
        resource: "the latency of routers",
        rates: &[],
        times: &["routers.overhead_ns"],
    },
    KeyGroup {
        name: "ucie.latency",
        resource: "the latency of UCIe ports",
        rates: &[],
        times: &[
            "ucie.port_overhead_ns",
            "ucie.connection_overhead_ns",
            "io.port_overhead_ns",
            "io.connection_overhead_ns",
        ],
    },
    KeyGroup {
        name: "pcie.latency",
        resource: "the latency of PCIe endpoints, switch and IO chiplets",
        rates: &[],
        times: &["pcie.endpoint_overhead_ns", "switch.overhead_ns", "io.noc_overhead_ns"],
    },
    KeyGroup {
        name: "message.latency",
        resource: "all latencies on the way of a message",
        rates: &[],
        times: &[
            "ns_per_mm",
            "pe.dma_overhead_ns",
            "sram.overhead_ns",
            "routers.overhead_ns",
            "ucie.port_overhead_ns",
            "ucie.connection_overhead_ns",
            "io.port_overhead_ns",
            "io.connection_overhead_ns",
            "io.noc_overhead_ns",
            "pcie.endpoint_overhead_ns",
            "switch.overhead_ns",
        ],
    },
    KeyGroup {
        name: "launch.overhead",
        resource: "the host and the processors on the way of a launch",
        rates: &["io.cpu_link.bandwidth_gbs", "m_cpu.link.bandwidth_gbs"],
        times: &["host.launch_ns", "io.cpu_overhead_ns", "m_cpu.overhead_ns", "pe.cpu_overhead_ns"],
    },
];

impl KeyGroup {
    /// Returns the group with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        GROUPS.iter().find(|group| group.name == name)
    }

    /// Returns the keys of the group.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.rates.iter().chain(self.times).copied()
    }
}

impl Topology {
    /// Returns the keys of a group with the values of a resource that is `factor` times as fast. Keys of several groups,
    /// as in `hbm.bandwidth+pe.gemm`, occur once. Keys whose values do not change are left out: optional keys that the
    /// machine does not have, and delays of 0.
    ///
    /// ```
    /// use cubeyard_device::topology::Topology;
    ///
    /// let scaled = Topology::embedded().scaled("hbm.bandwidth", 2.0)?;
    /// let scaled: Vec<_> = scaled.iter().map(|(key, value)| format!("{key}={value}")).collect();
    /// let expected =
    ///     ["hbm.channel_bandwidth_gbs=64", "hbm.link.bandwidth_gbs=512", "pe.link.bandwidth_gbs=512"];
    /// assert_eq!(scaled, expected);
    /// # Ok::<(), cubeyard_yaml::InputProblem>(())
    /// ```
    pub fn scaled(&self, groups: &str, factor: f64) -> Result<Vec<Scaled>, InputProblem> {
        scaled(self.values(), groups, factor)
    }
}

/// Returns whether a key names a group, or several groups.
pub(super) fn is_group(key: &str) -> bool {
    key.contains(PLUS) || KeyGroup::find(key).is_some()
}

/// Returns the keys of groups with values that are scaled by a factor, given as in `2x`.
pub(super) fn expanded(
    values: &PlainValue,
    groups: &str,
    factor: &PlainValue,
) -> Result<Vec<Scaled>, InputProblem> {
    let found = match factor {
        PlainValue::Text(text) => text.clone(),
        other => other.to_string(),
    };
    let number = found.strip_suffix('x').map(PlainValue::of_text);
    match number {
        Some(PlainValue::Whole(factor)) if factor > 0 => scaled(values, groups, factor as f64),
        Some(PlainValue::Number(factor)) if factor > 0.0 => scaled(values, groups, factor),
        _ => Err(InputProblem::Value {
            expected: "a factor for all keys of the group, such as 2x".to_owned(),
            found,
        }),
    }
}

fn scaled(values: &PlainValue, groups: &str, factor: f64) -> Result<Vec<Scaled>, InputProblem> {
    let mut all: Vec<Scaled> = Vec::new();
    for name in groups.split(PLUS) {
        let group = KeyGroup::find(name).ok_or_else(|| unknown(name))?;
        for (keys, factor) in [(group.rates, factor), (group.times, 1.0 / factor)] {
            for key in keys {
                let value = key.split('.').try_fold(values, |value, name| value.get(name));
                value.into_iter().for_each(|value| scale(key, value, factor, &mut all));
            }
        }
    }
    Ok(all)
}

/// Adds the scaled value of a key, or the scaled values of a mapping. A value that is no number, or stays the same, is left
/// out.
fn scale(key: &str, value: &PlainValue, factor: f64, all: &mut Vec<Scaled>) {
    let number = match value {
        PlainValue::Map(entries) => {
            return entries
                .iter()
                .for_each(|(name, value)| scale(&format!("{key}.{name}"), value, factor, all));
        }
        PlainValue::Whole(number) => *number as f64,
        PlainValue::Number(number) => *number,
        _ => return,
    };
    let scaled = PlainValue::of_number(number * factor);
    if scaled != *value && all.iter().all(|(known, _)| known != key) {
        all.push((key.to_owned(), scaled));
    }
}

fn unknown(name: &str) -> InputProblem {
    let names = GROUPS.iter().map(|group| group.name);
    let nearest = nearest(name, names).unwrap_or_default().to_owned();
    InputProblem::UnknownKey { found: name.to_owned(), nearest }
}
