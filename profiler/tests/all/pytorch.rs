//! Recordings of PyTorch: small ones that are made up, in each spelling; damaged ones; and real ones
//! beside the project, against what their README states.

use std::path::{Path, PathBuf};

use crate::common::{in_core_peak, recordings, text_of};
use profiler::import::{Figures, Format, ImportError, ImportOptions, Recording, import};
use schema::Trace;
use serde_json::{Value, json};

fn small(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings");
    std::fs::read(folder.join(name)).expect("it comes with the project")
}

fn profile() -> Value {
    serde_json::from_slice(&small("small.kineto.json")).expect("JSON")
}

fn read(bytes: &[u8], options: &ImportOptions) -> Result<Recording, ImportError> {
    import(bytes, Path::new("small.json"), None, options)
}

fn read_json(value: &Value) -> Recording {
    read(value.to_string().as_bytes(), &ImportOptions::default()).expect("a whole recording")
}

fn trace(recording: &Recording) -> &Trace {
    recording.trace.as_ref().expect("it has ops")
}

fn with_events(mut profile: Value, change: impl Fn(&mut Value)) -> Value {
    profile["traceEvents"].as_array_mut().expect("a list").iter_mut().for_each(change);
    profile
}

/// A profile without those of its events.
fn without(mut profile: Value, unwanted: impl Fn(&Value) -> bool) -> Value {
    profile["traceEvents"].as_array_mut().expect("a list").retain(|event| !unwanted(event));
    profile
}

fn rename(event: &mut Value, from: &str, to: &str) {
    let args = event["args"].as_object_mut().expect("an object");
    if let Some(value) = args.remove(from) {
        args.insert(to.into(), value);
    }
}

fn is_named(event: &Value, begin: &str) -> bool {
    event["name"].as_str().is_some_and(|name| name.starts_with(begin))
}

#[test]
fn a_profile_becomes_ops_with_what_they_read() {
    let recording = read_json(&profile());
    let Figures { steps, step, kernels, totals_off, unmatched, .. } = &recording.figures;
    assert_eq!((steps.len(), *step, *kernels), (3, Some(1), Some(30)));
    assert_eq!((*totals_off, *unmatched), (Some(0), 0));
    assert_eq!(Some(in_core_peak(trace(&recording))), recording.figures.recorded_peak_bytes);
    insta::assert_snapshot!(text_of(trace(&recording)));
}

/// What versions spell differently means the same.
#[test]
fn spellings_make_no_difference() {
    let expected = text_of(trace(&read_json(&profile())));
    let categories = [
        ("cpu_op", "Operator"),
        ("user_annotation", "Operator"),
        ("cuda_runtime", "Runtime"),
        ("kernel", "Kernel"),
        ("gpu_memcpy", "Memcpy"),
    ];
    let old = with_events(profile(), |event| {
        if let Some((_, old)) = categories.iter().find(|(new, _)| event["cat"] == *new) {
            event["cat"] = json!(old);
        }
        if event["name"] == "[memory]" {
            event.as_object_mut().expect("an object").remove("cat");
        }
        if event["cat"] != "Operator" {
            rename(event, "External id", "external id");
        }
        event["tid"] = json!(event["tid"].to_string());
    });
    let decimals = with_events(profile(), |event| {
        event["ts"] = json!(format!("{}.250", event["ts"]));
    });
    let floats = with_events(profile(), |event| event["dur"] = json!(event["dur"].as_f64()));
    // PyTorch 2.0 writes the launch's number for the op's.
    let numbers = with_events(profile(), |event| {
        if event["cat"] == "kernel" {
            event["args"]["External id"] = event["args"]["correlation"].clone();
        }
    });
    // Without launches, by the op's number.
    let no_launches = without(profile(), |event| event["cat"] == "cuda_runtime");
    for other in [old, decimals, floats, numbers, no_launches] {
        assert_eq!(text_of(trace(&read_json(&other))), expected);
    }
}

