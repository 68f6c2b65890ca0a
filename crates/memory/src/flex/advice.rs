//! The text of a report on a request that found no room.

use std::fmt::Write as _;

use super::error::{OutOfMemory, RegionLimit, Shortage};
use super::still::MAX_BLOCKS;

impl OutOfMemory {
    /// Returns the cause, and the [`remedies`](Self::remedies) under which the request fits, one a line.
    pub fn advice(&self) -> String {
        if let Some(budget) = &self.budget {
            return budget.to_string();
        }
        let mut text = self.diagnosis();
        if self.rounded > self.device_total {
            text += "; ask for less, or use a device with more";
            return text;
        }
        let Some(tried) = self.tried() else { return text + &self.untried() };
        let (count, fitting) = (tried.count, tried.remedies.len());
        let line = match fitting {
            0 => format!(
                "\nit fits under none of the {count} remedies tried on a copy{}",
                self.missing()
            ),
            _ => format!("\nit fits under {fitting} of the {count} remedies tried on a copy:"),
        };
        text += &line;
        for remedy in &tried.remedies {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {remedy}");
        }
        if let Some(why) = tried.unjudged {
            let _ = write!(text, "\nother strategies were not tried: {why}");
        }
        text
    }

    /// Names the bytes that the allocator and the device together lack, if they do.
    fn missing(&self) -> String {
        let there = self.free.checked_add(self.device_free).unwrap_or(self.rounded);
        let missing = self.rounded.saturating_sub(there);
        let named = format!("; {missing} more must be free");
        if missing.is_zero() { String::new() } else { named }
    }

    fn untried(&self) -> String {
        let blocks: usize = self.regions.iter().map(|region| region.blocks).sum();
        let many = blocks > MAX_BLOCKS;
        let why = || format!("\nno remedy was tried: that is done for up to {MAX_BLOCKS} blocks");
        many.then(why).unwrap_or_default()
    }

    fn diagnosis(&self) -> String {
        let limit = || self.binding_limit().map_or(String::new(), |limit| format!("; {limit}"));
        let limit = self.binding_pool().unwrap_or_else(limit);
        let Self { free, largest, pending, rounded, .. } = self;
        match self.shortage {
            Shortage::TooLarge if self.longest_block.is_zero() => format!(
                "no region can be acquired: the device has {}, less than any of the fallback sizes",
                self.device_total
            ),
            Shortage::TooLarge => format!(
                "no region can ever hold it: the longest block is {}, and the device has {} in all",
                self.longest_block, self.device_total
            ),
            Shortage::Fragmented => format!(
                "memory is fragmented: {free} are free in all, but the longest range is {largest}, \
                 {} less than needed{limit}",
                rounded.saturating_sub(*largest)
            ),
            Shortage::Full => {
                let waiting = (!pending.is_zero())
                    .then(|| format!(", and {pending} wait for streams to finish"));
                format!(
                    "memory is full{}{limit}; free at least {}",
                    waiting.unwrap_or_default(),
                    rounded.saturating_sub(*free)
                )
            }
        }
    }

    /// Names the limit of the request's pool if it leaves no room for the request.
    fn binding_pool(&self) -> Option<String> {
        let pool = self.pool.as_ref()?;
        let (limit, reserved) = (pool.limit?, pool.reserved);
        let named =
            || format!("; pool `{}` may reserve {limit}, and has reserved {reserved}", pool.name);
        (limit.saturating_sub(reserved) < self.rounded).then(named)
    }

    /// Returns the limit on the number of regions if it is the cause: the device has memory for another region that
    /// would hold the request.
    fn binding_limit(&self) -> Option<RegionLimit> {
        let counted = !matches!(self.limit, RegionLimit::Open | RegionLimit::Device);
        (counted && self.device_free >= self.rounded).then_some(self.limit)
    }
}
