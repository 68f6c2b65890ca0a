//! Durations of collectives against the α-β model, and errors when calls of ranks do not match.
//!
//! Each SIP has one PE here. A message leaves its SIP, crosses the switch and enters the other SIP. In a ring no two
//! messages share a wire, and every hop takes equally long. The cost of a hop is measured with a message that goes
//! to and fro between two otherwise idle SIPs.

use cubeyard_collectives::collective::{
    Algorithm, Job, Operation, ReduceOp, Ring, Schedule, Tree, Wire, World, algorithms,
};
use cubeyard_collectives::distributed::{DistError, Group, GroupConfig};
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{
    Argument, Channel, ChannelEnd, Context, ContextConfig, Launch, LaunchHandle, RingConfig,
    RuntimeError, Tensor,
};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::{Port, Tl};

fn context(sips: usize) -> Context {
    let text = format!(
        "sips: {{count: {sips}}}\ncubes: {{w: 1, h: 1}}\npe: {{routers: [r0c0]}}\nhbm: {{bytes_per_cube: 64 MiB}}\n"
    );
    let topology = Topology::read("small.yaml", &text).unwrap();
    Context::new(ContextConfig { topology, ..ContextConfig::default() })
}

fn sip(number: usize) -> SipId {
    SipId::new(u32::try_from(number).unwrap()).unwrap()
}

fn tensor(context: &Context, number: usize, elements: u64) -> Tensor {
    let place = Placement::one(sip(number));
    context.zeros(&[elements], DType::F16).unwrap().to(&place).unwrap()
}

/// Returns the duration of an all-reduce of `bytes` bytes, in nanoseconds. Messages have the maximum length.
fn time(algorithm: Box<dyn Algorithm>, ranks: usize, bytes: u64) -> f64 {
    let context = context(ranks);
    let ring =
        RingConfig { slot_bytes: cubeyard_memory::Bytes::new(bytes), ..RingConfig::default() };
    let config = GroupConfig { ring, ..GroupConfig::default() };
    let group = Group::new(&context, &config, algorithm, 1).unwrap();
    let tensors: Vec<_> = (0..ranks).map(|rank| tensor(&context, rank, bytes / 2)).collect();
    let pairs: Vec<_> = tensors.iter().map(|tensor| (tensor, tensor)).collect();
    let operation = Operation::AllReduce(ReduceOp::Sum);
    let report = group.run(&Launcher::new(&context), operation, &pairs).unwrap();
    report.kernel.ps() as f64 / 1000.0
}

/// Algorithm that passes a message from the first rank to the second and back, `times` times.
///
/// At each hop the message is added to the rank's own tile, or stored. A store takes the wire out of the PE before a
/// message that is sent at the same time.
#[derive(Clone, Copy, Debug)]
struct ToAndFro {
    times: u32,
    adds: bool,
}

impl Algorithm for ToAndFro {
    fn name(&self) -> &'static str {
        "to-and-fro"
    }

    fn refuses(&self, _: Operation, _: &World) -> Option<String> {
        None
    }

    fn wires(&self, _: &World) -> Vec<Wire> {
        vec![Wire { ends: [(0, Port::E), (1, Port::W)] }]
    }

    fn schedule(&self, _: Operation, _: &World) -> Option<Schedule> {
        None
    }

    fn kernel(&self, _: &Job) -> Kernel {
        let this = *self;
        Kernel::new(&format!("{this:?}"), move |tl, args| {
            this.run(&tl, &args);
            Box::pin(std::future::ready(()))
        })
    }
}

impl ToAndFro {
    fn run(self, tl: &Tl, args: &Args) {
        let (buffer, rank) = (args.tensor(0).local(), args.whole(2));
        let own = tl.load(&buffer);
        let mut tile = own.clone();
        for hop in 0..2 * self.times {
            if u64::from(hop % 2) == rank {
                tl.send(if rank == 0 { Port::E } else { Port::W }, &tile);
                continue;
            }
            let from = if rank == 0 { Port::E } else { Port::W };
            tile = tl.recv_async(from, &buffer.ty().shape, buffer.ty().dtype);
            if self.adds {
                tile = tl.add(&own, &tile);
            } else {
                tl.store(&args.tensor(1).local(), &tile);
            }
        }
        if self.adds && rank == 0 {
            tl.store(&args.tensor(1).local(), &tile);
        }
    }
}

