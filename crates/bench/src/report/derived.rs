//! Figures derived from the fields of a report.

use std::fmt;

use cubeyard_sim::Span;

use super::{AccessTime, Bound, Check, RunReport, SliceKind, Step, Traffic, UnitUse};
use cubeyard_units::text::{percent, span};

impl RunReport {
    /// Returns the tightest bound: the resource with the largest minimum time.
    pub fn bound(&self) -> Option<&Bound> {
        // The first of several equal bounds: `max_by_key` alone would return the last.
        self.bounds.iter().rev().max_by_key(|bound| bound.span)
    }

    /// Returns the tightest bound as a fraction of the kernel time: 1 is as fast as possible, 0 if no bound is
    /// known.
    pub fn share(&self) -> f64 {
        self.bound().and_then(|bound| self.of_kernel(bound.span)).unwrap_or(0.0)
    }

    /// Returns a span as a fraction of the kernel time, unless that is zero.
    pub fn of_kernel(&self, span: Span) -> Option<f64> {
        (self.kernel != Span::ZERO).then(|| span.ps() as f64 / self.kernel.ps() as f64)
    }

    /// Returns the bytes per second moved by DMA over the kernel time.
    pub fn achieved_bandwidth(&self) -> f64 {
        self.per_second(self.traffic.total() as f64)
    }

    /// Returns the FLOP/s over the kernel time.
    pub fn achieved_rate(&self) -> f64 {
        self.per_second(self.flop as f64)
    }

    /// Returns the FLOP per byte moved by DMA, unless none was moved.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.traffic.total();
        (bytes > 0).then(|| self.flop as f64 / bytes as f64)
    }

    /// Returns the FLOP per byte above which engines rather than memories are the limit, if both peaks are
    /// known.
    pub fn ridge(&self) -> Option<f64> {
        let ridge = self.peak_rate / self.peak_bandwidth;
        (ridge.is_finite() && ridge > 0.0).then_some(ridge)
    }

    /// Returns the unit with the highest mean utilisation.
    pub fn busiest_unit(&self) -> Option<&UnitUse> {
        let known = self.units.iter().rev().filter(|unit| unit.mean.is_finite());
        known.max_by(|left, right| left.mean.total_cmp(&right.mean))
    }

    /// Describes the limiting factor in plain words.
    pub fn verdict(&self) -> String {
        let limit =
            (!self.limited_by.is_empty()).then(|| format!("Limited by {}.", self.limited_by));
        let clauses: Vec<_> = self.bound_clause().into_iter().chain(self.unit_clause()).collect();
        let rest = (!clauses.is_empty()).then(|| format!("{}.", clauses.join("; ")));
        limit.into_iter().chain(rest).collect::<Vec<_>>().join(" ")
    }

    fn bound_clause(&self) -> Option<String> {
        let bound = self.bound()?;
        let (least, share) = (span(bound.span), percent(self.of_kernel(bound.span)?));
        let kernel = span(self.kernel);
        Some(format!("Alone, {} would need {least} of the {kernel} ({share})", bound.resource))
    }

    fn unit_clause(&self) -> Option<String> {
        let UnitUse { unit, mean, .. } = self.busiest_unit()?;
        Some(format!("{unit}, the busiest unit, works {} of the time", percent(*mean)))
    }

    fn per_second(&self, amount: f64) -> f64 {
        let seconds = self.kernel.ps() as f64 / 1e12;
        if seconds > 0.0 { amount / seconds } else { 0.0 }
    }
}

impl Traffic {
    /// Returns the bytes moved in both directions.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

impl Step {
    /// Returns the reason for the step's start time, and the composition of an access.
    pub fn remark(&self) -> String {
        match &self.access {
            Some(access) => format!("{}; {access}", self.why),
            None => self.why.clone(),
        }
    }

    /// Returns the duration of the step.
    pub fn span(&self) -> Span {
        self.end.saturating_sub(self.start)
    }
}

/// Formats e.g. `4 ns overhead, 129 ns serialisation, 8 ns memory, 12 ns behind others`.
impl fmt::Display for AccessTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [overhead, serialisation, service] =
            [self.overhead, self.serialisation, self.service].map(span);
        write!(f, "{overhead} overhead, {serialisation} serialisation, {service} memory")?;
        if self.rows > Span::ZERO {
            write!(f, ", {} for rows apart", span(self.rows))?;
        }
        if self.waiting > Span::ZERO {
            write!(f, ", {} behind others", span(self.waiting))?;
        }
        Ok(())
    }
}

impl Check {
    /// Returns whether no error exceeds the tolerance.
    pub fn passed(&self) -> bool {
        self.worst <= self.tolerance
    }
}

impl SliceKind {
    /// All kinds, in the order of legends.
    pub const ALL: [Self; 9] = [
        Self::DmaRead,
        Self::DmaWrite,
        Self::Fetch,
        Self::Gemm,
        Self::Math,
        Self::Store,
        Self::Message,
        Self::Cpu,
        Self::Wait,
    ];

