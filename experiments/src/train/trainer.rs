//! A network that is trained under one plan after another.

use planner::methods::Method;
use planner::{Limits, Monitor, NoMonitor, Problem, Progress, ProvenPlan};
use profiler::device::Target;
use reports::{Applied, Trained};
use runtime::device::Device;
use runtime::network::Network;
use runtime::training::{Constants, Course, Curves, Images, TrainingError, classifier, train};
use schema::{Bytes, CodecModels, Machine, Plan, Trace};

use super::{forms, modelled};
use crate::{CodecInputs, Conditions, Error, Result};

/// What is trained, and under which conditions.
pub struct Trainer<'a> {
    pub target: &'a Target,
    pub monitor: &'a dyn Monitor,
    pub network: &'a Network,
    pub trace: &'a Trace,
    pub machine: &'a Machine,
    pub models: &'a CodecModels,
    pub images: Images,
    pub course: Course,
    /// Device memory of every way but in-core.
    pub budget: Bytes,
    /// The longest interval in which COMET's bounds are set anew, in iterations.
    pub refresh: u32,
    pub seed: u64,
}

/// A network with another batch, and its trace.
pub struct Larger {
    network: Network,
    trace: Trace,
    times: usize,
}

impl<'a> Trainer<'a> {
    /// What is trained, with a batch so many times as large. None where an epoch cannot be cut into such batches
    /// or there is no memory to train it in.
    pub fn larger(&self, times: usize) -> Result<Option<Larger>> {
        if times == 0 || !self.course.batches.is_multiple_of(times) {
            return Ok(None);
        }
        let network = classifier(&self.images, self.network.batch * times)?;
        if self.target.room_to_train(&network).is_err() {
            return Ok(None);
        }
        let trace = modelled(&network, self.machine, self.seed)?;
        Ok(Some(Larger { network, trace, times }))
    }

    /// The training of that, which goes on after so many iterations: as many images an epoch as before.
    pub fn on<'b>(&'b self, larger: &'b Larger, iterations: usize) -> Trainer<'b> {
        let done = (iterations - self.course.after) / self.course.batches.max(1);
        let course = Course {
            epochs: self.course.epochs - done,
            batches: self.course.batches / larger.times,
            test_batches: self.course.test_batches.div_ceil(larger.times),
            after: iterations,
        };
        Trainer { network: &larger.network, trace: &larger.trace, course, ..*self }
    }

    pub fn models_of(&self, codec: &str) -> CodecModels {
        let models = self.models.models.iter().filter(|model| model.codec == codec);
        CodecModels { models: models.cloned().collect(), ..self.models.clone() }
    }

    /// The problem of planning an iteration with codecs.
    pub fn problem(&self, models: &CodecModels) -> Problem<'a> {
        let codecs = CodecInputs::measured(self.models).with(models.clone());
        let conditions = Conditions::new(Limits::default(), Some(codecs));
        conditions.problem(self.trace, self.machine, self.budget)
    }

    pub fn plan(&self, method: &dyn Method, problem: &Problem) -> Result<ProvenPlan> {
        Ok(planner::plan(method, problem, &NoMonitor)?)
    }
}

pub struct Training<'a> {
    trainer: &'a Trainer<'a>,
    way: &'static str,
    curves: Curves,
    constants: Option<Constants>,
    method: String,
    codecs: Vec<String>,
    in_core_iterations: usize,
    arena: Bytes,
    fallbacks: u64,
    applied: Vec<Applied>,
}

impl<'a> Training<'a> {
    pub fn new(trainer: &'a Trainer<'a>, way: &'static str) -> Self {
        Self {
            trainer,
            way,
            curves: Curves::default(),
            constants: None,
            method: String::new(),
            codecs: Vec::new(),
            in_core_iterations: 0,
            arena: Bytes::ZERO,
            fallbacks: 0,
            applied: Vec::new(),
        }
    }

    /// The same training, which goes on as another trainer has it.
    pub fn by<'b>(self, trainer: &'b Trainer<'b>) -> Training<'b>
    where
        'a: 'b,
    {
        Training { trainer, ..self }
    }