/// Old versions divide by the time of copies that took none.
#[test]
fn infinite_bandwidths_are_read() {
    let profile = profile();
    let copied = r#""memory bandwidth (GB/s)":inf,"x":-nan,"name \" inf":1,"device""#;
    let text = profile.to_string().replace("\"device\"", copied);
    let recording = read(text.as_bytes(), &ImportOptions::default()).expect("it is read");
    assert_eq!(text_of(trace(&recording)), text_of(trace(&read_json(&profile))));
    let nonsense = text.replace("inf,", "infernal,");
    read(nonsense.as_bytes(), &ImportOptions::default()).expect_err("no number");
}

#[test]
fn without_addresses_frees_are_paired_by_size() {
    let bare = with_events(profile(), |event| {
        for key in ["Addr", "Total Allocated", "Total Reserved"] {
            event["args"].as_object_mut().expect("an object").remove(key);
        }
    });
    let recording = read_json(&bare);
    assert_eq!(recording.figures.unmatched, 0);
    assert_eq!(recording.figures.totals_off, None);
    insta::assert_snapshot!(text_of(trace(&recording)));
}

#[test]
fn steps_are_chosen_by_number_or_found_without_marks() {
    let bytes = small("small.kineto.json");
    let at = |step| ImportOptions { step: Some(step), ..ImportOptions::default() };
    assert_eq!(read(&bytes, &at(2)).expect("it has step 2").figures.step, Some(2));
    insta::assert_snapshot!(
        read(&bytes, &at(9)).expect_err("it has no step 9"),
        @"small.json: cannot be imported as kineto: it has no step 9: it has steps 0 to 2"
    );
    let unmarked = without(profile(), |event| is_named(event, "ProfilerStep"));
    let recording = read_json(&unmarked);
    assert_eq!(recording.figures.steps.len(), 3);
    assert_eq!(trace(&recording).total_time().0, 526_000);
    let nothing = without(unmarked, |event| is_named(event, "Optimizer"));
    let recording = read_json(&nothing);
    assert_eq!(trace(&recording).total_time().0, 3 * 526_000);
}

#[test]
fn inference_and_runs_on_the_host_are_read() {
    let inference = without(profile(), |event| event["tid"] == 2 || is_named(event, "Optimizer"));
    let recording = read_json(&inference);
    assert!(trace(&recording).ops.iter().all(|op| op.phase == schema::Phase::Forward));
    let host = without(profile(), |event| {
        let gone = ["kernel", "gpu_memcpy", "cuda_runtime"];
        gone.iter().any(|category| event["cat"] == *category)
    });
    let host = with_events(host, |event| {
        if event["name"] == "[memory]" {
            event["args"]["Device Type"] = json!(0);
            event["args"]["Device Id"] = json!(-1);
        }
    });
    let recording = read_json(&host);
    assert_eq!(recording.figures.allocations, 30);
    assert!(trace(&recording).total_time().0 > 0);
    assert_eq!(trace(&recording).provenance.device, "a processor");
}

