//! The device that every machine has: layers on the processor, an arena with a hard cap for device
//! memory, and threads that copy at the speed of a link.

mod action;
mod gate;
mod injection;
mod lanes;
mod ledger;
mod link;
mod loads;
mod memory;
mod probe;
mod widened;

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use schema::{Basis, Bytes, Lane, Link, Plan, Task, TensorId, Timeline, Trace};

use super::check::check;
use super::forms::Forms;
use super::residents::{Residents, State};
use super::script::{Scratch, Script};
use super::{AccessError, Delays, Device, DeviceError, Fault, MemoryUse, RunFailure, Stop};
use crate::memory::{NoRoom, room_for};
use crate::network::Network;
use crate::network::bf16::{load, store};
use action::{ActionContext, Workbench};
use injection::Injection;
use lanes::{Iteration, lock};
use ledger::Ledger;
use link::Throttle;
pub use loads::HostLoads;
use memory::{Arena, Memory};
pub use probe::LinkProbe;

/// How a host device behaves.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Copies take as long as over this link.
    pub link: Link,
    /// What parameters and inputs are drawn from until the caller writes others.
    pub seed: u64,
    /// Host memory that the plan may have; none: as much as it asks for.
    pub host_memory: Option<Bytes>,
    /// Threads that work on one codec's tensor together, at least 1.
    pub codec_threads: usize,
    /// What is to go wrong.
    pub faults: Vec<Fault>,
    /// Random delays.
    pub delays: Option<Delays>,
    /// Stops the device.
    pub stop: Stop,
}

impl HostOptions {
    /// Copies as over `link`, seed 0, one thread for codecs, and nothing that goes wrong.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            seed: 0,
            host_memory: None,
            codec_threads: 1,
            faults: Vec::new(),
            delays: None,
            stop: Stop::default(),
        }
    }
}

/// The host as a device: compute on the thread that calls [`Device::run`], a thread for each other
/// lane while an iteration runs.
///
/// After an iteration that was stopped or failed, tensors hold anything, and the device is of no
/// more use: `run`, `read` and `write` say so. Nothing else is left behind.
pub struct HostDevice<'a> {
    plan: &'a Plan,
    trace: &'a Trace,
    context: ActionContext<'a>,
    ledger: Mutex<Ledger>,
    injection: Injection,
    benches: [Workbench; Lane::COUNT],
    residents: Residents,
    state: State,
    iterations: u64,
    stop: Stop,
}

impl<'a> HostDevice<'a> {
    /// A device for a plan of a network's trace, its constants as [`Network::initialise`] has them.
    ///
    /// # Errors
    /// If the plan is not safe, does not compute the trace, or the trace is not the network's; or
    /// if the memory is not to be had.
    pub fn new(
        network: &'a Network,
        trace: &'a Trace,
        plan: &'a Plan,
        options: &HostOptions,
    ) -> Result<Self, DeviceError> {
        check(network, trace, plan)?;
        let injection = Injection::new(plan, trace, &options.faults, options.delays)?;
        let residents = Residents::new(plan, trace)?;
        let script = Script::new(plan, network)?;
        let (arena, host_arena) = arenas(plan);
        if let Some(limit) = options.host_memory
            && host_arena > limit
        {
            return Err(DeviceError::HostMemory { needed: host_arena, limit });
        }
        let scratch: usize = script.scratch.iter().map(|of| of.small + of.raw).sum();
        // Ops beside compute work on cells of their own.
        let works = |lane: &Lane| !script.queues[lane.index()].is_empty();
        let beside: Vec<Lane> = [Lane::Host, Lane::Net].into_iter().filter(works).collect();
        let cells = widened::cells(network);
        let scratch = (scratch + beside.len() * cells * size_of::<f32>()) as u64;
        let needed = memory_needed(network, arena.0).saturating_add(host_arena.0);
        let needed = u64::saturating_add(needed, scratch);
        let what = format!("the plan for {}, both arenas and what ops work in,", plan.trace.name);
        room_for(&what, needed, SMALLER)?;
        let room = |bytes: Bytes| {
            let made = usize::try_from(bytes.0).ok().and_then(Arena::new);
            made.ok_or_else(|| NoRoom::new(&what, bytes.0, SMALLER))
        };
        let mut memory = Memory { device: room(arena)?, host: room(host_arena)? };
        for (tensor, place) in residents.before() {
            let mut cells = vec![0.0; network.tensor(tensor).elements];
            network.initialise(tensor, options.seed, &mut cells);
            store(network, tensor, &cells, memory.resident(place));
        }
        let threads = (!script.codecs.is_empty()).then(|| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(options.codec_threads.max(1));
            let named = threads.thread_name(|number| format!("codec {number}"));
            named.build().map_err(|why| DeviceError::NoThread { why: why.to_string() })
        });
        let bench = |scratch: &Scratch| Workbench {
            small: vec![0; scratch.small],
            raw: vec![0; scratch.raw],
            cells: Vec::new(),
        };
        let mut benches = script.scratch.each_ref().map(bench);
        for lane in beside.into_iter().chain([Lane::Compute]) {
            benches[lane.index()].cells = vec![0.0; cells];
        }
        Ok(Self {
            plan,
            trace,
            benches,
            context: ActionContext {
                network,
                forms: Forms::new(script.forms),
                script,
                memory,
                throttle: Throttle::new(options.link.clone()),
                threads: threads.transpose()?,
            },
            ledger: Mutex::new(Ledger::new(plan)),
            injection,
            residents,
            state: State::New,
            iterations: 0,
            stop: options.stop.clone(),
        })
    }

    fn timeline(&self) -> Timeline {
        let ledger = lock(&self.ledger);
        let (plan, trace) = (self.plan, Some(self.trace));
        let mut timeline = simulator::timeline(plan, trace, Basis::Measured, &ledger.events);
        let copies = timeline.intervals.iter_mut().zip(&ledger.moved);
        for (interval, moved) in copies {
            // Of compressed forms there may be less than was reserved.
            if matches!(interval.task, Task::D2h(_) | Task::H2d(_)) {
                interval.bytes = Bytes(*moved);
            }
        }
        timeline
    }
}

