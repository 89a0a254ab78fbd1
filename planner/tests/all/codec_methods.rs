//! The methods that compress: SC, CSWAP, CSWAP+ and COMET.

use crate::common::build::{self, ZVC, models, rate};
use crate::common::random::{self, Random};
use planner::methods::{
    Comet, Cswap, LayerStatistics, Method, StaticCompression, SwapCost, Vdnn, VdnnHost, by_name,
    fixed_rates, parameter_range,
};
use planner::{CodecOptions, NoMonitor, PlanError, Problem, plan};
use schema::{
    Bytes, Choice, CodecModel, CodecModels, Nanos, OpKind, Phase, Plan, Role, SizeModel, Task,
    Tensor, Trace,
};
use simulator::Treatment;

/// A codec that takes `nanos` for a thousand bytes.
fn model(codec: &str, parameter: Option<f64>, size: SizeModel, nanos: u64) -> CodecModel {
    build::codec(codec, parameter, size, build::times(0, (1000, nanos)))
}

fn all_codecs(nanos: u64) -> CodecModels {
    let mut all = vec![model("zvc", None, ZVC, nanos)];
    all.extend([100, 350, 700].map(|p| model("zfp", Some(f64::from(p)), rate(p), nanos)));
    all.extend([1e-4, 1e-2].map(|bound| model("sz", Some(bound), rate(100), nanos)));
    models(all)
}

const LOSSY: CodecOptions = CodecOptions { sparsity: None, lossy: true };

/// Problems of random traces and of chains of convolutions under random budgets, with codecs of all
/// kinds.
fn for_each_problem(count: u64, mut check: impl FnMut(u64, &Problem)) {
    for seed in 0..count {
        let mut random = Random::new(seed);
        let trace = match random.one_in(2) {
            true => random::trace(&mut random, 40),
            false => {
                let layers = 2 + random.below(8);
                let sparsities = (0..layers).map(|_| random.below(101) as f64 / 100.0);
                chain(&sparsities.collect::<Vec<_>>())
            }
        };
        let machine = random::machine(&mut random);
        let peak = simulator::in_core(&trace).peak.0;
        let budget = Bytes(peak * (50 + random.below(80)) / 100);
        let nanos = random.of(&[1, 20, 300]);
        let problem = Problem::new(&trace, &machine, budget)
            .with_codecs(&all_codecs(nanos), LOSSY)
            .with_host_codecs(&all_codecs(2 * nanos), LOSSY);
        check(seed, &problem);
    }
}

#[test]
fn cswap_is_never_slower_than_vdnn_and_often_faster() {
    let vdnn = ["vdnn-conv", "vdnn-all"].map(|name| by_name(name).expect("registered"));
    let (mut faster, mut rows) = (0, 0);
    for_each_problem(150, |seed, problem| {
        for method in [Cswap::Lossless, Cswap::Plus { parameter: None }] {
            for vdnn in &vdnn {
                let Ok(base) = plan(vdnn.as_ref(), problem, &NoMonitor) else { continue };
                let ours = plan(&method, problem, &NoMonitor)
                    .unwrap_or_else(|error| panic!("seed {seed}: vDNN has a plan, and {error}"));
                let (ours, base) = (ours.predicted.iteration, base.predicted.iteration);
                assert!(ours <= base, "seed {seed}: {ours} after {base}");
                faster += u32::from(ours < base);
                rows += 1;
            }
        }
    });
    assert!(faster > 15, "{faster} of {rows}");
}

