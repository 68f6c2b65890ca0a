//! Designs: points of a grid with their time and cost, the Pareto front among them, and a verdict.
//!
//! A design is on the front if no other one is at least as fast and as cheap, and better in one of both. Its time is the
//! sum of the times of its record, and its cost the value of a [`Cost`] for its machine.
//!
//! ```
//! use cubeyard_study::designs::{Cost, Design, Designs};
//! use cubeyard_device::topology::Topology;
//!
//! let cost = Cost::parse("0.3*hbm.bandwidth + 2*sips.count")?;
//! assert_eq!(cost.of(&Topology::embedded())?, 0.3 + 2.0 * 2.0);
//!
//! let design = |name: &str, time_ns, cost| Design { name: name.into(), time_ns, cost: Some(cost) };
//! let designs = Designs::new([("a", 90.0, 1.0), ("b", 50.0, 2.0), ("c", 60.0, 3.0)].map(|(name, time, cost)| {
//!     Some(design(name, time, cost))
//! }));
//! assert_eq!(designs.front(), [true, true, false]);
//! assert_eq!(
//!     designs.verdict(),
//!     "b is fastest (50 ns, cost 2); a costs least (1, 90 ns). Of 3 designs, 2 are on the front."
//! );
//! # Ok::<(), cubeyard_study::designs::CostError>(())
//! ```

mod cost;
mod report;

pub use cost::{Cost, CostError, CostProblem};

/// Design that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Keys with their values, such as `hbm.bandwidth=2x sips.count=4`.
    pub name: String,
    /// Sum of its times, in nanoseconds.
    pub time_ns: f64,
    /// Cost, if an expression was given.
    pub cost: Option<f64>,
}

/// Designs of a grid in its order; `None` where a design could not be measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Designs {
    all: Vec<Option<Design>>,
    front: Vec<bool>,
}

impl Designs {
    /// Finds the front of some designs.
    pub fn new(all: impl IntoIterator<Item = Option<Design>>) -> Self {
        let all: Vec<Option<Design>> = all.into_iter().collect();
        let points: Vec<_> = all.iter().map(|it| it.as_ref().and_then(Design::point)).collect();
        let front = front(&points);
        Self { all, front }
    }

    /// Returns all designs, in the order of the grid.
    pub fn all(&self) -> &[Option<Design>] {
        &self.all
    }

    /// Returns for each design whether it is on the front. Designs without a cost are not.
    pub fn front(&self) -> &[bool] {
        &self.front
    }

    /// Returns the index of the fastest design; the cheapest of equally fast ones, and the first of equal ones.
    pub fn fastest(&self) -> Option<usize> {
        self.least(|it| [it.time_ns, it.cost.unwrap_or_default()])
    }

    /// Returns the index of the slowest design; the first of equal ones.
    pub fn slowest(&self) -> Option<usize> {
        self.least(|it| [-it.time_ns, 0.0])
    }

    /// Returns the index of the cheapest design; the fastest of equally cheap ones, and the first of equal ones.
    pub fn cheapest(&self) -> Option<usize> {
        self.least(|it| [it.cost.unwrap_or(f64::INFINITY), it.time_ns])
            .filter(|place| self.all[*place].as_ref().is_some_and(|it| it.cost.is_some()))
    }

    /// Returns the index of the knee: the design of the front with the smallest sum of its time and its cost, each as a
    /// share of their ranges on the front. `None` if no design lies below the straight line between the ends of the
    /// front.
    pub fn knee(&self) -> Option<usize> {
        let points = self.points_of_front();
        let range = |of: fn(&(usize, f64, f64)) -> f64| {
            let values = points.iter().map(of);
            let least = values.clone().fold(f64::INFINITY, f64::min);
            (least, values.fold(f64::NEG_INFINITY, f64::max) - least)
        };
        let (times, costs) = (range(|it| it.1), range(|it| it.2));
        let share = |value: f64, (least, length): (f64, f64)| (value - least) / length;
        let sum = |(place, time, cost): &(usize, f64, f64)| {
            (*place, share(*time, times) + share(*cost, costs))
        };
        // At the ends of the front the sum is 1; the margin keeps rounding from making an end the knee.
        let below = points.iter().map(sum).filter(|(_, sum)| *sum < 1.0 - 1e-9);
        below.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(place, _)| place)
    }

    /// Returns the indices, times and costs of the front, from the cheapest to the fastest.
    pub fn points_of_front(&self) -> Vec<(usize, f64, f64)> {
        let designs = self.all.iter().zip(&self.front).enumerate();
        let on_front = designs.filter(|(_, (_, is_on))| **is_on);
        let mut points: Vec<_> = on_front
            .filter_map(|(place, (design, _))| {
                let (time, cost) = design.as_ref()?.point()?;
                Some((place, time, cost))
            })
            .collect();
        points.sort_by(|one, other| one.2.total_cmp(&other.2).then(one.1.total_cmp(&other.1)));
        points
    }

    fn least(&self, by: impl Fn(&Design) -> [f64; 2]) -> Option<usize> {
        let known = self.all.iter().enumerate();
        let known = known.filter_map(|(place, design)| Some((place, by(design.as_ref()?))));
        let order = |one: &[f64; 2], other: &[f64; 2]| {
            one[0].total_cmp(&other[0]).then(one[1].total_cmp(&other[1]))
        };
        known.min_by(|(_, one), (_, other)| order(one, other)).map(|(place, _)| place)
    }
}

impl Design {
    /// Returns time and cost, if there is a cost.
    fn point(&self) -> Option<(f64, f64)> {
        Some((self.time_ns, self.cost?))
    }
}

/// Returns for each point whether no other point is better: at most as large in both coordinates, and smaller in one.
fn front(points: &[Option<(f64, f64)>]) -> Vec<bool> {
    let mut order: Vec<_> =
        points.iter().enumerate().filter_map(|(place, point)| Some((place, (*point)?))).collect();
    order.sort_by(|(_, one), (_, other)| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut is_on = vec![false; points.len()];
    let mut best: Option<(f64, f64)> = None;
    for (place, point) in order {
        is_on[place] = best.is_none_or(|best| point.1 < best.1 || point == best);
        if is_on[place] {
            best = Some(point);
        }
    }
    is_on
}

#[cfg(test)]
mod tests;
