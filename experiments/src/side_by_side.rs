//! Independent questions, answered on all cores.

use std::sync::atomic::{AtomicU64, Ordering};

use planner::{Monitor, Progress};
use rayon::prelude::*;

use crate::Result;

/// Answers each question on its own, the answers in the questions' order. Whoever waits is told how many
/// there are and which begins, and may end it all: what has not begun then is asked without a monitor.
pub(crate) fn side_by_side<Q: Sync, A: Send>(
    questions: &[Q],
    monitor: &dyn Monitor,
    name: impl Fn(&Q) -> String + Sync,
    answer: impl Fn(&Q, Option<&dyn Monitor>) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let points = Points { done: AtomicU64::new(0), of: questions.len() as u64, monitor };
    let answered = questions.par_iter().with_max_len(1).map(|question| {
        monitor.step(&name(question));
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::waiting::Waiting;

    /// Shows what a person sees: what is said is kept.
    struct Shown(Mutex<(Waiting, Vec<String>)>);

    impl Monitor for Shown {
        fn proceed(&self, progress: Progress) -> bool {
            let (waiting, said) = &mut *self.0.lock().expect("nobody panics");
            waiting.proceed(progress);
            said.push(format!("{} {:?}", waiting.what(), waiting.position()));
            true
        }

        fn step(&self, name: &str) {
            self.0.lock().expect("nobody panics").0.step(name);
        }
    }

    #[test]
    fn whoever_waits_is_told_which_question_of_how_many() {
        let shown = Shown(Mutex::new((Waiting::new("study"), Vec::new())));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
        let answers = pool.install(|| {
            side_by_side(
                &[7, 8],
                &shown,
                |q| format!("point {q}"),
                |q, monitor| {
                    // What goes on in a question is not told.
                    monitor.map(|m| m.proceed(Progress { phase: "sequences", done: 1, of: 2 }));
                    Ok(q * 10)
                },
            )
        });
        assert_eq!(answers.expect("none fails"), [70, 80]);
        let mut said = shown.0.into_inner().expect("nobody panics").1;
        said.dedup();
        let expected = [(7, 0), (8, 1), (8, 2)];
        let expected =
            expected.map(|(q, done)| format!("study, point {q}, points Some(({done}, 2))"));
        assert_eq!(said, expected);
    }
}