/// Figure 1(a): what layer n reads comes back beside all of `B_{n+1}`, however many ops that has; what
/// the topmost convolution reads, beside all that stands above it.
#[test]
fn all_of_the_next_layers_backward_computation_hides_a_copy() {
    let tensor = |name: &str| build::tensor(name, 1000, Role::Activation);
    let tensors = ["x1", "x2", "y", "dy", "d2", "d1"].map(tensor).to_vec();
    let convolution = |phase| (OpKind::Convolution, phase);
    let (forward, backward) = (convolution(Phase::Forward), convolution(Phase::Backward));
    let ops = vec![
        build::op("a", forward, 1000, [&[], &[0], &[]]),
        build::op("b", forward, 1000, [&[0], &[1], &[]]),
        build::op("c", forward, 1000, [&[1], &[2], &[]]),
        build::op("loss_grad", (OpKind::Loss, Phase::Backward), 400, [&[2], &[3], &[2]]),
        build::op("linear_grad", (OpKind::MatrixProduct, Phase::Backward), 300, [&[3], &[], &[]]),
        build::op("c_param_grad", backward, 500, [&[1, 3], &[], &[1]]),
        build::op("c_ip_grad", backward, 500, [&[3], &[4], &[3]]),
        build::op("b_param_grad", backward, 500, [&[0, 4], &[], &[0]]),
        build::op("b_ip_grad", backward, 500, [&[4], &[5], &[4, 5]]),
    ];
    let trace = build::trace("layers", tensors, ops);
    let machine = build::machine(1_000_000_000);
    let problem = Problem::new(&trace, &machine, Bytes(1 << 20));
    let hidden = |tensor: u32| {
        let is_it = |gap: &&usize| problem.model.gaps()[**gap].tensor.0 == tensor;
        let gap = problem.feature_maps.iter().find(is_it).expect("a feature map");
        SwapCost::raw(&problem, *gap).hidden_backward
    };
    assert_eq!([0, 1].map(hidden), [1000, 700].map(Nanos));
    let vdnn = plan(&Vdnn::Conv, &problem, &NoMonitor).expect("it fits");
    // The copy of x1 hides, that of x2 for all but 300.
    assert_eq!(vdnn.predicted.iteration, Nanos(5700 + 300));
}

#[test]
fn comet_keeps_a_twentieth_free() {
    let mut planned = 0;
    for_each_problem(150, |seed, problem| {
        let Ok(plan) = plan(&Comet::default(), problem, &NoMonitor) else { return };
        let free = problem.budget.0 - plan.predicted.peak.0;
        assert!(free >= problem.budget.0 / 20, "seed {seed}: {free} free");
        planned += 1;
    });
    assert!(planned > 10, "{planned}");
}

#[test]
fn a_method_without_its_codecs_says_what_to_name() {
    let mut random = Random::new(1);
    let trace = random::trace(&mut random, 20);
    let machine = random::machine(&mut random);
    let none = Problem::new(&trace, &machine, Bytes(1 << 40));
    let zvc = models(vec![model("zvc", None, ZVC, 1)]);
    let only_zvc = none.clone().with_codecs(&zvc, LOSSY);
    let mut not_allowed = only_zvc.clone();
    not_allowed.allowed.compress = false;
    let mut report = String::new();
    for method in
        ["vdnn++", "sc", "cswap", "cswap+", "comet"].map(|name| by_name(name).expect("registered"))
    {
        for (name, problem) in
            [("none", &none), ("only zvc", &only_zvc), ("not allowed", &not_allowed)]
        {
            let result = match plan(method.as_ref(), problem, &NoMonitor) {
                Ok(plan) => format!("ok, as {}", plan.method),
                Err(error) => error.to_string(),
            };
            report += &format!("{}, {name}: {result}\n", method.name());
        }
    }
    insta::assert_snapshot!(report);
}

/// Convolutions, each with a ReLU, forward and backward, with given sparsities of the ReLUs'
/// outputs; every op takes 1000 ns and every tensor 100,000 bytes.
fn chain(sparsities: &[f64]) -> Trace {
    let mut trace = build::unchecked("chain", Vec::new(), Vec::new());
    let tensor = |trace: &mut Trace, name: String, sparsity| {
        let tensor = build::tensor(name, 100_000, Role::Activation);
        trace.tensors.push(Tensor { sparsity: Some(sparsity), ..tensor });
        trace.tensors.len() as u32 - 1
    };
    let op = |name: String, kind, phase, reads: Vec<u32>, writes: Vec<u32>| {
        build::op(name, (kind, phase), 1000, [&reads, &writes, &[]])
    };
    let (mut maps, mut input) = (Vec::new(), Vec::new());
    for (layer, sparsity) in sparsities.iter().enumerate() {
        let convolved = tensor(&mut trace, format!("conv{layer}"), 0.0);
        let name = format!("conv{layer}");
        trace.ops.push(op(name, OpKind::Convolution, Phase::Forward, input, vec![convolved]));
        let map = tensor(&mut trace, format!("relu{layer}"), *sparsity);
        let (name, reads) = (format!("relu{layer}"), vec![convolved]);
        trace.ops.push(op(name, OpKind::Activation, Phase::Forward, reads, vec![map]));
        maps.push(map);
        input = vec![map];
    }
    let last = tensor(&mut trace, "last".into(), 0.0);
    let mut gradient = tensor(&mut trace, "gradient".into(), 0.0);
    let name = "last".to_string();
    trace.ops.push(op(name, OpKind::Convolution, Phase::Forward, input, vec![last]));
    trace.ops.push(op("loss".into(), OpKind::Loss, Phase::Forward, vec![last], vec![gradient]));
    for (layer, map) in maps.into_iter().enumerate().rev() {
        let made = tensor(&mut trace, format!("gradient{layer}"), 0.0);
        let (name, reads) = (format!("conv{layer}-backward"), vec![map, gradient]);
        trace.ops.push(op(name, OpKind::Convolution, Phase::Backward, reads, vec![made]));
        gradient = made;
    }
    trace
}

