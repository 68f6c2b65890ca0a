//! Configuration of a [`FlexAllocator`](super::FlexAllocator), as a value and as one line of text.

mod preset;

use std::str::FromStr;

pub use preset::{PRESETS, Preset};

use crate::Bytes;
use crate::policy::{self, BlockPolicy, Kind, RegionPolicy};

/// Largest value of `max_regions`; more than any firmware table has entries.
pub const MAX_REGIONS: usize = 1024;
/// Smallest block alignment, as required by the device.
pub const MIN_ALIGNMENT: Bytes = Bytes::new(128);

/// Configuration of a [`FlexAllocator`](super::FlexAllocator). The default is the RFC's, except that a device that has
/// refused a region is asked again (`refusal`). [`FlexConfig::preset`] has others by name.
///
/// The text form is `key:value,key:value,…`, like PyTorch's. To build a value, start from the default and assign
/// fields:
///
/// ```
/// use cubeyard_memory::flex::{Acquire, FlexConfig, Growth};
/// use cubeyard_memory::Bytes;
///
/// let config: FlexConfig = "fallback_sizes:[8GiB;2GiB],block:best-fit,acquire:eager(2)".parse().unwrap();
/// assert_eq!(config.fallback_sizes, [Bytes::gib(8), Bytes::gib(2)]);
/// assert_eq!(config.acquire, Acquire::Eager(2));
/// assert_eq!(config.growth, Growth::Fixed);
/// let mut config = FlexConfig::default();
/// config.max_regions = 4;
/// let error = "blocks:best-fit".parse::<FlexConfig>().unwrap_err();
/// assert!(error.to_string().starts_with("unknown key `blocks`"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlexConfig {
    /// `fallback_sizes`: sizes of a new region, in the order in which they are tried.
    pub fallback_sizes: Vec<Bytes>,
    /// `max_regions`: maximum number of regions at a time, 1 to [`MAX_REGIONS`].
    pub max_regions: usize,
    /// `alignment`: granule of blocks, a power of two and at least [`MIN_ALIGNMENT`].
    pub alignment: Bytes,
    /// `region`: order in which regions are tried.
    pub region: &'static RegionPolicy,
    /// `block`: choice of a block's position in a region.
    pub block: &'static BlockPolicy,
    /// `acquire`: time at which regions are acquired.
    pub acquire: Acquire,
    /// `release`: time at which idle regions are released.
    pub release: Release,
    /// `growth`: whether regions are acquired whole or grow.
    pub growth: Growth,
    /// `own_regions`: kinds of blocks that get separate regions.
    pub own_regions: Vec<Kind>,
    /// `history`: number of events in a snapshot; 0 disables the history.
    pub history: usize,
    /// `sizes`: sizes of regions besides the configured ones.
    pub sizes: Sizes,
    /// `refusal`: consequence of a refused region.
    pub refusal: Refusal,
    /// `pools`: pools of requests that name none.
    pub pools: Pooling,
}

/// Pools of requests that name none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// `one`: all use the default pool.
    One,
    /// `stream`: every stream has a pool; see [`stream_pool`](super::FlexAllocator::stream_pool).
    Stream,
}

/// Sizes of regions. The *configured sizes* are `fallback_sizes`, or the size of a growable region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// `listed`: only the configured sizes. A longer request fails, and the rest of a device is not used.
    Listed,
    /// `fitted`: the configured sizes first. A request longer than all of them gets a region of its own length. If the
    /// device refuses them and has less than the smallest of them free, the region is all that is free.
    Fitted,
    /// `all`: all that is free on the device, then the configured sizes.
    All,
}

/// Consequence of a device's refusal of all sizes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `ask`: every request that finds no room asks the device again. A region that no request needs yet (`acquire:first`,
    /// the first region of a thread) is not asked for until a region was acquired or released, or
    /// [`unlock_regions`](super::FlexAllocator::unlock_regions) was called.
    Ask,
    /// `lock`: the device is not asked until a region was released or `unlock_regions` was called, as in the RFC.
    Lock,
}

/// Time at which regions are acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// `lazy`: when no region has room for a request.
    Lazy,
    /// `first`: before every search, as long as more can be acquired, as in the RFC's "Phase 1" for load balancing.
    /// Blocks spread over all regions at once.
    First,
    /// `eager(n)`: `n` regions when the allocator is built, more when these are full.
    Eager(usize),
}

