//! What opening a device asks of driver and compiler, as the stand-in notes it (see `driver.h`).

use std::collections::BTreeSet;

use codecs::{CodecId, Layout, TensorView};
use runtime::cuda::{CudaCodecs, CudaOptions, CudaProbe, open};
use runtime::device::Device;
use schema::{Bytes, Direction, Dtype};

use crate::device::opened;
use crate::inside::inside;
use crate::problem::{Subject, zvc};

/// Whether this is the process in which the calling test is to run, whose calls are noted.
fn noted() -> Option<()> {
    let test = std::thread::current().name().expect("a test").replace("::", "-");
    let path = std::env::temp_dir().join(format!("tidegate-{test}-{}", std::process::id()));
    let settings = [("TIDEGATE_CALLS", path.to_str().unwrap())];
    let inside = inside(&["libcublas.so"], &settings);
    if inside.is_none() {
        // Where there is no compiler, there is no such file.
        let _ = std::fs::remove_file(&path);
    }
    inside
}

/// What follows a word in the calls since so many, one a line.
fn since(calls: usize, word: &str) -> Vec<String> {
    let of_word = |line: &String| Some(line.strip_prefix(word)?.trim().to_owned());
    calls_so_far().iter().skip(calls).filter_map(of_word).collect()
}

fn calls_so_far() -> Vec<String> {
    let path = std::env::var_os("TIDEGATE_CALLS").unwrap();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_program_is_compiled_once_in_a_process() {
    let Some(()) = noted() else { return };
    let subject = Subject::small("vgg");
    let models = zvc(0);
    let whole = subject.plan("in-core", 105, false, None);
    let packed = subject.plan("cswap", 70, true, Some(&models));
    drop(opened(&subject, &whole));
    let first = since(0, "compile");
    assert!(first.len() > 1, "{first:?}");
    let calls = calls_so_far().len();
    let mut again = opened(&subject, &whole);
    again.run().unwrap();
    assert_eq!(since(calls, "compile"), [""; 0]);
    // Others compile what is new to the process alone, beside one that is open.
    drop(opened(&subject, &packed));
    let new: BTreeSet<String> = since(calls, "compile").into_iter().collect();
    let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let new: Vec<String> = new.iter().map(name).collect();
    assert!(new.contains(&"zvc".into()) && !new.contains(&name(&first[0])), "{new:?}");
    let calls = calls_so_far().len();
    CudaCodecs::open(0, &[CodecId::Zvc], 100).unwrap();
    assert_eq!(since(calls, "compile"), [""; 0]);
}

#[test]
fn arenas_are_as_large_as_predicted() {
    let Some(()) = noted() else { return };
    let subject = Subject::small("vgg");
    for (method, percent) in [("in-core", 130), ("swap-all", 60), ("tide", 70)] {
        let plan = subject.plan(method, percent, false, None);
        assert!(plan.predicted.arena < plan.budget || method != "in-core", "as well its budget");
        let calls = calls_so_far().len();
        let device = opened(&subject, &plan);
        let arena = plan.predicted.arena.0.to_string();
        assert!(since(calls, "allocate").contains(&arena), "{method}: {arena}");
        // Room for nothing is a byte.
        let host_arena = plan.predicted.host_arena.0.max(1).to_string();
        assert!(since(calls, "pin").contains(&host_arena), "{method}: {host_arena}");
        drop(device);
    }
}

#[test]
fn copies_and_codecs_come_before_layers() {
    let Some(()) = noted() else { return };
    let subject = Subject::small("vgg");
    let plan = subject.plan("in-core", 105, false, None);
    let device = open(&subject.network, &subject.trace, &plan, &CudaOptions::default()).unwrap();
    assert_eq!(since(0, "stream"), ["0", "-5", "-5", "-5", "-5", "-5"], "the lanes, compute first");
    drop(device);
    let calls = calls_so_far().len();
    CudaCodecs::open(0, &[CodecId::Zvc], 100).unwrap();
    assert!(since(calls, "stream").iter().all(|priority| priority == "-5"));
}

/// Before each run, on a stream that the codec's waits for.
#[test]
fn caches_are_filled_before_a_codec_is_timed() {
    let Some(()) = noted() else { return };
    let mut device = CudaCodecs::open(0, &[CodecId::Zvc], 100).unwrap();
    let layout = Layout::new(Dtype::F32, &[1024]).unwrap();
    let bytes = vec![0u8; 4096];
    let codec = codecs::codec(CodecId::Zvc).unwrap();
    let calls = calls_so_far().len();
    device.time(codec.as_ref(), TensorView::new(&layout, &bytes).unwrap(), 3).unwrap();
    let fills = since(calls, "fill").into_iter().filter_map(|bytes| bytes.parse::<u64>().ok());
    // The stand-in's cache has 4096 bytes, and what a codec works on is not much larger.
    let of_caches = fills.filter(|bytes| *bytes > 1 << 20).count();
    assert_eq!(of_caches, 2 * (1 + 3), "both ways, a run that does not count and three that do");
}

/// One way or both at once; what the host works on starts with the host.
#[test]
fn copies_wait_for_what_takes_longer_than_giving_them() {
    let Some(()) = noted() else { return };
    let mut probe = CudaProbe::open(0, Bytes(1 << 20)).unwrap();
    let calls = calls_so_far().len();
    probe.alone(Direction::D2h, Bytes(4096)).unwrap();
    assert_eq!(since(calls, "fill").len(), 1);
    probe.both(Bytes(4096)).unwrap();
    assert_eq!(since(calls, "fill").len(), 2);
    probe.pageable(Direction::H2d, Bytes(4096)).unwrap();
    assert_eq!(since(calls, "fill").len(), 2);
}
