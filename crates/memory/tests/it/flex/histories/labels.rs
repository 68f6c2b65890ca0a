//! Pools, tags, budgets and rest in a history.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Budget, TagId};
use cubeyard_memory::flex::{
    BudgetExceeded, FlexAllocator, Growth, PauseError, PoolId, PoolReport, PoolSpec, ResumeError,
};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{Pool, Quantity, Stats};

use super::block::Block;
use super::history::History;

/// A tag, with the sums of its blocks.
pub(super) struct Tag {
    pub(super) id: TagId,
    hard: Option<Bytes>,
    count: u64,
    bytes: u64,
}

/// Blocks to pause or resume.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Pool(PoolId),
    Tag(TagId),
}

impl Choice {
    fn has(self, block: &Block) -> bool {
        match self {
            Self::Pool(pool) => block.request.pool == pool,
            Self::Tag(tag) => block.request.tag == tag,
        }
    }
}

impl Tag {
    pub(super) fn new(allocator: &FlexAllocator, number: usize) -> Self {
        let id = allocator.tag(&format!("tag {number}")).unwrap();
        Self { id, hard: None, count: 0, bytes: 0 }
    }
}

impl History {
    /// Draws the pool and the tag of a request.
    pub(super) fn label(&mut self, request: Request) -> Request {
        let pool = self.random.usize(..=self.pools.len()).checked_sub(1);
        let tag = self.random.usize(..=self.tags.len()).checked_sub(1);
        let pool = pool.map_or(PoolId::DEFAULT, |pool| self.pools[pool].id());
        Request { pool, tag: tag.map_or(TagId::NONE, |tag| self.tags[tag].id), ..request }
    }

    /// Adds a block to the sums of its tag, or takes it from them. A hard budget holds.
    pub(super) fn charge(&mut self, block: &Block, add: bool) {
        self.charge_bytes(block.request.tag, (1, block.size), add);
    }

    pub(super) fn charge_bytes(&mut self, tag: TagId, (count, bytes): (u64, u64), add: bool) {
        let Some(tag) = self.tags.iter_mut().find(|known| known.id == tag) else { return };
        if add {
            (tag.count, tag.bytes) = (tag.count + count, tag.bytes + bytes);
            let within = tag.hard.is_none_or(|hard| tag.bytes <= hard.get());
            assert!(within, "{} has {} of {:?} bytes", tag.id, tag.bytes, tag.hard);
        } else {
            (tag.count, tag.bytes) = (tag.count - count, tag.bytes - bytes);
        }
    }

    /// Returns whether the hard budget of a tag refuses `more` bytes.
    pub(super) fn is_over_budget(&self, tag: TagId, more: u64) -> bool {
        let tag = self.tags.iter().find(|known| known.id == tag);
        tag.is_some_and(|tag| tag.hard.is_some_and(|hard| tag.bytes + more > hard.get()))
    }

    /// Checks that a budget refuses a request rightly.
    pub(super) fn over_budget(&mut self, request: &Request, exceeded: &BudgetExceeded) {
        self.seen.over_budget += 1;
        let tag = self.tags.iter().find(|tag| tag.id == request.tag).expect("it has a tag");
        assert_eq!((exceeded.allocated.get(), Some(exceeded.budget)), (tag.bytes, tag.hard));
        assert!(self.is_over_budget(request.tag, exceeded.rounded.get()), "{exceeded}");
    }

    pub(super) fn set_budget(&mut self) {
        if self.tags.is_empty() {
            return;
        }
        let index = self.random.usize(..self.tags.len());
        let most = self.setup.card.memory.get() / 2;
        let mut limit = || self.random.bool().then(|| Bytes::new(self.random.u64(..most)));
        let budget = Budget { soft: limit(), hard: limit() };
        self.note(format!("{} {budget:?}", self.tags[index].id), |history| {
            history.allocator.set_budget(history.tags[index].id, budget).unwrap();
            history.tags[index].hard = budget.hard;
        });
    }

    pub(super) fn trim_pool(&mut self) {
        if !self.pools.is_empty() {
            self.pools[self.random.usize(..self.pools.len())].trim();
        }
    }

    /// Drops the handle of a pool, whose blocks stay, and makes another pool.
    pub(super) fn replace_pool(&mut self) {
        if self.pools.is_empty() {
            return;
        }
        let index = self.random.usize(..self.pools.len());
        let limit = self.setup.pools[index];
        self.note(format!("replace {:?}", self.pools[index]), |history| {
            let spec = PoolSpec { limit, ..PoolSpec::new("another pool") };
            history.pools[index] = history.allocator.pool(spec);
        });
    }

