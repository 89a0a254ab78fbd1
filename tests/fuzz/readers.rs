//! The readers, what they are given, and what becomes of what they accept.

use std::path::Path;
use std::sync::OnceLock;

use codecs::frame::{HEADER_BYTES, decode, encode};
use codecs::ibp::{ChunkSize, Metadata, RowCoder, Rows, analyse};
use codecs::synthetic::Recipe;
use codecs::{CodecId, Layout, TensorView};
use planner::{CodecOptions, Limits, NoWatch, Problem, methods};
use profiler::import::{Format, ImportOptions, InPlaceOps, import};
use profiler::trainable::{Training, trainable};
use regression::{Sample, fit_size, fit_times};
use results::{CodecSample, Row, Table, TensorZeros, read_parquet, write_parquet};
use runtime::profile::Needs;
use scenarios::{NetworkOptions, modelled_trace, network_from_onnx, network_from_toml};
use schema::{
    Basis, Bytes, BytesPerSec, CodecModels, Direction, Document, Dtype, Fidelity, Machine, Nanos,
    Plan, PlanSeries, Timeline, Trace,
};
use simulator::replay::{Schedule, replay};
use simulator::{Program, check_contract, in_core, predict, prove};

use crate::mutate::Form;
use crate::onnx;

/// A reader under test.
pub struct Reader {
    pub name: &'static str,
    pub form: Form,
    /// What it accepts.
    pub corpus: Vec<Vec<u8>>,
    /// Reads, uses what it accepted, and says whether it did.
    pub read: fn(&[u8]) -> bool,
}

/// All of them.
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
        reader("onnx", Form::Protobuf, vec![onnx::model()], read_onnx),
        reader("network", Form::Text, vec![NETWORK.into(), readme_network()], read_network),
        reader("machine-toml", Form::Text, files("scenarios/machines", ""), read_machine_toml),
        reader("study", Form::Text, files("scenarios/studies", ""), read_study),
        reader("efficiencies", Form::Text, files("scenarios", "efficiencies"), read_efficiencies),
        reader("frame", Form::Bytes, frames(), read_frame),
        reader("payload", Form::Bytes, payloads(), read_payload),
        reader("packed-rows", Form::Bytes, packed_rows(), read_packed_rows),
        reader("results", Form::Bytes, vec![table(&rows())], read_table::<Row>),
        reader("zeros", Form::Bytes, vec![table(&zeros())], read_table::<TensorZeros>),
        reader("samples", Form::Bytes, vec![table(&samples())], read_samples),
        reader("words", Form::Text, WORDS.map(|word| word.as_bytes().to_vec()).to_vec(), read_word),
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

const NETWORK: &str = r#"input = [3, 16, 16]
layer = [
  { name = "conv1", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "norm1", kind = "batch-norm" },
  { name = "relu1", kind = "relu" },
  { name = "pool1", kind = "max-pool", kernel = 2 },
  { name = "conv2", kind = "convolution", channels = 8, kernel = 3, padding = 1, groups = 2 },
  { name = "sum", kind = "add", inputs = ["conv2", "pool1"] },
  { name = "join", kind = "concat", inputs = ["sum", "conv2"] },
  { name = "drop", kind = "dropout" },
  { name = "flat", kind = "flatten" },
  { name = "fc", kind = "linear", width = 10 },
]
"#;

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
            plans.filter_map(|method| planner::plan(method.as_ref(), &problem, &NoWatch).ok());
        let mut plans: Vec<Plan> = plans.collect();
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
            if let Ok(plan) = planner::plan(method.as_ref(), &problem, &NoWatch) {
                assert_eq!(prove(&plan).map(drop), Ok(()));
                assert_eq!(check_contract(&plan, trace), Ok(()));
                let timeline = predict(&plan, Some(trace));
                assert!(timeline.check().is_ok());
            }
        }
    }
}

fn read_trace(bytes: &[u8]) -> bool {
    let Some(trace) = document::<Trace>(bytes) else { return false };
    let mut schedule = Schedule::default();
    replay(&Program::in_core(&trace), &mut schedule);
    planned(&trace, &fixture().machine);
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
        let _ = planner::plan(method.as_ref(), &problem, &NoWatch);
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
    true
}

fn read_recording(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let mut accepted = false;
    for format in [Format::Dtr, Format::Opgraph] {
        for in_place in [InPlaceOps::AsRecorded, InPlaceOps::Alias] {
            let options = ImportOptions { network: None, in_place };
            if let Ok(trace) = import(text, Path::new("fuzzed"), Some(format), &options) {
                trace.check().expect("what was imported is well formed");
                in_core(&trace);
                accepted = true;
            }
        }
    }
    accepted
}