    /// Whether an epoch has just ended.
    pub fn is_between_epochs(&self) -> bool {
        self.trainer.course.batch_of(self.iterations()) == 0
    }

    pub fn iterations(&self) -> usize {
        self.curves.losses.len()
    }

    pub fn is_done(&self) -> bool {
        self.iterations() >= self.trainer.course.iterations()
    }

    /// What came before does not count for memory and times: the budget holds from here on.
    pub fn begin_budget(&mut self) {
        self.in_core_iterations = self.iterations();
        (self.arena, self.fallbacks) = (Bytes::ZERO, 0);
    }

    /// Goes on under a plan up to an iteration, and looks at the end of each epoch what its codecs make of
    /// the batch that ran last.
    pub fn under(&mut self, plan: &Plan, until: usize) -> Result<()> {
        let Trainer { network, images, course, .. } = self.trainer;
        let until = until.min(course.iterations());
        while self.iterations() < until {
            let epoch = course.epoch_end(self.iterations());
            let to = epoch.min(until);
            let look = to == epoch && !plan.codecs.is_empty();
            let applied = self.under_then(plan, to, |device| match look {
                true => forms::applied(device, network, plan, (images, course.batches - 1), to),
                false => Ok(Vec::new()),
            })?;
            self.applied.extend(applied);
        }
        Ok(())
    }

    /// The same without a look at epochs, and looks at the device at the end.
    pub fn under_then<R>(
        &mut self,
        plan: &Plan,
        until: usize,
        look: impl FnOnce(&mut dyn Device) -> std::result::Result<R, TrainingError>,
    ) -> Result<R> {
        let Trainer { target, monitor, network, trace, machine, images, course, seed, .. } =
            *self.trainer;
        let mut device = target.open((network, trace, machine), plan, (seed, false), &[])?;
        let device = device.as_mut();
        if let Some(constants) = &self.constants {
            constants.write(device, network).map_err(TrainingError::from)?;
        }
        let mut done = self.curves.losses.len() as u64;
        let of = course.iterations() as u64;
        train(device, network, &images, course, &mut self.curves, until, |_| {
            done += 1;
            monitor.proceed(Progress { phase: "iterations", done, of });
        })?;
        let seen = look(device)?;
        let constants = Constants::read(device, network).map_err(TrainingError::from)?;
        self.constants = Some(constants);
        let memory = device.memory();
        self.arena = self.arena.max(memory.arena);
        self.fallbacks += memory.fallbacks;
        self.method.clone_from(&plan.method);
        for codec in plan.decisions.iter().filter_map(|decision| decision.codec) {
            let name = plan.codecs[codec.index()].to_string();
            if !self.codecs.contains(&name) {
                self.codecs.push(name);
            }
        }
        Ok(seen)
    }

    /// What became of the network, and its constants.
    pub fn finish(self, notes: Vec<String>) -> Result<(Trained, Constants)> {
        let Curves { losses, accuracies, epochs, copied, .. } = self.curves;
        let in_core = self.in_core_iterations;
        let copied = &copied[in_core..];
        let sum: Bytes = copied.iter().copied().sum();
        let mean = |(begin, end): (usize, usize)| {
            let epoch = losses.get(begin..end).unwrap_or_default();
            epoch.iter().map(|loss| f64::from(*loss)).sum::<f64>() / epoch.len().max(1) as f64
        };
        let begins = std::iter::once(0).chain(epochs.iter().copied());
        let epoch_losses = begins.zip(epochs.iter().copied()).map(mean).collect();
        let trained = Trained {
            way: self.way.into(),
            seed: self.trainer.seed,
            method: self.method,
            codecs: self.codecs,
            epoch_losses,
            losses,
            accuracies,
            in_core_iterations: in_core,
            arena_bytes: self.arena,
            copied_bytes: Bytes(sum.0 / copied.len().max(1) as u64),
            fallbacks: self.fallbacks,
            applied: self.applied,
            notes,
        };
        Ok((trained, self.constants.ok_or(Error::NothingTrained)?))
    }
}
