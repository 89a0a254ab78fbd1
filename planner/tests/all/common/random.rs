//! Random traces, machines and decisions. Everything follows from one seed, so that a case is
//! replayed by its number.

use std::collections::BTreeMap;

use planner::{CodecOptions, Decided, PlanError, Problem, bound, lower, moving_bound};
use schema::{
    Bandwidth, Bytes, BytesPerSec, Choice, CodecModel, CodecModels, Compute, Device, Document,
    Fidelity, Host, InPlace, Link, Machine, Nanos, Op, OpId, OpKind, Phase, Plan, Processor, Rerun,
    Role, SizeModel, Tensor, TensorId, TimeModel, Trace,
};
use simulator::{OffloadStart, Outcome, Policy, PrefetchGate, Treatment};

use super::build;

pub use checker::Random;

pub fn trace(random: &mut Random, most_ops: u64) -> Trace {
    trace_of(random, most_ops, false)
}

/// A trace in which constants change: by updates at its end and in between, once or more often,
/// beside what reads them before and after; some come into being late.
pub fn training(random: &mut Random, most_ops: u64) -> Trace {
    trace_of(random, most_ops, true)
}

fn trace_of(random: &mut Random, most_ops: u64, trains: bool) -> Trace {
    let constants = random.below(4);
    let ops = 1 + random.below(most_ops);
    let forward = ops / 2 + 1;
    let mut trace = build::unchecked("random", Vec::new(), Vec::new());
    for _ in 0..constants {
        tensor(&mut trace, random, Role::Parameter);
    }
    for index in 0..ops {
        let phase = if index < forward { Phase::Forward } else { Phase::Backward };
        op(&mut trace, random, phase);
        if trains && random.one_in(6) {
            update(&mut trace, random, constants);
        }
    }
    if trains {
        (0..random.below(2 + constants)).for_each(|_| update(&mut trace, random, constants));
        appear(&mut trace, random);
    }
    free(&mut trace, random);
    let mut aside = random.aside();
    hold(&mut trace, &mut aside);
    leave_out(&mut trace, &mut aside);
    trace.check().expect("the generator makes well-formed traces");
    trace
}

fn tensor(trace: &mut Trace, random: &mut Random, role: Role) -> TensorId {
    let bytes = match random.below(10) {
        0 => 0,
        1..=4 => 1 + random.below(500),
        _ => 1000 + random.below(20_000),
    };
    let name = format!("t{}", trace.tensors.len());
    let sparsity = random.one_in(4).then(|| random.below(101) as f64 / 100.0);
    trace.tensors.push(Tensor { sparsity, ..build::tensor(name, bytes, role) });
    TensorId::from_index(trace.tensors.len() - 1)
}

fn op(trace: &mut Trace, random: &mut Random, phase: Phase) {
    let tensors = trace.tensors.len() as u64;
    let mut reads = Vec::new();
    for _ in 0..random.below(4).min(tensors) {
        // Mostly what was made lately, as in a chain; sometimes anything.
        let back =
            if random.one_in(3) { random.below(tensors) } else { random.below(3.min(tensors)) };
        let id = TensorId((tensors - 1 - back) as u32);
        if !reads.contains(&id) {
            reads.push(id);
        }
    }
    let writes = (0..random.below(3)).map(|_| tensor(trace, random, Role::Activation)).collect();
    let name = format!("op{}", trace.ops.len());
    let kind = random.of(&[OpKind::Convolution, OpKind::Activation, OpKind::Other]);
    let duration = random.below(2000);
    trace.ops.push(Op {
        recompute: random.one_in(3).then_some(Nanos(random.below(1000))),
        reads,
        writes,
        workspace: Bytes(if random.one_in(3) { random.below(5000) } else { 0 }),
        rerunnable: !random.one_in(12),
        ..build::op(name, (kind, phase), duration, [&[]; 3])
    });
}

/// An op that changes a constant or two, by what was made lately.
fn update(trace: &mut Trace, random: &mut Random, constants: u64) {
    let first = TensorId(random.below(constants) as u32);
    let state =
        if random.one_in(3) { Some(tensor(trace, random, Role::OptimizerState)) } else { None };
    op(trace, random, Phase::Update);
    let Some(op) = trace.ops.last_mut().filter(|_| constants > 0) else { return };
    for changed in [Some(first), state].into_iter().flatten() {
        if !op.reads.contains(&changed) && !op.writes.contains(&changed) {
            op.reads.insert(0, changed);
        }
    }
    op.rerunnable = false;
}

