//! Failures of requests, found while the machine runs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cubeyard_sim::NodeId;

use crate::ids::RequestId;

/// Error of a request that was found while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) origin: NodeId,
    pub(crate) what: String,
}

#[derive(Debug, Default)]
pub(crate) struct Failures(RefCell<BTreeMap<RequestId, Failure>>);

impl Failures {
    /// Records a failure of a request, unless one is already recorded.
    pub(crate) fn note(&self, request: RequestId, origin: NodeId, what: String) {
        self.0.borrow_mut().entry(request).or_insert(Failure { origin, what });
    }

    /// Adds the place in the program to the failure of a request, if the failure was found here.
    pub(crate) fn locate(&self, request: RequestId, is_here: impl Fn(NodeId) -> bool, place: &str) {
        let mut failures = self.0.borrow_mut();
        if let Some(failure) = failures.get_mut(&request).filter(|it| is_here(it.origin)) {
            failure.what = format!("{place}: {}", failure.what);
        }
    }

    pub(crate) fn get(&self, request: RequestId) -> Option<Failure> {
        self.0.borrow().get(&request).cloned()
    }

    pub(crate) fn forget(&self, request: RequestId) {
        self.0.borrow_mut().remove(&request);
    }
}
