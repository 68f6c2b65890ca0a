//! What is wrong with kernels that run to their ends.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use cubeyard_device::request::PeRef;

/// Something that is wrong with a kernel although it ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kernel.
    pub kernel: String,
    /// Where it ran.
    pub pe: PeRef,
    /// The file and line.
    pub place: String,
    /// What.
    pub what: String,
}

impl Finding {
    /// Whether another is of the same line of the same kernel and begins alike: many PEs do the same. What
    /// meets the host is not like what meets a kernel.
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

/// Where findings are put.
pub type Findings = Rc<RefCell<Vec<Finding>>>;
