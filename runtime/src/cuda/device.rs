//! The device that runs plans on CUDA.

use std::collections::BTreeSet;
use std::sync::Arc;

use schema::{ActionId, Basis, Bytes, Lane, Plan, Task, TensorId, Timeline, Trace};

use super::by_host::ByHost;
use super::commands::{At, Command, CommandError, Commands, Control, Shares};
use super::driver::{Context, DeviceMemory, Stream, Urgency};
use super::graph::Graph;
use super::launches::{Argument, Means};
use super::libraries::{Libraries, Opened};
use super::moments::Moments;
use super::places::{Places, array};
use super::steps::Steps;
use super::zeros::Zeros;
use super::{CudaError, blocks_of, programs};
use crate::device::check::check;
use crate::device::residents::{Resident, Residents, State};
use crate::device::script::Place;
use crate::device::{
    AccessError, ActionError, Device, DeviceError, Interruption, MemoryUse, RunFailure, Stop,
};
use crate::network::Network;
use crate::network::bf16::{load, store};

/// How a CUDA device behaves.
#[derive(Debug, Clone)]
pub struct CudaOptions {
    /// Which device, counted from 0.
    pub ordinal: usize,
    /// What parameters and inputs are drawn from until the caller writes others.
    pub seed: u64,
    /// Share of the multiprocessors that codecs may take, in percent.
    pub codec_percent: u8,
    /// Whether products are cuBLAS's where its library is there. Otherwise they are kernels of this
    /// crate, which are slower.
    pub blas: bool,
    /// Whether convolutions, means and softmax are cuDNN's where its library is there.
    pub dnn: bool,
    /// Whether iterations from the second on are launched as one CUDA graph.
    pub graph: bool,
    /// Whether zeros of what ops write are counted, which takes time.
    pub count_zeros: bool,
    /// Stops the device; an iteration that is a graph comes to its end first.
    pub stop: Stop,
}

impl Default for CudaOptions {
    /// The first device, seed 0, a quarter of the multiprocessors for codecs, cuBLAS and cuDNN, no
    /// graph.
    fn default() -> Self {
        Self {
            ordinal: 0,
            seed: 0,
            codec_percent: 25,
            blas: true,
            dnn: true,
            graph: false,
            count_zeros: false,
            stop: Stop::default(),
        }
    }
}

/// Why there is no CUDA device for a plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what is wrong")]
pub enum OpenError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Plan(#[from] DeviceError),
    #[error(transparent)]
    Commands(#[from] CommandError),
}

/// Whether the device of this number answers. After some failures it does not until the process
/// ends.
///
/// # Errors
/// What the driver says, if it does not.
pub fn check_device(ordinal: usize) -> Result<(), CudaError> {
    Context::open(ordinal)?.synchronize()
}

/// A CUDA device for a plan of a network's trace, its constants as [`Network::initialise`] has
/// them.
///
/// Everything that can be refused is refused here: a plan that is not safe or not the network's, an
/// op or codec without a kernel, and then a missing library, device or memory.
///
/// # Errors
/// [`OpenError`], with what is wrong and the remedy.
pub fn open<'a>(
    network: &'a Network,
    trace: &'a Trace,
    plan: &'a Plan,
    options: &CudaOptions,
) -> Result<CudaDevice<'a>, OpenError> {
    check(network, trace, plan)?;
    let residents = Residents::new(plan, trace)?;
    // With any number of blocks: what is refused is refused before a device is looked for.
    let none = Means::kernels(1);
    let all = BTreeSet::new();
    Commands::new(plan, network, Shares { layers: none, codecs: 1 }, &all)?;
    let context = Context::open(options.ordinal)?;
    let blocks = blocks_of(context.multiprocessors, 100);
    let codecs = blocks_of(context.multiprocessors, options.codec_percent);
    let streams = array(|lane| context.stream(Urgency::of(Lane::ALL[lane])))?;
    let wanted = Means { blas: options.blas, dnn: options.dnn, ..Means::kernels(blocks) };
    let (opened, layers) = Opened::new(&context, &streams[Lane::Compute.index()], network, wanted)?;
    let mut commands = Commands::new(plan, network, Shares { layers, codecs }, opened.not_dnn())?;
    let zeros = options.count_zeros.then(|| commands.count_zeros(plan, network, blocks));
    let zeros = zeros.transpose()?;
    let works = commands.issues.iter().flat_map(|issue| issue.host_work());
    let by_host = Arc::new(ByHost::new(works, commands.forms));
    let used: BTreeSet<&str> = launches(&commands).map(|launch| launch.program).collect();
    let programs: Vec<_> =
        programs().into_iter().filter(|program| used.contains(program.name())).collect();
    let kernels = context.kernels(&programs)?;
    let places = Places::new(&context, plan, &commands)?;
    let mut device = CudaDevice {
        network,
        plan,
        trace,
        steps: Steps::new(&commands, &kernels, &places, &by_host)?,
        by_host,
        places,
        opened,
        as_graph: options.graph,
        graph: None,
        streams,
        moments: Moments::new(&context, &commands)?,
        context,
        commands,
        zeros,
        residents,
        state: State::New,
        memory: MemoryUse::default(),
        stop: options.stop.clone(),
    };
    device.initialise(options.seed)?;
    Ok(device)
}

