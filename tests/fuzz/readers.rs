//! The readers, what they are given, and what becomes of what they accept.

use std::path::Path;
use std::sync::OnceLock;

use codecs::CodecId;
use experiments::tables::Row;
use experiments::zeros::TensorZeros;
use networks::{NetworkOptions, modelled_trace, network_from_onnx, network_from_toml};
use planner::{CodecOptions, Limits, NoMonitor, Problem, methods};
use profiler::import::{Format, ImportOptions, InPlaceOps, import, import_trace};
use runtime::profile::Needs;
use schema::{
    Basis, Bytes, BytesPerSec, CodecModels, Direction, Document, Machine, Nanos, Plan, PlanSeries,
    Timeline, Trace, Untimed,
};
use simulator::replay::{Schedule, replay};
use simulator::{Program, check_contract, in_core, predict, prove};

use crate::codec_readers::{packed_rows, payloads, read_packed_rows, read_payload, tensor};
use crate::mutate::Form;
use crate::table_readers::{read_samples, read_table, rows, samples, table, zeros};

pub struct Reader {
    pub name: &'static str,
    pub form: Form,
    pub corpus: Vec<Vec<u8>>,
    /// Reads, uses what it accepted, and says whether it did.
    pub read: fn(&[u8]) -> bool,
}

pub fn readers() -> Vec<Reader> {
    let reader = |name, form, corpus, read| Reader { name, form, corpus, read };
    let Fixture { trace, machine, plans } = fixture();
    let timelines = plans.iter().map(|plan| predict(plan, Some(trace)));
    let series = plans.iter().take(2).enumerate().map(|(epoch, plan)| schema::EpochPlan {
        first_epoch: epoch as u32,
        last_epoch: epoch as u32,
        plan: plan.clone(),
    });
    let series = PlanSeries { plans: series.collect() };
    let documents = |own: Vec<String>, format: &str| -> Vec<Vec<u8>> {
        own.into_iter()
            .map(String::into_bytes)
            .chain(files("schema/tests/gallery", format))
            .collect()
    };
    vec![
        reader("trace", Form::Json, documents(vec![trace.to_json()], "trace"), read_trace),
        reader("machine", Form::Json, documents(vec![machine.to_json()], "machine"), read_machine),
        reader(
            "codec-models",
            Form::Json,
            documents(vec![scenarios::codec_models(machine).to_json()], "codec-models"),
            read_codec_models,
        ),
        reader(
            "plan",
            Form::Json,
            documents(plans.iter().map(Document::to_json).collect(), "plan"),
            read_plan,
        ),
        reader("plan-series", Form::Json, vec![series.to_json().into_bytes()], read_plan_series),
        reader(
            "timeline",
            Form::Json,
            documents(timelines.map(|timeline| timeline.to_json()).collect(), "timeline"),
            read_timeline,
        ),
        reader("dtr", Form::Lines, files("tests/recordings", "small.dtr"), read_recording),
        reader("opgraph", Form::Json, files("tests/recordings", "small.opgraph"), read_recording),
        reader("kineto", Form::Json, files("tests/recordings", "small.kineto"), read_pytorch),
        reader("execution-trace", Form::Json, files("tests/recordings", "small.et"), read_pytorch),
        reader("snapshot", Form::Bytes, files("tests/recordings", "small.snapshot"), read_pytorch),
        reader("packed", Form::Bytes, files("tests/recordings", "packed"), read_pytorch),
        reader("onnx", Form::Protobuf, onnx_models(), read_onnx),
        reader("network", Form::Text, vec![NETWORK.into(), readme_network()], read_network),
        reader("machine-toml", Form::Text, files("scenarios/machines", ""), read_machine_toml),
        reader("study", Form::Text, files("scenarios/studies", ""), read_study),
        reader("efficiencies", Form::Text, files("networks", "efficiencies"), read_efficiencies),
        reader("payload", Form::Bytes, payloads(), read_payload),
        reader("packed-rows", Form::Bytes, packed_rows(), read_packed_rows),
        reader("results", Form::Bytes, vec![table(&rows())], read_table::<Row>),
        reader("zeros", Form::Bytes, vec![table(&zeros())], read_table::<TensorZeros>),
        reader("samples", Form::Bytes, vec![table(&samples())], read_samples),
        reader("words", Form::Text, WORDS.split(' ').map(|word| word.into()).collect(), read_word),
    ]
}

