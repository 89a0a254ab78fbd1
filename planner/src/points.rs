//! The moments at which memory is looked at.

use schema::OpId;

use crate::Problem;

/// The starts of some ops, in order, and what would be on the device then if nothing left.
#[derive(Debug, Clone)]
pub(crate) struct Points {
    pub ops: Vec<usize>,
    /// Bytes at each op with everything kept.
    pub load: Vec<u64>,
    /// Time of all ops before each, and of all ops together, in nanoseconds.
    pub start: Vec<f64>,
}

impl Points {
    /// Of each of `count` stretches of equal time, the op with the most on the device.
    pub fn new(problem: &Problem, load: &[u64], count: usize) -> Self {
        let total = problem.trace.total_time().0;
        let mut points = Self { ops: Vec::new(), load: Vec::new(), start: Vec::new() };
        let mut before = 0;
        let mut stretch = None;
        for (op, timed) in problem.trace.ops.iter().enumerate() {
            let of = u128::from(before) * count as u128 / u128::from(total.max(1));
            if stretch != Some(of) {
                stretch = Some(of);
                points.ops.push(op);
                points.load.push(load[op]);
                points.start.push(before as f64);
            } else if points.load.last().is_some_and(|largest| load[op] > *largest) {
                let last = points.ops.len() - 1;
                points.ops[last] = op;
                points.load[last] = load[op];
                points.start[last] = before as f64;
            }
            before += timed.duration.0;
        }
        points.start.push(total as f64);
        points
    }

    /// Every op.
    pub fn all(problem: &Problem, load: &[u64]) -> Self {
        let mut start = vec![0.0];
        for op in &problem.trace.ops {
            start.push(start[start.len() - 1] + op.duration.0 as f64);
        }
        Self { ops: (0..load.len()).collect(), load: load.to_vec(), start }
    }

    /// The first point after an op.
    pub fn after(&self, op: OpId) -> usize {
        self.ops.partition_point(|point| *point <= op.index())
    }

    /// The first point at an op or after it.
    pub fn until(&self, op: OpId) -> usize {
        self.ops.partition_point(|point| *point < op.index())
    }
}
