//! Explicit schedules: what they may say, and that their plans are safe.

use crate::common::chain;
use crate::common::judge;
use crate::common::random::{self, Random};
use checker::{Fallback, Prepared, Wanted};
use planner::{Decided, PlanError, Problem, bound, lower};
use schema::{Bytes, OpId, TensorId, Trace};
use simulator::{Infeasible, Policy, ProvenPlan, Step, StepProblem};

/// A random schedule that computes the trace: ops are run again for no reason or because
/// something is missing, and tensors are dropped, swapped or compressed at any time.
struct Scheduler<'a> {
    trace: &'a Trace,
    problem: &'a Problem<'a>,
    producer: Vec<Option<OpId>>,
    recomputable: Vec<bool>,
    on_device: Vec<bool>,
    on_host: Vec<bool>,
    steps: Vec<Step>,
}

impl<'a> Scheduler<'a> {
    fn new(problem: &'a Problem<'a>) -> Self {
        let (trace, model) = (problem.trace, &problem.model);
        let tensors = 0..trace.tensors.len();
        let producer: Vec<_> =
            tensors.clone().map(|t| model.producer(TensorId::from_index(t))).collect();
        // No op of these traces changes what others read, so that rerunnable is all it takes.
        let mut recomputable: Vec<bool> = producer.iter().map(Option::is_none).collect();
        let constant = recomputable.clone();
        let once: Vec<bool> = tensors
            .map(|t| {
                let t = TensorId(t as u32);
                trace.ops.iter().any(|op| op.reads.contains(&t) && op.may_change(t))
            })
            .collect();
        for op in &trace.ops {
            let inputs = op
                .reads_again()
                .iter()
                .all(|t| recomputable[t.index()] && !(constant[t.index()] && once[t.index()]));
            op.writes_again()
                .iter()
                .for_each(|t| recomputable[t.index()] = inputs && op.rerunnable);
        }
        Self {
            trace,
            problem,
            on_device: constant,
            on_host: vec![false; producer.len()],
            producer,
            recomputable,
            steps: Vec::new(),
        }
    }

    fn is_there(&self, tensor: TensorId) -> bool {
        self.on_device[tensor.index()] || self.on_host[tensor.index()]
    }

    fn bring(&mut self, tensor: TensorId) {
        if !self.is_there(tensor) {
            let op = self.producer[tensor.index()].expect("what has no producer is there");
            self.run(op, Step::Again(op));
        }
    }

    fn run(&mut self, op: OpId, step: Step) {
        let of = &self.trace.ops[op.index()];
        let (inputs, outputs) = match step {
            Step::Again(_) => (of.reads_again(), of.writes_again()),
            _ => (&of.reads[..], &of.writes[..]),
        };
        inputs.iter().for_each(|t| self.bring(*t));
        // What one input's recomputation needed may be what another is.
        for tensor in inputs {
            self.on_host[tensor.index()] = false;
            self.on_device[tensor.index()] = true;
        }
        for tensor in outputs {
            if !self.on_host[tensor.index()] {
                self.on_device[tensor.index()] = true;
            }
        }
        self.steps.push(step);
    }

    fn was_used(&self, tensor: TensorId, next: u32) -> bool {
        let used = |op: &schema::Op| op.reads.contains(&tensor) || op.writes.contains(&tensor);
        self.trace.ops[..next as usize].iter().any(used)
    }

    fn is_read_from(&self, tensor: TensorId, next: u32) -> bool {
        self.trace.ops[next as usize..].iter().any(|op| op.reads.contains(&tensor))
    }

    fn disturb(&mut self, random: &mut Random, next: u32) {
        let tensor = TensorId(random.below(self.on_device.len() as u64) as u32);
        let index = tensor.index();
        if self.problem.model.holds(tensor, next as usize) {
            return;
        }
        match random.below(4) {
            0 if self.on_device[index]
                && self.recomputable[index]
                && self.producer[index].is_some() =>
            {
                self.on_device[index] = false;
                self.steps.push(Step::Drop(tensor));
            }
            1 if self.on_device[index] && self.was_used(tensor, next) => {
                self.on_device[index] = false;
                self.on_host[index] = true;
                self.steps.push(Step::SwapOut(tensor));
            }
            2 if self.on_device[index] && self.is_read_from(tensor, next) => {
                let codecs = 0..self.problem.codecs.costs.len() as u8;
                let mut smaller =
                    codecs.filter(|c| self.problem.codecs.costs.cost(*c, tensor).is_some());
                if let (true, Some(codec)) = (self.was_used(tensor, next), smaller.next()) {
                    self.on_device[index] = false;
                    self.on_host[index] = true;
                    let swapped = random.one_in(2);
                    self.steps.push(Step::Compress { tensor, codec, swapped });
                }
            }
            3 if next > 0 => {
                let op = OpId(random.below(next.into()) as u32);
                let writes = self.trace.ops[op.index()].writes_again();
                if !writes.is_empty() && writes.iter().all(|t| self.recomputable[t.index()]) {
                    self.run(op, Step::Again(op));
                }
            }
            _ => {}
        }
    }

    fn schedule(mut self, random: &mut Random) -> Vec<Step> {
        let disturbances = random.below(4);
        for op in 0..self.trace.ops.len() as u32 {
            (0..disturbances).for_each(|_| self.disturb(random, op));
            self.run(OpId(op), Step::Run(OpId(op)));
        }
        let mut freed = vec![false; self.on_device.len()];
        let frees = self.trace.ops.iter().flat_map(|op| &op.frees);
        frees.for_each(|t| freed[t.index()] = true);
        for (tensor, freed) in freed.iter().enumerate() {
            if !freed {
                self.bring(TensorId::from_index(tensor));
            }
        }
        self.steps
    }
}

