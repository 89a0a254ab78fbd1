//! An iteration as a list of commands: what goes to which stream, after which events. It is made
//! before anything runs, from the plan alone; a device does nothing but hand it out.

use std::collections::BTreeSet;

use codecs::CodecId;
use codecs::kernels::{self, Launch, Launches};
use schema::{ActionId, CodecRef, Direction, Lane, OpId, Plan, TensorId};

use super::HostWork;
use super::launches::{Argument, Cells, Means, NoKernel, OpOperands, args, launches};
use crate::device::DeviceError;
use crate::device::script::{CodecWork, CopyWork, OpWork, Place, Script, Work};
use crate::network::Network;

/// A place in memory that a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// So many bytes into the device's arena.
    Arena(u64),
    /// So many bytes into the host's, which is pinned: kernels reach it, too.
    Host(u64),
    /// So many bytes into the memory where kernels say how things went ([`Control`]).
    Control(u64),
    /// So many bytes into the scratch memory of a lane's codecs, and of ops with 16-bit operands.
    Scratch(Lane, u64),
}

/// Something that a stream does.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Command {
    Launch(Launch<Argument<At>>),
    /// Copies between the arenas: so many bytes, from or to so far into the device's.
    Copy {
        direction: Direction,
        device: u64,
        host: OnHost,
        bytes: u64,
    },
    /// Lets the host's processor work on what is on the copy's way.
    ByHost(HostWork),
}

/// A place in pinned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHost {
    /// So many bytes into the plan's arena.
    Arena(u64),
    /// The lane's room for a tensor on its way, outside of the arena.
    Staging(Lane),
}

/// An action as a stream carries it out.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue {
    /// The action.
    pub action: ActionId,
    /// Its lane, which is a stream.
    pub lane: Lane,
    /// Actions on other streams whose end the stream waits for. What they imply is left out, and so
    /// is what the stream has waited for before.
    pub waits: Vec<ActionId>,
    /// What it does, one after the other.
    pub commands: Vec<Command>,
}

impl Issue {
    pub(super) fn host_work(&self) -> Option<&HostWork> {
        self.commands.iter().find_map(|command| match command {
            Command::ByHost(work) => Some(work),
            Command::Launch(_) | Command::Copy { .. } => None,
        })
    }
}

/// An iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Commands {
    /// In the plan's order, in which every action comes after what it waits for.
    pub issues: Vec<Issue>,
    /// Bytes of the memory in which kernels say how things went.
    pub control_bytes: u64,
    /// Bytes of scratch memory of each lane.
    pub scratch: [u64; Lane::COUNT],
    /// Bytes of pinned memory of each lane for a tensor that the host's processor works on.
    pub staging: [u64; Lane::COUNT],
    /// Compressed forms of an iteration.
    pub forms: usize,
}

/// What kernels may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Layers.
    pub layers: Means,
    /// Blocks of threads of codecs, at most: few leave multiprocessors to the layers beside them.
    pub codecs: u32,
}

/// Why a plan has no commands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CommandError {
    #[error("op `{op}`: {source}; use `--device host`")]
    Op { op: String, source: NoKernel },
    #[error(
        "op `{op}` is an update that the plan has run on the host's processor, which no command to \
         the GPU does: use `--device host`, or a method that updates on the device"
    )]
    ThereAlone { op: String },
    #[error("the plan compresses on the device with {codec}: leave that codec away")]
    Codec { codec: CodecRef, source: codecs::Error },
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The memory in which kernels say how things went: numbers of 8 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Control;

impl Control {
    /// All ones, or what is wrong: the least number of an op whose labels or tokens are wrong, or
    /// of an action whose codec failed, [`Self::ACTIONS`] added.
    pub const STATUS: u64 = 0;
    /// How often a compressed form was larger than what was reserved.
    pub const FALLBACKS: u64 = 8;
    /// What is added to an action's number.
    pub const ACTIONS: u64 = 1 << 32;
    /// Behind these, for each compressed form: what its codec made of it, what of that is kept, and
    /// what its codec found wrong.
    const FORMS: u64 = 16;
    const OF_FORM: u64 = 24;

    fn bytes(forms: usize) -> u64 {
        Self::FORMS + Self::OF_FORM * forms as u64
    }

    fn length(form: usize) -> At {
        At::Control(Self::FORMS + Self::OF_FORM * form as u64)
    }

    fn shown(form: usize) -> At {
        At::Control(Self::FORMS + Self::OF_FORM * form as u64 + 8)
    }

    fn own_status(form: usize) -> At {
        At::Control(Self::FORMS + Self::OF_FORM * form as u64 + 16)
    }
}

