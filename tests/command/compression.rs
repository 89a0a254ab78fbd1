//! Methods that compress, on every network, and papers' figures beside what is predicted.

use serde_json::Value;

use crate::sandbox::Sandbox;

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
    assert!(line("table 1: VGG-16, batch 128, peak in core").contains("17.29"));
    let ibp = sandbox.ok("study ibp -o ibp");
    let predicted = |what: &str| -> f64 {
        let line = ibp.lines().find(|line| line.starts_with(what)).expect("a line");
        let cells: Vec<&str> = line[what.len()..].split_whitespace().collect();
        cells[1].parse().expect("a number")
    };
    assert!((predicted("table 1: sparse features") - 9.7).abs() < 0.97, "{ibp}");
    assert!((predicted("table 7: Citeseer, packed rows cached") - 589_182.0).abs() < 5_892.0);
    for (data, rows) in [("Pubmed", 24_401.0), ("Reddit", 2_301.0), ("MAG", 1_217_501.0)] {
        assert_eq!(predicted(&format!("table 7: {data}, rows cached as they are")), rows);
    }
    for part in ["zStd", "figure 8: DGL, training", "missing: the data set"] {
        assert!(ibp.contains(part), "{part}: {ibp}");
    }
    // Each figure of a paper has its chart, from the study's folder.
    sandbox.ok("report ibp comet -o page");
    let page = sandbox.text("page/index.html");
    for part in ["ibp, table 7: paper against predicted", "comet, table 1: paper against predicted"]
    {
        assert!(page.contains(part), "{part}");
    }
    let listed = sandbox.ok("list studies");
    assert!(listed.contains("What does Invariant Bit Packing's paper print"), "{listed}");
    assert!(comet.contains("Caffe"), "{comet}");
}
