//! Methods that compress, on every network, and papers' figures beside what is predicted.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// The rows of a study's table, each a value by column.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines().map(cells);
    let head = lines.next().expect("a head");
    lines.map(|cells| head.iter().cloned().zip(cells).collect()).collect()
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().expect("at least one").push(c),
        }
    }
    cells
}

/// All networks, on machines with slow and fast links, at the beginning and at the end
/// of a training, with sparse and with dense tensors, under much and under little memory.
fn everywhere(networks: &[String], activations: &[&str]) -> String {
    let list = |names: &[String]| {
        names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::from("description = \"d\"\n");
    for activation in activations {
        let (line, methods) = match *activation {
            "" => (String::new(), "\"vdnn-conv\", \"vdnn-all\", \"vdnn++\", \"sc\", \"cswap+\""),
            activation => (
                format!("activation = \"{activation}\"\n"),
                "\"vdnn-conv\", \"vdnn-all\", \"cswap+\"",
            ),
        };
        text += &format!(
            "[[group]]\nname = \"{activation}\"\nnetworks = [{}]\nbatches = [8]\n{line}\
             machines = [\"cswap-v100\", \"cswap-2080ti\", \"gh200\"]\n\
             budgets = [\"60%\", \"120%\"]\ncodecs = [\"zvc\", \"lz4\", \"zfp\"]\nlossy = true\n\
             methods = [{methods}]\nepochs = 50\nat_epochs = [0, 49]\n",
            list(networks)
        );
    }
    text
}

#[test]
fn cswap_plus_is_never_slower_than_vdnn_on_any_network_machine_and_epoch() {
    let sandbox = Sandbox::new();
    let listed = sandbox.json("list networks --format json");
    let listed = listed.as_array().expect("a list").iter();
    let all: Vec<String> =
        listed.filter_map(|network| network["name"].as_str().map(str::to_string)).collect();
    assert!(all.len() > 20, "{all:?}");
    // Those whose ops a debug build goes through in no time, and which CSWAP+ has.
    let small =
        |name: &&String| !["llama3-8b", "gpt2-xl", "resnext101-3d"].contains(&name.as_str());
    let all: Vec<String> = all.iter().filter(small).cloned().collect();
    sandbox.write("sparse.toml", &everywhere(&all, &[""]));
    let of_paper = |name: &&String| {
        ["alexnet", "vgg16", "mobilenet-v1", "plain20", "resnet18", "squeezenet"]
            .contains(&name.as_str())
    };
    let paper: Vec<String> = all.iter().filter(of_paper).cloned().collect();
    sandbox.write("dense.toml", &everywhere(&paper, &["leaky-relu"]));
    let (mut compared, mut faster) = (0, 0);
    for study in ["sparse", "dense"] {
        let shown = sandbox.ok(&format!("study {study}.toml -o {study}"));
        assert!(shown.contains("zvc, lz4, zfp"), "{shown}");
        let rows = rows(&sandbox.text(&format!("{study}/results.csv")));
        let time = |row: &BTreeMap<String, String>| row["iteration_ns"].parse::<u64>().ok();
        let question = |row: &BTreeMap<String, String>| {
            ["network", "options", "machine", "budget_bytes"].map(|column| row[column].clone())
        };
        let mut plans: BTreeMap<_, BTreeMap<String, u64>> = BTreeMap::new();
        for row in &rows {
            let Some(time) = time(row) else { continue };
            plans.entry(question(row)).or_default().insert(row["method"].clone(), time);
        }
        for (question, times) in &plans {
            for vdnn in ["vdnn-conv", "vdnn-all"] {
                let Some(vdnn) = times.get(vdnn) else { continue };
                let ours = times.get("cswap+").unwrap_or_else(|| panic!("no plan: {question:?}"));
                assert!(ours <= vdnn, "{question:?}: {ours} after {vdnn}");
                compared += 1;
                faster += u32::from(ours < vdnn);
            }
        }
    }
    assert!(compared > 200 && faster > 50, "{faster} of {compared}");
}

#[test]
fn vdnn_plus_plus_needs_less_of_the_host_and_more_time() {
    let sandbox = Sandbox::new();
    let problem = "vgg16 --batch 32 -m cswap-v100 --codecs zvc --progress 1";
    let plan = |method: &str, options: &str| -> Value {
        sandbox.ok(&format!("plan {problem} {options} --method {method} -o {}.json", method.len()));
        let verified = sandbox.ok(&format!("verify {}.json --trace vgg16", method.len()));
        assert!(verified.contains("ops in order"), "{verified}");
        serde_json::from_str(&sandbox.text(&format!("{}.json", method.len()))).expect("JSON")
    };
    let figure = |plan: &Value, name: &str| {
        plan["content"]["predicted"][name].as_u64().unwrap_or_else(|| panic!("{name}"))
    };
    let (vdnn, ours) = (plan("vdnn-conv", ""), plan("vdnn++", ""));
    assert!(figure(&ours, "host_arena_bytes") < figure(&vdnn, "host_arena_bytes"));
    assert!(figure(&ours, "iteration_ns") > figure(&vdnn, "iteration_ns"));
    // Where the host holds less than all raw tensors, vDNN has no plan.
    let host = figure(&ours, "host_arena_bytes");
    let little = format!("--host-budget {host}B");
    let refused = sandbox.fails(&format!("plan {problem} {little} --method vdnn-conv"));
    assert!(refused.starts_with("[exit 3]"), "{refused}");
    plan("vdnn++", &little);
}

#[test]
fn a_papers_figures_stand_beside_the_predicted_ones() {
    let sandbox = Sandbox::new();
    let comet = sandbox.ok("study comet -o comet");
    assert!(
        comet.contains("COMET (Jin et al., VLDB 2021), beside what is predicted here"),
        "{comet}"
    );
    let line = |what: &str| {
        let lines = comet.lines().filter(|line| line.starts_with(what));
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .next()
            .expect("a line")
    };
    assert!(line("VGG-16, batch 128: peak in core").contains("17.29 GB"));
    // Reasons stand once, with the numbers of all that they explain.
    assert!(!comet.contains("the reason is not known"), "{comet}");
    assert!(comet.contains("Caffe"), "{comet}");
}