/// Time at which idle regions are released; a region without live blocks is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// `never`: only by [`trim`](super::FlexAllocator::trim), not even for a request that finds no room.
    Never,
    /// `when_idle(size)`: as soon as idle regions hold more than `size`, and for a request that finds no room.
    WhenIdle(Bytes),
}

/// Growth of a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// `fixed`: acquired whole, in one of the fallback sizes.
    Fixed,
    /// `growable(size)`: `size` bytes of addresses are reserved, and memory is committed under blocks in the device's
    /// granules. It stays committed until a trim, or until a request finds no room and needs it elsewhere.
    Growable(Bytes),
    /// `recycle(size)`: like `growable`, but before memory is committed, the same number of idle granules of the region
    /// are decommitted.
    Recycle(Bytes),
}

impl Default for FlexConfig {
    fn default() -> Self {
        Self {
            fallback_sizes: vec![Bytes::gib(12), Bytes::gib(8), Bytes::gib(4)],
            max_regions: 12,
            alignment: MIN_ALIGNMENT,
            region: policy::DEFAULT_REGION,
            block: policy::DEFAULT_BLOCK,
            acquire: Acquire::Lazy,
            release: Release::Never,
            growth: Growth::Fixed,
            own_regions: Vec::new(),
            history: 0,
            sizes: Sizes::Listed,
            refusal: Refusal::Ask,
            pools: Pooling::One,
        }
    }
}

/// An invalid text form of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The key is unknown. Correct it.
    #[error("unknown key `{key}`; the keys are {known}")]
    UnknownKey {
        /// Key as written.
        key: String,
        /// List of all keys.
        known: String,
    },
    /// The value is invalid for the key. Correct it.
    #[error("`{key}:{value}`: expected {expected}")]
    BadValue {
        /// Key of the value.
        key: &'static str,
        /// Value as written.
        value: String,
        /// Description of the accepted values.
        expected: String,
    },
}

