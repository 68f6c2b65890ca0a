//! Queue of waiting requests.

use std::collections::BTreeMap;

/// Waiting requests, in the order of admission: by priority, then by arrival. Requests at the front come before all of
/// their priority.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Requests by priority and place. Places of requests at the front are negative.
    requests: BTreeMap<(i32, i64), usize>,
    /// Lowest place that is in use, or 0.
    front: i64,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn first(&self) -> Option<usize> {
        self.requests.first_key_value().map(|(_, request)| *request)
    }

    pub(super) fn pop_first(&mut self) -> Option<usize> {
        self.requests.pop_first().map(|(_, request)| request)
    }

    /// Adds a request at its place by arrival: requests are numbered in the order of their arrival.
    pub(super) fn push(&mut self, request: usize, priority: i32) {
        let place = i64::try_from(request).unwrap_or(i64::MAX);
        self.requests.insert((priority, place), request);
    }

    /// Adds a request before all others.
    pub(super) fn push_front(&mut self, request: usize) {
        self.front -= 1;
        self.requests.insert((0, self.front), request);
    }
}