fn small_trace(random: &mut Random) -> Trace {
    loop {
        let trace = random::trace(random, 24);
        if !trace.tensors.is_empty() {
            return trace;
        }
    }
}

#[test]
fn plans_of_random_schedules_are_safe_and_as_fast_as_evaluated() {
    let mut planned = 0;
    let (mut again, mut compressed) = (0, 0);
    for seed in 0..4_000 {
        let random = &mut Random::new(seed);
        let trace = small_trace(random);
        let machine = random::machine(random);
        let policy = random::policy(random);
        let mut problem = random::problem(random, &trace, &machine);
        let steps = Scheduler::new(&problem).schedule(random);
        let mut evaluator = problem.evaluator(policy, problem.budget);
        let unlimited = evaluator.evaluate_steps(&steps);
        let unlimited = unlimited.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{steps:?}"));
        let budget = unlimited.peak.0 * (80 + random.below(50)) / 100;
        problem.budget = Bytes(budget);
        let outcome = problem.evaluator(policy, problem.budget).evaluate_steps(&steps);
        let Ok(outcome) = outcome else { continue };
        let decided = Decided::from_steps(&problem, steps, policy);
        let plan = match lower(&problem, problem.budget, &decided) {
            Ok(plan) => plan,
            Err(PlanError::Fragmented { .. }) => continue,
            Err(error) => panic!("seed {seed}: evaluated, but not lowered: {error}"),
        };
        let plan = ProvenPlan::check(plan, &trace).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let wanted = Wanted::of(&trace);
        let prepared = Prepared::new(&plan, &wanted);
        prepared
            .and_then(|prepared| judge::run(&prepared, 2, Fallback::Drawn, random))
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        // Where copies do not disturb each other, the plan keeps what the evaluation promised:
        // exactly where nothing is copied, and else it may wait for less.
        let (plan_time, evaluated) = (plan.predicted.iteration, outcome.iteration);
        let copies = plan.actions.iter().any(|a| a.host.is_some());
        let speeds =
            [plan.both_directions_permille, plan.beside_codec_permille, plan.beside_copy_permille];
        if !copies && !plan.codec_lane {
            assert_eq!(plan_time, evaluated, "seed {seed}");
        } else if speeds == [1000; 3] {
            assert!(plan_time <= evaluated, "seed {seed}: {plan_time}, evaluated {evaluated}");
        }
        let bound = bound(&problem).time();
        assert!(
            bound.is_some_and(|bound| bound <= plan_time),
            "seed {seed}: {plan_time} beats the bound"
        );
        planned += 1;
        again += usize::from(outcome.recompute.0 > 0);
        compressed += usize::from(outcome.codec.0 > 0);
    }
    let counts = format!("{planned}, {again} of them recompute, {compressed} compress");
    assert!(planned > 1_500 && again > 700 && compressed > 300, "only {counts}");
}

/// Evaluating steps and evaluating treatments with one evaluator do not disturb each other.
#[test]
fn an_evaluator_takes_steps_and_treatments_in_turn() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let trace = small_trace(random);
        let machine = random::machine(random);
        let problem = random::problem(random, &trace, &machine);
        let steps = Scheduler::new(&problem).schedule(random);
        let treatments = random::treatments(random, &problem);
        let new = || problem.evaluator(Policy::EARLY, problem.budget);
        let mut evaluator = new();
        for _ in 0..2 {
            assert_eq!(evaluator.evaluate_steps(&steps), new().evaluate_steps(&steps));
            assert_eq!(evaluator.evaluate(&treatments), new().evaluate(&treatments));
            assert_eq!(
                evaluator.evaluate(&problem.keep_all()),
                new().evaluate(&problem.keep_all())
            );
        }
    }
}

#[track_caller]
fn refused(steps: &[Step]) -> StepProblem {
    let trace = chain::trace(&chain::Chain::uniform(3));
    let machine = random::machine(&mut Random::new(0));
    let problem = Problem::new(&trace, &machine, Bytes(1 << 40));
    match problem.evaluator(Policy::EARLY, problem.budget).evaluate_steps(steps) {
        Err(Infeasible::Step(error)) => error.problem,
        other => panic!("not refused as a step: {other:?}"),
    }
}

#[test]
fn wrong_steps_are_refused_by_name() {
    use Step::{Again, Drop, Run, SwapOut};
    let op = |i| OpId(i);
    let t = |i| TensorId(i);
    let cases = [
        (vec![Run(op(1))], StepProblem::OutOfOrder { op: op(1), due: op(0) }),
        (vec![Run(op(99))], StepProblem::Unknown),
        (vec![Drop(t(99))], StepProblem::Unknown),
        (vec![Again(op(0))], StepProblem::NotYetRun { op: op(0) }),
        (vec![Drop(t(1))], StepProblem::NotOnDevice { tensor: t(1) }),
        (vec![Drop(t(0))], StepProblem::NeverMade { tensor: t(0) }),
        (vec![SwapOut(t(0))], StepProblem::NotYetUsed { tensor: t(0) }),
        (vec![Run(op(0))], StepProblem::Unfinished { due: op(1) }),
        (
            vec![Run(op(0)), Drop(t(1)), Run(op(1))],
            StepProblem::Missing { op: op(1), tensor: t(1) },
        ),
        (vec![Run(op(0)), SwapOut(t(1)), Drop(t(1))], StepProblem::NotOnDevice { tensor: t(1) }),
    ];
    for (steps, problem) in cases {
        assert_eq!(refused(&steps), problem, "{steps:?}");
    }
}
