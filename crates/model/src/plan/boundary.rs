//! Transfer of tokens from a stage to the next, over the links of the machine.

use std::rc::Rc;

use cubeyard_collectives::distributed::DistError;
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{
    Channel, ChannelEnd, Context, ContextConfig, Launch, LaunchHandle, LaunchReport, RingConfig,
    RuntimeError, Stream, Tensor,
};
use cubeyard_sim::Span;
use cubeyard_tl::Port;
use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;

use crate::cut::Cut;
use crate::error::ModelError;
use crate::kernels;
use crate::part::StepPart;

/// Port to the matching PE of the other stage.
const PORT: Port = Port(0);
/// Maximum size of a message, in bytes; longer transfers are divided.
const MESSAGE: u64 = 16 << 10;

/// Ends of a transfer.
#[derive(Clone, Copy)]
enum Role {
    Sends,
    Receives,
}

/// Returns the time of a transfer of the tokens of a step: from its launch to the launch of the first part of the
/// receiving stage. Each PE sends its features of all tokens to the PE at the same position of the other SIP of its
/// pair, in messages of at most 16 KiB. The receiving stage is idle, and waits for them.
pub(super) fn transfer(
    topology: &Topology,
    cut: &Rc<Cut>,
    pairs: &[(SipId, SipId)],
) -> Result<Span, ModelError> {
    let topology = topology.clone();
    let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
    let launcher = Launcher::new(&context);
    let number = launcher.new_group().ok_or(DistError::Exhausted)?;
    let channels = context.connect(&channels(&context, pairs, number), &ring(cut))?;
    launcher.use_group(number);
    let side = |sip| Side::new(&context, cut, sip);
    let sides = |(from, to): &(SipId, SipId)| Ok([side(*from)?, side(*to)?]);
    let sides: Vec<_> = pairs.iter().map(sides).collect::<Result<_, RuntimeError>>()?;
    let (kernel, norm) = (kernel(cut), kernels::kernel(StepPart::Norm, cut));
    let (mut sent, mut next) = (Vec::new(), Vec::new());
    for [from, to] in &sides {
        to.launch(&launcher, &kernel, Role::Receives)?;
        sent.push(from.launch(&launcher, &kernel, Role::Sends)?);
        let launch = Launch::new(to.sip).arguments([&to.tokens, &to.sums]);
        next.push(launcher.launch(&to.stream, &norm, &launch)?);
    }
    let started = |handles: Vec<LaunchHandle>| -> Result<Vec<_>, RuntimeError> {
        handles
            .iter()
            .map(|handle| handle.wait().map(|LaunchReport { started, .. }| started))
            .collect()
    };
    let (next, sent) = (started(next)?, started(sent)?);
    drop(channels);
    let (first, last) = (sent.iter().min(), next.iter().max());
    Ok(first.zip(last).map_or(Span::ZERO, |(first, last)| *last - *first))
}

/// Returns the number of rows of a message.
fn rows(cut: &Cut) -> u64 {
    let row = cut.slice() * cut.work.dtype.size();
    (MESSAGE / row.max(1)).clamp(1, cut.tokens())
}

fn ring(cut: &Cut) -> RingConfig {
    let bytes = (rows(cut) * cut.slice() * cut.work.dtype.size()).next_multiple_of(256);
    RingConfig { slot_bytes: Bytes::new(bytes), ..RingConfig::default() }
}

/// Returns channels between the PEs at equal positions of each pair.
fn channels(context: &Context, pairs: &[(SipId, SipId)], number: u16) -> Vec<Channel> {
    let pes: Vec<_> = context.machine(|machine| {
        let topology = machine.topology();
        topology.cubes().flat_map(|cube| topology.pes().map(move |pe| (cube, pe))).collect()
    });
    let channel = |(from, to): &(SipId, SipId), (cube, pe)| {
        let end = |sip| ChannelEnd { pe: PeRef { sip, cube, pe }, port: PORT.of_group(number) };
        Channel { ends: [end(*from), end(*to)] }
    };
    pairs.iter().flat_map(|pair| pes.iter().map(move |&pe| channel(pair, pe))).collect()
}

/// Tokens of a stage on one of its SIPs.
struct Side {
    sip: SipId,
    stream: Stream,
    tokens: Tensor,
    sums: Tensor,
}

impl Side {
    fn new(context: &Context, cut: &Cut, sip: SipId) -> Result<Self, RuntimeError> {
        let [cube, pe] = [Split::Replicate, Split::RowWise];
        let over = Placement { cube, pe, sips: vec![sip], ..Placement::default() };
        let shared =
            |columns, dtype| context.empty(&[cut.pes * cut.tokens(), columns], dtype)?.to(&over);
        let tokens = shared(cut.slice(), cut.work.dtype)?;
        Ok(Self { sip, stream: context.stream(), tokens, sums: shared(1, DType::F32)? })
    }

    fn launch(
        &self,
        launcher: &Launcher,
        kernel: &Kernel,
        role: Role,
    ) -> Result<LaunchHandle, RuntimeError> {
        let receives = u64::from(matches!(role, Role::Receives));
        let launch = Launch::new(self.sip).arguments([&self.tokens]).arguments([receives]);
        launcher.launch(&self.stream, kernel, &launch)
    }
}

/// Creates the kernel of both ends. Arguments: the tokens, and 1 if this end receives.
fn kernel(cut: &Rc<Cut>) -> Kernel {
    let (name, rows) = (format!("boundary of {}", cut.label()), rows(cut));
    Kernel::new(&name, move |tl, args| Box::pin(async move { moved(&tl, &args, rows) }))
}

/// Sends or receives this PE's features of all tokens, `most` tokens at a time.
fn moved(tl: &Tl, args: &Args, most: u64) {
    let (tokens, receives) = (args.tensor(0).local(), args.whole(1) == 1);
    let (count, width) = (tokens.dim(0), tokens.dim(1));
    for first in (0..count).step_by(usize::try_from(most).unwrap_or(usize::MAX)) {
        let shape = [most.min(count - first), width];
        let place = tokens.block(&[first, 0], &shape);
        if receives {
            tl.store(&place, &tl.recv_async(PORT, &shape, tokens.ty().dtype));
        } else {
            tl.send(PORT, &tl.load(&place));
        }
    }
}
