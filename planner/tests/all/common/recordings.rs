//! The recordings beside the project.

use std::path::PathBuf;

use profiler::import::{ImportOptions, InPlaceOps, import_trace};
use schema::Trace;

/// The op logs of the DTR prototype.
pub const DTR: [&str; 4] = ["resnet32", "unet", "transformer", "inceptionv4"];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/traces"))
}

/// The README beside the recordings, where they are present.
pub fn readme() -> Option<String> {
    let readme = std::fs::read_to_string(folder().join("README.md")).ok();
    if readme.is_none() {
        eprintln!("skipped: the folder of recordings {} is absent", folder().display());
    }
    readme
}

pub fn dtr(name: &str) -> Trace {
    let file = folder().join(format!("{name}.dtr.jsonl"));
    let text = std::fs::read_to_string(&file).expect("the recording is readable");
    let options = ImportOptions { in_place: InPlaceOps::AsRecorded, ..ImportOptions::default() };
    import_trace(&text, &file, None, &options).expect("the recording is whole")
}