/// Some constants come into being when they are first read.
fn appear(trace: &mut Trace, random: &mut Random) {
    for tensor in 0..trace.tensors.len() {
        let id = TensorId::from_index(tensor);
        let is_made = trace.ops.iter().any(|op| op.writes.contains(&id));
        let first = trace.ops.iter().position(|op| op.reads.contains(&id));
        if let Some(first) = first.filter(|_| !is_made && random.one_in(4)) {
            trace.tensors[tensor].appears_before = Some(OpId::from_index(first));
        }
    }
}

/// Frees tensors at their last use, later, or never, and lays outputs over inputs that die.
fn free(trace: &mut Trace, random: &mut Random) {
    let ops = trace.ops.len();
    let mut last_use: BTreeMap<TensorId, usize> = BTreeMap::new();
    let mut written = vec![false; trace.tensors.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        for t in op.reads.iter().chain(&op.writes) {
            last_use.insert(*t, index);
        }
        op.writes.iter().for_each(|t| written[t.index()] = true);
    }
    for (tensor, last) in last_use {
        let at = match random.below(8) {
            0 => continue,
            1 => (last + random.below(3) as usize).min(ops - 1),
            _ => last,
        };
        trace.ops[at].frees.push(tensor);
        let op = &mut trace.ops[at];
        let Some(output) = op.writes.first().copied() else { continue };
        let dies_here = at == last && op.reads.contains(&tensor) && written[tensor.index()];
        if dies_here && op.in_place.is_empty() && random.one_in(2) {
            op.in_place.push(InPlace { input: tensor, output });
        }
    }
}

/// In some traces the caller holds some tensors.
fn hold(trace: &mut Trace, random: &mut Random) {
    if random.one_in(3) {
        trace.tensors.iter_mut().for_each(|tensor| tensor.held = random.one_in(4));
    }
}

/// In some traces ops say what they change, and what reruns read and make.
fn leave_out(trace: &mut Trace, random: &mut Random) {
    if !random.one_in(3) {
        return;
    }
    let made: std::collections::HashSet<TensorId> =
        trace.ops.iter().flat_map(|op| op.writes.iter().copied()).collect();
    for op in &mut trace.ops {
        let some = |of: &[TensorId], random: &mut Random| -> Vec<TensorId> {
            of.iter().copied().filter(|_| !random.one_in(3)).collect()
        };
        if random.one_in(3) {
            let constants = op.reads.iter().copied().filter(|t| !made.contains(t));
            op.mutates = Some(some(&constants.collect::<Vec<_>>(), random));
            op.rerunnable |= random.one_in(2);
        }
        if op.rerunnable && (op.mutates.is_some() || random.one_in(3)) {
            let (mut reads, writes) = (some(&op.reads, random), some(&op.writes, random));
            reads.retain(|t| !op.mutates.as_ref().is_some_and(|mutates| mutates.contains(t)));
            op.rerun = Some(Rerun { reads, writes });
        }
        op.random = Bytes(if op.rerunnable && random.one_in(8) { 16 } else { 0 });
    }
}

pub fn machine(random: &mut Random) -> Machine {
    let mut codecs = random.aside();
    let bandwidth = |random: &mut Random| {
        Bandwidth::constant(BytesPerSec(1_000_000_000 * (1 + random.below(40))))
    };
    Machine {
        name: "random".into(),
        description: String::new(),
        device: Device {
            name: "none".into(),
            memory: Bytes(1 << 40),
            reserved: Bytes::ZERO,
            compute: Compute {
                codec_lane: codecs.one_in(2),
                beside_codec: codecs.of(&[1.0, 1.0, 0.7, 0.35]),
                ..Compute::new(1, BytesPerSec(1))
            },
        },
        host: Host {
            updates: Some(BytesPerSec(1_000_000_000 * (1 + codecs.below(40)))),
            ..Host::new(Bytes(1 << 40))
        },
        link: Link {
            name: "none".into(),
            d2h: bandwidth(random),
            h2d: bandwidth(random),
            latency: Nanos(random.below(100)),
            both_directions: random.of(&[1.0, 1.0, 0.9, 0.5]),
            beside_copy: codecs.of(&[1.0, 1.0, 0.8, 0.4]),
        },
        network: None,
        sources: BTreeMap::new(),
    }
}