#[test]
fn what_does_not_fit_together_is_counted() {
    let mut profile = without(profile(), |event| {
        // An allocation is lost, and an op with a kernel.
        (event["name"] == "[memory]" && event["ts"] == 2047)
            || (event["name"] == "aten::relu" && event["ts"] == 2080)
    });
    let events = profile["traceEvents"].as_array_mut().expect("a list");
    events.push(json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": "never", "dur": 1}));
    let alone = json!({"correlation": 999_999, "stream": 7});
    events.push(
        json!({"ph": "X", "cat": "kernel", "name": "alone", "ts": 2300, "dur": 7, "args": alone}),
    );
    let options = ImportOptions { step: Some(1), ..ImportOptions::default() };
    let recording = read(profile.to_string().as_bytes(), &options).expect("a whole recording");
    let Figures { unmatched, totals_off, unlinked_kernels, .. } = recording.figures;
    assert_eq!((unmatched, unlinked_kernels), (1, Some(1)));
    assert!(totals_off > Some(0));
    // No time is lost: what has no op is one, or belongs to the mark around it.
    assert_eq!(trace(&recording).total_time().0, 526_000 + 7_000);
    insta::assert_snapshot!(trace(&recording).provenance.notes.join("\n"));
}

#[test]
fn collectives_cannot_run_again() {
    let parallel = with_events(profile(), |event| {
        if event["name"] == "aten::relu" {
            event["name"] = json!("c10d::allreduce_");
        }
    });
    let mut parallel = parallel;
    parallel["distributedInfo"] = json!({"backend": "nccl", "rank": 1, "world_size": 4});
    let recording = read_json(&parallel);
    let op = trace(&recording).ops.iter().find(|op| op.name.starts_with("c10d"));
    assert!(!op.expect("it is there").rerunnable);
    assert!(trace(&recording).provenance.notes.iter().any(|note| note.starts_with("rank 1 of 4")));
}

#[test]
fn an_execution_trace_has_storages_and_perhaps_times() {
    let bytes = small("small.et.json");
    let alone = read(&bytes, &ImportOptions::default()).expect("whole");
    insta::assert_snapshot!(text_of(trace(&alone)));
    let times = Some((small("small.kineto.json"), PathBuf::from("small.kineto.json")));
    let timed = read(&bytes, &ImportOptions { times, ..ImportOptions::default() }).expect("whole");
    assert_eq!(in_core_peak(trace(&timed)), in_core_peak(trace(&alone)));
    // All but the two updates and the loss's gradient are in both.
    let agree = timed.figures.timed_ops.expect("a profile was given");
    assert_eq!((agree.ops, agree.agree), (11, 9));
    assert_eq!(trace(&timed).total_time().0, 475_000);
}

/// One of a processor has nothing on a device.
#[test]
fn an_execution_trace_of_a_processor_has_storages_too() {
    let text = String::from_utf8(small("small.et.json")).expect("a text");
    let read = |text: &str| read(text.as_bytes(), &ImportOptions::default()).expect("whole");
    let (device, host) = (read(&text), read(&text.replace("cuda:0", "cpu")));
    // The input that was copied to the device counts where it came from, too.
    let bytes = |of: &Recording| trace(of).tensors.iter().map(|of| of.bytes.0).sum::<u64>();
    assert_eq!(bytes(&host), bytes(&device) + 65_536 * 4);
    assert_eq!(trace(&host).ops.len(), trace(&device).ops.len());
    let said = |of: &Recording| {
        let mut notes = trace(of).provenance.notes.iter();
        notes.any(|note| note.starts_with("nothing ran on a device"))
    };
    assert!(said(&host) && !said(&device));
}

/// Schema 1.0 has lists where 1.1 has objects and attributes.
#[test]
fn old_execution_traces_mean_the_same() {
    let mut old: Value = serde_json::from_slice(&small("small.et.json")).expect("JSON");
    let expected = text_of(trace(&read_json(&old)));
    old["schema"] = json!("1.0.1");
    for node in old["nodes"].as_array_mut().expect("a list") {
        let node = node.as_object_mut().expect("an object");
        for attribute in node.remove("attrs").expect("there").as_array().expect("a list") {
            let name = attribute["name"].as_str().expect("a text");
            node.insert(name.into(), attribute["value"].clone());
        }
        for side in ["input", "output"] {
            let mut values = node.remove(&format!("{side}s")).expect("there");
            node.insert(format!("{side}s"), values["values"].take());
            node.insert(format!("{side}_types"), values["types"].take());
        }
        let parent = node.remove("ctrl_deps").expect("there");
        node.insert("parent".into(), parent);
    }
    assert_eq!(text_of(trace(&read_json(&old))), expected);
}

#[test]
fn snapshots_of_all_protocols_say_the_same() {
    let figures = |protocol: u8| {
        let bytes = small(&format!("small.snapshot-{protocol}.pickle"));
        let recording = read(&bytes, &ImportOptions::default()).expect("a whole snapshot");
        assert_eq!(recording.format, Format::MemorySnapshot);
        assert!(recording.trace.is_none());
        recording.figures
    };
    let expected = figures(2);
    for protocol in 3..=5 {
        assert_eq!(figures(protocol), expected);
    }
    insta::assert_snapshot!(format!("{expected:#?}"));
}

#[test]
fn packed_recordings_are_read_as_they_are() {
    let plain = read_json(&profile());
    let packed = read(&small("packed.tar.gz"), &ImportOptions::default()).expect("packed");
    assert_eq!(text_of(trace(&packed)), text_of(trace(&plain)));
}

#[test]
fn damaged_recordings_are_refused_with_their_place() {
    let cut = |name: &str, share: usize| {
        let mut bytes = small(name);
        bytes.truncate(bytes.len() * share / 10);
        bytes
    };
    let mut evil = small("small.snapshot-4.pickle");
    // Where the first frame begins: a call of what is not there yet.
    evil.insert(11, b'R');
    let cases: [(&str, Vec<u8>); 8] = [
        ("cut profile", cut("small.kineto.json", 6)),
        ("cut archive", cut("packed.tar.gz", 9)),
        ("cut execution trace", cut("small.et.json", 6)),
        ("cut snapshot", cut("small.snapshot-4.pickle", 6)),
        ("snapshot that calls", evil),
        ("empty profile", b"{\"schemaVersion\": 1, \"traceEvents\": []}".to_vec()),
        ("empty execution trace", b"{\"nodes\": [], \"x\": \"rf_id\", \"rf_id\": 1}".to_vec()),
        ("empty snapshot", b"\x80\x04}.".to_vec()),
    ];
    let refused = cases.map(|(what, bytes)| {
        let error = read(&bytes, &ImportOptions::default()).expect_err(what);
        format!("{what}\n    {error}\n")
    });
    insta::assert_snapshot!(refused.concat());
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let step = ImportOptions { step: Some(1), ..ImportOptions::default() };
    let error = read(&small("small.opgraph.json"), &step).expect_err("it has no steps");
    insta::assert_snapshot!(error, @"small.json: --step does not apply to a recording of kind opgraph: leave it out");
}

fn real(folder: &Path, name: &str, times: Option<&str>) -> Recording {
    let bytes = |name: &str| std::fs::read(folder.join(name)).expect("the recording is readable");
    let times = times.map(|name| (bytes(name), folder.join(name)));
    let options = ImportOptions { times, ..ImportOptions::default() };
    import(bytes(name), &folder.join(name), None, &options).expect("the recording is whole")
}

#[test]
fn a_real_profile_adds_up_to_the_stated_figures() {
    let Some(folder) = recordings() else { return };
    let recording = real(&folder, "kineto/resnet50-b32-v100.kineto.json.gz", None);
    let figures = &recording.figures;
    assert_eq!((figures.kernels, figures.unlinked_kernels), (Some(8772), Some(0)));
    assert_eq!((figures.allocations + figures.frees, figures.unmatched), (8220, 0));
    assert_eq!(figures.steps.len(), 6);
    for step in &figures.steps {
        assert!((98_500_000..=98_700_000).contains(&step.time_ns), "{step:?}");
        assert_eq!(step.allocated_peak_bytes, Some(2_791_636_480));
    }
    let peak = in_core_peak(trace(&recording));
    assert!(peak.abs_diff(2_791_636_480) <= 2_791_636_480 / 200, "{peak}");
    // Who reads what is inferred; that most of forward can run again says that little is unknown.
    let forward = || {
        trace(&recording)
            .ops
            .iter()
            .filter(|op| op.duration.0 >= 10_000 && op.phase == schema::Phase::Forward)
    };
    let again = forward().filter(|op| op.rerunnable).count();
    assert!(again * 10 >= forward().count() * 9, "{again} of {}", forward().count());
}

#[test]
fn a_real_allocator_replays_to_its_totals() {
    let Some(folder) = recordings() else { return };
    let recording = real(&folder, "allocator/ddp-v100.kineto-memory.json.gz", None);
    let figures = &recording.figures;
    assert_eq!((figures.allocations, figures.frees), (13_385, 13_385));
    assert_eq!((figures.unmatched, figures.totals_off), (0, Some(0)));
    // It begins with 12.8 GB reserved, of which nothing in it says why.
    let [reserved, predicted, empty] = [
        figures.reserved_peak_bytes,
        figures.predicted_reserved_bytes,
        figures.reserved_from_empty_bytes,
    ]
    .map(|bytes| bytes.expect("it has memory events"));
    assert!(predicted.abs_diff(reserved) * 100 <= 3 * reserved, "{predicted} for {reserved}");
    assert!(figures.recorded_peak_bytes < Some(empty) && empty < reserved, "{empty}");
    assert_eq!(Some(in_core_peak(trace(&recording))), figures.recorded_peak_bytes);
}

#[test]
fn real_execution_traces_import_with_and_without_times() {
    let Some(folder) = recordings() else { return };
    for name in ["resnet", "linear"] {
        let et = format!("execution-trace/{name}_et.json.gz");
        let kineto = format!("execution-trace/{name}_kineto.json.gz");
        let (alone, timed) = (real(&folder, &et, None), real(&folder, &et, Some(&kineto)));
        assert_eq!(in_core_peak(trace(&alone)), in_core_peak(trace(&timed)));
        let agree = timed.figures.timed_ops.expect("a profile was given");
        // That of resnet is of another run, of another network.
        assert!(name == "resnet" || agree.agree * 1000 >= agree.ops * 995, "{agree:?}");
    }
}

/// What PyTorch itself counted as the most that was allocated and reserved, in the runs that come with
/// the project.
#[test]
fn recordings_have_the_peaks_that_were_counted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recordings/h100");
    let summary = std::fs::read_to_string(folder.join("summary.json")).expect("it is there");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let (mut held, mut errors, mut context) = (0, Vec::new(), 0);
    for run in summary["runs"].as_array().expect("a list") {
        let Some(name) = run["name"].as_str().filter(|_| run["peak_reserved"].is_u64()) else {
            continue;
        };
        let counted = |key: &str| run[key].as_u64().expect("a number");
        context = context.max(counted("driver_used") - counted("peak_reserved"));
        let within = |found: u64, per_mille: u64| {
            let counted = counted("peak_allocated");
            found.abs_diff(counted) * 1000 <= counted * per_mille
        };
        let snapshot = format!("{name}.snapshot.pickle.gz");
        if folder.join(&snapshot).exists() {
            let figures = real(&folder, &snapshot, None).figures;
            assert_eq!(figures.reserved_peak_bytes, Some(counted("peak_reserved")), "{name}");
            let peak = figures.recorded_peak_bytes.expect("it has a history");
            assert!(within(peak, 10), "{name}: {peak}");
            // The allocator's model, which was fitted to nothing.
            assert_eq!(figures.predicted_reserved_bytes, Some(counted("peak_reserved")), "{name}");
            assert_eq!(figures.placed_alike, Some(figures.allocations), "{name}");
            let empty = figures.reserved_from_empty_bytes.expect("it has a history");
            errors.push((empty as f64 / counted("peak_reserved") as f64 - 1.0).abs());
            held += 1;
        }
        let kineto = format!("{name}.kineto.json.gz");
        if folder.join(&kineto).exists() {
            let recording = real(&folder, &kineto, None);
            let counted = recording.figures.recorded_peak_bytes.expect("it has memory events");
            assert!(within(counted, 10), "{name}: {counted}");
            let peak = in_core_peak(trace(&recording));
            assert!(peak.abs_diff(counted) * 200 <= counted, "{name}: {peak} of {counted}");
            let empty = recording.figures.reserved_from_empty_bytes.expect("it has memory events");
            let reserved = run["peak_reserved"].as_u64().expect("a number");
            println!("{name}: {empty} for {reserved}");
            assert!(
                empty.abs_diff(reserved) * 100 <= 14 * reserved,
                "{name}: {empty} for {reserved}"
            );
            held += 1;
        }
        let et = format!("{name}.et.json.gz");
        if folder.join(&et).exists() {
            let peak = in_core_peak(trace(&real(&folder, &et, None)));
            // What libraries take for themselves is in no execution trace: much of it in small networks
            // of large convolutions.
            let small = ["vgg16", "resnet18", "unet"].iter().any(|begin| name.starts_with(begin));
            assert!(small || within(peak, 40), "{name}: {peak}");
        }
    }
    assert!(held > 20, "{held}");
    // What the driver and libraries took beside, and what the driver does not count, which the machine states.
    let [sheet, driver] = ["h100-sxm", "h100-measured"]
        .map(|name| scenarios::machine(name).expect("it is bundled").device);
    let outside = context + sheet.memory.0 - driver.memory.0;
    assert!(sheet.reserved.0.abs_diff(outside) < 1_000_000, "{} for {outside}", sheet.reserved);
    errors.sort_by(f64::total_cmp);
    assert!(
        errors.len() > 10 && errors[errors.len() / 2] < 0.03 && errors[errors.len() - 1] < 0.12,
        "{errors:?}"
    );
}
