//! "How long, and how high a peak, under these decisions?"

mod explicit;

use std::sync::atomic::{AtomicU64, Ordering};

use schema::{Bytes, CodecCost, Direction, Link, Nanos, OpId, TensorId};

use crate::copy_times::CopyTimes;
use crate::lanes::Speeds;
use crate::policy::Policy;
use crate::sequence::{Sequence, StepError};
use crate::timing::Timing;
use crate::{
    CodecLane, Codecs, Home, Model, NO_OP, OffloadStart, Packing, Position, Residency, Treatment,
};

/// Why decisions cannot be carried out under the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Infeasible {
    /// Too much is on the device at once.
    #[error("{op} needs {needed} on the device at once")]
    Memory {
        /// What would be on the device.
        needed: Bytes,
        /// The op during which it would be.
        op: OpId,
    },
    /// A copy in that its policy starts without regard to memory does not fit.
    #[error("a copy in beside {op} needs {needed} on the device at once")]
    Prefetch {
        /// What would be on the device.
        needed: Bytes,
        /// The op beside which it would be.
        op: OpId,
    },
    /// Too much is on the host at once.
    #[error(
        "the host would hold {needed} at once, which is more than its memory or `--host-budget`"
    )]
    HostMemory {
        /// What would be on the host.
        needed: Bytes,
    },
    /// Something was given up that cannot be made again.
    #[error("{tensor} is needed again, and what makes it cannot be run again by then")]
    NotRerunnable { tensor: TensorId },
    /// Something is to be made smaller that the codec does not make smaller.
    #[error("{tensor} does not become smaller by that codec, as far as is known")]
    NotCompressible { tensor: TensorId },
    /// Recomputation runs away.
    #[error("more ops would be run again than is sensible, for {before} at the latest")]
    TooManyRecomputations { before: OpId },
    /// An explicit schedule has a step that cannot be taken.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl Infeasible {
    /// The device memory that these decisions would need, where that is what lacks.
    pub fn needed(&self) -> Option<Bytes> {
        match self {
            Self::Memory { needed, .. } | Self::Prefetch { needed, .. } => Some(*needed),
            _ => None,
        }
    }
}

/// What decisions lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Time of the iteration, all lanes drained.
    pub iteration: Nanos,
    /// Largest sum of live buffers. With copies, or a lane for codecs, a plan's may be a little larger,
    /// though never larger than the budget: what waits here for memory may start earlier there, where
    /// its addresses are free.
    pub peak: Bytes,
    /// Largest sum of host buffers.
    pub host_peak: Bytes,
    /// Time spent on running ops again.
    pub recompute: Nanos,
    /// Time spent in codecs.
    pub codec: Nanos,
    /// Time for which compute stood idle between two runs.
    pub stall: Nanos,
}

/// One copy of a recorded evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedCopy {
    /// The swap: its position in [`Record::outs`].
    pub swap: u32,
    /// The tensor.
    pub tensor: TensorId,
    /// The codec that made the compressed form, where it is that that is copied.
    pub codec: Option<u8>,
    /// The codec by which the host keeps it smaller, where it is the tensor itself that is copied.
    pub there: Option<u8>,
    /// Where the tensor has its home on the host: this goes there, or is there from the start.
    pub home: Option<Home>,
    /// The position of the compute lane after whose use it leaves, or before whose use it is back.
    pub position: u32,
    /// The run that must have ended because the policy wants it so, where it does.
    pub gate: Option<u32>,
    /// When it starts and ends.
    pub span: (Nanos, Nanos),
    /// When it starts and ends in the order of events.
    pub events: (u32, u32),
}

/// An evaluation with all that a plan is made from.
#[derive(Debug, Clone)]
pub struct Record {
    /// What the decisions lead to.
    pub outcome: Outcome,
    /// Runs of ops and codecs in the order in which memory is accounted for; the last position is
    /// the end of the iteration. On compute, unless codecs have a lane of their own.
    pub positions: Vec<Position>,
    /// When each position starts and ends.
    pub runs: Vec<(Nanos, Nanos)>,
    /// When each position starts and ends in the order of events.
    pub run_events: Vec<(u32, u32)>,
    /// Where codecs have a lane of their own: (position of a codec, run that must have ended),
    /// because it is not to start earlier.
    pub codec_gates: Vec<(u32, u32)>,
    /// Copies that a run awaits because the policy wants it so: (position, swap out or back).
    pub awaited: Vec<Awaited>,
    /// Copies out in their order, after what is on the host from the start, which nothing copies.
    pub outs: Vec<RecordedCopy>,
    /// Copies in in their order.
    pub backs: Vec<RecordedCopy>,
    /// The compressed forms, in the order in which they are made.
    pub packings: Vec<Packing>,
    /// Who is where from when to when.
    pub residencies: Vec<Residency>,
    /// What the host's processor runs, in order.
    pub updates: Vec<RecordedUpdate>,
    /// (position, input, output): the output lies over the input.
    pub donations: Vec<(u32, TensorId, TensorId)>,
}

