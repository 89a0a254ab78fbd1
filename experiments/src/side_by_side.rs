//! Independent questions, answered on all cores.

use std::sync::atomic::{AtomicU64, Ordering};

use planner::{Monitor, Progress};
use rayon::prelude::*;

use crate::Result;

/// Answers each question on its own, the answers in the questions' order. Whoever waits is told how many
/// there are, and may end it all: what has not begun then is asked without a monitor.
pub(crate) fn side_by_side<Q: Sync, A: Send>(
    questions: &[Q],
    monitor: &dyn Monitor,
    answer: impl Fn(&Q, Option<&dyn Monitor>) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let points = Points { done: AtomicU64::new(0), of: questions.len() as u64, monitor };
    let answered = questions.par_iter().with_max_len(1).map(|question| {
        let answer = answer(question, points.tell().then_some(&points as &dyn Monitor));
        points.done.fetch_add(1, Ordering::Relaxed);
        answer
    });
    let answers: Result<Vec<A>> = answered.collect();
    points.tell();
    answers
}

/// Tells of questions that are answered, and of none of what goes on in one.
struct Points<'a> {
    done: AtomicU64,
    of: u64,
    monitor: &'a dyn Monitor,
}

impl Points<'_> {
    fn tell(&self) -> bool {
        let done = self.done.load(Ordering::Relaxed);
        self.monitor.proceed(Progress { phase: "points", done, of: self.of })
    }
}

impl Monitor for Points<'_> {
    fn proceed(&self, _: Progress) -> bool {
        self.tell()
    }
}
