//! Ways to train a network: what its plans are, and when they change.

use planner::methods::{Comet, ParameterRange, Refresh, StaticCompression};
use profiler::device::in_core_plan;
use reports::Trained;
use runtime::training::Constants;
use schema::CodecModels;

use super::statistics::collect;
use super::trainer::{Trainer, Training};
use crate::Result;
use crate::rates::{every_rate, range_of};

/// What plans make of the network's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The iteration without a memory limit.
    InCore,
    /// Zero-value compression.
    Zvc,
    /// ZFP at a fixed rate.
    Zfp,
    /// SZ within error bounds.
    Sz,
}

/// Where no rate pays by Algorithm 1 of CSWAP+, the rate falls from one to the other of the paper's
/// fixed ones: bits for four values.
const PAPERS: ParameterRange = ParameterRange { top: 64, bottom: 32 };

type Outcome = Result<(Trained, Constants)>;

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::InCore, Self::Zvc, Self::Zfp, Self::Sz];

    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        ["in-core", "zvc", "zfp", "sz"][self as usize]
    }

    /// The way of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// What it does, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::InCore => "Everything is kept, with as much memory as that takes",
            Self::Zvc => {
                "Inputs of convolutions are swapped, made smaller by zero-value compression: no value \
                 changes"
            }
            Self::Zfp => {
                "The same by ZFP at a fixed rate, which falls from epoch to epoch as in CSWAP+"
            }
            Self::Sz => "They are kept, made smaller by SZ within COMET's error bounds",
        }
    }

    /// Whether it changes no value.
    pub fn is_lossless(self) -> bool {
        matches!(self, Self::InCore | Self::Zvc)
    }

    /// What it chooses codecs from where nobody named any.
    pub fn codecs(self) -> &'static [&'static str] {
        match self {
            Self::InCore => &[],
            Self::Zvc => &["zvc"],
            Self::Zfp => &["zfp:4", "zfp:8", "zfp:16"],
            Self::Sz => &["sz:1e-6", "sz:1e-5", "sz:1e-4", "sz:1e-3", "sz:1e-2", "sz:1e-1"],
        }
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
            Self::Zfp => zfp(trainer, training),
            Self::Sz => sz(trainer, training),
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
fn zfp(trainer: &Trainer, mut training: Training) -> Outcome {
    let method = StaticCompression::default();
    let rates = every_rate(&trainer.models_of("zfp"))?;
    let found = range_of(&method, &trainer.problem(&rates));
    let range = found.unwrap_or(PAPERS);
    let course = trainer.course;
    let at = |epoch: usize| range.at(epoch as u32, course.epochs as u32);
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
    let because = match found {
        Some(_) => "the range in which compression pays by Algorithm 1 of CSWAP+",
        None => {
            "the paper's fixed ones: by its Algorithm 1 no rate pays here, where codecs are slow \
             beside the link or computation hides the copies"
        }
    };
    let note = format!(
        "ZFP's rate falls from {} to {} bits for four values of 32 bits (equations 1 and 2 of \
         CSWAP+), of {} to {}: {because}.",
        at(0),
        at(course.epochs - 1),
        range.top,
        range.bottom
    );
    training.finish(vec![note])
}

/// In-core until there are statistics, and then within bounds that follow from them, set anew as
/// [`Refresh`] says.
fn sz(trainer: &Trainer, mut training: Training) -> Outcome {
    let problem = trainer.problem(&trainer.models_of("sz"));
    // Where the method has no plan, better to know before anything is trained.
    let mut plan = trainer.plan(&Comet::default(), &problem)?;
    let in_core = in_core_plan(trainer.trace, trainer.machine)?;
    let mut refresh = Refresh::every(trainer.refresh);
    let mut set = Vec::new();
    while !training.is_done() {
        let plan_now = if set.is_empty() { &in_core } else { &plan };
        let until = usize::try_from(refresh.next()).unwrap_or(usize::MAX);
        let statistics = training.under_then(plan_now, until, |device| {
            collect(device, trainer.network, &trainer.images)
        })?;
        if training.is_done() {
            break;
        }
        if set.is_empty() {
            training.begin_budget();
        }
        set.push(training.iterations().to_string());
        let bounds = statistics.iter().flatten().map(|layer| layer.error_bound().unwrap_or(0.0));
        refresh.refresh(bounds.collect());
        plan = trainer.plan(&Comet { statistics }, &problem)?;
    }
    let note = match set.first() {
        None => {
            "COMET compressed nothing: its bounds are set for the first time after the training's \
                 end (see --refresh)."
                .into()
        }
        Some(first) => {
            let range =
                |pick: fn(f64, f64) -> f64, from| refresh.bounds().iter().copied().fold(from, pick);
            format!(
                "COMET's first {first} iterations ran in core, without the budget, for the statistics \
                 that its error bounds follow from. Bounds were set after {} iterations, those of the \
                 layers at last from {:.1e} to {:.1e}.",
                set.join(", "),
                range(f64::min, f64::INFINITY),
                range(f64::max, 0.0)
            )
        }
    };
    training.finish(vec![note])
}

#[cfg(test)]
mod tests {
    use codecs::CodecId;

    use super::*;

    #[test]
    fn all_codecs_of_all_ways_are_there() {
        for way in Way::ALL {
            for codec in way.codecs() {
                let id: CodecId = codec.parse().expect("a codec");
                assert_eq!(id.name(), way.name());
            }
        }
    }
}