fn decided(method: &dyn Method, problem: &Problem) -> Vec<String> {
    let decided = method.decide(problem, problem.budget, &NoMonitor).expect("fits");
    let show = |gap: &usize| match decided.treatments[*gap] {
        Treatment::SwapCompressed(codec) => {
            format!("swap {}", problem.codecs.codecs[usize::from(codec)])
        }
        Treatment::SwapCompressedOnHost(codec) => {
            format!("swap, on the host {}", problem.codecs.codecs[usize::from(codec)])
        }
        Treatment::Compress(codec) => problem.codecs.codecs[usize::from(codec)].to_string(),
        other => format!("{other:?}"),
    };
    problem.feature_maps.iter().map(show).collect()
}

#[test]
fn cswap_compresses_what_is_sparse_enough_and_sc_all_that_gets_smaller() {
    let trace = chain(&[0.0, 0.3, 0.9]);
    // A byte a nanosecond: 100 microseconds each way, of which computation hides one.
    let machine = build::machine(1_000_000_000);
    let problem = |nanos| {
        let mut codecs = all_codecs(nanos);
        codecs.models.retain(|model| model.codec != "sz");
        Problem::new(&trace, &machine, Bytes(1 << 30)).with_codecs(&codecs, LOSSY)
    };
    // What both copies spare of 200,000 ns, at 30 % zeros a good quarter, goes beyond what the
    // codec takes, 100,000 bytes twice.
    let (fast, slow) = (problem(100), problem(500));
    assert_eq!(decided(&Cswap::Lossless, &fast), ["Swap", "swap zvc", "swap zvc"]);
    assert_eq!(decided(&Cswap::Lossless, &slow), ["Swap", "Swap", "swap zvc"]);
    // What no lossless codec makes smaller, the lossy one does, with CSWAP+'s parameter or a stated
    // one.
    let sc = |parameter| decided(&StaticCompression { parameter }, &slow);
    assert_eq!(sc(None), ["swap zfp(350)", "swap zvc", "swap zvc"]);
    assert_eq!(sc(Some(400)), ["swap zfp(100)", "swap zvc", "swap zvc"]);
    assert_eq!(sc(Some(399)), ["Swap", "swap zvc", "swap zvc"], "less than any makes");
    // Alone, it does so for all.
    let mut alone = all_codecs(500);
    alone.models.retain(|model| model.codec == "zfp");
    alone.models.truncate(1);
    let alone = Problem::new(&trace, &machine, Bytes(1 << 30)).with_codecs(&alone, LOSSY);
    assert_eq!(decided(&StaticCompression::default(), &alone), ["swap zfp(100)"; 3]);
    // 200 (1000 - P) pays up to P = 900 and 500 permille: with rates of 100, 350 and 700 bits for each of
    // four values all do, and all below the last.
    let top = |problem| (parameter_range(problem).top, parameter_range(problem).pays());
    assert_eq!((fixed_rates(&fast).len(), top(&fast), top(&slow)), (3, (2800, true), (2799, true)));
    let plus = |parameter| Cswap::Plus { parameter };
    assert_eq!(decided(&plus(None), &fast), ["swap zfp(700)", "swap zvc", "swap zvc"]);
    assert_eq!(decided(&plus(None), &slow), ["swap zfp(350)", "Swap", "swap zvc"]);
    assert_eq!(decided(&plus(Some(400)), &slow), ["swap zfp(100)", "Swap", "swap zvc"]);
    assert_eq!(decided(&plus(Some(3)), &slow), ["Swap", "Swap", "swap zvc"], "does not pay");
    assert_eq!(decided(&plus(Some(4)), &slow), ["Swap", "Swap", "swap zvc"], "no such rate");
}