/// Files of the repository whose names begin so.
fn files(folder: &str, begin: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries =
        std::fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("readable"));
    let is_one = |name: &str| {
        let kind = name.strip_prefix(begin).unwrap_or_default();
        (begin.is_empty() || kind.starts_with(['-', '.'])) && kind.contains('.')
    };
    let mut files: Vec<_> = entries
        .filter(|entry| is_one(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{begin}");
    files.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

const NETWORK: &str = include_str!("network.toml");

fn readme_network() -> Vec<u8> {
    let readme = include_str!("../../scenarios/README.md");
    let (_, rest) = readme.split_once("## A network file\n\n```toml\n").expect("an example");
    rest.split_once("```").expect("it ends").0.into()
}

/// A network's trace, a machine, and plans of it by every method.
struct Fixture {
    trace: Trace,
    machine: Machine,
    plans: Vec<Plan>,
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let machine = scenarios::machine("titan-v").expect("it comes with tidegate");
        let network = network_from_toml(NETWORK, Path::new("small.toml"), &options());
        let trace = modelled_trace(&network.expect("well formed"), &machine).expect("well formed");
        let budget = Bytes(in_core(&trace).peak.0 / 10 * 9);
        let mut problem = Problem::new(&trace, &machine, budget).with_codecs(
            &scenarios::codec_models(&machine),
            CodecOptions { sparsity: Some(0.6), lossy: true },
        );
        problem.limits = Limits { evaluations: 200 };
        problem.allowed.compress = true;
        let all = methods::all();
        let plans = all.iter().filter(|method| !method.name().contains("ilp"));
        let plans =
            plans.filter_map(|method| planner::plan(method.as_ref(), &problem, &NoMonitor).ok());
        let mut plans: Vec<Plan> = plans.map(planner::ProvenPlan::into_plan).collect();
        plans.dedup_by(|one, other| one.actions == other.actions);
        assert!(plans.iter().any(|plan| !plan.host_buffers.is_empty()), "none swaps");
        Fixture { plans, trace, machine }
    })
}