    /// Pauses or resumes the blocks of a pool or tag.
    pub(super) fn rest(&mut self) {
        let paused = self.blocks.iter().find(|block| block.paused).map(|block| block.request);
        let resumes = paused.is_some() && self.random.u32(..3) > 0;
        let drawn = self.label(Request::new(Bytes::new(1)));
        // A closed pool cannot be named any more.
        let known = |request: &Request| {
            request.pool == PoolId::DEFAULT
                || self.pools.iter().any(|pool| pool.id() == request.pool)
        };
        let request = paused.filter(|request| resumes && known(request)).unwrap_or(drawn);
        let choice = match request.tag {
            TagId::NONE => Choice::Pool(request.pool),
            tag => Choice::Tag(tag),
        };
        if resumes {
            self.note(format!("resume {choice:?}"), |history| history.resume(choice));
        } else {
            self.note(format!("pause {choice:?}"), |history| history.pause(choice));
        }
    }

    fn pause(&mut self, choice: Choice) {
        let fixed = self.allocator.config().growth == Growth::Fixed;
        let chosen = |block: &Block| choice.has(block) && !block.paused;
        let held = self.blocks.iter().any(|block| chosen(block) && block.is_held());
        let refused = fixed || held;
        let mut paused = Vec::new();
        for index in 0..self.blocks.len() {
            if !refused && chosen(&self.blocks[index]) {
                self.rest_at(index);
                paused.push(index);
            }
        }
        let outcome = match choice {
            Choice::Pool(pool) => self.allocator.pause_pool(pool),
            Choice::Tag(tag) => self.allocator.pause_tag(tag),
        };
        match outcome {
            Ok(_) => assert!(!refused, "{choice:?}"),
            Err(PauseError::FixedRegions) => assert!(fixed),
            Err(PauseError::Pinned { .. }) => assert!(held),
            Err(error) => panic!("{choice:?}: {error}"),
        }
        let (mut ground, streams) = (self.device.ground(), self.device.streams.state());
        paused.iter().for_each(|&index| ground.rests(self.blocks[index].place, &streams));
        self.seen.paused += paused.len() as u64;
    }

    /// Enters into the ledger that a block is paused.
    fn rest_at(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        block.paused = true;
        // No stream may access it any more.
        block.shared = false;
        let (size, uses) = (block.size, std::mem::take(&mut block.uses));
        self.device.ground().pause(block.place, uses);
        self.paused += size;
        self.count_block(size, false);
    }

    fn resume(&mut self, choice: Choice) {
        let outcome = match choice {
            Choice::Pool(pool) => self.allocator.resume_pool(pool),
            Choice::Tag(tag) => self.allocator.resume_tag(tag),
        };
        match outcome {
            Ok(_) => {}
            Err(ResumeError::NoMemory { .. }) => return,
            Err(error) => panic!("{choice:?}: {error}"),
        }
        for index in 0..self.blocks.len() {
            let block = &mut self.blocks[index];
            if !choice.has(block) || !block.paused {
                continue;
            }
            block.paused = false;
            let (place, size, end) = (block.place, block.size, block.end());
            self.device.ground().resume(place);
            assert!(self.device.card().is_backed(place.0, place.1, end), "{place:?} has no memory");
            self.paused -= size;
            self.count_block(size, true);
            self.seen.resumed += 1;
        }
    }

    /// Compares the figures of pools and tags with the sums of the ledger.
    pub(super) fn check_labels(&self, stats: &Stats) {
        assert_eq!(stats.paused().get(), self.paused);
        let reports = self.allocator.pools();
        for report in &reports {
            let own = self.blocks.iter().filter(|block| block.request.pool == report.id);
            let (paused, own): (Vec<_>, Vec<_>) = own.partition(|block| block.paused);
            let sum = |blocks: &[&Block]| Bytes::new(blocks.iter().map(|block| block.size).sum());
            assert_eq!(
                (report.blocks, report.allocated),
                (own.len() as u64, sum(&own)),
                "{report}"
            );
            assert_eq!(report.paused, sum(&paused), "{report}");
            assert!(report.limit.is_none_or(|limit| report.reserved <= limit), "{report}");
        }
        let sum =
            |figure: fn(&PoolReport) -> Bytes| reports.iter().map(figure).sum::<Bytes>().get();
        let current = |quantity| stats.get(quantity, Pool::All).current;
        assert_eq!(sum(|pool| pool.reserved), current(Quantity::ReservedBytes));
        assert_eq!(sum(|pool| pool.active), current(Quantity::ActiveBytes));
        for tag in &self.tags {
            let report = self.allocator.tag_report(tag.id).expect("it was registered");
            assert_eq!(
                (report.blocks, report.allocated.get()),
                (tag.count, tag.bytes),
                "{report:?}"
            );
            assert!(report.peak >= report.allocated);
        }
    }
}