fn read_onnx(bytes: &[u8]) -> bool {
    use_network(network_from_onnx(bytes, Path::new("fuzzed.onnx"), &options()))
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

/// Modelled, and as it would be trained: nothing but what it would need is worked out of a network that is
/// too large.
fn use_network<E>(network: Result<scenarios::Network, E>) -> bool {
    let Ok(network) = network else { return false };
    if let Ok(trace) = modelled_trace(&network, &fixture().machine) {
        in_core(&trace);
    }
    if let Ok(network) = trainable(&network, Training::default()) {
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
    assert!(study.points().count() > 0);
    true
}

fn read_efficiencies(bytes: &[u8]) -> bool {
    let efficiencies = |text| scenarios::Efficiencies::from_toml(text).ok();
    let Some(efficiencies) = text(bytes).and_then(efficiencies) else { return false };
    let Fixture { machine, .. } = fixture();
    let network = network_from_toml(NETWORK, Path::new("small.toml"), &options());
    let _ = scenarios::modelled_trace_with(&network.expect("well formed"), machine, &efficiencies);
    true
}

fn tensor() -> (Layout, Vec<u8>) {
    let layout = Layout::new(Dtype::F32, &[4, 3, 16, 16]).expect("it is small");
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.5, seed: 1 };
    let bytes = recipe.bytes().expect("a recipe");
    (layout, bytes)
}

fn every_codec() -> impl Iterator<Item = Box<dyn codecs::Codec>> {
    let ids = codecs::all().iter().filter_map(|entry| entry.example.parse::<CodecId>().ok());
    ids.filter_map(|id| codecs::codec(id).ok())
}

fn frames() -> Vec<Vec<u8>> {
    let (layout, bytes) = tensor();
    let input = TensorView::new(&layout, &bytes).expect("as long as it says");
    every_codec().map(|codec| encode(codec.as_ref(), input).expect("floats")).collect()
}

/// As it is, and with checksums that hold.
fn read_frame(bytes: &[u8]) -> bool {
    let mut forged = bytes.to_vec();
    if forged.len() < HEADER_BYTES {
        return decode(bytes, 16 << 20).is_ok();
    }
    let hash = |bytes: &[u8]| xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes();
    let payload = hash(&forged[HEADER_BYTES..]);
    forged[104..112].copy_from_slice(&payload);
    let header = hash(&forged[..120]);
    forged[120..128].copy_from_slice(&header);
    let _ = decode(bytes, 16 << 20);
    decode(&forged, 16 << 20).is_ok()
}

fn payloads() -> Vec<Vec<u8>> {
    let (layout, bytes) = tensor();
    let input = TensorView::new(&layout, &bytes).expect("as long as it says");
    let payload = |codec: Box<dyn codecs::Codec>| {
        let mut payload = vec![0; codec.worst_case(&layout)];
        let length = codec.compress(input, &mut payload).expect("floats");
        payload.truncate(length);
        payload
    };
    every_codec().map(payload).collect()
}

/// By every codec: what is another's is as good as any.
fn read_payload(bytes: &[u8]) -> bool {
    let mut accepted = false;
    for (dtype, shape) in [(Dtype::F32, &[4, 3, 16, 16][..]), (Dtype::F16, &[7, 61])] {
        let layout = Layout::new(dtype, shape).expect("it is small");
        let mut out = vec![0; layout.bytes()];
        for codec in every_codec() {
            accepted |= codec.decompress(bytes, &layout, &mut out).is_ok();
        }
    }
    accepted
}

/// Rows that agree in most of their bits: mask and values, and then what is packed.
fn packed_rows() -> Vec<Vec<u8>> {
    let row = |row: u8| (0..ROW as u8).map(move |byte| byte & 0x3c | row & byte & 3);
    let rows: Vec<u8> = (0..16).flat_map(row).collect();
    let of_chunk = |chunk: ChunkSize| {
        let metadata = analyse(Rows::new(&rows, ROW).expect("whole rows"), chunk);
        let metadata = metadata.expect("there are rows").metadata;
        let mut packed = [metadata.mask(), metadata.bitval()].concat();
        let coder = RowCoder::new(metadata, chunk).expect("chunks fit rows");
        let packs = rows.chunks(ROW).all(|row| coder.compress(row, &mut packed));
        assert!(packs, "rows agree");
        packed
    };
    ChunkSize::ALL.map(of_chunk).to_vec()
}

const ROW: usize = 64;

fn read_packed_rows(bytes: &[u8]) -> bool {
    let Some((metadata, rows)) = bytes.split_at_checked(2 * ROW) else { return false };
    let mut accepted = false;
    for chunk in ChunkSize::ALL {
        let metadata = Metadata::new(metadata[..ROW].to_vec(), metadata[ROW..].to_vec());
        let coder = metadata.and_then(|metadata| RowCoder::new(metadata, chunk));
        let Ok(coder) = coder else { continue };
        let (mut rest, mut out) = (rows, vec![0; ROW]);
        while let Ok(length) = coder.decompress(rest, &mut out) {
            accepted = true;
            rest = match rest.split_at_checked(length) {
                Some((_, rest)) if length > 0 => rest,
                _ => break,
            };
        }
    }
    accepted
}

fn table<T: Table>(rows: &[T]) -> Vec<u8> {
    with_file(|file| {
        write_parquet(rows, file).expect("there is room");
        std::fs::read(file).expect("it was written")
    })
}

fn with_file<R>(work: impl FnOnce(&Path) -> R) -> R {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("there is room"));
    work(&folder.path().join("table.parquet"))
}