/// How far a plan's buffers reach, on the device and on the host. Of a budget that is larger nothing is
/// taken: writing its pages once would take longer than a small network's iterations.
fn arenas(plan: &Plan) -> (Bytes, Bytes) {
    let ends = plan.buffers.iter().map(|buffer| buffer.address.saturating_add(buffer.bytes.0));
    let on_host = plan.host_buffers.iter();
    let on_host = on_host.map(|buffer| buffer.address.saturating_add(buffer.bytes.0));
    (Bytes(ends.max().unwrap_or(0)), Bytes(on_host.max().unwrap_or(0)))
}

/// What makes a plan need less memory.
const SMALLER: &str = "plan with a smaller budget, or choose a smaller batch";

/// Bytes of the memory that a device takes for a network beside the host arena and what codecs work
/// in: the device arena of so many bytes, operands in 16 bits as cells, and one constant on its way
/// into the arena.
pub fn memory_needed(network: &Network, arena: u64) -> u64 {
    let constants = network.tensors().iter().filter(|tensor| tensor.is_constant());
    let largest = constants.map(|tensor| tensor.elements).max().unwrap_or(0);
    let cells = (widened::cells(network) as u64).saturating_add(largest as u64);
    cells.saturating_mul(4).saturating_add(arena)
}

impl Device for HostDevice<'_> {
    fn write(&mut self, tensor: TensorId, data: &[f32]) -> Result<(), AccessError> {
        let now = (self.context.network, self.state);
        let place = self.residents.place_to_write(now, tensor, data.len())?;
        let ActionContext { network, memory, .. } = &mut self.context;
        store(network, tensor, data, memory.resident(place));
        Ok(())
    }

    fn read(&mut self, tensor: TensorId, data: &mut [f32]) -> Result<(), AccessError> {
        let now = (self.context.network, self.state);
        let place = self.residents.place(now, tensor, data.len())?;
        let ActionContext { network, memory, .. } = &mut self.context;
        load(network, tensor, memory.resident(place), data);
        Ok(())
    }

    fn run(&mut self) -> Result<Timeline, RunFailure> {
        match self.state {
            _ if self.stop.is_requested() => return Err(RunFailure::Stopped),
            State::Unusable => return Err(RunFailure::Unusable),
            State::Between => {
                let read = |arena: &mut Arena, place| Ok(arena.bytes(place).to_vec());
                let put = self.residents.put_back(
                    &mut self.context.memory.device,
                    read,
                    |to, at, data| {
                        to.bytes(at).copy_from_slice(data);
                        Ok::<_, Infallible>(())
                    },
                );
                put.unwrap_or_else(|never| match never {});
            }
            State::New => {}
        }
        self.context.forms.clear();
        // Unless it comes to its end.
        self.state = State::Unusable;
        let Self { plan, context, ledger, injection, iterations, stop, .. } = self;
        let iteration = Iteration::new(plan, context, ledger, injection, *iterations, stop);
        let ended = iteration.run(&mut self.benches);
        ended.map_err(|interruption| interruption.failure(self.plan, self.trace))?;
        self.state = State::Between;
        self.iterations += 1;
        Ok(self.timeline())
    }

    fn memory(&self) -> MemoryUse {
        let ledger = lock(&self.ledger);
        let scratch: usize = self.benches.iter().map(Workbench::bytes).sum();
        MemoryUse {
            arena: Bytes(ledger.highest),
            live: Bytes(ledger.most),
            host_arena: Bytes(ledger.highest_on_host),
            outside: Bytes(scratch as u64 + self.context.forms.most_kept()),
            fallbacks: self.context.forms.fallbacks.load(Ordering::Relaxed),
        }
    }
}
