//! The points of the curves, and the smallest budgets for a slowdown.

use planner::methods::Method;
use planner::{Monitor, Problem, tightened};
use reports::{FrontierPoint, MethodResult, Smallest};
use schema::{Bytes, Nanos};

use crate::compare::{over_bound, result_of};
use crate::side_by_side::side_by_side;
use crate::{Error, Inputs, Result};

/// A budget may exceed the in-core peak by this share, in thousandths: room for packing.
const ROOM: u64 = 5;

/// Whose plans the curves are made of.
pub struct Curves<'a> {
    pub inputs: &'a Inputs,
    pub methods: &'a [Box<dyn Method>],
    pub monitor: &'a dyn Monitor,
}

/// One thing to work out: a method's plan, or the bound.
type Asked<'a> = Option<&'a dyn Method>;

enum Answer {
    Bound(Option<Nanos>),
    Row(Box<MethodResult>),
}

impl<'a> Curves<'a> {
    /// Every method, and the bound, under every budget, side by side. What an interruption leaves
    /// unfinished is left out.
    pub fn points(&self, budgets: &[Bytes]) -> Result<Vec<FrontierPoint>> {
        let problems: Vec<Problem> = budgets.iter().map(|budget| self.problem(*budget)).collect();
        let jobs: Vec<(usize, Asked)> = (0..problems.len())
            .flat_map(|point| self.asked().into_iter().map(move |asked| (point, asked)))
            .collect();
        let name = |(point, asked): &(usize, Asked)| {
            format!("{} within {}", named(asked), budgets[*point])
        };
        let answers = self.side_by_side(&jobs, name, |(point, asked), monitor| {
            Ok(Some(self.answer(*asked, &problems[*point], monitor)?))
        })?;
        let mut points: Vec<FrontierPoint> = (budgets.iter())
            .map(|budget| FrontierPoint { budget: *budget, bound: None, methods: Vec::new() })
            .collect();
        for ((point, _), answer) in jobs.iter().zip(answers) {
            match answer {
                Some(Answer::Bound(bound)) => points[*point].bound = bound,
                Some(Answer::Row(row)) => points[*point].methods.push(*row),
                None => {}
            }
        }
        for FrontierPoint { bound, methods, .. } in &mut points {
            methods.iter_mut().for_each(|row| over_bound(row, *bound));
        }
        points.retain(|point| point.bound.is_some() || !point.methods.is_empty());
        Ok(points)
    }

    /// The smallest budget for a slowdown, by the bound and by each method: bisected from the
    /// points between which it lies. That more memory is not slower is taken for granted.
    pub fn smallest(&self, slowdown: f64, points: &[FrontierPoint]) -> Result<Vec<Smallest>> {
        let limit = (self.inputs.in_core.iteration.0 as f64 * (1.0 + slowdown)).floor();
        let limit = Nanos(limit as u64);
        let asked = self.asked();
        let found = self.side_by_side(&asked, named, |asked, monitor| {
            Ok(Some(self.smallest_of(*asked, limit, points, monitor)?))
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// What an interruption leaves unanswered is none.
    fn side_by_side<Q: Sync, A: Send>(
        &self,
        questions: &[Q],
        name: impl Fn(&Q) -> String + Sync,
        answer: impl Fn(&Q, &dyn Monitor) -> Result<Option<A>> + Sync,
    ) -> Result<Vec<Option<A>>> {
        side_by_side(questions, self.monitor, name, |question, monitor| {
            match monitor.map_or(Err(Error::Interrupted("interrupted")), |m| answer(question, m)) {
                Err(Error::Interrupted(_)) => Ok(None),
                answered => answered,
            }
        })
    }

    fn smallest_of(
        &self,
        asked: Asked,
        limit: Nanos,
        points: &[FrontierPoint],
        monitor: &dyn Monitor,
    ) -> Result<Smallest> {
        let known = |point: &FrontierPoint| {
            let Some(method) = asked else { return Some((point.budget, point.bound)) };
            let row = point.methods.iter().find(|row| row.method == method.name())?;
            Some((point.budget, row.iteration))
        };
        let known: Vec<(Bytes, Option<Nanos>)> = points.iter().filter_map(known).collect();
        let within = |time: &Option<Nanos>| time.is_some_and(|time| time <= limit);
        let peak = self.inputs.in_core.peak.0;
        let best = known.iter().filter(|(_, time)| within(time)).min_by_key(|(budget, _)| *budget);
        let (mut enough, mut time) = match best {
            Some((budget, time)) => (*budget, *time),
            None => {
                let most = Bytes(peak + (peak * ROOM).div_ceil(1000));
                (most, self.time(asked, most, monitor)?)
            }
        };
        let method = asked.map(|method| method.name().to_string());
        if !within(&time) {
            return Ok(Smallest { method, budget: None, iteration: None });
        }
        let less = known.iter().map(|(budget, _)| *budget).filter(|budget| *budget < enough);
        let mut too_little = less.max().unwrap_or(Bytes::ZERO);
        while (enough - too_little).0 > (peak / 1000).max(1) {
            let middle = too_little + Bytes((enough - too_little).0 / 2);
            let there = self.time(asked, middle, monitor)?;
            if within(&there) { (enough, time) = (middle, there) } else { too_little = middle }
        }
        Ok(Smallest { method, budget: Some(enough), iteration: time })
    }

    /// The bound first, then the methods.
    fn asked(&self) -> Vec<Asked<'a>> {
        std::iter::once(None).chain(self.methods.iter().map(|m| Some(m.as_ref()))).collect()
    }

    fn problem(&self, budget: Bytes) -> Problem<'a> {
        self.inputs.problem_within(budget)
    }

    /// The time under a budget; none where there is no plan.
    fn time(&self, asked: Asked, budget: Bytes, monitor: &dyn Monitor) -> Result<Option<Nanos>> {
        Ok(match self.answer(asked, &self.problem(budget), monitor)? {
            Answer::Bound(time) => time,
            Answer::Row(row) => row.iteration,
        })
    }

    fn answer(&self, asked: Asked, problem: &Problem, monitor: &dyn Monitor) -> Result<Answer> {
        Ok(match asked {
            None => Answer::Bound(tightened(problem, monitor).time()),
            Some(method) => {
                let found = result_of(method, problem, monitor, &self.inputs.in_core)?;
                Answer::Row(Box::new(found.row))
            }
        })
    }
}

fn named(asked: &Asked) -> String {
    asked.map_or("bound", |method| method.name()).into()
}
