//! The recorded traces that come with tidegate, by name.

use std::path::PathBuf;

use schema::{Document, Trace};

use crate::error::ScenarioError;

/// Embeds `traces/<name>.json` for each name.
macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../traces/", $name, ".json")))),*]
    };
}

/// Name and text of each trace, by ascending name. A new file in `traces/` is one line here.
const TRACES: &[(&str, &str)] =
    embed!["resnet18-host", "resnet50-h100", "unet-h100", "vit-l16-h100"];

/// Names of the traces that come with tidegate, ascending.
pub fn traces() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|(name, _)| *name)
}

/// The trace of a name.
pub fn trace(name: &str) -> Result<Trace, ScenarioError> {
    find(TRACES, name)
}

fn find(traces: &[(&str, &str)], name: &str) -> Result<Trace, ScenarioError> {
    let Some((_, text)) = traces.iter().find(|(known, _)| *known == name) else {
        let known = traces.iter().map(|(name, _)| *name);
        return Err(ScenarioError::unknown("trace", name, known));
    };
    let file = PathBuf::from(format!("traces/{name}.json"));
    Trace::from_json(text, &file).map_err(|source| ScenarioError::Document {
        name: name.to_string(),
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest document that is a trace.
    const SMALL: &str = r#"{"format":"tidegate/trace","version":1,"content":{"network":"none",
        "provenance":{"origin":"modelled","device":"none","source":"test"},"tensors":[],"ops":[
        {"name":"op","kind":"other","phase":"forward","duration_ns":1,"reads":[],"writes":[]}]}}"#;

    #[test]
    fn the_table_holds_every_file_of_the_folder_and_each_is_a_trace() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/traces");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder is part of the repository")
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(traces().collect::<Vec<_>>(), files, "one line per file of traces/");
        for name in traces() {
            trace(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn a_trace_is_found_by_its_name_and_a_misspelt_one_is_suggested() {
        let traces = [("resnet18", SMALL), ("broken", "{}")];
        assert_eq!(find(&traces, "resnet18").expect("it is there").network, "none");
        let error = find(&traces, "resnet81").expect_err("no such trace").to_string();
        assert_eq!(error, "there is no trace `resnet81`: did you mean `resnet18`?");
        assert!(matches!(find(&traces, "broken"), Err(ScenarioError::Document { .. })));
        let error = find(&[], "x").expect_err("no traces").to_string();
        assert_eq!(error, "there is no trace `x`: none comes with this tidegate");
    }
}
