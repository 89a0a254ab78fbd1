//! Mixed-integer programmes, and the solvers that `good_lp` reaches.

use good_lp::{Expression, ProblemVariables, SolverModel, variable};

/// A variable of a programme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable(usize);

/// A row of a programme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row(usize);

#[derive(Debug, Clone, Copy)]
struct Definition {
    least: f64,
    most: f64,
    integer: bool,
}

/// Minimise one variable under rows that are each at most their right-hand side.
#[derive(Debug, Clone, Default)]
pub(super) struct Programme {
    variables: Vec<Definition>,
    rows: Vec<(Vec<(usize, f64)>, f64)>,
}

/// Values of all variables.
#[derive(Debug, Clone)]
pub(super) struct Solution(Vec<f64>);

impl Solution {
    /// Whether a variable that is zero or one is one.
    pub fn is_one(&self, variable: Variable) -> bool {
        self.0[variable.0] > 0.5
    }
}

/// Rows times nodes of a search tree that a solver may go through: a limit that does not depend on
/// the machine.
const WORK: u64 = 400_000;

/// Nodes at least and at most.
const NODES: (u64, u64) = (50, 5_000);

impl Programme {
    /// A variable between zero and `most`.
    pub fn variable(&mut self, most: f64) -> Variable {
        self.define(Definition { least: 0.0, most, integer: false })
    }

    /// A variable that is zero or one.
    pub fn binary(&mut self) -> Variable {
        self.define(Definition { least: 0.0, most: 1.0, integer: true })
    }

    pub fn one(&mut self) -> Variable {
        self.define(Definition { least: 1.0, most: 1.0, integer: false })
    }

    fn define(&mut self, definition: Definition) -> Variable {
        self.variables.push(definition);
        Variable(self.variables.len() - 1)
    }

    /// A row whose terms sum up to at most `right`.
    pub fn at_most(&mut self, right: f64, terms: &[(Variable, f64)]) -> Row {
        self.rows.push((Vec::new(), right));
        let row = Row(self.rows.len() - 1);
        terms.iter().for_each(|(variable, factor)| self.add(row, *variable, *factor));
        row
    }

    /// Adds a term to a row.
    pub fn add(&mut self, row: Row, variable: Variable, factor: f64) {
        self.rows[row.0].0.push((variable.0, factor));
    }

    /// How many variables there are.
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Nodes of the search tree that a solver may look at.
    pub fn nodes(&self) -> u64 {
        (WORK / self.rows.len().max(1) as u64).clamp(NODES.0, NODES.1)
    }

    /// The best solution found in [`Programme::nodes`] nodes, if any.
    pub fn minimise(&self, least: Variable) -> Option<Solution> {
        let mut variables = ProblemVariables::new();
        let define = |of: &Definition| {
            let variable = variable().min(of.least).max(of.most);
            if of.integer { variable.integer() } else { variable }
        };
        let all: Vec<good_lp::Variable> =
            self.variables.iter().map(|of| variables.add(define(of))).collect();
        let problem = variables.minimise(all[least.0]);
        let rows = self.rows.iter().map(|(terms, right)| {
            let mut sum = Expression::with_capacity(terms.len());
            terms.iter().for_each(|(variable, factor)| sum.add_mul(*factor, all[*variable]));
            sum.leq(*right)
        });
        solve(problem, rows, &all, self.nodes()).map(Solution)
    }
}

pub(super) const SOLVER: &str = if cfg!(feature = "highs") { "highs" } else { "microlp" };

#[cfg(feature = "highs")]
fn solve(
    problem: good_lp::variable::UnsolvedProblem,
    rows: impl Iterator<Item = good_lp::Constraint>,
    all: &[good_lp::Variable],
    nodes: u64,
) -> Option<Vec<f64>> {
    use good_lp::Solution;
    let mut model = problem
        .using(good_lp::highs)
        .set_threads(1)
        .set_option("random_seed", 0)
        .set_option("mip_max_nodes", nodes as i32);
    for row in rows {
        model.add_constraint(row);
    }
    let solution = model.solve().ok()?;
    Some(all.iter().map(|variable| solution.value(*variable)).collect())
}

/// `good_lp` builds microlp's programme; its limit on nodes is microlp's own.
#[cfg(not(feature = "highs"))]
fn solve(
    problem: good_lp::variable::UnsolvedProblem,
    rows: impl Iterator<Item = good_lp::Constraint>,
    _: &[good_lp::Variable],
    nodes: u64,
) -> Option<Vec<f64>> {
    let mut model = problem.using(good_lp::microlp);
    for row in rows {
        model.add_constraint(row);
    }
    let mut options = microlp::SolveOptions::default();
    options.node_limit = Some(nodes);
    let solution = model.as_inner().solve_with(options).ok()?.into_solution().ok()?;
    Some(solution.iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs with whichever solver is compiled in.
    #[test]
    fn a_knapsack_is_packed_in_whole_pieces() {
        let mut programme = Programme::default();
        let pieces: Vec<Variable> = (0..3).map(|_| programme.binary()).collect();
        let rest = programme.variable(100.0);
        // What is left of 10 after pieces of 6, 5 and 4, of which 9 fit: in fractions, 1.
        programme.at_most(
            -10.0,
            &[(rest, -1.0), (pieces[0], -6.0), (pieces[1], -5.0), (pieces[2], -4.0)],
        );
        programme.at_most(9.5, &[(pieces[0], 6.0), (pieces[1], 5.0), (pieces[2], 4.0)]);
        let solution = programme.minimise(rest).expect("it has a solution");
        let chosen: Vec<bool> = pieces.iter().map(|piece| solution.is_one(*piece)).collect();
        assert_eq!(chosen, [false, true, true]);
    }

    #[test]
    fn what_cannot_be_has_no_solution() {
        let mut programme = Programme::default();
        let (yes, no) = (programme.one(), programme.binary());
        programme.at_most(0.0, &[(yes, 1.0), (no, 1.0)]);
        assert!(programme.minimise(no).is_none());
    }
}