fn launches(commands: &Commands) -> impl Iterator<Item = &codecs::kernels::Launch<Argument<At>>> {
    commands.issues.iter().flat_map(|issue| &issue.commands).filter_map(|command| match command {
        Command::Launch(launch) => Some(launch),
        Command::Copy { .. } | Command::ByHost(_) => None,
    })
}

/// A CUDA device: a stream for each lane, one arena on the device, one in pinned memory. Commands
/// are handed out by the thread that calls [`Device::run`]; what waits for what, streams settle by
/// events.
///
/// After an iteration that was stopped or failed, tensors hold anything, and the device is of no
/// more use.
pub struct CudaDevice<'a> {
    network: &'a Network,
    plan: &'a Plan,
    trace: &'a Trace,
    pub(super) commands: Commands,
    /// Where zeros are counted, if they are.
    pub(super) zeros: Option<Zeros>,
    residents: Residents,
    state: State,
    memory: MemoryUse,
    pub(super) stop: Stop,
    pub(super) steps: Steps,
    /// Before the stream that they work on, so that they are given back before.
    pub(super) opened: Opened,
    /// Whether iterations are launched as a graph, and the graph.
    pub(super) as_graph: bool,
    pub(super) graph: Option<Graph>,
    pub(super) streams: [Stream; Lane::COUNT],
    pub(super) moments: Moments,
    pub(super) places: Places,
    by_host: Arc<ByHost>,
    pub(super) context: Context,
}

impl CudaDevice<'_> {
    /// The device's name, as its driver has it.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Whose libraries compute.
    pub fn libraries(&self) -> Libraries {
        self.opened.libraries(launches(&self.commands))
    }

    /// The share of zeros of each tensor of floats that the last iteration wrote; of none unless
    /// the device counts them.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn zeros(&self) -> Result<Vec<Option<f64>>, CudaError> {
        let tensors = self.network.tensors().len();
        let Some(zeros) = self.zeros.as_ref().filter(|_| self.state == State::Between) else {
            return Ok(vec![None; tensors]);
        };
        let mut counts = zeros.nothing();
        self.places.control.read(zeros.at, &mut counts)?;
        Ok(zeros.shares(&counts, tensors))
    }

    fn initialise(&mut self, seed: u64) -> Result<(), CudaError> {
        let places: Vec<_> = self.residents.before().collect();
        for (tensor, place) in places {
            let mut cells = vec![0.0; self.network.tensor(tensor).elements];
            self.network.initialise(tensor, seed, &mut cells);
            self.store(tensor, place, &cells)?;
        }
        Ok(())
    }

    fn store(&mut self, tensor: TensorId, to: Resident, cells: &[f32]) -> Result<(), CudaError> {
        let (Resident::Device(place) | Resident::Host(place)) = to;
        let mut bytes = vec![0u8; place.bytes];
        store(self.network, tensor, cells, &mut bytes);
        match to {
            Resident::Device(_) => self.places.arena.write(place.begin as u64, &bytes),
            Resident::Host(_) => {
                self.places.host.bytes(place.begin as u64, place.bytes).copy_from_slice(&bytes);
                Ok(())
            }
        }
    }

    fn put_back(&mut self) -> Result<(), CudaError> {
        let read = |arena: &mut DeviceMemory, place: Place| {
            let mut bytes = vec![0u8; place.bytes];
            arena.read(place.begin as u64, &mut bytes).map(|()| bytes)
        };
        let write =
            |arena: &mut DeviceMemory, at: Place, data: &[u8]| arena.write(at.begin as u64, data);
        self.residents.put_back(&mut self.places.arena, read, write)
    }

    /// What kernels say of the iteration, and when its actions started and ended.
    fn read_back(&mut self) -> Result<Timeline, Interruption> {
        let mut control = [0u64; 2];
        self.places.control.read(Control::STATUS, &mut control)?;
        let [status, fallbacks] = control;
        if status != u64::MAX {
            return Err(self.interrupted_by(status));
        }
        let by_host = self.by_host.read_back()?;
        let moments = self.moments.read_back(&self.commands)?;
        let (plan, trace) = (self.plan, Some(self.trace));
        let timeline = simulator::timeline(plan, trace, Basis::Measured, &moments);
        self.account(timeline.peak, fallbacks + by_host);
        Ok(timeline)
    }

    fn account(&mut self, peak: Bytes, fallbacks: u64) {
        let end = |ends: &mut dyn Iterator<Item = u64>| Bytes(ends.max().unwrap_or(0));
        let used = self.plan.buffers.iter().filter(|buffer| buffer.bytes > Bytes::ZERO);
        let hosts = self.plan.host_buffers.iter().filter(|buffer| buffer.bytes > Bytes::ZERO);
        let outside = self.commands.control_bytes
            + self.commands.scratch.iter().sum::<u64>()
            + self.commands.staging.iter().sum::<u64>()
            + self.by_host.held()
            + self.opened.workspace_bytes();
        self.memory = MemoryUse {
            arena: end(&mut used.map(|buffer| buffer.address + buffer.bytes.0)),
            live: self.memory.live.max(peak),
            host_arena: end(&mut hosts.map(|buffer| buffer.address + buffer.bytes.0)),
            outside: Bytes(outside),
            fallbacks: self.memory.fallbacks + fallbacks,
        };
    }

    /// What the status says: the action whose codec failed, or the op whose labels are wrong.
    fn interrupted_by(&self, status: u64) -> Interruption {
        let device = |what: &str| ActionError::Device { what: what.into() };
        if let Some(action) = status.checked_sub(Control::ACTIONS) {
            let what = match self.plan.actions.get(action as usize).map(|action| action.task) {
                Some(Task::Compress(_)) => "a value is not finite, which the codec cannot keep",
                _ => "the compressed form is damaged",
            };
            return Interruption::Failed(ActionId(action as u32), device(what));
        }
        let ran = |task: Task| matches!(task, Task::Run(op) | Task::Recompute(op) if u64::from(op.0) == status);
        let index = self.plan.actions.iter().position(|action| ran(action.task)).unwrap_or(0);
        let what = "a label or token is no class of the loss or row of the table";
        Interruption::Failed(ActionId::from_index(index), device(what))
    }
}