    /// Returns the colour of the kind in pictures with a light background; pages lighten some of them in dark mode.
    pub fn colour(self) -> &'static str {
        match self {
            Self::DmaRead => "#0072b2",
            Self::DmaWrite => "#56b4e9",
            Self::Fetch => "#009e73",
            Self::Gemm => "#d55e00",
            Self::Math => "#e69f00",
            Self::Store => "#f0e442",
            Self::Message => "#cc79a7",
            Self::Cpu => "#4b5563",
            Self::Wait => "#c9d1d9",
        }
    }

    /// Returns the kind with a display name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind of a unit or bound by the beginning of its name, as in `TCM read of MATH` and `GEMM f16`; `None` for
    /// other resources, and for two units that share one.
    pub fn of_unit(name: &str) -> Option<Self> {
        match name {
            "send" | "receive" => Some(Self::Message),
            "dispatch by PE_CPU" => Some(Self::Cpu),
            _ if name.contains(" and ") => None,
            _ => Self::ALL.into_iter().find(|kind| {
                name.strip_prefix(kind.name())
                    .is_some_and(|rest| matches!(rest.chars().next(), None | Some(' ')))
            }),
        }
    }

    /// Returns the display name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "PE_CPU",
            Self::DmaRead => "DMA read",
            Self::DmaWrite => "DMA write",
            Self::Fetch => "TCM read",
            Self::Gemm => "GEMM",
            Self::Math => "MATH",
            Self::Store => "TCM write",
            Self::Message => "message",
            Self::Wait => "wait",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> RunReport {
        let bound =
            |resource: &str, ps| Bound { resource: resource.to_owned(), span: Span::from_ps(ps) };
        RunReport {
            kernel: Span::from_ps(2_000_000),
            traffic: Traffic { read: 3000, written: 1000 },
            flop: 8000,
            bounds: vec![bound("A", 500_000), bound("B", 1_000_000), bound("C", 1_000_000)],
            peak_rate: 8e9,
            peak_bandwidth: 4e9,
            ..RunReport::default()
        }
    }

    #[test]
    fn figures_follow_from_those_given() {
        let report = report();
        assert_eq!(report.bound().unwrap().resource, "B");
        let exact = [
            (report.share(), 0.5),
            (report.achieved_bandwidth(), 2e9),
            (report.achieved_rate(), 4e9),
            (report.intensity().unwrap(), 2.0),
            (report.ridge().unwrap(), 2.0),
        ];
        assert!(exact.iter().all(|(found, expected)| (found / expected - 1.0).abs() < 1e-12));
    }

    #[test]
    fn an_empty_report_has_no_figures_and_says_nothing() {
        let report = RunReport::default();
        assert_eq!((report.bound(), report.intensity(), report.ridge()), (None, None, None));
        let figures = [report.share(), report.achieved_rate(), report.achieved_bandwidth()];
        assert!(figures.iter().all(|figure| *figure == 0.0));
        assert_eq!(report.verdict(), "");
    }

    #[test]
    fn the_verdict_names_limit_bound_and_busiest_unit() {
        let unit = |unit: &str, mean| UnitUse { unit: unit.to_owned(), mean, ..UnitUse::default() };
        let report = RunReport {
            limited_by: "DMA of B tiles".to_owned(),
            units: vec![unit("GEMM", 0.5), unit("DMA read", 0.937), unit("odd", f64::NAN)],
            ..report()
        };
        assert_eq!(
            report.verdict(),
            "Limited by DMA of B tiles. Alone, B would need 1 µs of the 2 µs (50 %); DMA read, the \
             busiest unit, works 93.7 % of the time."
        );
    }

    #[test]
    fn pages_and_pictures_have_the_same_colour_for_a_unit() {
        let style = include_str!("page.css");
        for kind in SliceKind::ALL {
            let variable = super::super::markup::class(kind).replace("k-", "--");
            assert!(style.contains(&format!("{variable}:{}", kind.colour())), "{}", kind.name());
            assert_eq!(SliceKind::named(kind.name()), Some(kind));
        }
    }

    #[test]
    fn a_unit_has_the_kind_with_which_its_name_begins() {
        for (name, kind) in [
            ("TCM read of MATH", Some(SliceKind::Fetch)),
            ("GEMM f16", Some(SliceKind::Gemm)),
            ("MATH", Some(SliceKind::Math)),
            ("receive", Some(SliceKind::Message)),
            ("dispatch by PE_CPU", Some(SliceKind::Cpu)),
            ("GEMM f16 and MATH", None),
            ("GEMMs", None),
            ("the HBM of a PE", None),
        ] {
            assert_eq!(SliceKind::of_unit(name), kind, "{name}");
        }
    }

    #[test]
    fn an_error_that_is_not_a_number_does_not_pass() {
        let check = |worst| Check { elements: 1, worst, tolerance: 0.5 };
        assert!(check(0.5).passed() && !check(0.6).passed() && !check(f64::NAN).passed());
    }
}
