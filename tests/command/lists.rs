//! Lists, schemas and help.

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn everything_that_comes_with_tidegate_is_listed_and_can_be_named() {
    let sandbox = Sandbox::new();
    for what in ["machines", "links", "methods", "traces", "families"] {
        let text = sandbox.ok(&format!("list {what}"));
        let json = sandbox.json(&format!("list {what} --format json"));
        let entries = json.as_array().expect("a list");
        assert!(!entries.is_empty() && entries.len() == text.lines().count(), "{text}");
        for (entry, line) in entries.iter().zip(text.lines()) {
            let name = entry["name"].as_str().expect("a name");
            assert!(line.starts_with(name), "{line}");
            assert!(!entry["description"].as_str().expect("a text").is_empty());
            let fields = entry.as_object().expect("fields");
            for (field, value) in fields.iter().filter(|(field, _)| field.contains("bytes")) {
                assert!(value.is_u64(), "{name}: {field} {value}");
            }
            let problem = match what {
                "machines" => format!("resnet18-host -m {name} --methods in-core"),
                "links" => format!("resnet18-host -m titan-v+{name} --methods in-core"),
                // An optimizer, and a host that runs its updates.
                "methods" if name.starts_with("zero-") => format!(
                    "gpt2-characters --batch 1 --optimizer adam -m rtx-4090 -b 100% --methods {name}"
                ),
                "methods" => {
                    let codecs = "--codecs all --lossy --sparsity 50%";
                    format!("resnet18-host -m titan-v --methods {name} {codecs}")
                }
                _ => format!("{name} -m titan-v --methods in-core"),
            };
            sandbox.ok(&format!("compare {problem}"));
        }
    }
}

/// Documents agree with their schemas as far as fields go: each field that is there is described,
/// and each that is required is there.
#[test]
fn documents_agree_with_their_schemas() {
    let sandbox = Sandbox::new();
    let problem = "tests/recordings/small.dtr.jsonl -m titan-v -b 60%";
    sandbox.ok("import tests/recordings/small.dtr.jsonl -o trace.json");
    sandbox.ok(&format!("plan {problem} -o plan.json"));
    sandbox.ok("simulate plan.json -o timeline.json");
    let comparison = sandbox.ok(&format!("compare {problem} --format json"));
    sandbox.write("comparison.json", &comparison);
    let frontier = "--methods swap-all,in-core --budgets 100%,60% --slowdown 50% --format json";
    let frontier = format!("frontier tests/recordings/small.dtr.jsonl -m titan-v {frontier}");
    sandbox.write("frontier.json", &sandbox.ok(&frontier));
    for kind in ["trace", "plan", "timeline", "comparison", "frontier"] {
        let schema = sandbox.json(&format!("schema {kind}"));
        let text = sandbox.text(&format!("{kind}.json"));
        agree(&schema, &schema, &serde_json::from_str(&text).expect("JSON"), kind);
    }
    let machine = sandbox.json("schema machine");
    assert!(machine["properties"]["content"].is_object(), "{machine}");
}

fn agree(root: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.strip_prefix('#').expect("a local reference");
        return agree(root, root.pointer(pointer).expect("it is defined"), value, at);
    }
    for choice in ["anyOf", "oneOf"] {
        // Objects that stand for one of several variants: the one with this field describes it.
        let variants = schema[choice].as_array().into_iter().flatten();
        let mut fitting = variants.filter(|variant| match value.as_object() {
            Some(fields) => fields.keys().all(|field| {
                variant["$ref"].is_string() || variant["properties"][field].is_object()
            }),
            None => false,
        });
        if let Some(variant) = fitting.next() {
            return agree(root, variant, value, at);
        }
    }
    if let (Some(fields), Some(described)) = (value.as_object(), schema["properties"].as_object()) {
        for (field, value) in fields {
            let at = format!("{at}.{field}");
            let schema = described.get(field).unwrap_or_else(|| panic!("{at} is not described"));
            agree(root, schema, value, &at);
        }
        for field in schema["required"].as_array().into_iter().flatten() {
            let field = field.as_str().expect("a name");
            assert!(fields.contains_key(field), "{at} lacks {field}");
        }
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        agree(root, &schema["items"], item, &format!("{at}[]"));
    }
}

#[test]
fn help_explains_every_subcommand() {
    let sandbox = Sandbox::new();
    let within = ["bench replay", "bench codecs"].map(String::from);
    for subcommand in sandbox.commands().into_iter().chain(within) {
        let help = sandbox.ok(&format!("{subcommand} --help"));
        assert!(help.contains("Usage: tidegate") && help.contains("--help"), "{help}");
    }
    assert_eq!(sandbox.ok("--version"), concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n"));
}
