//! Readers and writers of documents: old documents stay readable, bad ones are refused with a
//! reason, and no file is left half-written. `tests/fuzz` has readers meet what is broken at random.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use schema::{
    CodecModels, Document, FileError, Lane, Machine, Nanos, Plan, SizeModel, Timeline, Trace,
    Untimed,
};

const TRACE: &str = include_str!("gallery/trace-v1.json");
const CAPTURED: &str = include_str!("gallery/trace-v1-captured.json");
const MACHINE: &str = include_str!("gallery/machine-v1.json");
const PLAN: &str = include_str!("gallery/plan-v1.json");
const TIMELINE: &str = include_str!("gallery/timeline-v1.json");
const CODEC_MODELS: &str = include_str!("gallery/codec-models-v1.json");
const PLAN_WITH_CODECS: &str = include_str!("gallery/plan-v1-codecs.json");
const TIMELINE_WITH_CODECS: &str = include_str!("gallery/timeline-v1-codecs.json");

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

fn read<D: Document>(text: &str) -> Result<D, FileError> {
    D::from_json(text, Path::new("x.json"))
}

fn refusal<D: Document + Debug>(text: &str) -> String {
    chain(&read::<D>(text).expect_err("the document must be refused"))
}

/// `text` with the one place that says `from` saying `to`.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "nothing says {from}");
    text.replacen(from, to, 1)
}

/// Reads a document of the gallery, writes it to a file, reads that: the same document, the same
/// digest, the same bytes.
fn round_trip<D: Document + Debug + PartialEq>(text: &str) {
    let document: D = read(text).expect("documents of the gallery stay readable");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("document.json");
    document.write(&file).expect("the folder is writable");
    let again = D::read(&file).expect("what was written is readable");
    assert_eq!(again, document);
    assert_eq!(again.digest(), document.digest());
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), again.to_json());
}

#[test]
fn old_documents_are_read_and_written_back() {
    round_trip::<Trace>(TRACE);
    round_trip::<Untimed>(TRACE);
    round_trip::<Untimed>(CAPTURED);
    round_trip::<Machine>(MACHINE);
    round_trip::<Plan>(PLAN);
    round_trip::<Timeline>(TIMELINE);
    round_trip::<CodecModels>(CODEC_MODELS);
    round_trip::<Plan>(PLAN_WITH_CODECS);
    round_trip::<Timeline>(TIMELINE_WITH_CODECS);
}

/// An entropy code's size, which older documents have as a cost of zeros and one of the rest, is what it was.
#[test]
fn sizes_of_older_entropy_codes_are_read() {
    let text = changed(
        CODEC_MODELS,
        r#""sparsity": { "overhead_permille": 32, "dense_permille": 1000"#,
        r#""coded": { "zero_permille": 28, "dense_permille": 150"#,
    );
    let models: CodecModels = read(&text).expect("older sizes stay readable");
    let size = models.models[0].size;
    let SizeModel::Sparsity { overhead_permille, dense_permille, .. } = size else {
        panic!("{size:?}");
    };
    assert_eq!((overhead_permille, overhead_permille + dense_permille), (28, 150));
}

/// What old documents say has not changed its meaning: fields that are absent have their defaults.
#[test]
fn old_documents_mean_what_they_meant() {
    insta::assert_debug_snapshot!("trace", read::<Trace>(TRACE).expect("readable"));
    insta::assert_debug_snapshot!("machine", read::<Machine>(MACHINE).expect("readable"));
    insta::assert_debug_snapshot!("plan", read::<Plan>(PLAN).expect("readable"));
    insta::assert_debug_snapshot!("timeline", read::<Timeline>(TIMELINE).expect("readable"));
    let codec_models = read::<CodecModels>(CODEC_MODELS).expect("readable");
    insta::assert_debug_snapshot!("codec_models", codec_models);
    let plan = read::<Plan>(PLAN_WITH_CODECS).expect("readable");
    insta::assert_debug_snapshot!("plan_with_codecs", plan);
    let timeline = read::<Timeline>(TIMELINE_WITH_CODECS).expect("readable");
    insta::assert_debug_snapshot!("timeline_with_codecs", timeline);
}

