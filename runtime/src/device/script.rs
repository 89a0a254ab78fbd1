//! A plan as lanes carry it out: for each action, what it waits for and what it works on.

use codecs::claims::codec_of;
use codecs::{Codec, Layout};
use schema::{
    Action, ActionId, BufferId, CodecId, Direction, HostBufferId, Lane, OpId, Plan, Processor,
    Task, TensorId,
};
use simulator::HappensBefore;

use super::DeviceError;
use crate::network::Network;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub begin: usize,
    pub bytes: usize,
}

impl Place {
    pub const NOTHING: Self = Self { begin: 0, bytes: 0 };
}

#[derive(Debug)]
pub(crate) enum Work {
    Op(OpWork),
    Copy(CopyWork),
    Compress(CodecWork),
    Decompress(CodecWork),
}

/// Operands of an op, in the op's order.
#[derive(Debug)]
pub(crate) struct OpWork {
    pub op: OpId,
    /// Its operands are in the host's arena: the host's processor runs it.
    pub there: bool,
    /// None for an input that an output lies over.
    pub reads: Vec<Option<Place>>,
    pub updates: Vec<Place>,
    pub writes: Vec<Place>,
    pub workspace: Place,
}

#[derive(Debug)]
pub(crate) struct CopyWork {
    pub direction: Direction,
    pub device: Place,
    pub host: Place,
    /// The compressed form that is copied, or that the host's processor makes and unmakes.
    pub form: Option<usize>,
    /// What the host's processor makes it with.
    pub packed_by_host: Option<Packing>,
}

#[derive(Debug)]
pub(crate) struct CodecWork {
    pub packing: Packing,
    pub raw: Place,
    pub small: Place,
    /// Where the tensor itself goes when the data does worse than was reserved for.
    pub host: Option<Place>,
    pub form: usize,
}

/// A codec, by its position, and what it takes tensors for.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub codec: usize,
    pub layout: Layout,
}

pub(crate) struct Script {
    /// The actions of each lane in order.
    pub queues: [Vec<u32>; Lane::COUNT],
    /// What has ended before an action starts, its pacing included.
    pub order: HappensBefore,
    /// The ends that each action waits for, beside those of its own lane.
    pub waits: Vec<Vec<ActionId>>,
    pub work: Vec<Work>,
    /// The codecs that the plan lists.
    pub codecs: Vec<Box<dyn Codec>>,
    /// How many compressed forms there are in an iteration.
    pub forms: usize,
    /// Memory that each lane's codecs work in: for what a codec writes, and for a tensor that the
    /// host's processor works on.
    pub scratch: [Scratch; Lane::COUNT],
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scratch {
    pub small: usize,
    pub raw: usize,
}

impl Script {
    /// The script of a plan that is safe and computes a trace of `network`.
    pub fn new(plan: &Plan, network: &Network) -> Result<Self, DeviceError> {
        let mut queues: [Vec<u32>; Lane::COUNT] = Default::default();
        for (index, action) in plan.actions.iter().enumerate() {
            queues[plan.lane(action).index()].push(index as u32);
        }
        let (order, waits) = HappensBefore::paced(plan);
        let mut writer = Writer {
            plan,
            network,
            codecs: codecs_of(plan)?,
            forms: 0,
            form_of_buffer: vec![None; plan.buffers.len()],
            form_of_host: vec![None; plan.host_buffers.len()],
            scratch: [Scratch::default(); Lane::COUNT],
        };
        let work: Result<_, _> = plan.actions.iter().map(|action| writer.work(action)).collect();
        let (codecs, forms, scratch) = (writer.codecs, writer.forms, writer.scratch);
        Ok(Self { queues, order, waits, work: work?, codecs, forms, scratch })
    }
}

fn codecs_of(plan: &Plan) -> Result<Vec<Box<dyn Codec>>, DeviceError> {
    let make = |codec: &schema::CodecRef| {
        codec_of(codec).map_err(|source| DeviceError::Codec { codec: codec.clone(), source })
    };
    plan.codecs.iter().map(make).collect()
}

struct Writer<'a> {
    plan: &'a Plan,
    network: &'a Network,
    codecs: Vec<Box<dyn Codec>>,
    forms: usize,
    /// The compressed form that each buffer holds, as actions are gone through in order.
    form_of_buffer: Vec<Option<usize>>,
    form_of_host: Vec<Option<usize>>,
    scratch: [Scratch; Lane::COUNT],
}

