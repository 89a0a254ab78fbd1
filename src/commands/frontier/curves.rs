//! The points of the curves, and the smallest budgets for a slowdown.

use planner::methods::Method;
use planner::{Problem, bound};
use rayon::prelude::*;
use reports::{FrontierPoint, MethodResult, Smallest};
use schema::{Bytes, Nanos};

use crate::commands::compare::{over_bound, result_of};
use crate::exit::{Exit, Result};
use crate::inputs::Inputs;
use crate::progress::{self, UntilInterrupted};
use crate::signals::interrupted;

/// A budget may exceed the in-core peak by this share, in thousandths: room for packing.
const ROOM: u64 = 5;

/// Whose plans the curves are made of.
pub struct Curves<'a> {
    pub inputs: &'a Inputs,
    pub methods: &'a [Box<dyn Method>],
}

/// One thing to work out: a method's plan, or the bound.
type Asked<'a> = Option<&'a dyn Method>;

/// What came of it.
enum Answer {
    Bound(Option<Nanos>),
    Row(Box<MethodResult>),
    Interrupted,
}

impl<'a> Curves<'a> {
    /// Every method, and the bound, under every budget, side by side. What an interruption leaves
    /// unfinished is left out.
    pub fn points(&self, budgets: &[Bytes]) -> Result<Vec<FrontierPoint>> {
        let problems: Vec<Problem> = budgets.iter().map(|budget| self.problem(*budget)).collect();
        let jobs: Vec<(usize, Asked)> = (0..problems.len())
            .flat_map(|point| self.asked().into_iter().map(move |asked| (point, asked)))
            .collect();
        let bar = progress::points(jobs.len());
        let answers: Result<Vec<Answer>> = (jobs.par_iter().with_max_len(1))
            .map(|(point, asked)| {
                let answer = self.answer(*asked, &problems[*point]);
                bar.inc(1);
                answer
            })
            .collect();
        bar.finish_and_clear();
        let mut points: Vec<FrontierPoint> = (budgets.iter())
            .map(|budget| FrontierPoint { budget: *budget, bound: None, methods: Vec::new() })
            .collect();
        for ((point, _), answer) in jobs.iter().zip(answers?) {
            match answer {
                Answer::Bound(bound) => points[*point].bound = bound,
                Answer::Row(row) => points[*point].methods.push(*row),
                Answer::Interrupted => {}
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
        let bar = progress::points(asked.len());
        let found: Result<Vec<Option<Smallest>>> = (asked.par_iter().with_max_len(1))
            .map(|asked| {
                let found = self.smallest_of(*asked, limit, points);
                bar.inc(1);
                found
            })
            .collect();
        bar.finish_and_clear();
        Ok(found?.into_iter().flatten().collect())
    }

    /// None if it is interrupted.
    fn smallest_of(
        &self,
        asked: Asked,
        limit: Nanos,
        points: &[FrontierPoint],
    ) -> Result<Option<Smallest>> {
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
                let Some(time) = self.time(asked, most)? else { return Ok(None) };
                (most, time)
            }
        };
        let method = asked.map(|method| method.name().to_string());
        if !within(&time) {
            return Ok(Some(Smallest { method, budget: None, iteration: None }));
        }
        let less = known.iter().map(|(budget, _)| *budget).filter(|budget| *budget < enough);
        let mut too_little = less.max().unwrap_or(Bytes::ZERO);
        while (enough - too_little).0 > (peak / 1000).max(1) {
            let middle = too_little + Bytes((enough - too_little).0 / 2);
            let Some(there) = self.time(asked, middle)? else { return Ok(None) };
            if within(&there) { (enough, time) = (middle, there) } else { too_little = middle }
        }
        Ok(Some(Smallest { method, budget: Some(enough), iteration: time }))
    }

    /// The bound first, then the methods.
    fn asked(&self) -> Vec<Asked<'a>> {
        std::iter::once(None).chain(self.methods.iter().map(|m| Some(m.as_ref()))).collect()
    }

    fn problem(&self, budget: Bytes) -> Problem<'a> {
        self.inputs.problem_of(&self.inputs.trace, &self.inputs.machine, budget)
    }

    /// The time under a budget; none inside where there is no plan, none if it is interrupted.
    fn time(&self, asked: Asked, budget: Bytes) -> Result<Option<Option<Nanos>>> {
        Ok(match self.answer(asked, &self.problem(budget))? {
            Answer::Bound(time) => Some(time),
            Answer::Row(row) => Some(row.iteration),
            Answer::Interrupted => None,
        })
    }

    fn answer(&self, asked: Asked, problem: &Problem) -> Result<Answer> {
        if interrupted() {
            return Ok(Answer::Interrupted);
        }
        let Some(method) = asked else {
            return Ok(Answer::Bound(bound(problem).time()));
        };
        match result_of(method, problem, &UntilInterrupted, &self.inputs.in_core) {
            Ok(found) => Ok(Answer::Row(Box::new(found.row))),
            Err(end) if end.exit == Exit::Interrupted => Ok(Answer::Interrupted),
            Err(end) => Err(end),
        }
    }
}