/// Name of a key, description of its values, and the function that sets it.
type Key = (&'static str, fn() -> String, fn(&mut FlexConfig, &str) -> Option<()>);

const SIZE: &str = "a size such as 4GiB, 20MiB or 128";

const KEYS: [Key; 14] = [
    (
        "fallback_sizes",
        || format!("[SIZE;SIZE;…], each {SIZE}, at least one"),
        |config, value| {
            let positive = |text| size(text).filter(|size| !size.is_zero());
            put(&mut config.fallback_sizes, list(value)?.map(positive).collect())
        },
    ),
    (
        "max_regions",
        || format!("a number from 1 to {MAX_REGIONS}"),
        |config, value| {
            let fits = |count: &usize| (1..=MAX_REGIONS).contains(count);
            put(&mut config.max_regions, value.parse().ok().filter(fits))
        },
    ),
    (
        "alignment",
        || format!("a power of two from {} to 2MiB", MIN_ALIGNMENT.get()),
        |config, value| {
            let range = MIN_ALIGNMENT..=Bytes::mib(2);
            let fits = |size: &Bytes| size.get().is_power_of_two() && range.contains(size);
            put(&mut config.alignment, size(value).filter(fits))
        },
    ),
    (
        "region",
        || one_of(policy::REGION.iter().map(|policy| policy.name)),
        |config, value| {
            let mut policies = policy::REGION.into_iter();
            put(&mut config.region, policies.find(|policy| policy.name == value))
        },
    ),
    (
        "block",
        || one_of(policy::BLOCK.iter().map(|policy| policy.name)),
        |config, value| {
            let mut policies = policy::BLOCK.into_iter();
            put(&mut config.block, policies.find(|policy| policy.name == value))
        },
    ),
    (
        "acquire",
        || "lazy, first or eager(COUNT)".to_owned(),
        |config, value| {
            let acquire = match call(value) {
                ("lazy", None) => Some(Acquire::Lazy),
                ("first", None) => Some(Acquire::First),
                ("eager", Some(count)) => count.parse().ok().map(Acquire::Eager),
                _ => None,
            };
            put(&mut config.acquire, acquire)
        },
    ),
    (
        "release",
        || format!("never or when_idle(SIZE), SIZE being {SIZE}"),
        |config, value| {
            let release = match call(value) {
                ("never", None) => Some(Release::Never),
                ("when_idle", Some(limit)) => size(limit).map(Release::WhenIdle),
                _ => None,
            };
            put(&mut config.release, release)
        },
    ),
    (
        "growth",
        || format!("fixed, growable(SIZE) or recycle(SIZE), SIZE being {SIZE}"),
        |config, value| {
            let growth = match call(value) {
                ("fixed", None) => Some(Growth::Fixed),
                ("growable", Some(reserve)) => size(reserve).map(Growth::Growable),
                ("recycle", Some(reserve)) => size(reserve).map(Growth::Recycle),
                _ => None,
            };
            put(&mut config.growth, growth)
        },
    ),
    (
        "own_regions",
        || format!("[KIND;KIND;…], each {}", one_of(Kind::ALL.iter().map(|kind| kind.name()))),
        |config, value| {
            let kind = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
            put(&mut config.own_regions, list(value)?.map(kind).collect())
        },
    ),
    (
        "history",
        || "a number of events".to_owned(),
        |config, value| put(&mut config.history, value.parse().ok()),
    ),
    (
        "sizes",
        || "listed, fitted or all".to_owned(),
        |config, value| {
            let sizes = match value {
                "listed" => Some(Sizes::Listed),
                "fitted" => Some(Sizes::Fitted),
                "all" => Some(Sizes::All),
                _ => None,
            };
            put(&mut config.sizes, sizes)
        },
    ),
    (
        "refusal",
        || "ask or lock".to_owned(),
        |config, value| {
            let refusal = match value {
                "ask" => Some(Refusal::Ask),
                "lock" => Some(Refusal::Lock),
                _ => None,
            };
            put(&mut config.refusal, refusal)
        },
    ),
    (
        "pools",
        || "one or stream".to_owned(),
        |config, value| {
            let pools = match value {
                "one" => Some(Pooling::One),
                "stream" => Some(Pooling::Stream),
                _ => None,
            };
            put(&mut config.pools, pools)
        },
    ),
    (
        PRESET,
        || one_of(preset::PRESETS.iter().map(|preset| preset.name)),
        |config, value| put(config, preset::find(value).map(|preset| (preset.make)())),
    ),
];

/// Key that sets all others.
const PRESET: &str = "preset";

/// Sets a field if its value could be parsed.
fn put<T>(field: &mut T, value: Option<T>) -> Option<()> {
    *field = value?;
    Some(())
}

fn one_of(names: impl Iterator<Item = &'static str>) -> String {
    format!("one of {}", names.collect::<Vec<_>>().join(", "))
}

/// Splits `[a;b;c]` into its elements; the list must not be empty.
fn list(value: &str) -> Option<impl Iterator<Item = &str>> {
    let inner = value.strip_prefix('[')?.strip_suffix(']')?;
    Some(inner.split(';').map(str::trim))
}

/// Splits `name` or `name(argument)`.
fn call(value: &str) -> (&str, Option<&str>) {
    match value.strip_suffix(')').and_then(|value| value.split_once('(')) {
        Some((name, argument)) => (name, Some(argument)),
        None => (value, None),
    }
}

/// Parses a number of bytes with an optional binary unit.
fn size(value: &str) -> Option<Bytes> {
    let digits = value.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let number: u64 = digits.trim_end().parse().ok()?;
    let shift = match &value[digits.len()..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift).map(Bytes::new)
}

impl FlexConfig {
    /// Returns the configuration of a preset; see [`PRESETS`].
    ///
    /// ```
    /// use cubeyard_memory::flex::{FlexConfig, Refusal};
    ///
    /// assert_eq!(FlexConfig::preset("rfc").unwrap().refusal, Refusal::Lock);
    /// let error = FlexConfig::preset("cards").unwrap_err();
    /// assert_eq!(error.to_string(), "`preset:cards`: expected one of rfc, grow, card");
    /// ```
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.set(PRESET, name)?;
        Ok(config)
    }

    /// Sets one key. The key `preset` replaces the whole configuration. Nothing changes on an error.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let Some((name, expected, set)) = KEYS.iter().find(|(name, ..)| *name == key) else {
            let known = KEYS.map(|(name, ..)| name).join(", ");
            return Err(ConfigError::UnknownKey { key: key.to_owned(), known });
        };
        set(self, value).ok_or_else(|| ConfigError::BadValue {
            key: name,
            value: value.to_owned(),
            expected: expected(),
        })
    }

    /// Sets the keys of a text `key:value,…`. The key `preset` is set first, wherever it stands. On an error, the keys
    /// set before it stay set.
    pub fn update(&mut self, text: &str) -> Result<(), ConfigError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let pairs = parts.map(|part| part.split_once(':').unwrap_or((part, "")));
        let pairs = pairs.map(|(key, value)| (key.trim(), value.trim()));
        let (presets, others): (Vec<_>, Vec<_>) = pairs.partition(|&(key, _)| key == PRESET);
        presets.into_iter().chain(others).try_for_each(|(key, value)| self.set(key, value))
    }
}

