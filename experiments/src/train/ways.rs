//! Ways to train a network: what its plans are, and when they change.

use planner::ProvenPlan;
use planner::methods::{Comet, ParameterRange, Refresh, StaticCompression};
use profiler::device::in_core_plan;
use reports::Trained;
use runtime::training::Constants;
use schema::{CodecModel, CodecModels, SizeModel};

use super::statistics::{Collected, collect};
use super::trainer::{Trainer, Training};
use crate::rates::{every_rate, range_of};
use crate::{CompressedForms, Result};

/// What plans make of the network's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The iteration without a memory limit.
    InCore,
    /// Zero-value compression.
    Zvc,
    /// ZFP at a fixed rate.
    Zfp(Rates),
    /// SZ within error bounds.
    Sz(Bounds),
}

/// How ZFP's rate goes over the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// As CSWAP+ has it (equations 1 and 2).
    Falling,
    /// The inverse schedule, with which its section 6.4 compares.
    Rising,
    /// The same for all epochs, in bits for four values, as in its figure 12.
    Fixed(u32),
}

/// What error bounds COMET sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The error of a gradient that is acceptable, in thousandths of the gradient (equation 1): 10 in the paper, which
    /// tried 1 to 50 (section 5.2, figure 9).
    permille: u32,
    /// Set for the first time and never again: the static strategy of section 5.3.
    once: bool,
    /// The codec that keeps to them: SZ, or SZ as it was before zeros were kept (section 5.2, figure 10).
    codec: &'static str,
    /// When they are first set, the batch grows as far as there is a plan (section 3.4).
    grows: bool,
}

impl Bounds {
    /// As the paper has them, at a batch that stays.
    const PAPERS: Self = Self { permille: 10, once: false, codec: "sz", grows: false };
}

/// Where no rate pays by Algorithm 1 of CSWAP+, the rate falls from one to the other of the paper's
/// fixed ones: bits for four values.
const PAPERS: ParameterRange = ParameterRange { top: 64, bottom: 32 };

type Outcome = Result<(Trained, Constants)>;

impl Way {
    /// All of them, each with its name on the command line and what it does, in a sentence. Those of the papers themselves
    /// come first, then what they compare them with.
    pub const ALL: [(Self, &str, &str); 12] = [
        (Self::InCore, "in-core", "Everything is kept, with as much memory as that takes"),
        (
            Self::Zvc,
            "zvc",
            "Inputs of convolutions are swapped, made smaller by zero-value compression: no value changes",
        ),
        (
            Self::Zfp(Rates::Falling),
            "zfp",
            "The same by ZFP at a fixed rate, which falls from epoch to epoch as in CSWAP+",
        ),
        (
            Self::Sz(Bounds::PAPERS),
            "sz",
            "What convolutions make is kept, made smaller by SZ within COMET's error bounds",
        ),
        (Self::Zfp(Rates::Rising), "zfp-rising", "ZFP's rate rises instead of falling"),
        (Self::Zfp(Rates::Fixed(64)), "zfp-64", "ZFP at 64 bits for four values all the time"),
        (Self::Zfp(Rates::Fixed(32)), "zfp-32", "ZFP at 32 bits for four values all the time"),
        (
            Self::Sz(Bounds { once: true, ..Bounds::PAPERS }),
            "sz-once",
            "COMET's error bounds are set once and never again",
        ),
        (
            Self::Sz(Bounds { permille: 20, ..Bounds::PAPERS }),
            "sz-2%",
            "COMET's error bounds for errors of gradients twice as large",
        ),
        (
            Self::Sz(Bounds { permille: 50, ..Bounds::PAPERS }),
            "sz-5%",
            "COMET's error bounds for errors of gradients five times as large",
        ),
        (
            Self::Sz(Bounds { codec: "sz-1.4", ..Bounds::PAPERS }),
            "sz-1.4",
            "SZ as it was, which moves zeros within COMET's error bounds",
        ),
        (
            Self::Sz(Bounds { grows: true, ..Bounds::PAPERS }),
            "sz-grown",
            "The batch is doubled as often as the budget allows once COMET's bounds are set",
        ),
    ];

    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(way, ..)| *way == self).map_or("", |(_, name, _)| name)
    }

    /// The way of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, other, _)| *other == name).map(|(way, ..)| way)
    }

    /// Whether it changes no value.
    pub fn is_lossless(self) -> bool {
        matches!(self, Self::InCore | Self::Zvc)
    }

    /// Trains the network.
    ///
    /// # Errors
    /// If it has no plan within the budget, or not the codec that it needs; if it is interrupted.
    pub fn train(self, trainer: &Trainer) -> Outcome {
        let training = Training::new(trainer, self.name());
        match self {
            Self::InCore => in_core(trainer, training),
            Self::Zvc => zvc(trainer, training),
            Self::Zfp(rates) => zfp(trainer, training, rates),
            Self::Sz(bounds) => sz(trainer, training, bounds),
        }
    }
}

