//! Labels of a request that only the allocator interprets: its pool and its tag. No strategy reads them.

use std::fmt;

/// Number of a pool of an allocator. It means nothing to another allocator. Numbers are not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(u32);

impl PoolId {
    /// Pool of the allocator itself.
    pub const DEFAULT: Self = Self(0);

    /// Creates the number of a pool; 0 is the default pool. An allocator refuses a number that it has not given out.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number; 0 for the default pool.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}", self.0)
    }
}

/// Number of a tag of an allocator. It means nothing to another allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagId(u16);

impl TagId {
    /// No tag: the block counts for none.
    pub const NONE: Self = Self(0);

    /// Creates the number of a tag; 0 is no tag. An allocator refuses a number that it has not given out.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Returns the number; 0 for no tag.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for TagId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag {}", self.0)
    }
}