pub fn policy(random: &mut Random) -> Policy {
    Policy {
        offload: match random.of(&[OffloadStart::AfterLastUse, OffloadStart::WithLastUse]) {
            _ if random.aside().below(5) == 1 => OffloadStart::OnceMade,
            offload => offload,
        },
        prefetch: random.of(&[
            PrefetchGate::AsMemoryAllows,
            PrefetchGate::AsMemoryAllows,
            PrefetchGate::WithPrecedingOp,
            PrefetchGate::FromPrecedingConvolution,
            PrefetchGate::WithPrecedingConvolution,
        ]),
        synchronous: random.one_in(4),
        codecs_beside: !random.aside().one_in(4),
        copies_stay: random.aside().one_in(2),
    }
}

/// Up to three codecs: lossless, of fixed rate, with bounded errors.
pub fn codec_models(random: &mut Random) -> CodecModels {
    let model = |random: &mut Random, index: u64| {
        let mut named = random.aside();
        let fidelity = random.of(&[Fidelity::Lossless, Fidelity::Lossless, Fidelity::FixedRate]);
        let permille = random.below(900) as u32;
        let margin_permille = random.below(200) as u32;
        let size = match fidelity {
            Fidelity::FixedRate => SizeModel::Rate { permille: permille + 1, margin_permille: 0 },
            _ if random.one_in(2) => SizeModel::Rate { permille: permille + 1, margin_permille },
            _ => {
                SizeModel::Sparsity { overhead_permille: 32, dense_permille: 1000, margin_permille }
            }
        };
        // Some as methods look for them: zero-value compression, and one with bounded errors.
        let (codec, parameter, fidelity) = match fidelity {
            Fidelity::Lossless if index == 0 => ("zvc".into(), None, fidelity),
            Fidelity::FixedRate if named.one_in(2) => {
                (format!("sz{index}"), Some(1e-3), Fidelity::ErrorBounded)
            }
            _ => (format!("codec{index}"), None, fidelity),
        };
        CodecModel {
            codec,
            parameter,
            fidelity,
            size,
            compress: time_model(random),
            decompress: time_model(random),
        }
    };
    let models = (0..random.below(4)).map(|index| model(random, index)).collect();
    let models = build::models(models);
    models.check().expect("the generator makes well-formed models");
    models
}

fn time_model(random: &mut Random) -> TimeModel {
    let (latency, more) = (random.below(100), random.below(1000));
    build::times(latency, (20_000, latency + more))
}

/// The problem of a trace and a machine, with random codecs, if any.
pub fn problem<'a>(random: &mut Random, trace: &'a Trace, machine: &'a Machine) -> Problem<'a> {
    let sparsity = random.one_in(2).then(|| random.below(101) as f64 / 100.0);
    let options = CodecOptions { sparsity, lossy: random.one_in(2) };
    let models = codec_models(random);
    let problem = Problem::new(trace, machine, Bytes(1 << 40)).with_codecs(&models, options);
    match random.one_in(2) {
        // The host is as fast.
        true => problem.with_host_codecs(&models, options),
        false => problem,
    }
}

pub fn treatments(random: &mut Random, problem: &Problem) -> Vec<Treatment> {
    let model = &problem.model;
    let keep = 1 + random.below(4);
    let treatment = |gap: usize| {
        if random.one_in(keep + 1) {
            return Treatment::Keep;
        }
        let codecs: Vec<u8> = problem.may_compress(gap).map(|(codec, _)| codec).collect();
        if !codecs.is_empty() && random.one_in(2) {
            let codec = random.of(&codecs);
            return random.of(&[Treatment::SwapCompressed(codec), Treatment::Compress(codec)]);
        }
        let there: Vec<u8> = problem.may_pack_there(gap).map(|(codec, _)| codec).collect();
        if !there.is_empty() && random.one_in(4) {
            return Treatment::SwapCompressedOnHost(random.of(&there));
        }
        match model.allows(gap, Choice::Recompute) && random.one_in(2) {
            true => random.of(&[Treatment::Recompute, Treatment::RecomputeEachTime]),
            false => random.of(&[Treatment::Swap, Treatment::SwapEachTime]),
        }
    };
    (0..model.gaps().len()).map(treatment).collect()
}

