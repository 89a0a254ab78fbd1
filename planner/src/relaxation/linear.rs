//! Linear programmes, and bounds on them that hold whatever the solver's accuracy.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettingsBuilder, DefaultSolver, IPSolver, SupportedConeT};

/// A variable of a programme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable(usize);

/// A row of a programme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row(usize);

/// Minimise a cost over variables between zero and a limit, under rows that are each at most
/// their right-hand side.
#[derive(Debug, Default)]
pub(super) struct Programme {
    columns: Vec<Vec<(usize, f64)>>,
    cost: Vec<f64>,
    /// Added to the cost for the solver alone: it picks one of many equally good solutions.
    preference: Vec<f64>,
    limit: Vec<f64>,
    right: Vec<f64>,
}

/// What a solver says of a programme.
#[derive(Debug, Clone)]
pub(super) struct Solution {
    values: Vec<f64>,
    prices: Vec<f64>,
    /// No feasible point costs less.
    pub bound: f64,
}

impl Solution {
    /// The value of a variable.
    pub fn value(&self, variable: Variable) -> f64 {
        self.values[variable.0]
    }

    /// By how much the cost falls per unit by which a row's right-hand side grows.
    pub fn price(&self, row: Row) -> f64 {
        self.prices[row.0]
    }
}

impl Programme {
    /// A variable between zero and `limit`, which every feasible point of interest keeps.
    pub fn variable(&mut self, limit: f64) -> Variable {
        self.columns.push(Vec::new());
        self.cost.push(0.0);
        self.preference.push(0.0);
        self.limit.push(limit);
        Variable(self.columns.len() - 1)
    }

    /// A row whose terms sum up to at most `right`.
    pub fn row(&mut self, right: f64) -> Row {
        self.right.push(right);
        Row(self.right.len() - 1)
    }

    /// Adds a term to a row.
    pub fn add(&mut self, row: Row, variable: Variable, factor: f64) {
        self.columns[variable.0].push((row.0, factor));
    }

    /// A row of terms.
    pub fn at_most(&mut self, right: f64, terms: &[(Variable, f64)]) -> Row {
        let row = self.row(right);
        terms.iter().for_each(|(variable, factor)| self.add(row, *variable, *factor));
        row
    }

    /// States what a unit of a variable costs.
    pub fn set_cost(&mut self, variable: Variable, cost: f64) {
        self.cost[variable.0] = cost;
    }

    /// Lets the solver prefer less of a variable where all else is equal.
    pub fn prefer_less(&mut self, variable: Variable, cost: f64) {
        self.preference[variable.0] = cost;
    }

    /// Solves the programme.
    pub fn solve(mut self) -> Solution {
        self.columns.iter_mut().for_each(merge);
        let (values, prices) = self.optimise();
        let bound = self.bound(&prices);
        Solution { values, prices, bound }
    }

    /// An interior-point method's solution, and the prices of the rows.
    fn optimise(&self) -> (Vec<f64>, Vec<f64>) {
        let (rows, variables) = (self.right.len(), self.columns.len());
        let mut starts = vec![0];
        let (mut indices, mut factors) = (Vec::new(), Vec::new());
        for (variable, column) in self.columns.iter().enumerate() {
            indices.extend(column.iter().map(|(row, _)| *row));
            factors.extend(column.iter().map(|(_, factor)| *factor));
            // Not below zero.
            indices.push(rows + variable);
            factors.push(-1.0);
            starts.push(indices.len());
        }
        let matrix = CscMatrix::new(rows + variables, variables, starts, indices, factors);
        let quadratic = CscMatrix::zeros((variables, variables));
        let right: Vec<f64> =
            self.right.iter().copied().chain(std::iter::repeat_n(0.0, variables)).collect();
        let cost: Vec<f64> = self.cost.iter().zip(&self.preference).map(|(a, b)| a + b).collect();
        let settings = DefaultSettingsBuilder::default()
            .verbose(false)
            .max_iter(60)
            .tol_gap_abs(1e-6)
            .tol_gap_rel(1e-6)
            .tol_feas(1e-7)
            .max_threads(1)
            .build()
            .expect("the settings are complete");
        let cones = [SupportedConeT::NonnegativeConeT(rows + variables)];
        let solver = DefaultSolver::new(&quadratic, &cost, &matrix, &right, &cones, settings);
        let Ok(mut solver) = solver else { return (vec![0.0; variables], vec![0.0; rows]) };
        solver.solve();
        let clean = |x: &f64| if x.is_finite() { x.max(0.0) } else { 0.0 };
        let values = solver.solution.x.iter().map(clean).collect();
        let prices = solver.solution.z[..rows].iter().map(clean).collect();
        (values, prices)
    }

    /// Weak duality: for any prices that are not negative, no feasible point costs less than the
    /// rows' right-hand sides at these prices and each variable at its best within its limits. So
    /// prices that are a little off cost a little of the bound, and never its truth.
    fn bound(&self, prices: &[f64]) -> f64 {
        let rows: f64 = self.right.iter().zip(prices).map(|(right, price)| right * price).sum();
        let best = |variable: usize| {
            let at_prices: f64 =
                self.columns[variable].iter().map(|(row, factor)| factor * prices[*row]).sum();
            ((self.cost[variable] + at_prices) * self.limit[variable]).min(0.0)
        };
        (0..self.columns.len()).map(best).sum::<f64>() - rows
    }
}

/// Orders a column by row and adds up terms of one row, as the solver wants it.
fn merge(column: &mut Vec<(usize, f64)>) {
    column.sort_by_key(|(row, _)| *row);
    column.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two goods, one scarce resource: at least 4 units of value are wanted.
    #[test]
    fn the_bound_is_the_optimum_and_prices_are_what_more_would_bring() {
        let mut programme = Programme::default();
        let (cheap, dear) = (programme.variable(1.0), programme.variable(10.0));
        programme.set_cost(cheap, 1.0);
        programme.set_cost(dear, 3.0);
        let wanted = programme.at_most(-4.0, &[(cheap, -2.0), (dear, -2.0)]);
        programme.at_most(1.0, &[(cheap, 1.0)]);
        let solution = programme.solve();
        assert!((solution.bound - 4.0).abs() < 1e-5, "{}", solution.bound);
        assert!((solution.value(dear) - 1.0).abs() < 1e-4);
        assert!((solution.price(wanted) - 1.5).abs() < 1e-4);
    }

    #[test]
    fn any_prices_give_a_bound_below_the_optimum() {
        let mut programme = Programme::default();
        let x = programme.variable(5.0);
        programme.set_cost(x, 1.0);
        programme.at_most(-2.0, &[(x, -1.0)]);
        for price in [0.0, 0.3, 0.9999, 1.0, 1.1, 7.0] {
            assert!(programme.bound(&[price]) <= 2.0, "{price}");
        }
    }
}