impl Writer<'_> {
    fn work(&mut self, action: &Action) -> Result<Work, DeviceError> {
        match action.task {
            Task::Run(op) | Task::Recompute(op) => self.op(action, op).map(Work::Op),
            Task::D2h(tensor) => self.copy(action, tensor, Direction::D2h).map(Work::Copy),
            Task::H2d(tensor) => self.copy(action, tensor, Direction::H2d).map(Work::Copy),
            Task::Compress(tensor) => {
                let form = self.new_form();
                let small = action.writes[0];
                self.form_of_buffer[small.index()] = Some(form);
                let work = self.codec(action, tensor, (action.reads[0], small), form);
                work.map(Work::Compress)
            }
            Task::Decompress(tensor) => {
                let small = action.reads[0];
                let form = self.form(small)?;
                let work = self.codec(action, tensor, (action.writes[0], small), form);
                work.map(Work::Decompress)
            }
        }
    }

    fn op(&self, action: &Action, id: OpId) -> Result<OpWork, DeviceError> {
        let op = self.network.op(id);
        if action.on == Processor::Host {
            return self.op_there(action, id);
        }
        let place = |buffers: &[BufferId], tensor: TensorId| {
            let holds = |b: &&BufferId| self.plan.buffers[b.index()].tensor == Some(tensor);
            let buffer =
                *buffers.iter().find(holds).ok_or(DeviceError::NoOperand { op: id, tensor })?;
            Ok::<_, DeviceError>((buffer, self.device(buffer)?))
        };
        let read = |tensor: &TensorId| {
            let (buffer, place) = place(&action.reads, *tensor)?;
            let Some(pair) = action.in_place.iter().find(|pair| pair.input == buffer) else {
                return Ok(Some(place));
            };
            let why = "lies over another in part: an output takes an input's place as a whole";
            match self.device(pair.output)? == place {
                true => Ok(None),
                false => Err(DeviceError::Buffer { buffer: pair.output, why }),
            }
        };
        let workspace = action.writes.iter();
        let workspace = workspace.filter(|b| self.plan.buffers[b.index()].tensor.is_none());
        let largest = workspace.copied().max_by_key(|b| self.plan.buffers[b.index()].bytes);
        let workspace = largest.map_or(Ok(Place::NOTHING), |buffer| self.device(buffer))?;
        if let Some(buffer) = largest
            && workspace.bytes / 4 < op.step.workspace_floats()
        {
            let why = "is too small a workspace for its op";
            return Err(DeviceError::Buffer { buffer, why });
        }
        let written = |tensor: &TensorId| Ok(place(&action.writes, *tensor)?.1);
        let updated = |tensor: &TensorId| Ok(place(&action.reads, *tensor)?.1);
        Ok(OpWork {
            op: id,
            there: false,
            reads: op.reads.iter().map(read).collect::<Result<_, _>>()?,
            updates: op.updates.iter().map(updated).collect::<Result<_, DeviceError>>()?,
            writes: op.writes.iter().map(written).collect::<Result<_, DeviceError>>()?,
            workspace,
        })
    }

    /// An update that the host's processor runs, on host buffers.
    fn op_there(&self, action: &Action, id: OpId) -> Result<OpWork, DeviceError> {
        let op = self.network.op(id);
        let place = |tensor: &TensorId| {
            let is_of = |b: &&HostBufferId| self.plan.host_buffers[b.index()].tensor == *tensor;
            let found = action.there.iter().find(is_of).map(|host| self.host(*host));
            let element = self.network.tensor(*tensor).element_bytes();
            let found = found.filter(|place| {
                place.begin.is_multiple_of(4) && place.bytes.is_multiple_of(element)
            });
            found.ok_or(DeviceError::NoOperand { op: id, tensor: *tensor })
        };
        Ok(OpWork {
            op: id,
            there: true,
            reads: op.reads.iter().map(|id| place(id).map(Some)).collect::<Result<_, _>>()?,
            updates: op.updates.iter().map(place).collect::<Result<_, _>>()?,
            writes: Vec::new(),
            workspace: Place::NOTHING,
        })
    }

    fn copy(
        &mut self,
        action: &Action,
        tensor: TensorId,
        direction: Direction,
    ) -> Result<CopyWork, DeviceError> {
        let copied = match direction {
            Direction::D2h => action.reads[0],
            Direction::H2d => action.writes[0],
        };
        let host = action
            .host
            .ok_or(DeviceError::Buffer { buffer: copied, why: "is copied to or from nowhere" })?;
        let device = self.bytes(copied);
        let by_host = self.plan.packed_by_host(action);
        let packed_by_host = by_host.map(|codec| self.packing(codec, tensor)).transpose()?;
        let form = match (direction, &packed_by_host) {
            (Direction::D2h, Some(packing)) => {
                let small = self.worst_case(packing);
                let scratch = &mut self.scratch[Lane::D2h.index()];
                scratch.small = scratch.small.max(small);
                scratch.raw = scratch.raw.max(device.bytes);
                let form = self.new_form();
                self.form_of_host[host.index()] = Some(form);
                Some(form)
            }
            (Direction::D2h, None) => {
                let form = self.form_of_buffer[copied.index()];
                self.form_of_host[host.index()] = form;
                form
            }
            (Direction::H2d, packed) => {
                let form = self.form_of_host[host.index()];
                if packed.is_some() {
                    let scratch = &mut self.scratch[Lane::H2d.index()];
                    scratch.raw = scratch.raw.max(device.bytes);
                } else {
                    self.form_of_buffer[copied.index()] = form;
                }
                form
            }
        };
        Ok(CopyWork { direction, device, host: self.host(host), form, packed_by_host })
    }

    fn codec(
        &mut self,
        action: &Action,
        tensor: TensorId,
        (raw, small): (BufferId, BufferId),
        form: usize,
    ) -> Result<CodecWork, DeviceError> {
        let why = "is a compressed form of no codec";
        let codec = self.plan.buffers[small.index()].compressed;
        let codec = codec.ok_or(DeviceError::Buffer { buffer: small, why })?;
        let packing = self.packing(codec, tensor)?;
        let needed = self.worst_case(&packing);
        let (raw, small) = (self.bytes(raw), self.bytes(small));
        if let Task::Compress(_) = action.task {
            let scratch = &mut self.scratch[self.plan.lane(action).index()];
            scratch.small = scratch.small.max(needed);
        }
        Ok(CodecWork { packing, raw, small, host: action.host.map(|host| self.host(host)), form })
    }

    fn new_form(&mut self) -> usize {
        self.forms += 1;
        self.forms - 1
    }

    fn form(&self, buffer: BufferId) -> Result<usize, DeviceError> {
        let why = "is a compressed form that nothing made";
        self.form_of_buffer[buffer.index()].ok_or(DeviceError::Buffer { buffer, why })
    }

    /// Tensors are sequences to a codec: a network's storage has no shape.
    fn packing(&self, codec: CodecId, tensor: TensorId) -> Result<Packing, DeviceError> {
        let of = self.network.tensor(tensor);
        let error = |source| {
            let codec = self.plan.codecs[codec.index()].clone();
            DeviceError::Codec { codec, source }
        };
        let layout = Layout::new(of.dtype, &[of.elements]).map_err(error)?;
        self.codecs[codec.index()].check_dtype(of.dtype).map_err(error)?;
        Ok(Packing { codec: codec.index(), layout })
    }

    fn worst_case(&self, packing: &Packing) -> usize {
        self.codecs[packing.codec].worst_case(&packing.layout)
    }

    /// The place of a buffer that holds elements, or workspace.
    fn device(&self, buffer: BufferId) -> Result<Place, DeviceError> {
        let place = self.bytes(buffer);
        let tensor = self.plan.buffers[buffer.index()].tensor;
        let element = tensor.map_or(4, |tensor| self.network.tensor(tensor).element_bytes());
        match place.begin.is_multiple_of(4) && place.bytes.is_multiple_of(element) {
            true => Ok(place),
            false => {
                Err(DeviceError::Buffer { buffer, why: "does not lie at a multiple of 4 bytes" })
            }
        }
    }

    fn bytes(&self, buffer: BufferId) -> Place {
        let buffer = &self.plan.buffers[buffer.index()];
        Place { begin: buffer.address as usize, bytes: buffer.bytes.0 as usize }
    }

    fn host(&self, host: HostBufferId) -> Place {
        let host = &self.plan.host_buffers[host.index()];
        Place { begin: host.address as usize, bytes: host.bytes.0 as usize }
    }
}