#[test]
fn vdnn_plus_plus_moves_all_and_keeps_little_on_the_host() {
    let trace = chain(&[0.5, 0.61, 0.9]);
    let machine = random::machine(&mut Random::new(1));
    let problem = Problem::new(&trace, &machine, Bytes(1 << 30))
        .with_codecs(&all_codecs(1), LOSSY)
        .with_host_codecs(&all_codecs(1000), LOSSY);
    let (raw, zvc) = ("Swap", "swap, on the host zvc");
    assert_eq!(decided(&VdnnHost, &problem), [raw, zvc, zvc], "above 60 % zeros");
    let vdnn = plan(&Vdnn::Conv, &problem, &NoMonitor).expect("fits");
    let ours = plan(&VdnnHost, &problem, &NoMonitor).expect("fits");
    let copied = |plan: &Plan| -> Bytes {
        let copies = plan.actions.iter().filter(|a| matches!(a.task, Task::D2h(_)));
        copies.map(|action| plan.moved_bytes(action)).sum()
    };
    assert_eq!(copied(&ours), copied(&vdnn), "the link carries tensors as they are");
    let packed = ours.actions.iter().filter(|action| ours.packed_by_host(action).is_some());
    assert_eq!(packed.count(), 4, "two tensors, out and in");
    assert!(vdnn.actions.iter().all(|action| vdnn.packed_by_host(action).is_none()));
    // 39 % and 10 % of 100,000 bytes, and 3.2 % for the bitmap, in place of all.
    let host = |plan: &Plan| plan.host_buffers.iter().map(|b| b.bytes).sum::<Bytes>();
    assert_eq!((host(&vdnn), host(&ours)), (Bytes(300_000), Bytes(100_000 + 42_200 + 13_200)));
    assert!(ours.predicted.host_arena < vdnn.predicted.host_arena);
    // Each of the four copies waits for 100 microseconds of the host's.
    let slower = ours.predicted.iteration - vdnn.predicted.iteration;
    assert!(slower >= Nanos(200_000), "{slower}");
    let none = Problem::new(&trace, &machine, Bytes(1 << 30)).with_codecs(&all_codecs(1), LOSSY);
    let error = plan(&VdnnHost, &none, &NoMonitor).expect_err("the host runs no codec");
    assert!(matches!(error, PlanError::NoCodec { .. }), "{error}");
}

#[test]
fn comet_compresses_a_tensor_of_each_convolution_within_its_bound() {
    let trace = chain(&[0.5, 0.5]);
    let machine = random::machine(&mut Random::new(1));
    let problem = Problem::new(&trace, &machine, Bytes(1 << 30)).with_codecs(&all_codecs(1), LOSSY);
    assert_eq!(decided(&Comet::default(), &problem), ["sz(0.0001)", "sz(0.0001)"]);
    let layer =
        |gradient| Some(LayerStatistics { gradient, loss_gradient: 1.0, batch: 1, nonzero: 1.0 });
    // Bounds of 0.01 · M · sqrt(3): 0.017 and 0.0017.
    let mut statistics = vec![None; trace.tensors.len()];
    let maps: Vec<usize> = (problem.feature_maps.iter())
        .map(|gap| problem.model.gaps()[*gap].tensor.index())
        .collect();
    (statistics[maps[0]], statistics[maps[1]]) = (layer(1.0), layer(0.1));
    assert_eq!(
        decided(&Comet { statistics, ..Comet::default() }, &problem),
        ["sz(0.01)", "sz(0.0001)"]
    );
    let plan = plan(&Comet::default(), &problem, &NoMonitor).expect("fits");
    assert!(plan.decisions.iter().all(|decision| decision.choice == Choice::Compress));
}
