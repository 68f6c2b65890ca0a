//! Advice for a request that found no room.

use super::config::{Growth, MAX_REGIONS};
use super::error::{OutOfMemory, RegionLimit, Shortage};
use crate::Bytes;

impl OutOfMemory {
    /// Returns the cause and the remedies in one sentence. Remedies already in use or not supported by the device are
    /// left out.
    pub fn advice(&self) -> String {
        let remedies = match self.shortage {
            Shortage::TooLarge => self.for_larger_blocks(),
            Shortage::Fragmented => self.against_fragmentation(),
            Shortage::Full => self.for_more_memory(),
        };
        format!("{}; {}", self.diagnosis(), one_of(&remedies))
    }

    fn diagnosis(&self) -> String {
        let limit = self.binding_limit().map_or(String::new(), |limit| format!("; {limit}"));
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
                "memory is fragmented: {} are free in all, but the longest range is {}{limit}",
                self.free, self.largest
            ),
            Shortage::Full if !self.pending.is_zero() => {
                format!("memory is full, and {} wait for streams to finish{limit}", self.pending)
            }
            Shortage::Full => format!("memory is full{limit}"),
        }
    }

    /// Returns the limit on the number of regions if it is the cause: the device has memory for another region that
    /// would hold the request.
    fn binding_limit(&self) -> Option<RegionLimit> {
        let counted = !matches!(self.limit, RegionLimit::Open | RegionLimit::Device);
        (counted && self.device_free >= self.rounded).then_some(self.limit)
    }

    fn for_larger_blocks(&self) -> Vec<String> {
        if self.rounded > self.device_total {
            return vec!["ask for less, or use a device with more".to_owned()];
        }
        match self.growth {
            Growth::Fixed if self.longest_block.is_zero() => {
                [vec!["use smaller `fallback_sizes`".to_owned()], self.growable()].concat()
            }
            Growth::Fixed => {
                [vec!["use larger `fallback_sizes`".to_owned()], self.growable()].concat()
            }
            Growth::Growable(_) | Growth::Recycle(_) => {
                vec!["use a larger size in `growth`".to_owned()]
            }
        }
    }

    fn against_fragmentation(&self) -> Vec<String> {
        let policies = self.fragments_less.iter().map(|name| format!("use `block:{name}`"));
        let compact = self.movable.then(|| "move blocks together with compact()".to_owned());
        let mut remedies = vec!["free blocks that lie between free ranges".to_owned()];
        remedies.extend(compact);
        remedies.extend(policies);
        remedies.extend(self.growable());
        remedies.extend(self.trim());
        remedies.extend(self.more_regions());
        remedies
    }

    fn for_more_memory(&self) -> Vec<String> {
        let missing = self.rounded.saturating_sub(self.free);
        let mut remedies = vec![format!("free at least {missing}")];
        remedies.extend(self.trim());
        remedies.extend(self.more_regions());
        if self.binding_limit().is_none() {
            remedies.push("use a device with more".to_owned());
        }
        remedies
    }

    /// Suggests growable regions if they are not in use and the device supports them.
    fn growable(&self) -> Vec<String> {
        let could = self.growth == Growth::Fixed && self.granule.is_some();
        could.then(|| "use regions that grow (`growth:growable`)".to_owned()).into_iter().collect()
    }

    /// Suggests a trim if the device would then have enough memory for the request.
    fn trim(&self) -> Option<String> {
        let after = self.device_free.checked_add(self.idle).unwrap_or(Bytes::MAX);
        let helps = !self.idle.is_zero() && after >= self.rounded;
        helps.then(|| format!("call trim(), which gives back {} of idle regions", self.idle))
    }

    /// Suggests remedies for a limit on the number of regions.
    fn more_regions(&self) -> Vec<String> {
        let larger = match self.growth {
            Growth::Fixed => "use larger `fallback_sizes`",
            Growth::Growable(_) | Growth::Recycle(_) => "use a larger size in `growth`",
        };
        match self.binding_limit() {
            Some(RegionLimit::MaxRegions(count)) if count < MAX_REGIONS => {
                vec!["raise `max_regions`".to_owned(), larger.to_owned()]
            }
            Some(RegionLimit::MaxRegions(_) | RegionLimit::Table(_)) => vec![larger.to_owned()],
            Some(RegionLimit::Launches(_)) => {
                vec!["drop launches that the device is done with".to_owned(), larger.to_owned()]
            }
            Some(RegionLimit::Open | RegionLimit::Device) | None => Vec::new(),
        }
    }
}

/// Joins remedies as in `a, b, or c`.
fn one_of(remedies: &[String]) -> String {
    match remedies {
        [] => String::new(),
        [only] => only.clone(),
        [first, second] => format!("{first}, or {second}"),
        [most @ .., last] => format!("{}, or {last}", most.join(", ")),
    }
}
