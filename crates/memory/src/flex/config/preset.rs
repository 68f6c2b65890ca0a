//! Presets: configurations by name. A preset is one entry of [`PRESETS`].

use super::{Acquire, FlexConfig, Growth, Refusal, Release, Sizes};
use crate::Bytes;
use crate::policy;

/// A configuration that can be chosen by name.
#[derive(Debug)]
pub struct Preset {
    /// Name, the value of the key `preset`.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Creates the configuration.
    pub make: fn() -> FlexConfig,
}

/// All presets.
pub static PRESETS: [&Preset; 3] = [&RFC, &GROW, &CARD];

static RFC: Preset = Preset {
    name: "rfc",
    summary: "as published: regions of 12, 8 or 4 GiB, none once the device has refused",
    make: || FlexConfig { refusal: Refusal::Lock, ..FlexConfig::default() },
};

static GROW: Preset = Preset {
    name: "grow",
    summary: "virtual memory: regions of addresses, to which memory is committed in the device's granules",
    make: || FlexConfig {
        growth: Growth::Growable(Bytes::gib(1024)),
        sizes: Sizes::Fitted,
        release: Release::WhenIdle(Bytes::gib(1)),
        block: &policy::BEST_FIT,
        ..FlexConfig::default()
    },
};

static CARD: Preset = Preset {
    name: "card",
    summary: "all of the device's free memory as one region, when the allocator is built",
    make: || FlexConfig {
        acquire: Acquire::Eager(1),
        sizes: Sizes::All,
        block: &policy::BEST_FIT,
        ..FlexConfig::default()
    },
};

/// Returns the preset of a name.
pub(super) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.into_iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Card, CardSpec, DeviceMemory};
    use crate::flex::FlexAllocator;
    use crate::sync::Arc;

    fn card(memory: Bytes) -> Arc<Card> {
        Arc::new(Card::new(CardSpec::physical(memory)))
    }

    fn built(name: &str, card: &Arc<Card>) -> FlexAllocator {
        let builder = FlexAllocator::builder(Arc::clone(card) as Arc<dyn DeviceMemory>);
        builder.config(FlexConfig::preset(name).unwrap()).build().unwrap()
    }

    fn used(card: &Card) -> Bytes {
        card.info().total - card.info().free
    }

    /// The memory behind one byte: 12 GiB for ever, one granule for the time being, or all of it.
    #[test]
    fn one_byte_takes_what_its_preset_says() {
        for (name, held, after) in [
            ("rfc", Bytes::gib(12), Bytes::gib(12)),
            ("grow", Bytes::mib(2), Bytes::mib(2)),
            ("card", Bytes::gib(60), Bytes::gib(60)),
        ] {
            let card = card(Bytes::gib(60));
            let allocator = built(name, &card);
            let block = allocator.allocate(Bytes::new(1)).unwrap();
            assert_eq!(used(&card), held, "{name}");
            drop(block);
            assert_eq!(used(&card), after, "{name}");
            allocator.trim();
            assert_eq!(used(&card), Bytes::ZERO, "{name}");
        }
    }

    /// The regions of `grow` return by themselves what exceeds 1 GiB.
    #[test]
    fn grow_returns_idle_memory_by_itself() {
        let card = card(Bytes::gib(60));
        let allocator = built("grow", &card);
        let block = allocator.allocate(Bytes::gib(20)).unwrap();
        assert_eq!(used(&card), Bytes::gib(20));
        drop(block);
        assert_eq!(used(&card), Bytes::ZERO);
    }

    /// The whole card serves one request, whatever its size, except under `rfc`.
    #[test]
    fn all_of_a_card_can_be_one_block() {
        for memory in [Bytes::mib(6), Bytes::gib(11), Bytes::gib(100)] {
            for (name, fits) in [("grow", true), ("card", true), ("rfc", false)] {
                let allocator = built(name, &card(memory));
                assert_eq!(allocator.allocate(memory).is_ok(), fits, "{memory} with {name}");
                assert!(allocator.allocate(memory + Bytes::new(1)).is_err());
            }
        }
    }
}