/// Random decisions about a random problem, lowered, with what they were evaluated to; none where
/// they do not fit.
pub fn plan(random: &mut Random) -> Result<Option<(Plan, Trace, Outcome)>, String> {
    let trace = trace(random, 24);
    plan_of(random, trace, false)
}

/// The same of a trace that trains, of whose constants some begin and end the iteration on the host.
pub fn moving_plan(random: &mut Random) -> Result<Option<(Plan, Trace, Outcome)>, String> {
    let trace = training(random, 24);
    plan_of(random, trace, true)
}

/// Most of the tensors that may begin and end the iteration on the host.
pub fn homes(problem: &Problem, random: &mut Random) -> Vec<TensorId> {
    let is_movable =
        |id: &TensorId| problem.model.producer(*id).is_none() && !problem.model.is_held(*id);
    let all = (0..problem.trace.tensors.len()).map(TensorId::from_index);
    all.filter(|id| is_movable(id) && !random.one_in(4)).collect()
}

/// Some of the updates that the host's processor may run where these tensors have their homes there.
pub fn updates(problem: &Problem, homes: &[TensorId], random: &mut Random) -> Vec<OpId> {
    let may = |op: &OpId| {
        let mut read = problem.model.reads(*op);
        let may_be_there = |id: TensorId| match problem.model.producer(id) {
            Some(_) => !problem.model.is_held(id),
            None => homes.contains(&id),
        };
        problem.update_time_there(*op).is_some() && read.all(may_be_there)
    };
    let ops = (0..problem.trace.ops.len()).map(OpId::from_index).filter(may);
    ops.filter(|_| random.one_in(2)).collect()
}

/// The same of a trace of whose ops some run on the net.
pub fn net_plan(random: &mut Random) -> Result<Option<(Plan, Trace, Outcome)>, String> {
    let mut trace = training(random, 24);
    let runs = |op: &&mut Op| op.phase != Phase::Update;
    for op in trace.ops.iter_mut().filter(runs) {
        op.on = random.of(&[Processor::Device, Processor::Net]);
    }
    plan_of(random, trace, false)
}

fn plan_of(
    random: &mut Random,
    trace: Trace,
    moves: bool,
) -> Result<Option<(Plan, Trace, Outcome)>, String> {
    let machine = machine(random);
    let policy = policy(random);
    let mut problem = problem(random, &trace, &machine);
    let mut whole = problem.clone();
    if moves {
        let homes = homes(&problem, random);
        if homes.is_empty() {
            return Ok(None);
        }
        let there = updates(&problem, &homes, &mut random.aside());
        problem = problem.with_homes(&homes).with_updates_there(&there);
    }
    let treatments = treatments(random, &problem);
    let unlimited = problem.evaluator(policy, problem.budget).evaluate(&treatments);
    let Ok(Outcome { peak, .. }) = unlimited else { return Ok(None) };
    // From a little too small to more than enough.
    problem.budget = Bytes((peak.0 as f64 * (0.5 + random.below(100) as f64 / 100.0)) as u64);
    let mut evaluator = problem.evaluator(policy, problem.budget);
    let Ok(outcome) = evaluator.evaluate(&treatments) else { return Ok(None) };
    let considered = (0..problem.model.gaps().len()).collect();
    let decided = Decided::new(treatments, policy, considered);
    let plan = match lower(&problem, problem.budget, &decided) {
        Ok(plan) => plan,
        Err(PlanError::Fragmented { .. }) => return Ok(None),
        Err(error) => return Err(format!("evaluated, but not lowered: {error}")),
    };
    whole.budget = problem.budget;
    // Of plans in which nothing is compressed there is more to say.
    let compresses = |action: &schema::Action| matches!(action.task, schema::Task::Compress(_));
    whole.allowed.compress &= plan.actions.iter().any(compresses) || !moves;
    let bound = if moves { moving_bound(&whole) } else { bound(&problem) };
    match bound.time().is_none_or(|time| plan.predicted.iteration < time) {
        true => Err(format!("{} beats {bound:?}", plan.predicted.iteration)),
        false => Ok(Some((plan, trace, outcome))),
    }
}