/// Cost of a hop in nanoseconds: α per message and β per byte; and the time before the first hop and after the last.
#[derive(Debug)]
struct Hop {
    alpha: f64,
    beta: f64,
    ends: [f64; 2],
}

impl Hop {
    /// Measures the cost with messages of two lengths.
    ///
    /// The vector unit works on strips of 4 KiB, one while the next is read. So messages shorter and longer than a strip
    /// have different α and β. The shortest message is an HBM burst.
    fn measured(adds: bool, [short, long]: [u64; 2]) -> Self {
        let measure = |bytes: u64| {
            let to_and_fro = |times| time(Box::new(ToAndFro { times, adds }), 2, bytes);
            let (few, many) = (to_and_fro(2), to_and_fro(6));
            let hop = (many - few) / 8.0;
            (hop, few - 4.0 * hop)
        };
        let (at_short, at_long) = (measure(short), measure(long));
        let line = |a: f64, b: f64| {
            let slope = (b - a) / (long - short) as f64;
            [a - slope * short as f64, slope]
        };
        let [alpha, beta] = line(at_short.0, at_long.0);
        Self { alpha, beta, ends: line(at_short.1, at_long.1) }
    }

    fn takes(&self, bytes: f64) -> f64 {
        self.alpha + self.beta * bytes
    }

    fn ends(&self, bytes: f64) -> f64 {
        self.ends[0] + self.ends[1] * bytes
    }
}

/// Message lengths in bytes: less than a burst, within a strip, and several strips.
const TINY: [u64; 2] = [64, 128];
const SHORT: [u64; 2] = [256, 1 << 11];
const LONG: [u64; 2] = [1 << 12, 1 << 16];

fn assert_near(what: &str, found: f64, expected: f64) {
    let off = (found / expected - 1.0) * 100.0;
    assert!(off.abs() < 1.0, "{what}: {found:.1} ns, expected {expected:.1} ns: {off:+.2} %");
}

#[test]
fn a_ring_takes_what_its_hops_take() {
    for (lengths, parts) in [(SHORT, SHORT), (LONG, [1 << 13, 1 << 15])] {
        let (adding, passing) = (Hop::measured(true, lengths), Hop::measured(false, lengths));
        for (ranks, part) in (2..=8).flat_map(|ranks| parts.map(|part| (ranks, part))) {
            let found = time(Box::new(Ring), ranks, ranks as u64 * part);
            let part = part as f64;
            let hops = adding.takes(part) + passing.takes(part);
            let expected = adding.ends(part) + (ranks as f64 - 1.0) * hops;
            assert_near(&format!("ring of {ranks}, parts of {part} bytes"), found, expected);
        }
    }
}

/// Pieces go up and down the deeper of the two trees, each with half of the data.
///
/// With two and three ranks no two messages share a wire. With more, both children of a rank send at the same time,
/// which hardly delays short messages.
#[test]
fn a_tree_takes_what_the_hops_to_its_root_and_back_take() {
    let depths = [(2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 3), (8, 3)];
    for (lengths, halves, most) in [(TINY, [TINY[0]].as_slice(), 8), (LONG, &[1 << 13, 1 << 15], 3)]
    {
        let (adding, passing) = (Hop::measured(true, lengths), Hop::measured(false, lengths));
        let cases = depths.into_iter().filter(|(ranks, _)| *ranks <= most);
        for ((ranks, depth), half) in
            cases.flat_map(|case| halves.iter().map(move |half| (case, *half)))
        {
            let found = time(Box::new(Tree), ranks, 2 * half);
            let half = half as f64;
            let hops = f64::from(depth) * (adding.takes(half) + passing.takes(half));
            let expected = adding.ends(half) + hops;
            assert_near(&format!("tree of {ranks}, halves of {half} bytes"), found, expected);
        }
    }
}