impl Commands {
    /// The commands of a plan that is safe and computes a trace of `network`. cuDNN is left out for
    /// these ops, each time that they run.
    ///
    /// # Errors
    /// Where an op or codec has no kernel, or the plan could not be carried out on any device.
    pub fn new(
        plan: &Plan,
        network: &Network,
        shares: Shares,
        not_dnn: &BTreeSet<OpId>,
    ) -> Result<Self, CommandError> {
        let script = Script::new(plan, network)?;
        let mut writer = Writer {
            plan,
            network,
            script: &script,
            shares,
            not_dnn,
            varies: vec![false; script.forms],
            scratch: [0; Lane::COUNT],
        };
        let commands: Vec<Vec<Command>> =
            (0..script.work.len()).map(|index| writer.commands(index)).collect::<Result<_, _>>()?;
        let scratch = writer.scratch;
        let issues =
            commands.into_iter().zip(script.waits).enumerate().map(|(index, (commands, waits))| {
                let (action, lane) = (ActionId::from_index(index), plan.lane(&plan.actions[index]));
                Issue { action, lane, waits, commands }
            });
        let control_bytes = Control::bytes(script.forms);
        let (issues, forms) = (issues.collect(), script.forms);
        let staging = script.scratch.map(|scratch| scratch.raw as u64);
        Ok(Self { issues, control_bytes, scratch, staging, forms })
    }
}

struct Writer<'a> {
    plan: &'a Plan,
    network: &'a Network,
    script: &'a Script,
    shares: Shares,
    not_dnn: &'a BTreeSet<OpId>,
    /// Whether what becomes of a compressed form is known on the device alone.
    varies: Vec<bool>,
    scratch: [u64; Lane::COUNT],
}

