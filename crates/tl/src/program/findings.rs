//! Defects of kernels that nevertheless ran to completion.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use cubeyard_device::request::PeRef;

/// A defect of a kernel that ran to completion, such as a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the kernel.
    pub kernel: String,
    /// The PE that ran the kernel.
    pub pe: PeRef,
    /// File name and line.
    pub place: String,
    /// Description of the defect.
    pub what: String,
}

impl Finding {
    /// Returns whether another finding has the same kernel, line and kind, since many PEs do the same. Conflicts with
    /// the host and conflicts with a kernel are different kinds.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let begin = |what: &str| what.split(" bytes ").next().map(str::to_owned);
        let meets_host = |what: &str| what.contains(", which the host ");
        (&self.kernel, &self.place) == (&other.kernel, &other.place)
            && begin(&self.what) == begin(&other.what)
            && meets_host(&self.what) == meets_host(&other.what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, {}: {}", self.kernel, self.pe, self.place, self.what)
    }
}

/// A shared list of findings.
pub type Findings = Rc<RefCell<Vec<Finding>>>;