/// Launches a ring of two on some of its ranks, each with a tensor of the given number of elements.
fn launch(elements: &[u64]) -> RuntimeError {
    let context = context(2);
    let job =
        Job { operation: Operation::AllReduce(ReduceOp::Sum), world: World::ring(2), piece: 2048 };
    let (cube, pe) = (CubeId::new(0).unwrap(), PeId::new(0).unwrap());
    let end = |(rank, port): (usize, Port)| {
        let pe = PeRef { sip: sip(rank), cube, pe };
        ChannelEnd { pe, port: port.of_group(0) }
    };
    let wires = Ring.wires(&job.world);
    let channels: Vec<_> = wires.iter().map(|wire| Channel { ends: wire.ends.map(end) }).collect();
    let _channels = context.connect(&channels, &RingConfig::default()).unwrap();
    let (launcher, kernel) = (Launcher::new(&context), Ring.kernel(&job));
    let ranks = elements.iter().enumerate();
    let tensors: Vec<_> = ranks.map(|(rank, elements)| tensor(&context, rank, *elements)).collect();
    let start = |(rank, tensor)| {
        let numbers = [rank, 0, 0].map(Argument::from);
        let mut arguments = vec![Argument::Tensor(tensor), Argument::Tensor(tensor)];
        arguments.extend(numbers);
        let launch = Launch::new(sip(rank)).arguments(arguments).cubes(vec![cube]).pes(vec![pe]);
        launcher.launch(&context.stream(), &kernel, &launch).unwrap()
    };
    let handles: Vec<_> = tensors.iter().enumerate().map(start).collect();
    let ends: Result<Vec<_>, _> = handles.iter().map(LaunchHandle::wait).collect();
    ends.unwrap_err()
}

#[test]
fn a_rank_that_never_calls_is_named_by_who_waits_for_it() {
    let error = launch(&[1000]).to_string();
    assert!(error.contains("a message from sip1.cube0.pe0"), "{error}");
    assert!(error.contains("sip0.cube0.pe0"), "{error}");
    assert!(error.contains("receive f16[500] from W"), "{error}");
}

#[test]
fn ranks_with_tensors_of_different_lengths_are_told() {
    let error = launch(&[1000, 996]).to_string();
    assert!(error.contains("the message from sip"), "{error}");

    let context = context(2);
    let group = Group::new(&context, &GroupConfig::default(), Box::new(Ring), 1).unwrap();
    let tensors = [tensor(&context, 0, 1000), tensor(&context, 1, 996)];
    let run = |tensors: &[&Tensor]| -> DistError {
        let pairs: Vec<_> = tensors.iter().map(|&tensor| (tensor, tensor)).collect();
        let operation = Operation::AllReduce(ReduceOp::Sum);
        group.run(&Launcher::new(&context), operation, &pairs).unwrap_err()
    };
    let error = run(&[&tensors[0], &tensors[1]]).to_string();
    assert_eq!(error, "all_reduce: rank 1 has f16[996], expected f16[1000]");
    let error = run(&[&tensors[0]]).to_string();
    assert_eq!(error, "all_reduce of 1 tensors: expected one for each of 2 ranks");
}

#[test]
fn an_operation_that_an_algorithm_does_not_do_is_refused_with_the_reason() {
    let world = World::ring(6);
    let why = |name: &str, operation| {
        let all = algorithms();
        all.iter().find(|one| one.name() == name).unwrap().refuses(operation, &world).unwrap()
    };
    assert_eq!(why("tree", Operation::AllGather), "all_gather is not supported; use direct");
    assert_eq!(why("lrab", Operation::AllGather), "all_gather is not supported, only all_reduce");
    assert_eq!(
        why("halving-doubling", Operation::ReduceScatter(ReduceOp::Sum)),
        "reduce_scatter of 6 ranks: expected a power of two"
    );
}