/// What fails for the device as a whole fails its first action.
impl From<CudaError> for Interruption {
    fn from(error: CudaError) -> Self {
        Self::Failed(ActionId(0), failure(error))
    }
}

pub(super) fn failure(error: CudaError) -> ActionError {
    ActionError::Device { what: error.to_string() }
}

impl Device for CudaDevice<'_> {
    fn write(&mut self, tensor: TensorId, data: &[f32]) -> Result<(), AccessError> {
        let now = (self.network, self.state);
        let place = self.residents.place_to_write(now, tensor, data.len())?;
        let written = self.store(tensor, place, data);
        written.map_err(|_| self.lost())
    }

    fn read(&mut self, tensor: TensorId, data: &mut [f32]) -> Result<(), AccessError> {
        let now = (self.network, self.state);
        let place = self.residents.place(now, tensor, data.len())?;
        match place {
            Resident::Device(place) => {
                let mut bytes = vec![0u8; place.bytes];
                let read = self.places.arena.read(place.begin as u64, &mut bytes);
                read.map_err(|_| self.lost())?;
                load(self.network, tensor, &bytes, data);
            }
            Resident::Host(place) => {
                let bytes = self.places.host.bytes(place.begin as u64, place.bytes);
                load(self.network, tensor, bytes, data);
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Timeline, RunFailure> {
        let (plan, trace) = (self.plan, self.trace);
        let failure = |interruption: Interruption| interruption.failure(plan, trace);
        match self.state {
            _ if self.stop.is_requested() => return Err(RunFailure::Stopped),
            State::Unusable => return Err(RunFailure::Unusable),
            State::Between => self.put_back().map_err(|error| failure(error.into()))?,
            State::New => {}
        }
        // Unless it comes to its end.
        let state = std::mem::replace(&mut self.state, State::Unusable);
        let handed_out = self.hand_out(state);
        // Whatever was handed out ends before anybody looks.
        let drained = self.context.synchronize();
        handed_out.map_err(failure)?;
        drained.map_err(|error| failure(error.into()))?;
        let timeline = self.read_back().map_err(failure)?;
        self.state = State::Between;
        Ok(timeline)
    }

    fn memory(&self) -> MemoryUse {
        self.memory
    }

    fn computed_by(&self) -> Option<String> {
        Some(self.libraries().to_string())
    }
}

impl CudaDevice<'_> {
    fn lost(&mut self) -> AccessError {
        self.state = State::Unusable;
        AccessError::Unusable
    }
}

impl Drop for CudaDevice<'_> {
    fn drop(&mut self) {
        // Before memory is given back. What fails has no remedy here.
        let _ = self.context.synchronize();
    }
}