impl FromStr for FlexConfig {
    type Err = ConfigError;

    /// Parses `key:value,…`; other keys keep their defaults.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.update(text)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_default_is_the_rfcs() {
        let config = FlexConfig::default();
        assert_eq!(config.fallback_sizes, [Bytes::gib(12), Bytes::gib(8), Bytes::gib(4)]);
        assert_eq!((config.max_regions, config.alignment), (12, Bytes::new(128)));
        assert_eq!((config.region.name, config.block.name), ("load-balancing", "first-fit"));
        assert_eq!((config.acquire, config.release), (Acquire::Lazy, Release::Never));
        assert_eq!((config.sizes, config.growth), (Sizes::Listed, Growth::Fixed));
    }

    #[test]
    fn every_key_can_be_set() {
        let text = "fallback_sizes:[1GiB;512MiB], max_regions:64, alignment:512, region:fill-first, block:best-fit, \
                    acquire:first, release:when_idle(1GiB), growth:recycle(1TiB), own_regions:[program;staging], \
                    history:1000, sizes:fitted, refusal:lock, pools:stream";
        let config: FlexConfig = text.parse().unwrap();
        assert_eq!(config.fallback_sizes, [Bytes::gib(1), Bytes::mib(512)]);
        assert_eq!(
            (config.max_regions, config.alignment, config.history),
            (64, Bytes::new(512), 1000)
        );
        assert_eq!((config.region.name, config.block.name), ("fill-first", "best-fit"));
        assert_eq!(config.acquire, Acquire::First);
        assert_eq!(config.release, Release::WhenIdle(Bytes::gib(1)));
        assert_eq!(config.growth, Growth::Recycle(Bytes::gib(1024)));
        assert_eq!(config.own_regions, [Kind::Program, Kind::Staging]);
        assert_eq!((config.sizes, config.refusal), (Sizes::Fitted, Refusal::Lock));
        assert_eq!(config.pools, Pooling::Stream);
    }

    #[test]
    fn a_preset_comes_before_the_other_keys_wherever_it_stands() {
        for text in
            ["preset:grow,history:7,block:first-fit", "history:7,block:first-fit,preset:grow"]
        {
            let config: FlexConfig = text.parse().unwrap();
            assert_eq!((config.history, config.block.name), (7, "first-fit"));
            assert_eq!(config.sizes, Sizes::Fitted, "of the preset");
        }
    }

    #[test]
    fn bad_values_name_the_key_and_what_was_expected() {
        let errors: Vec<_> =
            ["max_regions:0", "alignment:100", "fallback_sizes:12GB", "acquire:eager", "x"]
                .map(|text| text.parse::<FlexConfig>().unwrap_err().to_string())
                .into();
        expect![[r#"
            `max_regions:0`: expected a number from 1 to 1024
            `alignment:100`: expected a power of two from 128 to 2MiB
            `fallback_sizes:12GB`: expected [SIZE;SIZE;…], each a size such as 4GiB, 20MiB or 128, at least one
            `acquire:eager`: expected lazy, first or eager(COUNT)
            unknown key `x`; the keys are fallback_sizes, max_regions, alignment, region, block, acquire, release, growth, own_regions, history, sizes, refusal, pools, preset"#]]
        .assert_eq(&errors.join("\n"));
    }
}
