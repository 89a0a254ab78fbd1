//! Which prices to try next.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Programme};

use super::ways::{CODE, DECODE, IN, LOST, MEMORY, OUT, ROWS, Rows, SPENT};

/// Prices of memory beyond this many iterations for the whole budget are not told apart.
const MOST: f64 = 1e4;

/// A row's price is at most one, and so is the sum of those that bound the same time.
const BEFORE: [usize; 3] = [OUT, LOST, CODE];
const AFTER: [usize; 3] = [IN, SPENT, DECODE];

/// What is known of how the least cost depends on prices (Kelley, 1960): what any choice takes, at
/// some prices, costs at least what the best one does.
pub(super) struct Prices {
    choices: Vec<[i128; ROWS]>,
    /// A unit of time and one of memory, of the size of what the choices take.
    units: (f64, f64),
    /// What a price of one is in whole numbers.
    pub one: u64,
}

impl Prices {
    /// No choice is known yet. The time of all ops with all that may be run again, and the budget.
    pub fn new(time: u64, budget: u64) -> Self {
        let one = 1 << (58 - time.max(1).ilog2().min(50));
        Self { choices: Vec::new(), units: (time.max(1) as f64, budget.max(1) as f64), one }
    }

    /// Learns what a choice takes beyond what there is.
    pub fn learn(&mut self, beyond: [i128; ROWS]) {
        self.choices.push(beyond);
    }

    fn unit(&self, row: usize) -> f64 {
        if row == MEMORY { self.units.1 } else { self.units.0 }
    }

    /// The prices at which the known choices leave most to gain, and how much at most, in
    /// nanoseconds.
    pub fn best(&self) -> Option<(Rows, f64)> {
        let mut programme = Programme::new(OptimizationDirection::Maximize);
        let gain = programme.add_var(1.0, (0.0, f64::INFINITY));
        let most = |row| if row == MEMORY { MOST } else { 1.0 };
        let prices: [_; ROWS] = std::array::from_fn(|row| programme.add_var(0.0, (0.0, most(row))));
        for rows in [BEFORE, AFTER] {
            let sum: Vec<_> = rows.iter().map(|row| (prices[*row], 1.0)).collect();
            programme.add_constraint(&sum, ComparisonOp::Le, 1.0);
        }
        for choice in &self.choices {
            let costs = (0..ROWS).map(|row| (prices[row], -(choice[row] as f64) / self.unit(row)));
            let row: Vec<_> = costs.chain([(gain, 1.0)]).collect();
            programme.add_constraint(&row, ComparisonOp::Le, 0.0);
        }
        let solution = programme.solve().ok()?.into_solution().ok()?;
        let whole = |row: usize| {
            let scale = if row == MEMORY { self.units.0 / self.units.1 } else { 1.0 };
            (solution.var_value(prices[row]).max(0.0) * scale * self.one as f64).floor() as u64
        };
        let mut rows: Rows = std::array::from_fn(whole);
        // Rounding up to what is known to be allowed is nobody's gain.
        for group in [BEFORE, AFTER] {
            let over = group.iter().map(|row| rows[*row]).sum::<u64>().saturating_sub(self.one);
            group.iter().for_each(|row| rows[*row] = rows[*row].saturating_sub(over));
        }
        Some((rows, solution.objective() * self.units.0))
    }
}
