//! Requests with labels: their pools are looked up, and their bytes charged to their tags.
//!
//! A tag is a name that a program registers. Blocks carry its number, and the allocator counts their bytes. The bytes of
//! a request are *charged* to its tag before a place is searched, so that requests of several threads never exceed a
//! hard budget together. They are *counted* once the block is placed, until its owner frees it.

use super::budgets::{Budget, BudgetExceeded, TagError, TagReport, Tags};
use super::error::AllocateError;
use super::event::{Action, Event};
use super::{Allocation, FlexAllocator};
use crate::Bytes;
use crate::policy::{Request, TagId};

impl FlexAllocator {
    /// Returns the number of a tag, for [`Request::tag`]. A new name is registered.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}};
    /// # use cubeyard_memory::flex::{AllocateError, Budget};
    /// # use cubeyard_memory::policy::Request;
    /// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(16)))));
    /// let cache = allocator.tag("cache")?;
    /// allocator.set_budget(cache, Budget { hard: Some(Bytes::mib(100)), ..Budget::default() })?;
    /// let request = Request { tag: cache, ..Request::new(Bytes::mib(60)) };
    /// let first = allocator.allocate_for(&request)?;
    /// let Err(AllocateError::Budget(refusal)) = allocator.allocate_for(&request) else { panic!() };
    /// assert_eq!(refusal.excess(), Bytes::mib(20));
    /// drop(first);
    /// allocator.allocate_for(&request)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tag(&self, name: &str) -> Result<TagId, TagError> {
        self.shared.tags.register(name)
    }

    /// Sets the budget of a tag. Blocks that exceed it stay.
    pub fn set_budget(&self, tag: TagId, budget: Budget) -> Result<(), TagError> {
        self.shared.tags.set_budget(tag, budget).ok_or(TagError::Unknown(tag))
    }

    /// Returns the figures of a tag; `None` if the allocator has no such tag.
    pub fn tag_report(&self, tag: TagId) -> Option<TagReport> {
        self.shared.collect_posts();
        self.shared.tags.report(tag)
    }

    /// Returns the figures of all tags, in the order of their registration.
    pub fn tags(&self) -> Vec<TagReport> {
        self.shared.collect_posts();
        self.shared.tags.reports()
    }

    /// Allocates for a request with a pool or a tag, or in an allocator whose streams have pools.
    #[cold]
    pub(super) fn find_labelled(&self, request: &Request) -> Result<Allocation, AllocateError> {
        Self::check(request)?;
        let request = Request { pool: self.pool_for(request)?, ..*request };
        if request.tag == TagId::NONE {
            return self.find_room(&request);
        }
        let charge = self.charge(&request)?;
        let allocation = self.find_room(&request)?;
        if let Some(crossed) = charge.count() {
            self.report_crossing(&request, crossed);
        }
        Ok(allocation)
    }

    /// Charges a request to its tag. If the hard budget refuses it, blocks that wait in the mailboxes of threads are
    /// freed, then the callbacks are called.
    fn charge(&self, request: &Request) -> Result<Charge<'_>, AllocateError> {
        let (tags, bytes) = (&self.shared.tags, self.rounded(request));
        let charge = || tags.charge(request, bytes);
        let unknown = AllocateError::UnknownTag(request.tag);
        let mut outcome = charge().ok_or(unknown.clone())?;
        if outcome.is_err() {
            self.shared.collect_posts();
            outcome = charge().ok_or(unknown.clone())?;
        }
        if let Err(exceeded) = &outcome
            && self.call_for_budget(request, exceeded)
        {
            self.shared.collect_posts();
            outcome = charge().ok_or(unknown)?;
        }
        match outcome {
            Ok(()) => Ok(Charge { tags, tag: request.tag, bytes, done: false }),
            Err(exceeded) => Err(AllocateError::Budget(Box::new(exceeded))),
        }
    }

    /// Notifies subscribers and callbacks that a soft budget was exceeded.
    fn report_crossing(&self, request: &Request, crossed: BudgetExceeded) {
        self.shared.journal.tick();
        let event = Event::new(Action::BudgetExceeded, crossed.needed(), request.stream);
        let Request { pool, tag, site, size: requested, .. } = *request;
        self.shared.journal.record(Event { requested, site, pool, tag, ..event });
        let crossed = BudgetExceeded { requested, ..crossed };
        self.call_for_budget(request, &crossed);
    }

    /// Calls the callbacks because of a budget, and returns whether there were any. None are called inside a call to the
    /// device or the streams.
    fn call_for_budget(&self, request: &Request, exceeded: &BudgetExceeded) -> bool {
        let report = || self.shortage(request, Some(exceeded.clone()));
        !self.is_calling_out() && self.shared.callbacks.call(report)
    }
}

/// Bytes charged to a tag, until the block is placed or the request has failed.
struct Charge<'a> {
    tags: &'a Tags,
    tag: TagId,
    bytes: Bytes,
    done: bool,
}

impl Charge<'_> {
    /// Counts the placed block. Returns the soft budget if it was crossed.
    fn count(mut self) -> Option<BudgetExceeded> {
        self.done = true;
        self.tags.count(self.tag, self.bytes)
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.tags.discharge(self.tag, self.bytes);
        }
    }
}
