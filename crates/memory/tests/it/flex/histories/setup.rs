//! Configurations of histories, drawn from a number.

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{AddressMode, CardSpec};
use cubeyard_memory::policy;
use fastrand::Rng;

/// Numbers of streams: near ones, and ones that a block's tag cannot hold.
const STREAMS: [u32; 8] = [0, 1, 2, 7, 1000, (1 << 24) - 2, (1 << 24) - 1, u32::MAX];

/// The allocator of a history, its device and its streams.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) config: String,
    pub(super) card: CardSpec,
    /// Streams of the requests; the allocator knows of streams if there are several, or one that runs behind.
    pub(super) streams: &'static [u32],
    /// Number of launches by which the streams run behind the host; `None` for an allocator without streams.
    pub(super) lag: Option<u64>,
    /// Whether a ledger of events is kept beside.
    pub(super) subscribed: bool,
    /// Whether the device fails.
    pub(super) faults: bool,
    /// Number of operations between two checks of the statistics.
    pub(super) period: u64,
    /// Limits of the pools, besides the default pool.
    pub(super) pools: Vec<Option<Bytes>>,
    /// Number of tags.
    pub(super) tags: usize,
    /// Whether the allocator is dropped before its blocks.
    pub(super) allocator_first: bool,
}

fn one_of<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

impl Setup {
    /// Returns the setup of a number. Consecutive numbers run through all strategies and kinds of growth.
    pub(super) fn new(number: usize, random: &mut Rng) -> Self {
        let region = policy::REGION[number % 3].name;
        let block = policy::BLOCK[number / 3 % 4].name;
        let memory = Bytes::mib(random.u64(4..64));
        let granule = one_of(random, &[Bytes::kib(64), Bytes::kib(256), Bytes::mib(2)]);
        let mode = one_of(random, &[AddressMode::Physical, AddressMode::Virtual]);
        let card = CardSpec { memory, mode, table: random.usize(4..17), granule };
        let reserve = one_of(random, &["8MiB", "16MiB", "64MiB", "1GiB"]);
        let growth =
            ["fixed".to_owned(), format!("growable({reserve})"), format!("recycle({reserve})")];
        let pools = pools(random, memory);
        let parts = [
            format!("region:{region},block:{block},growth:{}", growth[number / 12 % 3]),
            sizes(random, &pools),
            format!("alignment:{}", one_of(random, &[128, 128, 512, 4096])),
            format!("acquire:{}", one_of(random, &["lazy", "lazy", "first", "eager(2)"])),
            format!("release:{}", one_of(random, &["never", "when_idle(0)", "when_idle(4MiB)"])),
            format!("refusal:{}", one_of(random, &["ask", "lock"])),
            format!("history:{}", one_of(random, &[0, 0, 50, 10_000])),
        ];
        let stream_pools = if random.u32(..6) == 0 { ",pools:stream" } else { "" };
        let own =
            one_of(random, &["", "", ",own_regions:[program]", ",own_regions:[staging;program]"]);
        let count = one_of(random, &[1, 2, 3, 4, 8]);
        Self {
            config: parts.join(",") + own + stream_pools,
            card,
            streams: &STREAMS[..count],
            lag: one_of(random, &[None, Some(0), Some(1), Some(7), Some(50), Some(500)]),
            subscribed: random.bool(),
            faults: random.bool(),
            period: one_of(random, &[1, 1, 1, 300]),
            pools,
            tags: one_of(random, &[0, 0, 1, 3]),
            allocator_first: random.bool(),
        }
    }
}

fn sizes(random: &mut Rng, pools: &[Option<Bytes>]) -> String {
    let listed = one_of(random, &["[8MiB;3MiB]", "[16MiB;5000000;1MiB]", "[2MiB]", "[32MiB;4MiB]"]);
    let sizes = one_of(random, &["listed", "fitted", "all"]);
    // Each pool has regions of its own.
    let most = pools.len() + one_of(random, &[1, 2, 4, 12, 40]);
    format!("fallback_sizes:{listed},sizes:{sizes},max_regions:{most}")
}

fn pools(random: &mut Rng, memory: Bytes) -> Vec<Option<Bytes>> {
    let limit = |random: &mut Rng| {
        random.bool().then(|| Bytes::new(random.u64(memory.get() / 4..memory.get())))
    };
    (0..one_of(random, &[0, 0, 1, 3])).map(|_| limit(random)).collect()
}