/// What is left out of a trace's file is left out of its digest, and so are names that decide nothing.
#[test]
fn fields_that_say_nothing_do_not_change_a_digest() {
    let digest = |text: &str| read::<Trace>(text).expect("readable").digest();
    let own = digest(TRACE);
    insta::assert_snapshot!(own.short(), @"172683c16ac3");
    let keyed = changed(TRACE, "\"name\": \"weight\",", "\"name\": \"weight\", \"key\": \"w\",");
    let keyed = changed(&keyed, "\"origin\"", "\"graph\": \"1234\", \"origin\"");
    assert_eq!(digest(&changed(&keyed, "\"kind\"", "\"key\": \"op\", \"kind\"")), own);
    assert_ne!(digest(&changed(TRACE, "\"role\"", "\"held\": true, \"role\"")), own);
}

/// A trace without times is one as soon as somebody has said them.
#[test]
fn times_may_be_left_out_until_they_are_needed() {
    insta::assert_snapshot!(
        refusal::<Trace>(CAPTURED),
        @"x.json is a tidegate/trace that contradicts itself: ops[0] has no duration_ns, and nothing says what machine to model it for"
    );
    let untimed: Untimed = read(CAPTURED).expect("readable");
    assert!(!untimed.is_timed());
    let trace = untimed.clone().timed(|_, op| Nanos(op.flops.unwrap_or(0))).expect("well formed");
    assert_eq!(trace.ops.iter().map(|op| op.duration.0).collect::<Vec<_>>(), [1000, 100]);
    insta::assert_debug_snapshot!("captured", trace);
    let all = Untimed::without_times(trace);
    assert_eq!(all.clone().timed(|_, _| Nanos(7)).map(|t| t.total_time()), Ok(Nanos(14)));
    let never = all.timed(|_, _| Nanos(u64::MAX)).expect_err("no iteration takes that long");
    assert!(never.to_string().contains("2^50 ns"), "{never}");
}

/// Where codecs run is the plan's to say; one that says nothing has them on compute.
#[test]
fn a_plan_says_which_lane_its_codecs_run_on() {
    let lanes = |plan: &Plan| {
        let codecs: Vec<_> = plan.actions.iter().map(|action| plan.lane(action)).collect();
        (codecs.contains(&Lane::Codec), codecs.contains(&Lane::Compute))
    };
    let old = read::<Plan>(PLAN_WITH_CODECS).expect("readable");
    assert_eq!((old.beside_codec_permille, lanes(&old)), (1000, (false, true)));
    let stated = "\"both_directions_permille\": 750";
    let more = format!("{stated}, \"codec_lane\": true, \"beside_codec_permille\": 600");
    let new = changed(PLAN_WITH_CODECS, stated, &more);
    round_trip::<Plan>(&new);
    let new = read::<Plan>(&new).expect("readable");
    assert_eq!((new.beside_codec_permille, lanes(&new)), (600, (true, true)));
}

/// Copies that slow compute are stated; documents that say nothing of it mean that they do not.
#[test]
fn compute_beside_copies_has_the_speed_that_is_stated() {
    let (machine, plan) = (read::<Machine>(MACHINE), read::<Plan>(PLAN));
    assert_eq!(machine.expect("readable").link.beside_copy, 1.0);
    assert_eq!(plan.expect("readable").beside_copy_permille, 1000);
    let stated = "\"both_directions\": 0.75";
    let machine = changed(MACHINE, stated, &format!("{stated}, \"beside_copy\": 0.9"));
    round_trip::<Machine>(&machine);
    assert_eq!(read::<Machine>(&machine).expect("readable").link.beside_copy, 0.9);
    let stated = "\"both_directions_permille\": 750";
    let plan = changed(PLAN, stated, &format!("{stated}, \"beside_copy_permille\": 900"));
    round_trip::<Plan>(&plan);
    assert_eq!(read::<Plan>(&plan).expect("readable").beside_copy_permille, 900);
}