fn in_core(trainer: &Trainer, mut training: Training) -> Outcome {
    let plan = in_core_plan(trainer.trace, trainer.machine)?;
    training.under(&plan, usize::MAX)?;
    training.finish(Vec::new())
}

fn zvc(trainer: &Trainer, mut training: Training) -> Outcome {
    let problem = trainer.problem(&trainer.models_of("zvc"));
    let plan = trainer.plan(&StaticCompression::default(), &problem)?;
    training.under(&plan, usize::MAX)?;
    training.finish(Vec::new())
}

/// A plan for each range of epochs with one rate.
fn zfp(trainer: &Trainer, mut training: Training, schedule: Rates) -> Outcome {
    let method = StaticCompression::default();
    let rates = every_rate(&trainer.models_of("zfp"))?;
    let found = range_of(&method, &trainer.problem(&rates));
    let range = found.unwrap_or(PAPERS);
    let course = trainer.course;
    let falling = |epoch: usize| range.at(epoch as u32, course.epochs as u32);
    let at = |epoch: usize| match schedule {
        Rates::Falling => falling(epoch),
        Rates::Rising => falling(course.epochs - 1 - epoch),
        Rates::Fixed(parameter) => parameter,
    };
    let mut epoch = 0;
    while epoch < course.epochs {
        let parameter = at(epoch);
        let same = (epoch..course.epochs).take_while(|epoch| at(*epoch) == parameter).count();
        // The one that is due: a device makes all codecs that a plan names.
        let bits = f64::from(parameter) / 4.0;
        let due = rates.models.iter().filter(|model| model.parameter == Some(bits));
        let due = CodecModels { models: due.cloned().collect(), ..rates.clone() };
        let plan = trainer.plan(&method, &trainer.problem(&due))?;
        epoch += same;
        training.under(&plan, epoch * course.batches)?;
    }
    if let Rates::Fixed(_) = schedule {
        return training.finish(Vec::new());
    }
    let because = match found {
        Some(_) => "the range in which compression pays by Algorithm 1 of CSWAP+",
        None => {
            "the paper's fixed ones: by its Algorithm 1 no rate pays here, where codecs are slow \
             beside the link or computation hides the copies"
        }
    };
    let note = format!(
        "ZFP's rate {} from {} to {} bits for four values of 32 bits (equations 1 and 2 of \
         CSWAP+{}), of {} to {}: {because}.",
        if at(0) < at(course.epochs - 1) { "rises" } else { "falls" },
        at(0),
        at(course.epochs - 1),
        if schedule == Rates::Rising { ", the other way round" } else { "" },
        range.top,
        range.bottom
    );
    training.finish(vec![note])
}

/// What a plan reserves beside what SZ made of a tensor when bounds were set, in thousandths, as later
/// batches do better or worse: the most for which there is a plan.
const MARGINS: [u32; 4] = [0, 100, 300, 1000];

/// In-core until there are statistics, and then within bounds that follow from them, set anew as
/// [`Refresh`] says.
fn sz(trainer: &Trainer, training: Training, of: Bounds) -> Outcome {
    // Kernels of either codec are taken to be as fast.
    let mut models = trainer.models_of("sz");
    models.models.iter_mut().for_each(|model| model.codec = of.codec.into());
    // Where there is no plan with the loosest bound, better to know before anything is trained.
    let loosest = models.models.iter().max_by(|a, b| parameter(a).total_cmp(&parameter(b)));
    let loosest = CodecModels { models: loosest.cloned().into_iter().collect(), ..models.clone() };
    trainer.plan(&Comet::default(), &trainer.problem(&loosest))?;
    let plan = in_core_plan(trainer.trace, trainer.machine)?;
    let refresh = Refresh::every(trainer.refresh);
    let so_far = SoFar { plan, refresh, set: Vec::new(), shares: Vec::new(), notes: Vec::new() };
    go_on(trainer, training, (of, &models), so_far)
}

/// How far a training within COMET's bounds has come.
struct SoFar {
    plan: ProvenPlan,
    refresh: Refresh,
    /// After which iterations bounds were set.
    set: Vec<String>,
    /// Those in force as shares of standard deviations, ascending.
    shares: Vec<f64>,
    notes: Vec<String>,
}

