//! PooCH's first step: keep or swap.

mod start;

use std::cmp::Reverse;

use schema::Bytes;
use simulator::{Evaluator, GapId, Policy, Treatment};

use crate::method::{About, Method, needs_swap};
use crate::methods::{Exposed, SwapAll};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Progress, Result};

/// `swap-opt` of PooCH section 5.1: feature maps are kept or swapped, as section 4.4.2 decides.
///
/// From the timeline of swapping everything (`start.rs` says what we do where the host lacks
/// the memory) come `L_O` and `L_I` ([`Exposed`]). Maps in neither
/// stay swapped. A binary tree has one level per map of `L_I`, from the output layer on; at each of its leaves the maps
/// of `L_O \ L_I` are switched to *keep* from the output layer on, as long as they fit. Where the
/// tree has more leaves than the search may evaluate we depart from the paper: it is walked in order, *keep* first,
/// until `ENOUGH` classifications are evaluated, so that maps are kept from the output layer on and the others tried
/// among those that leave first; with ten times as many the plans of table 3's ResNet50 are the same. Of classifications
/// that take the same time the one that keeps the most maps is taken, as in the paper maps are kept as
/// long as they fit.
pub struct SwapOpt;

/// Classifications that are evaluated of a tree that is too large, if it may be so many, and its maps are not more.
const ENOUGH: u64 = 3000;

/// What belongs together (a leaf, r of all maps) may take so many times the evaluations that all may be.
pub(super) const A_ROUND: u64 = 20;

impl Method for SwapOpt {
    fn about(&self) -> About {
        About {
            name: "swap-opt",
            summary: "keep or swap each feature map, by tree search over those whose swap is not hidden",
            source: "PooCH, section 4.4.2",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        let treatments = Search::new(problem, target, false, monitor)?.run()?;
        Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        Allowed::COPIES
    }

    fn includes(&self) -> Vec<Box<dyn Method>> {
        vec![Box::new(SwapAll { scheduled: true })]
    }
}

/// The search for what to keep and what to swap.
pub(super) struct Search<'a> {
    problem: &'a Problem<'a>,
    monitor: &'a dyn Monitor,
    pub evaluator: Evaluator<'a>,
    exposed: Exposed,
    start: Vec<Treatment>,
    best: (u64, Vec<Treatment>),
    /// Evaluations after which the walk ends.
    most: u64,
}

impl<'a> Search<'a> {
    /// `may_recompute`: where the host does not hold all maps, some may be recomputed.
    pub fn new(
        problem: &'a Problem<'a>,
        target: Bytes,
        may_recompute: bool,
        monitor: &'a dyn Monitor,
    ) -> Result<Self> {
        needs_swap(problem)?;
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let (start, record) = start::start(problem, &mut evaluator, may_recompute)
            .map_err(|cause| PlanError::from_infeasible(cause, problem.budget))?;
        let exposed = Exposed::of(problem, &problem.feature_maps, &record);
        let best = (record.outcome.iteration.0, start.clone());
        Ok(Self { problem, monitor, evaluator, exposed, start, best, most: u64::MAX })
    }

    /// The fastest classification found.
    pub fn run(&mut self) -> Result<Vec<Treatment>> {
        // Levels from the output layer on, where keeping a map pays soonest.
        let levels: Vec<GapId> = self.exposed.backs.iter().rev().copied().collect();
        let scanned: Vec<GapId> =
            (self.exposed.outs.iter().rev().copied()).filter(|g| !levels.contains(g)).collect();
        let leaves = 1u64.checked_shl(levels.len() as u32).filter(|_| levels.len() < 63);
        let whole = leaves.and_then(|leaves| leaves.checked_mul(1 + scanned.len() as u64));
        let may = self.problem.evaluations();
        if whole.is_none_or(|whole| whole > may) {
            let enough = ENOUGH.max(2 * (levels.len() + scanned.len()) as u64);
            self.most = self.evaluator.evaluations() + enough.min(may);
        }
        let mut treatments = self.start.clone();
        self.descend(&mut treatments, &levels, &scanned)?;
        self.spare_recomputations()?;
        Ok(self.best.1.clone())
    }

    /// Visits the leaves under a prefix, which is `treatments` for the levels above and has been considered with all
    /// below it swapped.
    fn descend(
        &mut self,
        treatments: &mut Vec<Treatment>,
        levels: &[GapId],
        scanned: &[GapId],
    ) -> Result<()> {
        if self.evaluator.evaluations() >= self.most {
            return Ok(());
        }
        let Some((level, below)) = levels.split_first() else {
            return self.leaf(treatments, scanned);
        };
        treatments[*level] = Treatment::Keep;
        // A prefix that does not fit with all else swapped fits with nothing else.
        if self.consider(treatments)?.is_some() {
            self.descend(treatments, below, scanned)?;
        }
        treatments[*level] = Treatment::Swap;
        self.descend(treatments, below, scanned)
    }

    /// Switches maps of `L_O \ L_I` to keep, from the output layer on, as long as they fit.
    fn leaf(&mut self, treatments: &[Treatment], scanned: &[GapId]) -> Result<()> {
        let mut treatments = treatments.to_vec();
        let most = self.most_in_a_round();
        for gap in scanned {
            treatments[*gap] = Treatment::Keep;
            if self.evaluator.evaluations() >= most || self.consider(&treatments)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Evaluations after which a round that begins now ends.
    fn most_in_a_round(&self) -> u64 {
        let may = self.problem.evaluations().saturating_mul(A_ROUND);
        self.evaluator.evaluations().saturating_add(may)
    }

    /// Keeps or swaps what the start recomputes only because the host lacks memory, where that is
    /// faster, as long as there are evaluations for it.
    fn spare_recomputations(&mut self) -> Result<()> {
        let most = self.most_in_a_round();
        for gap in self.problem.feature_maps.iter().rev() {
            if self.start[*gap] != Treatment::Recompute {
                continue;
            }
            if self.evaluator.evaluations() >= most {
                break;
            }
            for treatment in [Treatment::Keep, Treatment::Swap] {
                let mut treatments = self.best.1.clone();
                treatments[*gap] = treatment;
                self.consider(&treatments)?;
            }
        }
        Ok(())
    }

    /// Evaluates a classification and remembers the fastest, of those the one that keeps the most.
    fn consider(&mut self, treatments: &[Treatment]) -> Result<Option<u64>> {
        let time = self.evaluate(treatments)?;
        let key = |time, treatments| (time, Reverse(self.kept(treatments)));
        let better = |time: &u64| key(*time, treatments) < key(self.best.0, &self.best.1);
        if let Some(time) = time.filter(better) {
            self.best = (time, treatments.to_vec());
        }
        Ok(time)
    }

    /// How many feature maps stay on the device.
    fn kept(&self, treatments: &[Treatment]) -> usize {
        let maps = self.problem.feature_maps.iter();
        maps.filter(|gap| treatments[**gap] == Treatment::Keep).count()
    }

    /// Time under a classification, none where it does not fit.
    fn evaluate(&mut self, treatments: &[Treatment]) -> Result<Option<u64>> {
        let progress = Progress {
            phase: "keep or swap",
            done: self.evaluator.evaluations(),
            of: self.problem.evaluations(),
        };
        if !self.monitor.proceed(progress) {
            return Err(PlanError::Interrupted);
        }
        Ok(self.evaluator.evaluate(treatments).ok().map(|outcome| outcome.iteration.0))
    }
}
