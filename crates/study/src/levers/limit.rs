//! Limiting part of a workload, and the levers that belong to it.

use cubeyard_bench::compare::Measured;
use cubeyard_units::text::whole_percent;

/// Minimum share of the time at which a bound counts as the limit.
const REACHED: f64 = 0.9;

/// Groups of a unit whose accesses cross the machine.
const ACCESSES: &[&str] = &[
    "hbm.bandwidth",
    "hbm.latency",
    "sram.bandwidth",
    "mesh.bandwidth",
    "mesh.buffers",
    "mesh.latency",
    "ucie.bandwidth",
    "ucie.latency",
    "pcie.bandwidth",
    "pcie.latency",
    "message.latency",
    "pe.dma",
    "pe.commands",
    "pe.translation",
];

/// Groups of the links.
const LINKS: &[&str] = &["mesh.bandwidth", "ucie.bandwidth", "pcie.bandwidth", "hbm.bandwidth"];

/// Groups of each bound and of each part of a critical path, by a part of its name; the first match counts.
const GROUPS_OF: [(&str, &[&str]); 12] = [
    (" and MATH", &["pe.gemm", "pe.vector"]),
    ("TCM", &["pe.tcm"]),
    ("GEMM", &["pe.gemm"]),
    ("MATH", &["pe.vector"]),
    ("HBM", &["hbm.bandwidth"]),
    ("the link of a PE", &["hbm.bandwidth"]),
    ("links", LINKS),
    ("PE_CPU", &["pe.dispatch"]),
    ("DMA", ACCESSES),
    ("message", ACCESSES),
    ("launches", &["launch.overhead", "message.latency"]),
    ("wait", &["launch.overhead", "message.latency"]),
];

/// Limiting part of a workload: a bound that is almost reached, or the longest part of the critical path.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Text that follows "limited by".
    pub text: String,
    /// Share of the time.
    pub share: f64,
    /// Groups of topology keys that belong to it; empty if it is no resource of the machine.
    pub groups: &'static [&'static str],
}

impl Limit {
    /// Returns the limit of a measured time; `None` if neither bounds nor path are known.
    pub fn of(measured: &Measured) -> Option<Self> {
        let largest = |parts: &[(String, f64)]| {
            let (name, ns) =
                parts.iter().rev().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
            Some((name.clone(), ns / measured.time_ns, groups(name)?))
        };
        let is_unit = |(name, _): &&(String, f64)| groups(name).is_some();
        let bounds: Vec<_> = measured.bounds_ns.iter().filter(is_unit).cloned().collect();
        let bound = largest(&bounds).map(|bound| (bound, "of the time by its bound"));
        let path = largest(&measured.path_ns).map(|part| (part, "of the critical path"));
        let reached = bound.clone().filter(|((_, share, _), _)| *share >= REACHED);
        let ((name, share, groups), of) = reached.or(path).or(bound)?;
        let own = || format!("{name} ({} {of})", whole_percent(share));
        let text = measured.limited_by.clone().unwrap_or_else(own);
        Some(Self { text, share, groups })
    }

    /// Returns the text without remarks in parentheses and behind them, but with the percentage, as in `GEMM 60 %`.
    pub fn short(&self) -> String {
        let Some((name, rest)) = self.text.split_once(" (") else { return self.text.clone() };
        let share = rest.split_once('%').map(|(share, _)| share.trim());
        let share = share.map(|it| it.trim_start_matches(|next: char| !next.is_ascii_digit()));
        share.map_or_else(|| name.to_owned(), |share| format!("{name} {share} %"))
    }
}

/// Returns the groups of a bound or part of a path; `None` if it is no unit of the machine.
fn groups(name: &str) -> Option<&'static [&'static str]> {
    GROUPS_OF.iter().find(|(part, _)| name.contains(part)).map(|(_, groups)| *groups)
}

#[cfg(test)]
mod tests {
    use cubeyard_device::topology::KeyGroup;

    use super::*;

    fn measured(bounds: &[(&str, f64)], path: &[(&str, f64)]) -> Measured {
        let owned = |parts: &[(&str, f64)]| {
            parts.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect::<Vec<_>>()
        };
        let (bounds_ns, path_ns) = (owned(bounds), owned(path));
        Measured { time_ns: 100.0, bounds_ns, path_ns, ..Measured::default() }
    }

    fn limit(bounds: &[(&str, f64)], path: &[(&str, f64)]) -> Option<(String, &'static str)> {
        Limit::of(&measured(bounds, path)).map(|limit| (limit.text, limit.groups[0]))
    }

    #[test]
    fn a_bound_is_the_limit_only_if_it_is_almost_reached_or_no_unit_is_on_the_path() {
        let (bounds, path) = ([("the HBM of a PE", 90.0)], [("GEMM", 60.0), ("DMA read", 40.0)]);
        let named = |text: &str, group| Some((text.to_owned(), group));
        let hbm = "the HBM of a PE (90 % of the time by its bound)";
        assert_eq!(limit(&bounds, &path), named(hbm, "hbm.bandwidth"));
        let below = [("the HBM of a PE", 89.0)];
        assert_eq!(limit(&below, &path), named("GEMM (60 % of the critical path)", "pe.gemm"));
        let parts = [("attention", 70.0), ("launches", 30.0)];
        let hbm = "the HBM of a PE (89 % of the time by its bound)";
        assert_eq!(limit(&below, &parts), named(hbm, "hbm.bandwidth"));
        assert_eq!(limit(&[], &parts), None);
        let both = limit(&[("GEMM bf16 and MATH", 95.0), ("GEMM bf16", 90.0)], &[]);
        assert_eq!(both.unwrap().1, "pe.gemm");
    }

    #[test]
    fn the_short_text_keeps_the_name_and_the_share() {
        for (text, expected) in [
            ("GEMM (60 % of the critical path)", "GEMM 60 %"),
            ("DMA read (98 % of the path), above all of `load` (97 %)", "DMA read 98 %"),
            ("the HBM of a PE (in use 94 % of the time)", "the HBM of a PE 94 %"),
            ("messages", "messages"),
        ] {
            let limit = Limit { text: text.to_owned(), share: 0.5, groups: &[] };
            assert_eq!(limit.short(), expected);
        }
    }

    #[test]
    fn every_group_of_a_limit_exists() {
        let named = GROUPS_OF.iter().flat_map(|(_, groups)| *groups);
        assert!(named.clone().all(|name| KeyGroup::find(name).is_some()));
        assert!(named.count() > 20);
    }
}