/// To the end, at the trainer's batch or at one that is larger from some epoch on.
fn go_on<'a>(
    trainer: &'a Trainer<'a>,
    mut training: Training<'a>,
    (of, models): (Bounds, &CodecModels),
    so_far: SoFar,
) -> Outcome {
    let acceptable = f64::from(of.permille) / 1000.0;
    let SoFar { mut plan, mut refresh, mut set, mut shares, mut notes } = so_far;
    while !training.is_done() {
        let is_set = of.once && !set.is_empty();
        let next = (!is_set).then(|| usize::try_from(refresh.next()).ok()).flatten();
        let until = next.unwrap_or(usize::MAX);
        let last = until.min(trainer.course.iterations()).saturating_sub(1);
        let batch = trainer.course.batch_of(last);
        training.under(&plan, until)?;
        if training.is_done() {
            break;
        }
        let collected = training.under_then(&plan, until, |device| {
            let learns = (trainer.network, trainer.trace);
            collect(device, learns, (&trainer.images, batch), (acceptable, of.codec))
        })?;
        let layers = collected.comet.statistics.iter().flatten();
        refresh.refresh(layers.map(|layer| layer.error_bound(acceptable)).collect());
        let exact = |margin| at_bounds(models, &collected, margin);
        if exact(0).models.is_empty() {
            // No layer has a gradient to go by, as where the loss is no number any more: what is in force stays.
            continue;
        }
        let planned = |trainer: &Trainer| {
            let at = |margin| trainer.plan(&collected.comet, &trainer.problem(&exact(margin)));
            let [tight, wider @ ..] = MARGINS;
            let roomy = wider.into_iter().rev().find_map(|margin| at(margin).ok());
            roomy.map_or_else(|| at(tight), Ok)
        };
        let is_first = set.is_empty();
        set.push(training.iterations().to_string());
        shares.clone_from(&collected.shares);
        if is_first {
            training.begin_budget();
        }
        if of.grows && notes.is_empty() && training.is_between_epochs() {
            // The largest that has a plan with what SZ made of this batch's tensors.
            let mut found = None;
            for times in std::iter::successors(Some(2usize), |times| times.checked_mul(2)) {
                let Some(larger) = trainer.larger(times)? else { break };
                let by = trainer.on(&larger, training.iterations());
                let Ok(plan) = planned(&by) else { break };
                found = Some((larger, plan));
            }
            let (batch, iterations) = (trainer.network.batch, training.iterations());
            let Some((larger, larger_plan)) = found else {
                notes.push(format!(
                    "The batch stays at {batch}: after {iterations} iterations there is no plan within the budget \
                     for one twice as large."
                ));
                plan = planned(trainer)?;
                continue;
            };
            let by = trainer.on(&larger, iterations);
            notes.push(format!(
                "After {iterations} iterations the batch grew from {batch} to {}, the largest of its doubles that has \
                 a plan within the budget; an epoch has as many images as before.",
                by.network.batch
            ));
            let so_far = SoFar { plan: larger_plan, refresh, set, shares, notes };
            return go_on(&by, training.by(&by), (of, models), so_far);
        }
        plan = planned(trainer)?;
    }
    let bounds = refresh.bounds().iter().copied().flatten();
    let least = bounds.clone().reduce(f64::min);
    let note = match least.zip(bounds.reduce(f64::max)) {
        None => {
            "COMET compressed nothing: its bounds are set for the first time after the training's \
                 end (see --refresh), or no layer has one."
                .into()
        }
        Some((least, greatest)) => format!(
            "COMET's first {} iterations ran in core, without the budget, for the statistics that its \
             error bounds follow from. Bounds were set after {} iterations, those of the layers at last \
             from {least:.1e} to {greatest:.1e}{}, and applied as they are: {}",
            set[0],
            set.join(", "),
            of_deviations(&shares),
            CompressedForms::of(&plan, trainer.trace).sentence().trim_end(),
        ),
    };
    if of.grows && notes.is_empty() {
        let batch = trainer.network.batch;
        notes.push(format!("The batch stays at {batch}: no epoch ended where bounds were set."));
    }
    notes.insert(0, note);
    training.finish(notes)
}

/// What bounds are beside the values that they are of; nothing where that is not known.
fn of_deviations(shares: &[f64]) -> String {
    let (Some(least), Some(most)) = (shares.first(), shares.last()) else { return String::new() };
    let [least, middle, most] = [*least, shares[shares.len() / 2], *most].map(|s| 100.0 * s);
    format!(
        " ({least:.1} to {most:.1} % of a tensor's standard deviation, {middle:.1} % in the middle)"
    )
}

fn parameter(model: &CodecModel) -> f64 {
    model.parameter.unwrap_or(0.0)
}

/// A model of SZ at each bound that a tensor has, with the size that was found there and the times of
/// the modelled bound that is nearest.
fn at_bounds(models: &CodecModels, collected: &Collected, margin_permille: u32) -> CodecModels {
    let mut exact: Vec<CodecModel> = Vec::new();
    for (bound, permille) in collected.bounds.iter().zip(&collected.permille) {
        let Some((bound, permille)) = bound.zip(*permille) else { continue };
        let distance = |model: &&CodecModel| (parameter(model) / bound).ln().abs();
        let nearest = models.models.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let size = SizeModel::Rate { permille, margin_permille };
        match exact.iter_mut().find(|model| model.parameter == Some(bound)) {
            // Tensors of one bound share a codec: the one that shrinks least says how much.
            Some(model) => model.size = larger(model.size, size),
            None => exact.extend(nearest.map(|model| CodecModel {
                parameter: Some(bound),
                size,
                ..model.clone()
            })),
        }
    }
    CodecModels { models: exact, ..models.clone() }
}

fn larger(a: SizeModel, b: SizeModel) -> SizeModel {
    let share = |size: &SizeModel| match size {
        SizeModel::Rate { permille, .. } => *permille,
        _ => 0,
    };
    if share(&a) < share(&b) { b } else { a }
}