/// An update that the host's processor runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedUpdate {
    /// The op.
    pub op: OpId,
    /// The run that must have ended because it comes before it in the trace.
    pub gate: Option<u32>,
    /// How long it takes.
    pub duration: Nanos,
    /// The swaps whose host buffers it works on, by their positions in [`Record::outs`].
    pub swaps: Vec<u32>,
    /// When it starts and ends in the order of events.
    pub events: (u32, u32),
}

/// A run and the copies of a synchronous policy that it awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// The run.
    pub position: u32,
    /// The latest copy out that it awaits.
    pub out: Option<u32>,
    /// The latest copy in that it awaits.
    pub back: Option<u32>,
}

/// Evaluates decisions for one trace, link, policy and budget.
///
/// Nothing is allocated per call once the evaluator has seen decisions of their kind, and a call
/// goes on from where its decisions first differ from those of the call before: a change of one
/// tensor costs the part of the iteration after that tensor's gap begins.
#[derive(Debug, Clone)]
pub struct Evaluator<'a> {
    model: &'a Model,
    link: &'a Link,
    codecs: &'a Codecs,
    copies: CopyTimes,
    policy: Policy,
    budget: Bytes,
    sequence: Sequence,
    timing: Timing,
    last: Vec<Treatment>,
    /// The position up to which the sequence is the one that was timed last.
    timed_until: usize,
    evaluations: u64,
    counter: Option<&'a AtomicU64>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator.
    pub fn new(
        model: &'a Model,
        link: &'a Link,
        policy: Policy,
        budget: Bytes,
        host_budget: Bytes,
    ) -> Self {
        static NO_CODECS: Codecs = Codecs::NONE;
        let time = |direction| move |bytes: &u64| link.copy_time(direction, Bytes(*bytes)).0;
        let permille = |share: f64| (share * 1000.0).round().clamp(100.0, 1000.0) as u16;
        let speeds = Speeds {
            both_directions_permille: permille(link.both_directions),
            beside_copy_permille: permille(link.beside_copy),
            ..Speeds::ALONE
        };
        let copies = CopyTimes {
            out: model.bytes.iter().map(time(Direction::D2h)).collect(),
            back: model.bytes.iter().map(time(Direction::H2d)).collect(),
            small_out: Vec::new(),
            small_back: Vec::new(),
        };
        Self {
            model,
            link,
            codecs: &NO_CODECS,
            copies,
            policy,
            budget,
            sequence: Sequence::new(model, policy.copies_stay),
            timing: Timing::new(policy, budget.0, host_budget.0, speeds),
            last: Vec::new(),
            timed_until: 0,
            evaluations: 0,
            counter: None,
        }
    }

    /// With codecs, which [`Treatment::SwapCompressed`] and [`Treatment::Compress`] then name.
    pub fn with_codecs(mut self, codecs: &'a Codecs) -> Self {
        let time = |direction| {
            move |cost: &Option<CodecCost>| {
                cost.map_or(0, |cost| self.link.copy_time(direction, cost.reserved).0)
            }
        };
        self.copies.small_out = codecs.all().iter().map(time(Direction::D2h)).collect();
        self.copies.small_back = codecs.all().iter().map(time(Direction::H2d)).collect();
        self.codecs = codecs;
        if let Some(lane) = self.codec_lane() {
            self.timing.set_codec_lane(lane);
        } else {
            self.sequence.early_codecs = self.policy.offload == OffloadStart::WithLastUse;
        }
        self
    }

    /// The lane of their own on which codecs run, if they do: where there is one, and the policy
    /// wants it.
    pub fn codec_lane(&self) -> Option<CodecLane> {
        self.codecs.lane().filter(|_| self.policy.codecs_beside)
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The budget of device memory.
    pub fn budget(&self) -> Bytes {
        self.budget
    }

    /// Speed of each copy direction while both are busy, in thousandths of its speed alone.
    pub fn both_directions_permille(&self) -> u16 {
        self.timing.speeds.both_directions_permille
    }

    /// Speed of compute while a copy runs, in thousandths of its speed alone.
    pub fn beside_copy_permille(&self) -> u16 {
        self.timing.speeds.beside_copy_permille
    }

    /// The evaluator, whose evaluations are also added to a counter that others share.
    pub fn counted(mut self, counter: &'a AtomicU64) -> Self {
        self.counter = Some(counter);
        self
    }

    /// How many evaluations this evaluator has made.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Time of a tensor's copy, alone on the link.
    pub fn copy_time(&self, direction: Direction, tensor: TensorId) -> Nanos {
        let times = match direction {
            Direction::D2h => &self.copies.out,
            Direction::H2d => &self.copies.back,
        };
        Nanos(times[tensor.index()])
    }

    /// Time of a compressed form's copy, alone on the link; nothing where there is no such
    /// compressed form.
    pub fn small_copy_time(&self, direction: Direction, codec: u8, tensor: TensorId) -> Nanos {
        let times = match direction {
            Direction::D2h => &self.copies.small_out,
            Direction::H2d => &self.copies.small_back,
        };
        Nanos(times.get(self.codecs.index(codec, tensor.0)).copied().unwrap_or(0))
    }

    /// Time that the host's processor takes for what a copy brings or takes, beside the copy.
    pub fn time_there(&self, direction: Direction, codec: u8, tensor: TensorId) -> Nanos {
        let cost = self.codecs.host_cost(codec, tensor);
        cost.map_or(Nanos::ZERO, |cost| match direction {
            Direction::D2h => cost.compress,
            Direction::H2d => cost.decompress,
        })
    }

    /// Evaluates decisions, one for each of [`Model::gaps`].
    ///
    /// # Panics
    ///
    /// If there are not as many treatments as gaps.
    pub fn evaluate(&mut self, treatments: &[Treatment]) -> Result<Outcome, Infeasible> {
        let gaps = self.model.gaps();
        assert_eq!(treatments.len(), gaps.len(), "one treatment for each gap");
        self.evaluations += 1;
        if let Some(counter) = self.counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let unchanged = if self.last.len() == treatments.len() {
            let first = self.last.iter().zip(treatments).position(|(a, b)| a != b);
            first.map_or(self.model.ops(), |gap| gaps[gap].after.index())
        } else {
            0
        };
        self.last.clear();
        self.last.extend_from_slice(treatments);
        self.run(treatments, unchanged, false)
    }

    fn run(
        &mut self,
        treatments: &[Treatment],
        unchanged: usize,
        recording: bool,
    ) -> Result<Outcome, Infeasible> {
        let built = self.sequence.build(self.model, self.codecs, treatments, unchanged, recording);
        // Several sequences may have been built since one was last timed.
        self.timed_until = self.timed_until.min(self.sequence.resumed_at);
        built?;
        if recording { self.time() } else { self.time_if_needed() }
    }

    /// Times the sequence that was built last, if there is anything to find out by that.
    fn time_if_needed(&mut self) -> Result<Outcome, Infeasible> {
        if self.sequence.is_compute_alone() { self.without_timing() } else { self.time() }
    }

    /// What a sequence leads to in which compute waits for nothing: there is nothing to time.
    fn without_timing(&self) -> Result<Outcome, Infeasible> {
        let (peak, _) = self.peak_within_budget()?;
        Ok(Outcome {
            iteration: Nanos(self.model.total + self.sequence.recompute_ns),
            peak: Bytes(peak),
            host_peak: Bytes::ZERO,
            recompute: Nanos(self.sequence.recompute_ns),
            codec: Nanos::ZERO,
            stall: Nanos::ZERO,
        })
    }

    fn peak_within_budget(&self) -> Result<(u64, u32), Infeasible> {
        let (load, position) = self.sequence.peak();
        if load <= self.budget.0 {
            return Ok((load, position));
        }
        let op = match self.sequence.positions[position as usize].op {
            NO_OP => (self.model.ops() as u32).saturating_sub(1),
            op => op,
        };
        Err(Infeasible::Memory { needed: Bytes(load), op: OpId(op) })
    }

    /// Times the sequence that was built last.
    fn time(&mut self) -> Result<Outcome, Infeasible> {
        self.peak_within_budget()?;
        let timed_until = std::mem::replace(&mut self.timed_until, usize::MAX);
        self.timing.run(self.model, &self.copies, self.codecs, &self.sequence, timed_until)?;
        Ok(Outcome {
            iteration: Nanos(self.timing.iteration()),
            peak: Bytes(self.timing.peak()),
            host_peak: Bytes(self.timing.host_peak()),
            recompute: Nanos(self.sequence.recompute_ns),
            codec: Nanos(self.sequence.codec_ns),
            stall: Nanos(self.timing.stall()),
        })
    }

    /// Evaluates decisions from the start and returns all that a plan is made from.
    pub fn record(&mut self, treatments: &[Treatment]) -> Result<Record, Infeasible> {
        assert_eq!(treatments.len(), self.model.gaps().len(), "one treatment for each gap");
        self.last.clear();
        let outcome = self.run(treatments, 0, true)?;
        Ok(self.timing.record(outcome, self.policy, self.model, &self.sequence))
    }
}