impl Writer<'_> {
    fn commands(&mut self, index: usize) -> Result<Vec<Command>, CommandError> {
        let script = self.script;
        match &script.work[index] {
            Work::Op(work) => self.op(work),
            Work::Copy(work) => self.copy(work),
            Work::Compress(work) => self.compress(index, work),
            Work::Decompress(work) => self.decompress(index, work),
        }
    }

    fn op(&mut self, work: &OpWork) -> Result<Vec<Command>, CommandError> {
        let op = self.network.op(work.op);
        if work.there {
            return Err(CommandError::ThereAlone { op: op.name.clone() });
        }
        let cells = |(place, tensor): (&Place, &TensorId)| {
            Cells::of(self.network, *tensor, At::Arena(place.begin as u64))
        };
        let reads = work.reads.iter().zip(&op.reads);
        let reads: Vec<_> = reads
            .map(|(place, tensor)| place.as_ref().map(|place| cells((place, tensor))))
            .collect();
        let updates: Vec<_> = work.updates.iter().zip(&op.updates).map(cells).collect();
        let writes: Vec<_> = work.writes.iter().zip(&op.writes).map(cells).collect();
        let workspace = At::Arena(work.workspace.begin as u64);
        // What codecs on the same lane work in, too, one after the other.
        let scratch = At::Scratch(Lane::Compute, 0);
        let operands =
            OpOperands { reads: &reads, updates: &updates, writes: &writes, workspace, scratch };
        let layers = self.shares.layers;
        let means = Means { dnn: layers.dnn && !self.not_dnn.contains(&work.op), ..layers };
        let Launches { launches, scratch_bytes } = launches(&op.step, work.op, &operands, means)
            .map_err(|source| CommandError::Op { op: op.name.clone(), source })?;
        let room = &mut self.scratch[Lane::Compute.index()];
        *room = (*room).max(scratch_bytes);
        Ok(launches.into_iter().map(Command::Launch).collect())
    }

    fn copy(&self, work: &CopyWork) -> Result<Vec<Command>, CommandError> {
        let (device, host) = (work.device.begin as u64, work.host.begin as u64);
        let (direction, bytes) = (work.direction, work.device.bytes as u64);
        if let Some((packing, form)) = work.packed_by_host.as_ref().zip(work.form) {
            let lane = match direction {
                Direction::D2h => Lane::D2h,
                Direction::H2d => Lane::H2d,
            };
            let copy = Command::Copy { direction, device, host: OnHost::Staging(lane), bytes };
            let by_host = Command::ByHost(HostWork {
                direction,
                codec: self.script.codecs[packing.codec].id(),
                layout: packing.layout.clone(),
                form,
                small: host,
                reserved: work.host.bytes as u64,
            });
            return Ok(match direction {
                Direction::D2h => vec![copy, by_host],
                Direction::H2d => vec![by_host, copy],
            });
        }
        if let Some(form) = work.form.filter(|form| self.varies[*form]) {
            let (from, to) = match work.direction {
                Direction::D2h => (At::Arena(device), At::Host(host)),
                Direction::H2d => (At::Host(host), At::Arena(device)),
            };
            return Ok(vec![self.form_kernel("form_copy", args![from, Control::shown(form), to])]);
        }
        Ok(vec![Command::Copy { direction, device, host: OnHost::Arena(host), bytes }])
    }

    fn compress(&mut self, index: usize, work: &CodecWork) -> Result<Vec<Command>, CommandError> {
        let made = kernels::compress(self.codec(work), &work.packing.layout, self.shares.codecs);
        let made = made.map_err(|source| self.no_kernel(work, source))?;
        let (form, raw) = (work.form, At::Arena(work.raw.begin as u64));
        let small = At::Arena(work.small.begin as u64);
        let (length, own) = (Control::length(form), Control::own_status(form));
        let Some(host) = work.host else {
            let places = Places { source: raw, target: small, length, own, scratch: 0 };
            return Ok(self.codec_kernels(index, made, places, None));
        };
        self.varies[form] = true;
        // The payload goes to scratch memory, where its worst case has room.
        let lane = self.plan.lane(&self.plan.actions[index]);
        let worst = self.script.codecs[work.packing.codec].worst_case(&work.packing.layout) as u64;
        let target = At::Scratch(lane, 0);
        let scratch = worst.next_multiple_of(256);
        let places = Places { source: raw, target, length, own, scratch };
        let mut arguments = args![target, length, raw, work.raw.bytes, work.small.bytes, small];
        arguments.extend(args![At::Host(host.begin as u64), Control::shown(form)]);
        arguments.push(At::Control(Control::FALLBACKS).into());
        let keep = self.form_kernel("form_keep", arguments);
        Ok(self.codec_kernels(index, made, places, Some(keep)))
    }

    fn decompress(&mut self, index: usize, work: &CodecWork) -> Result<Vec<Command>, CommandError> {
        let made = kernels::decompress(self.codec(work), &work.packing.layout, self.shares.codecs);
        let made = made.map_err(|source| self.no_kernel(work, source))?;
        let (form, raw) = (work.form, At::Arena(work.raw.begin as u64));
        let (shown, own) = (Control::shown(form), Control::own_status(form));
        let length = if work.host.is_some() { shown } else { Control::length(form) };
        let source = At::Arena(work.small.begin as u64);
        let places = Places { source, target: raw, length, own, scratch: 0 };
        let restore = work.host.map(|host| {
            let arguments = args![At::Host(host.begin as u64), work.raw.bytes, shown, raw, own];
            self.form_kernel("form_restore", arguments)
        });
        Ok(self.codec_kernels(index, made, places, restore))
    }

    fn codec(&self, work: &CodecWork) -> CodecId {
        self.script.codecs[work.packing.codec].id()
    }

    fn no_kernel(&self, work: &CodecWork, source: codecs::Error) -> CommandError {
        CommandError::Codec { codec: self.plan.codecs[work.packing.codec].clone(), source }
    }

    /// A codec's launches, what follows them, and around all the kernels that look after the
    /// status.
    fn codec_kernels(
        &mut self,
        index: usize,
        made: Launches,
        places: Places,
        then: Option<Command>,
    ) -> Vec<Command> {
        let lane = self.plan.lane(&self.plan.actions[index]);
        let room = &mut self.scratch[lane.index()];
        *room = (*room).max(places.scratch + made.scratch_bytes);
        let argument = |argument| match argument {
            kernels::Argument::Source => places.source.into(),
            kernels::Argument::Target => places.target.into(),
            kernels::Argument::Length => places.length.into(),
            kernels::Argument::Status => places.own.into(),
            kernels::Argument::Scratch(at) => At::Scratch(lane, places.scratch + at).into(),
            kernels::Argument::Number(number) => Argument::Number(number),
        };
        let launches = made.launches.into_iter().map(|launch| {
            Command::Launch(Launch {
                program: launch.program,
                kernel: launch.kernel,
                blocks: launch.blocks,
                threads: launch.threads,
                arguments: launch.arguments.into_iter().map(argument).collect(),
            })
        });
        let begin = self.form_kernel("form_begin", args![places.own]);
        let number = Control::ACTIONS + index as u64;
        let check = self.form_kernel("form_check", args![places.own, number, Argument::Status]);
        [begin].into_iter().chain(launches).chain(then).chain([check]).collect()
    }

    /// A kernel of `forms.cu`.
    fn form_kernel(&self, kernel: &str, arguments: Vec<Argument<At>>) -> Command {
        let blocks = match kernel {
            "form_begin" | "form_check" => 1,
            _ => self.shares.codecs.max(1),
        };
        Command::Launch(Launch {
            program: "forms",
            kernel: kernel.into(),
            blocks,
            threads: 256,
            arguments,
        })
    }
}

/// What a codec's launches work on, and where scratch memory begins that they may use.
#[derive(Debug, Clone, Copy)]
struct Places {
    source: At,
    target: At,
    length: At,
    own: At,
    scratch: u64,
}

impl From<At> for Argument<At> {
    fn from(at: At) -> Self {
        Self::Address(at, 0)
    }
}