fn options() -> NetworkOptions {
    NetworkOptions { batch: 4, ..NetworkOptions::default() }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A document that is accepted is one that is written and read again.
fn document<D: Document>(bytes: &[u8]) -> Option<D> {
    let document = D::from_json(text(bytes)?, Path::new("fuzzed.json")).ok()?;
    let again = D::from_json(&document.to_json(), Path::new("written.json"));
    assert_eq!(again.expect("what was written is read").digest(), document.digest());
    Some(document)
}

/// Methods that are quick and use all of the evaluator: gaps and steps, copies and reruns.
const METHODS: [&str; 4] = ["in-core", "swap-all", "vdnn-all", "dtr"];

fn planned(trace: &Trace, machine: &Machine) {
    let peak = in_core(trace).peak;
    for percent in [60, 110] {
        let budget = Bytes((u128::from(peak.0) * percent / 100) as u64);
        let mut problem = Problem::new(trace, machine, budget);
        problem.limits = Limits { evaluations: 50 };
        for method in methods::all().iter().filter(|method| METHODS.contains(&method.name())) {
            if let Ok(plan) = planner::plan(method.as_ref(), &problem, &NoMonitor) {
                assert_eq!(prove(&plan).map(drop), Ok(()));
                assert_eq!(check_contract(&plan, trace), Ok(()));
                let timeline = predict(&plan, Some(trace));
                assert!(timeline.check().is_ok());
            }
        }
    }
}

fn read_trace(bytes: &[u8]) -> bool {
    let Some(untimed) = document::<Untimed>(bytes) else { return false };
    let machine = &fixture().machine;
    let Ok(trace) = scenarios::modelled_times(untimed, machine) else { return false };
    let mut schedule = Schedule::default();
    replay(&Program::in_core(&trace), &mut schedule);
    planned(&trace, machine);
    true
}

fn read_machine(bytes: &[u8]) -> bool {
    document::<Machine>(bytes).inspect(use_machine).is_some()
}

fn use_machine(machine: &Machine) {
    for bytes in [0, 1, 4096, 1 << 30, 1 << 60].map(Bytes) {
        for direction in [Direction::D2h, Direction::H2d] {
            machine.link.copy_time(direction, bytes);
        }
    }
    machine.usable_memory();
    scenarios::codec_models(machine);
    planned(&fixture().trace, machine);
}

fn read_codec_models(bytes: &[u8]) -> bool {
    let Some(models) = document::<CodecModels>(bytes) else { return false };
    let Fixture { trace, machine, .. } = fixture();
    let budget = Bytes(in_core(trace).peak.0 / 10 * 9);
    let options = CodecOptions { sparsity: Some(0.6), lossy: true };
    let mut problem = Problem::new(trace, machine, budget).with_codecs(&models, options);
    problem.limits = Limits { evaluations: 50 };
    problem.allowed.compress = true;
    for method in methods::all().iter().filter(|method| ["cswap", "sc"].contains(&method.name())) {
        let _ = planner::plan(method.as_ref(), &problem, &NoMonitor);
    }
    true
}

fn read_plan(bytes: &[u8]) -> bool {
    document::<Plan>(bytes).is_some_and(|plan| use_plan(&plan))
}

/// As `simulate` and `verify` do; false where the plan is not safe.
fn use_plan(plan: &Plan) -> bool {
    if prove(plan).is_err() {
        return false;
    }
    let computes = check_contract(plan, &fixture().trace).is_ok();
    let trace = computes.then_some(&fixture().trace);
    let timeline = predict(plan, trace);
    assert_eq!(timeline.basis, Basis::Predicted);
    let longest = plan.actions.iter().map(|action| action.duration).max();
    assert!(Some(timeline.iteration) >= longest, "an iteration is shorter than an action");
    reports::perfetto(&timeline);
    true
}

fn read_plan_series(bytes: &[u8]) -> bool {
    let Some(series) = document::<PlanSeries>(bytes) else { return false };
    assert!(series.at(series.plans[0].first_epoch).is_some());
    series.plans.iter().all(|range| use_plan(&range.plan))
}

fn read_timeline(bytes: &[u8]) -> bool {
    let Some(timeline) = document::<Timeline>(bytes) else { return false };
    reports::perfetto(&timeline);
    reports::timeline_svg(&timeline, 640, &|_| None);
    true
}

fn read_recording(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let mut accepted = false;
    for format in [Format::Dtr, Format::Opgraph] {
        for in_place in [InPlaceOps::AsRecorded, InPlaceOps::Alias] {
            let options = ImportOptions { in_place, ..ImportOptions::default() };
            if let Ok(trace) = import_trace(text, Path::new("fuzzed"), Some(format), &options) {
                trace.check().expect("what was imported is well formed");
                in_core(&trace);
                accepted = true;
            }
        }
    }
    accepted
}

fn read_pytorch(bytes: &[u8]) -> bool {
    let options = ImportOptions::default();
    let Ok(recording) = import(bytes, Path::new("fuzzed"), None, &options) else { return false };
    if let Some(trace) = &recording.trace {
        trace.check().expect("what was imported is well formed");
        in_core(trace);
        // As the times of an execution trace, too.
        let times = Some((bytes.to_vec(), "fuzzed".into()));
        let traces = files("tests/recordings", "small.et");
        let _ = import(&traces[0], Path::new("et"), None, &ImportOptions { times, ..options });
    }
    true
}

/// Many operators in few bytes, and what exporters write.
fn onnx_models() -> Vec<Vec<u8>> {
    [files("tests/fuzz/onnx", ""), files("tests/onnx", "")].concat()
}

fn read_onnx(bytes: &[u8]) -> bool {
    let options = NetworkOptions { sequence: Some(6), ..options() };
    let open = use_network(network_from_onnx(bytes, Path::new("fuzzed.onnx"), &options));
    let options = NetworkOptions { training_batch_norm: true, sequence: None, ..options };
    use_network(network_from_onnx(bytes, Path::new("fuzzed.onnx"), &options)) || open
}

fn read_network(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let read = |batch| {
        let options = NetworkOptions { batch, ..options() };
        use_network(network_from_toml(text, Path::new("fuzzed.toml"), &options))
    };
    // Beyond what anything holds, and at the edge of it.
    [u32::MAX, 1 << 30, 4].map(read).contains(&true)
}

/// Modelled, and as it would be trained: nothing but what it would need is worked out of a network
/// that is too large.
fn use_network<E>(network: Result<networks::Network, E>) -> bool {
    let Ok(network) = network else { return false };
    if let Ok(trace) = modelled_trace(&network, &fixture().machine) {
        in_core(&trace);
    }
    if let Ok(network) = runtime::network::Network::new(&network, None) {
        let Needs { in_core, peak, .. } = Needs::of(&network);
        assert!(in_core >= peak / 2, "{in_core} {peak}");
        let Needs { .. } = Needs::of(&network.in_bf16());
    }
    true
}

fn read_machine_toml(bytes: &[u8]) -> bool {
    let machine = |text| scenarios::machine_from_toml(text, Path::new("fuzzed.toml")).ok();
    let Some(machine) = text(bytes).and_then(machine) else { return false };
    machine.check().expect("what was read is well formed");
    use_machine(&machine);
    true
}

fn read_study(bytes: &[u8]) -> bool {
    let all = methods::all();
    let names: Vec<&str> = all.iter().map(|method| method.name()).collect();
    let study = |text| scenarios::study_from_toml(text, Path::new("fuzzed.toml"), &names).ok();
    let Some(study) = text(bytes).and_then(study) else { return false };
    assert!(study.lookups.is_some() || study.points().count() > 0);
    true
}

fn read_efficiencies(bytes: &[u8]) -> bool {
    let efficiencies = |text| networks::Efficiencies::from_toml(text).ok();
    let Some(efficiencies) = text(bytes).and_then(efficiencies) else { return false };
    let Fixture { machine, .. } = fixture();
    let network = network_from_toml(NETWORK, Path::new("small.toml"), &options());
    let network = network.expect("well formed");
    let tape = network.lower(&networks::Conventions::PYTORCH).tape;
    let _ = networks::modelled_trace_of(&network, &tape, machine, &efficiencies);
    true
}

const WORDS: &str = "14.9GiB 12.5GB/s 1.5ms 80% zvc zfp:8 sz:1e-3 ibp:4 zipf:0.9 uniform corrupt:1 \
    delay:h2d:2:5ms host-memory dtr 1000kB zfp:16";

/// Whatever stands for an amount, a codec, a fault or a choice on the command line.
fn read_word(bytes: &[u8]) -> bool {
    let Some(word) = text(bytes) else { return false };
    let mut accepted = word.parse::<BytesPerSec>().is_ok() | word.parse::<Nanos>().is_ok();
    accepted |= word.parse::<Bytes>().is_ok();
    if let Ok(id) = word.parse::<CodecId>() {
        accepted = true;
        assert_eq!(id.to_string().parse(), Ok(id));
        let _ = codecs::codec(id).map(|codec| codec.worst_case(&tensor().0));
    }
    if let Ok(budget) = word.parse::<scenarios::Budget>() {
        accepted = true;
        for peak in [0, 1 << 30, u64::MAX] {
            scenarios::Budget::resolve(Some(budget), &fixture().machine, Bytes(peak));
        }
    }
    if let Ok(access) = word.parse::<planner::inference::Access>() {
        accepted = true;
        assert!((0.0..=1.0).contains(&access.hit_rate(1 << 40, 1 << 20)));
    }
    accepted | word.parse::<runtime::device::Fault>().is_ok() | word.parse::<Format>().is_ok()
}