fn rows() -> Vec<Row> {
    let row = |batch: u32| Row {
        study: "links".into(),
        network: "resnet50".into(),
        batch: Some(batch),
        machine: "titan-v".into(),
        bandwidth: BytesPerSec(50_000_000_000),
        method: "pooch".into(),
        reason: batch.is_multiple_of(2).then(|| "too little memory".into()),
        iteration: (batch % 2 == 1).then_some(Nanos(1_500_000)),
        slowdown: Some(1.5),
        ..Row::default()
    };
    (1..6).map(row).collect()
}

fn zeros() -> Vec<TensorZeros> {
    let row = |tensor: u32| TensorZeros {
        epoch: tensor / 4,
        tensor: tensor % 4,
        name: format!("relu{}", tensor % 4),
        bytes: Bytes(4096),
        zeros: f64::from(tensor) / 20.0,
    };
    (0..20).map(row).collect()
}

fn samples() -> Vec<CodecSample> {
    let row = |index: u64| {
        let (bytes, zeros) = ((1 + index % 6) << 20, index / 6 % 4);
        CodecSample {
            device: "one".into(),
            codec: "zvc".into(),
            fidelity: "lossless".into(),
            dtype: "f32".into(),
            threads: 1,
            runs: 5,
            sparsity: 0.2 * (1 + zeros) as f64,
            bytes: Bytes(bytes),
            compressed: Bytes(bytes * (9 - 2 * zeros) / 10),
            compress: Nanos(1000 + bytes * (10 - zeros) / 7),
            decompress: Nanos(2000 + bytes * (8 - zeros) / 9),
            ..CodecSample::default()
        }
    };
    (0..24).map(row).collect()
}

fn read<T: Table>(bytes: &[u8]) -> Option<Vec<T>> {
    with_file(|file| {
        std::fs::write(file, bytes).expect("there is room");
        read_parquet(file).ok()
    })
}

fn read_table<T: Table>(bytes: &[u8]) -> bool {
    read::<T>(bytes).is_some()
}

/// As `fit` does, where few enough are left to fit quickly.
fn read_samples(bytes: &[u8]) -> bool {
    let Some(rows) = read::<CodecSample>(bytes) else { return false };
    let sample = |row: &CodecSample| Sample {
        bytes: row.bytes,
        compressed: row.compressed,
        sparsity: row.sparsity,
        time: row.compress,
    };
    let samples: Vec<Sample> = rows.iter().take(32).map(sample).collect();
    for fidelity in [Fidelity::Lossless, Fidelity::FixedRate, Fidelity::ErrorBounded] {
        let _ = fit_size(&samples, fidelity);
    }
    let _ = fit_times(&samples, "fuzzed");
    true
}

const WORDS: [&str; 16] = [
    "14.9GiB",
    "12.5GB/s",
    "1.5ms",
    "80%",
    "zvc",
    "zfp:8",
    "sz:1e-3",
    "ibp:4",
    "zipf:0.9",
    "uniform",
    "corrupt:1",
    "delay:h2d:2:5ms",
    "host-memory",
    "dtr",
    "1000kB",
    "zfp:16",
];

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
