//! Conversion of a parsed file to a configuration.

use std::ops::RangeInclusive;
use std::rc::Rc;

use cubeyard_device::pe::WaitMode;
use cubeyard_device::topology::SipTopology;
use cubeyard_memory::Bytes;
use cubeyard_runtime::{RingConfig, SlotKind};
use cubeyard_sim::Span;
use cubeyard_yaml::{Field, InputError, InputProblem, Map};

use super::{CclAlgorithm, CclConfig, FindModule};
use crate::collective::{Algorithm, algorithms};
use crate::distributed::config::{GroupConfig, Ranks};

type Result<T> = std::result::Result<T, InputError>;

/// Maximum number of ranks of a group: one port for each.
const MOST_RANKS: u32 = 1 << 16;
/// Maximum number of messages that a channel holds.
const MOST_SLOTS: u32 = 1 << 12;
/// Maximum length of a slot. No TCM has room for several longer ones.
const LONGEST_SLOT: Bytes = Bytes::mib(8);
/// Maximum length of a message that returns a credit, in bytes.
const LONGEST_CREDIT: u32 = 1 << 12;

/// Settings that may be given both as defaults and for an algorithm.
#[derive(Clone, Debug)]
struct Settings {
    config: GroupConfig,
    polls: bool,
    poll: Span,
}

impl Settings {
    /// Overrides the settings that a mapping contains.
    fn over(mut self, map: &mut Map<'_>) -> Result<Self> {
        let ring = &mut self.config.ring;
        set(&mut self.config.ranks, map.optional("ranks"), |field| field.choice(&Ranks::NAMES))?;
        set(&mut self.config.world_size, map.optional("world_size"), |field| {
            count(field).map(Some)
        })?;
        set(&mut ring.kind, map.optional("buffer_kind"), |field| field.choice(&SlotKind::NAMES))?;
        set(&mut ring.slots, map.optional("n_slots"), |field| field.whole(1, MOST_SLOTS))?;
        set(&mut ring.slot_bytes, map.optional("slot_size"), |field| slot(field).map(Bytes::new))?;
        set(&mut ring.credit_bytes, map.optional("credit_bytes"), |field| {
            field.whole(1, LONGEST_CREDIT).map(|bytes| Bytes::new(bytes.into()))
        })?;
        set(&mut self.polls, map.optional("backpressure"), |field| {
            field.choice(&[("sleep", false), ("poll", true)])
        })?;
        set(&mut self.poll, map.optional("poll_ns"), poll)?;
        ring.waiting = if self.polls { WaitMode::Poll(self.poll) } else { WaitMode::Sleep };
        Ok(self)
    }
}