#[test]
fn documents_that_cannot_be_read_are_refused_with_a_reason() {
    let mut table = String::new();
    let mut case =
        |what: &str, refusal: String| table.push_str(&format!("{what}\n    {refusal}\n"));
    case("empty", refusal::<Trace>(""));
    case("cut", refusal::<Trace>(&TRACE[..TRACE.len() / 2]));
    case("depth bomb", refusal::<Trace>(&"[".repeat(100_000)));
    case("no format", refusal::<Trace>("{}"));
    let newer = r#"{"format": "tidegate/plan", "version": 9, "content": {"new": 1}}"#;
    case("newer version with other fields", refusal::<Plan>(newer));
    case("another document", refusal::<Trace>(MACHINE));
    let unread = changed(TRACE, "\"reads\": [3, 4]", "\"reads\": [3]");
    let late = changed(&unread, "\"appears_before\": 2", "\"appears_before\": 3");
    case("freed before it appears", refusal::<Trace>(&late));
    let changes = include_str!("refused.toml");
    let changes: BTreeMap<String, Vec<[String; 3]>> = toml::from_str(changes).expect("TOML");
    let mut changed_in = |list: &str, text: &str, refusal: fn(&str) -> String| {
        for [what, from, to] in &changes[list] {
            case(what, refusal(&changed(text, from, to)));
        }
    };
    changed_in("trace", TRACE, refusal::<Trace>);
    changed_in("machine", MACHINE, refusal::<Machine>);
    changed_in("plan", PLAN, refusal::<Plan>);
    changed_in("plan_with_codecs", PLAN_WITH_CODECS, refusal::<Plan>);
    changed_in("codec_models", CODEC_MODELS, refusal::<CodecModels>);
    insta::assert_snapshot!(table);
}

#[test]
fn a_bad_path_leaves_nothing_behind() {
    let machine: Machine = read(MACHINE).expect("readable");
    let folder = tempfile::tempdir().expect("a folder");
    let entries = || {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<PathBuf>>()
    };

    let missing = folder.path().join("missing").join("machine.json");
    assert!(matches!(machine.write(&missing), Err(FileError::Io { verb: "write", .. })));
    assert_eq!(entries(), Vec::<PathBuf>::new());

    // A folder stands where the file should: what was written beside it goes again.
    let taken = folder.path().join("taken");
    std::fs::create_dir_all(taken.join("inside")).expect("a folder");
    assert!(matches!(machine.write(&taken), Err(FileError::Io { verb: "write", .. })));
    assert_eq!(entries(), vec![taken.clone()]);

    assert!(matches!(Machine::read(&taken), Err(FileError::Io { verb: "read", .. })));
    let not_text = folder.path().join("bytes");
    std::fs::write(&not_text, [0xff, 0xfe]).expect("writable");
    assert!(matches!(Machine::read(&not_text), Err(FileError::Io { verb: "read", .. })));
}

#[test]
fn times_that_no_iteration_takes_are_refused() {
    // Lanes that slow each other count in thousandths of a nanosecond.
    let most = Nanos::MOST;
    let mut plan: Plan = read(PLAN).expect("readable");
    plan.actions.iter_mut().for_each(|action| action.duration = Nanos::ZERO);
    plan.actions[0].duration = most;
    assert_eq!(plan.check(), Ok(()));
    plan.actions[1].duration = Nanos(1);
    let said = |error: schema::Malformed| error.to_string();
    insta::assert_snapshot!(
        plan.check().map_err(said).unwrap_err(),
        @"the actions take more than 2^50 ns together: no real iteration does"
    );
    let mut trace: Trace = read(TRACE).expect("readable");
    trace.ops[0].duration = most + Nanos(1);
    insta::assert_snapshot!(
        trace.check().map_err(said).unwrap_err(),
        @"the time of the whole trace exceeds 2^50 ns: no real iteration does"
    );
    trace.ops.clear();
    insta::assert_snapshot!(
        trace.check().map_err(said).unwrap_err(),
        @"ops is empty: an iteration has an op"
    );
}
