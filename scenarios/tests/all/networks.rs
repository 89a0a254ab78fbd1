//! Networks that come with tidegate, against recordings and what publications print.

use std::path::PathBuf;

use profiler::import::{ImportOptions, import_trace};
use schema::{Dtype, Machine, OpKind, Origin, Phase, Role, Trace};

use networks::{
    Activation, Conventions, Efficiencies, Extents, Lora, Network, NetworkOptions, Optimizer,
    Sample, Timed, fit_timed, modelled_trace, modelled_trace_by, modelled_trace_of, network,
    networks, timed_ops,
};

fn machine(name: &str) -> Machine {
    scenarios::machine(name).expect("it comes with tidegate")
}

fn built(name: &str, options: &NetworkOptions) -> Network {
    network(name, options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn trace(name: &str, options: &NetworkOptions) -> Trace {
    let network = built(name, options);
    modelled_trace(&network, &machine("p100")).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn batch(batch: u32) -> NetworkOptions {
    NetworkOptions { batch, ..NetworkOptions::default() }
}

fn bytes(trace: &Trace, name: &str) -> u64 {
    let tensor = trace.tensors.iter().find(|tensor| tensor.name == name);
    tensor.unwrap_or_else(|| panic!("there is a tensor {name}")).bytes.0
}

/// Bytes that are live at the op where they are most; outputs in place share.
fn peak(trace: &Trace) -> u64 {
    let bytes = |t: &schema::TensorId| trace.tensors[t.index()].bytes.0;
    let mut live = trace.constant_bytes().0;
    let mut peak = live;
    for op in &trace.ops {
        let shared: u64 = op.in_place.iter().map(|pair| bytes(&pair.input)).sum();
        live += op.writes.iter().map(bytes).sum::<u64>();
        peak = peak.max(live + op.workspace.0 - shared);
        live -= op.frees.iter().map(bytes).sum::<u64>();
    }
    peak
}

#[test]
fn parameter_counts_are_those_of_the_authors() {
    let expected: toml::Table = toml::from_str(include_str!("parameters.toml")).expect("TOML");
    for (name, count) in expected {
        let built = built(&name, &batch(1)).parameter_count();
        assert_eq!(Some(built.cast_signed()), count.as_integer(), "{name}");
    }
    // Of these the paper prints no more digits.
    for (name, billions) in [
        ("gpt3-xl", 1.3),
        ("gpt3-2.7b", 2.7),
        ("gpt3-6.7b", 6.7),
        ("gpt3-13b", 13.0),
        ("gpt3-175b", 175.0),
    ] {
        let count = built(name, &batch(1)).parameter_count() as f64 / 1e9;
        assert!((count / billions - 1.0).abs() < 0.02, "{name}: {count}");
    }
}

fn with_extents(extents: Extents) -> NetworkOptions {
    NetworkOptions { extents, sequence: Some(64), ..batch(1) }
}

#[test]
fn extents_make_one_size_another() {
    let count = |name, extents| built(name, &with_extents(extents)).parameter_count();
    let (layers, hidden) = (Some(24), Some(1024));
    let medium = Extents { layers, hidden, ..Extents::default() };
    assert_eq!(count("gpt2", medium), count("gpt2-medium", Extents::default()));
    let llama = Extents { kv_heads: Some(8), vocab: Some(128_256), ..Extents::default() };
    let wide = count("llama2-7b", llama);
    // Narrower keys and values in 32 layers, and two larger tables.
    assert_eq!(wide, 6_738_415_616 - 32 * 2 * 3072 * 4096 + 2 * 96_256 * 4096);
    for (option, extents) in [
        ("hidden", Extents { hidden: Some(1000), ..Extents::default() }),
        ("kv-heads", Extents { kv_heads: Some(5), ..Extents::default() }),
        ("extents", Extents { layers: Some(0), ..Extents::default() }),
    ] {
        let error = network("llama3-8b", &with_extents(extents)).expect_err(option).to_string();
        assert!(error.starts_with(&format!("llama3-8b: {option} ")), "{error}");
    }
}

#[test]
fn adapters_alone_have_gradients_and_state() {
    let targets = ["q", "v"].map(String::from).to_vec();
    let lora = Some(Lora { rank: 8, targets });
    let options = NetworkOptions { lora, ..with_extents(Extents::default()) };
    let network = built("llama2-7b", &options);
    // 32 layers, q and v, of 8 x 4096 twice each: as the PEFT library prints.
    assert_eq!(network.trained_count(), 4_194_304);
    let (whole, thin) =
        (trace("llama2-7b", &with_extents(Extents::default())), trace("llama2-7b", &options));
    let of = |trace: &Trace, role| -> u64 {
        trace.tensors.iter().filter(|t| t.role == role).map(|t| t.bytes.0).sum()
    };
    assert_eq!(of(&thin, Role::OptimizerState), 12 * 4_194_304);
    assert_eq!(of(&thin, Role::Parameter), of(&whole, Role::Parameter) + 2 * 4_194_304);
    assert!(peak(&thin) * 6 < peak(&whole), "{} of {}", peak(&thin), peak(&whole));
    let targets = vec!["fc".to_string()];
    let other = NetworkOptions { lora: Some(Lora { rank: 8, targets }), ..batch(1) };
    assert!(networks::network("gpt2", &other).is_err());
}

#[test]
fn optimizers_keep_what_they_are_known_to_keep() {
    let count = built("gpt2", &batch(1)).parameter_count() as f64;
    let state = |optimizer, master_weights| {
        let options = NetworkOptions { optimizer: Some(optimizer), master_weights, ..batch(1) };
        let trace = trace("gpt2", &options);
        let state = trace.tensors.iter().filter(|t| t.role == Role::OptimizerState);
        (state.map(|t| t.bytes.0).sum::<u64>() as f64 / count * 100.0).round() / 100.0
    };
    let kept = [
        (Optimizer::Adam, true, 12.0),
        (Optimizer::Adam, false, 4.0),
        (Optimizer::Adam8bit, true, 6.03),
        (Optimizer::Adam8bit, false, 2.03),
        (Optimizer::Momentum, false, 2.0),
        (Optimizer::Sgd, false, 0.0),
    ];
    for (optimizer, master, bytes) in kept {
        assert_eq!(state(optimizer, master), bytes, "{optimizer:?} {master}");
    }
}

/// What is updated at once, and when; a table that two layers share waits for both.
#[test]
fn updates_may_follow_their_gradients() {
    let options = |update_in_backward| NetworkOptions {
        optimizer: Some(Optimizer::Adam),
        update_in_backward,
        // So that parameters are most of its memory.
        sequence: Some(16),
        ..batch(1)
    };
    let [last, early] = [false, true].map(|early| trace("gpt2", &options(early)));
    let updates = |trace: &Trace| {
        let mut names: Vec<String> = (trace.ops.iter())
            .filter(|op| op.phase == Phase::Update)
            .map(|op| format!("{} {} {:?}", op.name, op.duration, op.bytes_moved))
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(updates(&last), updates(&early));
    assert_eq!(last.ops.len(), early.ops.len());
    let place = |name: &str| early.ops.iter().position(|op| op.name == name).expect("an op");
    assert_eq!(place("wte_update"), early.ops.len() - 1);
    let first = early.ops.iter().position(|op| op.phase == Phase::Update).expect("an update");
    assert!(early.ops[first..].iter().any(|op| op.phase == Phase::Backward));
    // Each changes what it reads and no op makes, and frees its gradients.
    for trace in [&last, &early] {
        for op in trace.ops.iter().filter(|op| op.phase == Phase::Update) {
            let role = |id: &schema::TensorId| trace.tensors[id.index()].role;
            let gradients: Vec<_> = op.reads.iter().filter(|t| role(t) == Role::Gradient).collect();
            assert!(!gradients.is_empty() && gradients.iter().all(|t| op.frees.contains(t)));
            assert!(!op.rerunnable && op.reads.iter().any(|t| role(t) == Role::OptimizerState));
        }
    }
    assert!(peak(&early) < peak(&last), "{} and {}", peak(&early), peak(&last));
    let both = NetworkOptions { accumulate: 2, ..NetworkOptions { batch: 2, ..options(true) } };
    let error = networks::network("gpt2", &both).expect_err("gradients are added up").to_string();
    assert!(error.contains("update-in-backward"), "{error}");
}

#[test]
fn a_batch_in_passes_needs_less_and_computes_as_much() {
    let options = |accumulate| NetworkOptions { accumulate, ..batch(64) };
    let [whole, passes] = [1, 4].map(|accumulate| trace("resnet18", &options(accumulate)));
    assert_eq!((passes.batch, whole.batch), (Some(64), Some(64)));
    let flops = |trace: &Trace| {
        let ops = trace.ops.iter().filter(|op| op.phase != Phase::Update);
        ops.filter_map(|op| op.flops).sum::<u64>() as f64
    };
    assert!((flops(&passes) / flops(&whole) - 1.0).abs() < 0.001);
    assert!(peak(&passes) < peak(&whole) / 2, "{} of {}", peak(&passes), peak(&whole));
    let inputs = |trace: &Trace| bytes(trace, "images");
    assert_eq!(inputs(&whole), 4 * inputs(&passes));
    assert!(network("resnet18", &options(3)).is_err());
}

#[test]
fn every_network_makes_a_well_formed_trace_at_small_and_large_batches() {
    for info in networks() {
        // Of a size beyond all that stand here, an iteration of 4096 samples takes longer than a trace may.
        let most = if info.size_of.is_some() { 64 } else { 4096 };
        for size in [1, most] {
            for other in [true, false] {
                let options = NetworkOptions {
                    in_place: other,
                    fused_attention: other,
                    pool_indices: other,
                    ..batch(size)
                };
                // `modelled_trace` checks the trace; that it is one is not all that is asked.
                let trace = trace(info.name, &options);
                assert_eq!(trace.batch, Some(size));
                assert_eq!(trace.provenance.origin, Origin::Modelled);
                assert!(trace.ops.iter().any(|op| op.phase == Phase::Update), "{}", info.name);
            }
        }
    }
}

#[test]
fn every_gradient_and_activation_is_free_in_the_end() {
    for info in networks() {
        let trace = trace(info.name, &batch(2));
        let freed: usize = trace.ops.iter().map(|op| op.frees.len()).sum();
        let written: usize = trace.ops.iter().map(|op| op.writes.len()).sum();
        assert_eq!(freed, written, "{}", info.name);
        // What is trained has a gradient, which the update reads.
        let of = |role| trace.tensors.iter().filter(move |tensor| tensor.role == role);
        for parameter in of(Role::Parameter) {
            let name = format!("{}.grad", parameter.name);
            assert!(of(Role::Gradient).any(|tensor| tensor.name == name), "{name}");
        }
    }
}

#[test]
fn vgg16_has_the_tensors_that_cswap_plus_prints() {
    let trace = trace("vgg16", &batch(128));
    let activations = trace.tensors.iter().filter(|tensor| tensor.role == Role::Activation);
    let largest = activations.map(|tensor| tensor.bytes.0).max();
    assert_eq!(largest, Some(1568 << 20));
    assert_eq!(bytes(&trace, "conv5_3.act"), 49 << 20);
}

#[test]
fn resnet50_needs_what_pooch_prints() {
    // Of Chainer, which leaves pooling to cuDNN.
    let trace_of = |size| trace("resnet50", &NetworkOptions { pool_indices: false, ..batch(size) });
    // Feature maps are what the forward phase makes and the backward phase reads: the outputs of
    // 53 convolutions (for the normalisations), 49 activations, two poolings, and the loss.
    let trace = trace_of(512);
    let forward = trace.ops.iter().filter(|op| op.phase == Phase::Forward);
    let made: Vec<_> = forward.flat_map(|op| &op.writes).collect();
    let is_read = |tensor: &&&schema::TensorId| {
        let backward = trace.ops.iter().filter(|op| op.phase == Phase::Backward);
        backward.flat_map(|op| &op.reads).any(|read| read == **tensor)
    };
    assert_eq!(made.iter().filter(is_read).count(), 105);

    let budget = machine("pooch-x86").usable_memory().0;
    assert!(peak(&trace_of(640)) > 50_000_000_000);
    assert!(peak(&trace_of(128)) <= budget);
    assert!(peak(&trace_of(256)) > budget);
}

/// A recording and what it is one of; nothing where the recordings are absent.
fn recording(file: &str, name: &str, options: &NetworkOptions) -> Option<(Trace, Network)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/traces");
    let path = PathBuf::from(folder).join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    };
    let recorded =
        import_trace(&text, &path, None, &ImportOptions::default()).expect("well formed");
    let optimizer = Some(Optimizer::None);
    let options = NetworkOptions {
        batch: recorded.batch.unwrap_or(options.batch),
        optimizer,
        ..options.clone()
    };
    Some((recorded, built(name, &options)))
}

#[test]
fn outputs_have_op_for_op_the_bytes_of_the_recordings() {
    for (file, name) in
        [("vgg16-p100.opgraph.json", "vgg16"), ("resnet50-p100.opgraph.json", "resnet50")]
    {
        for in_place in [true, false] {
            let options = NetworkOptions { in_place, pool_indices: false, ..batch(1) };
            let Some((recorded, network)) = recording(file, name, &options) else { return };
            let modelled = modelled_trace(&network, &machine("p100")).expect("well formed");
            // The profile has the masks of dropout in its workspaces.
            let is_mask = |trace: &Trace, tensor: &schema::TensorId| {
                trace.tensors[tensor.index()].dtype == Some(Dtype::U8)
            };
            let written = |trace: &Trace| -> Vec<u64> {
                let sum = |op: &schema::Op| {
                    let writes = op.writes.iter().filter(|t| !is_mask(trace, t));
                    writes.map(|tensor| trace.tensors[tensor.index()].bytes.0).sum()
                };
                trace.ops.iter().map(sum).collect()
            };
            assert_eq!(written(&modelled), written(&recorded), "{name}");
            let kinds = |trace: &Trace| trace.ops.iter().map(|op| op.phase).collect::<Vec<_>>();
            assert_eq!(kinds(&modelled), kinds(&recorded), "{name}");
        }
    }
}

/// How far the modelled time of all ops is off.
fn off(timed: &[Timed], by: &Efficiencies) -> f64 {
    let modelled: f64 = timed.iter().map(|of| of.modelled(by).0 as f64).sum();
    let recorded: f64 = timed.iter().map(|of| of.recorded.0 as f64).sum();
    modelled / recorded - 1.0
}

#[test]
fn modelled_times_are_near_the_recorded_ones() {
    let image = |height, width| NetworkOptions {
        image: Some([height, width]),
        ..NetworkOptions::default()
    };
    // MONeT's pooling finds its maxima again.
    let monet = || NetworkOptions { pool_indices: false, ..batch(1) };
    let recordings = [
        // File, network, options, machine, and how far the total may be off.
        ("vgg16-p100.opgraph.json", "vgg16", monet(), "p100", 0.15),
        ("resnet50-p100.opgraph.json", "resnet50", monet(), "p100", 0.15),
        (
            "inceptionv4.dtr.jsonl",
            "inceptionv4",
            NetworkOptions { batch: 64, ..image(299, 299) },
            "titan-v",
            0.15,
        ),
        (
            "resnet32.dtr.jsonl",
            "resnet32",
            NetworkOptions { batch: 56, ..image(224, 224) },
            "titan-v",
            0.15,
        ),
        (
            "unet.dtr.jsonl",
            "unet-milesial",
            NetworkOptions { batch: 6, ..image(416, 608) },
            "titan-v",
            0.2,
        ),
    ];
    for (file, name, options, device, bound) in recordings {
        let Some((recorded, network)) = recording(file, name, &options) else { return };
        let machine = machine(device);
        let by = if device == "p100" { &Conventions::MONET } else { &Conventions::PYTORCH_1_5 };
        let sample = Sample { recorded: &recorded, network: Some(&network), by, machine: &machine };
        let off = off(&timed_ops(&sample), &Efficiencies::bundled());
        assert!(off.abs() <= bound, "{name}: {off}");
        if device == "p100" {
            let modelled =
                modelled_trace_by(&network, by, &machine).expect("well formed").total_time();
            let off = modelled.0 as f64 / recorded.total_time().0 as f64 - 1.0;
            eprintln!("  all ops: {:+.1} %", 100.0 * off);
            assert!(off.abs() <= bound, "{name}: {off}");
        }
    }
}

#[test]
fn fitting_finds_the_efficiencies_that_made_a_trace() {
    let bundled = Efficiencies::bundled();
    let mut other = bundled.clone();
    for efficiency in other.class.values_mut() {
        efficiency.compute *= 0.8;
        efficiency.bandwidth *= 0.7;
    }
    let machine = machine("a100-sxm");
    let network = built("alexnet", &batch(256));
    let tape = network.lower(&Conventions::PYTORCH).tape;
    let recorded = modelled_trace_of(&network, &tape, &machine, &other).expect("well formed");
    let by = &Conventions::PYTORCH;
    let sample = Sample { recorded: &recorded, network: Some(&network), by, machine: &machine };
    let timed = timed_ops(&sample);
    assert!(off(&timed, &bundled).abs() > 0.15);
    let fit = fit_timed(&timed, &bundled);
    // Shares are tried in steps of a twelfth.
    assert!(off(&timed, &fit).abs() < 0.05, "{}", off(&timed, &fit));
    assert_eq!(fit, fit_timed(&timed, &bundled));
}

#[test]
fn efficiencies_are_read_as_they_are_written() {
    let bundled = Efficiencies::bundled();
    assert_eq!(Efficiencies::from_toml(&bundled.to_toml()).expect("well formed"), bundled);
    assert_eq!(include_str!("../../../networks/efficiencies.toml"), bundled.to_toml());
}

#[test]
fn sparsity_runs_through_what_cswap_plus_prints() {
    let of =
        |progress, activation| trace("vgg16", &NetworkOptions { progress, activation, ..batch(1) });
    let share = |trace: &Trace, name: &str| {
        let tensor = trace.tensors.iter().find(|tensor| tensor.name == name);
        tensor.and_then(|tensor| tensor.sparsity).expect("known")
    };
    let (first, last) = (of(0.0, None), of(1.0, None));
    assert!((share(&first, "conv2_2.act") - 0.5).abs() < 0.02);
    assert!((share(&last, "conv2_2.act") - 0.8).abs() < 0.02);
    assert!(share(&last, "pool4") < 0.45);
    for trace in [&first, &last] {
        for block in ["conv1_1.act", "conv1_2.act", "pool1", "conv3_3.act", "conv5_3.act", "pool5"]
        {
            assert!((0.2..=0.8).contains(&share(trace, block)), "{block}");
        }
        assert_eq!(share(trace, "conv3_1"), 0.0);
    }
    let dense = of(1.0, Some(Activation::LeakyRelu));
    assert!(
        dense
            .tensors
            .iter()
            .all(|tensor| tensor.sparsity.unwrap_or(0.0) == 0.0 || tensor.name.contains("dropout"))
    );
}

#[test]
fn in_place_ops_take_the_place_of_their_input() {
    let pairs = |in_place| {
        let trace = trace("resnet50", &NetworkOptions { in_place, ..batch(2) });
        let forward = trace.ops.into_iter().filter(|op| op.phase == Phase::Forward);
        forward.filter(|op| !op.in_place.is_empty()).map(|op| op.kind).collect::<Vec<_>>()
    };
    let count = |kinds: &[OpKind], kind| kinds.iter().filter(|one| **one == kind).count();
    let in_place = pairs(true);
    assert_eq!(count(&in_place, OpKind::Activation), 49);
    assert_eq!(count(&in_place, OpKind::Elementwise), 16);
    // A view whose input is not needed any more is one either way.
    assert_eq!(pairs(false), [OpKind::View]);
}

#[test]
fn fused_attention_keeps_no_scores() {
    for name in ["bert-large", "gpt2-xl", "llama3-8b", "vit-l16"] {
        let of = |fused_attention| trace(name, &NetworkOptions { fused_attention, ..batch(4) });
        let (fused, three) = (of(true), of(false));
        assert!(peak(&fused) < peak(&three), "{name}");
        assert!(fused.tensors.iter().all(|tensor| !tensor.name.contains("scores")), "{name}");
    }
}