fn set<T>(
    value: &mut T,
    field: Option<Field<'_>>,
    read: impl FnOnce(&Field<'_>) -> Result<T>,
) -> Result<()> {
    if let Some(field) = field {
        *value = read(&field)?;
    }
    Ok(())
}

fn is_enabled(field: &Field<'_>) -> Result<bool> {
    field.flag()
}

fn count(field: &Field<'_>) -> Result<usize> {
    field.whole(1, MOST_RANKS).map(|number| number as usize)
}

/// Reads the bytes of a slot, which must hold whole elements of every type.
fn slot(field: &Field<'_>) -> Result<u64> {
    let bytes = field.bytes()?;
    let fits = bytes.is_aligned(Bytes::new(8)) && bytes <= LONGEST_SLOT;
    let expected = || format!("a multiple of 8 bytes up to {LONGEST_SLOT}");
    fits.then(|| bytes.get()).ok_or_else(|| field.unexpected(expected()))
}

/// Reads a receiver's polling interval; an interval of 0 would never advance time.
fn poll(field: &Field<'_>) -> Result<Span> {
    let span = field.ns()?;
    let expected = "a number of nanoseconds above 0";
    (span > Span::ZERO).then_some(span).ok_or_else(|| field.unexpected(expected))
}

/// Reads a complete file.
pub(super) fn config(root: &Field<'_>, find: FindModule<'_>) -> Result<CclConfig> {
    let mut map = root.map()?;
    let (defaults, by_name) = (map.field("defaults"), map.field("algorithms"));
    map.finish()?;
    let mut defaults = defaults.map()?;
    let forced = defaults.field("algorithm");
    let config = GroupConfig { ring: RingConfig::default(), ..GroupConfig::default() };
    let settings = Settings { config, polls: false, poll: Span::ZERO }.over(&mut defaults)?;
    defaults.finish()?;
    let mut algorithms = Vec::new();
    for (name, field) in by_name.map()?.each() {
        algorithms.push(algorithm(name, &field, &settings, find)?);
    }
    let forced = choice(&forced, &algorithms)?;
    Ok(CclConfig { forced, defaults: settings.config, algorithms })
}

/// Reads the forced algorithm, if there is one.
fn choice(field: &Field<'_>, algorithms: &[CclAlgorithm]) -> Result<Option<String>> {
    let all = algorithms.iter().map(|algorithm| (&*algorithm.name, Some(&*algorithm.name)));
    let names: Vec<_> = [("auto", None)].into_iter().chain(all).collect();
    Ok(field.choice(&names)?.map(ToOwned::to_owned))
}

fn algorithm(
    name: &str,
    field: &Field<'_>,
    settings: &Settings,
    find: FindModule<'_>,
) -> Result<CclAlgorithm> {
    let mut map = field.map()?;
    let module = map.optional("module");
    let mut enabled = true;
    set(&mut enabled, map.optional("enabled"), is_enabled)?;
    let config = settings.clone().over(&mut map)?.config;
    let bytes =
        range(map.optional("from_bytes"), map.optional("to_bytes"), 0..=u64::MAX, |field| {
            field.count("a number of bytes")
        })?;
    let world = range(map.optional("from_world"), map.optional("to_world"), 1..=usize::MAX, count)?;
    let sips = sips(map.optional("sip_topologies"))?;
    map.finish()?;
    let module = registered(name, field, module.as_ref(), find)?;
    Ok(CclAlgorithm { name: name.to_owned(), module, enabled, config, bytes, world, sips })
}

/// Returns the algorithm of `module`, registered or of a front. Without a `module`, returns the registered algorithm
/// with the name of the entry.
fn registered(
    name: &str,
    entry: &Field<'_>,
    module: Option<&Field<'_>>,
    find: FindModule<'_>,
) -> Result<Rc<dyn Algorithm>> {
    let named = |name: &str| algorithms().into_iter().find(|known| known.name() == name);
    let Some(module) = module else {
        let missing = || entry.error(InputProblem::MissingKey { name: "module" });
        return named(name).map(Rc::from).ok_or_else(missing);
    };
    let text = module.text("the name of an algorithm")?;
    match (named(text), find(text)) {
        (Some(known), _) => Ok(known.into()),
        (None, Some(found)) => found.map_err(|why| module.unexpected(why)),
        (None, None) => {
            let known: Vec<_> = algorithms().iter().map(|known| (known.name(), ())).collect();
            Err(module.choice(&known).expect_err("it is none of them"))
        }
    }
}

fn range<T: Copy + PartialOrd + std::fmt::Display>(
    from: Option<Field<'_>>,
    to: Option<Field<'_>>,
    all: RangeInclusive<T>,
    read: impl Fn(&Field<'_>) -> Result<T>,
) -> Result<RangeInclusive<T>> {
    let (mut low, mut high) = all.into_inner();
    set(&mut low, from, &read)?;
    let Some(to) = to else { return Ok(low..=high) };
    high = read(&to)?;
    let expected = || format!("at least {low}, the lower limit");
    if low <= high { Ok(low..=high) } else { Err(to.unexpected(expected())) }
}

fn sips(field: Option<Field<'_>>) -> Result<Vec<SipTopology>> {
    let Some(field) = field else {
        return Ok(SipTopology::NAMES.map(|(_, topology)| topology).to_vec());
    };
    let list = field.list("SIP topologies")?;
    list.iter().map(|field| field.choice(&SipTopology::NAMES)).collect()
}
