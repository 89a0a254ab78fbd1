//! `acceptance`: everything on a device by one command.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn document(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.text("out/acceptance.json")).expect("JSON")
}

fn steps(document: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let steps = document["steps"].as_array().expect("a list");
    let of = |step: &Value| (text(&step["name"]), text(&step["status"]), text(&step["reason"]));
    steps.iter().map(of).collect()
}

/// All of it, small. One step is lost on the way, and the others are as if it were not.
#[test]
fn every_step_is_done_or_says_why_not() {
    let sandbox = Sandbox::new();
    sandbox.refuses("acceptance --device host -o out --minutes 60 --lose stories260k", 1, "1 of ");
    let document = document(&sandbox);
    for (name, status, reason) in steps(&document) {
        let expected = match name.as_str() {
            "stories260k" => "failed",
            "layers" | "graphs" | "too-large" | "sanitizer" => "skipped",
            _ => "ok",
        };
        assert_eq!(status, expected, "{name}: {reason}");
        assert_eq!(status == "ok", reason.is_empty(), "{name}: {reason}");
    }
    let plain = &document["steps"].as_array().expect("a list")[4]["figures"]["check"];
    let plans = plain["networks"][0]["plans"].as_array().expect("a list");
    assert_eq!(plans.len(), 4);
    assert!(plans.iter().all(|plan| plan["same_bits"] == true), "{plans:?}");
    let shown = sandbox.ok("acceptance --show out/acceptance.json --only plain20");
    assert!(shown.contains("## plain20: check") && shown.contains("as predicted"), "{shown}");
    assert!(sandbox.text("out/index.html").contains("plain20/index.html"));
    assert!(sandbox.text("out/machine/machine.json").contains("tidegate/machine"));

    // Once more, the one that was lost: what there is of others stays.
    sandbox.ok("acceptance --device host -o out --minutes 60 --only stories260k");
    let now = self::document(&sandbox);
    assert!(steps(&now).iter().all(|(_, status, _)| status != "failed"), "{now}");
    assert_eq!(steps(&now).len(), steps(&document).len());
}

#[test]
fn without_a_gpu_it_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let run = sandbox.run("acceptance --device cuda -o out");
    // Where there is a GPU, this is not the place to try it.
    if run.code == 1 {
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "{}", run.stderr);
        assert!(!sandbox.path("out").exists());
    }
}
