//! The README shows what the commands print now.
//!
//! Every block of kind `console` is run, each line that begins with `$ ` as a command and what
//! follows as its output, in one folder from top to bottom. `TIDEGATE_UPDATE=1` writes what the
//! commands print into the README, and the picture beside it.

use crate::sandbox::{Sandbox, repository, without_times};

const PICTURE: &str = "docs/timeline.svg";

#[test]
fn the_readme_shows_what_the_commands_print() {
    let update = std::env::var_os("TIDEGATE_UPDATE").is_some();
    let path = repository().join("README.md");
    let readme = std::fs::read_to_string(&path).expect("there is a README");
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("docs")).expect("a new folder is writable");
    let now = with_outputs(&readme, &sandbox);
    let picture = sandbox.text(PICTURE);
    let shown = std::fs::read_to_string(repository().join(PICTURE)).unwrap_or_default();
    // Times that differ from run to run are no reason to write.
    let same = without_times(&readme) == without_times(&now) && shown == picture;
    if update && !same {
        std::fs::write(&path, now).expect("the README can be written");
        std::fs::write(repository().join(PICTURE), picture).expect("the picture can be written");
        return;
    }
    assert!(same, "run docs/update.sh: the README should be\n{now}");
}

/// The text with what its commands print now.
fn with_outputs(readme: &str, sandbox: &Sandbox) -> String {
    let mut text = String::new();
    let mut in_block = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if in_block && !line.starts_with("$ ") {
            continue;
        }
        text += line;
        text.push('\n');
        if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            text += &output_of(command, sandbox);
        }
    }
    text
}

fn output_of(command: &str, sandbox: &Sandbox) -> String {
    let arguments = (command.strip_prefix("tidegate "))
        .or_else(|| command.strip_prefix("cargo run --release -- "))
        .unwrap_or_else(|| panic!("`{command}` is no command of ours"));
    let run = sandbox.run(arguments);
    assert_eq!(run.code, 0, "{command}\n{}", run.stderr);
    run.stdout + &run.stderr
}
