//! Commands of `console/*.md` print what these pages show.
//!
//! A block with a file's name after its kind, such as `toml name.toml`, is that file. Every block of kind `console` is
//! run, each line that begins with `$ ` as a command and what follows as its output, or that of a file that it names
//! after `>`, each page in a folder of its own from top to bottom. A command that fails has its exit code before what
//! it says; `ls` is what is in a folder. `TIDEGATE_UPDATE=1` writes what the commands print into the pages.

use std::path::PathBuf;

use rayon::prelude::*;

use crate::sandbox::{Run, Sandbox, repository, without_times};

#[test]
fn commands_print_what_their_pages_show() {
    let update = std::env::var_os("TIDEGATE_UPDATE").is_some();
    let different = pages_of("tests/command/console").into_par_iter().filter_map(|page| {
        let shown = std::fs::read_to_string(&page).expect("the page is readable");
        let sandbox = Sandbox::new();
        let now = with_outputs(&shown, |arguments| sandbox.run(arguments), &sandbox);
        (without_times(&shown) != without_times(&now)).then_some((page, now))
    });
    let different: Vec<(PathBuf, String)> = different.collect();
    for (page, now) in different {
        assert!(update, "{} should be\n{now}", page.display());
        std::fs::write(page, now).expect("the page can be written");
    }
}

/// The pages of a folder of the repository, in order.
pub fn pages_of(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("there are pages");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let mut pages: Vec<PathBuf> = paths.filter(is_page).collect();
    pages.sort();
    pages
}

/// The text with what its commands print now, each run with its arguments.
pub fn with_outputs(page: &str, run: impl Fn(&str) -> Run, sandbox: &Sandbox) -> String {
    let mut text = String::new();
    let mut in_block = false;
    let mut file: Option<(&str, String)> = None;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
            if let Some((name, text)) = file.take() {
                sandbox.write(name, &text);
            }
            file = line.split_once(' ').map(|(_, name)| (name, String::new()));
        } else if in_block && !line.starts_with("$ ") {
            continue;
        } else if let Some((_, text)) = &mut file {
            *text += &format!("{line}\n");
        }
        text += line;
        text.push('\n');
        if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            text += &output_of(command, &run, sandbox);
        }
    }
    text
}

fn output_of(command: &str, run: impl Fn(&str) -> Run, sandbox: &Sandbox) -> String {
    if let Some(folder) = command.strip_prefix("ls") {
        let names = sandbox.files_of(folder.trim());
        return names.iter().map(|name| format!("{name}\n")).collect();
    }
    let arguments = (command.strip_prefix("tidegate "))
        .or_else(|| command.strip_prefix("cargo run --release -- "))
        .unwrap_or_else(|| panic!("`{command}` is no command of ours"));
    let (arguments, file) = match arguments.split_once(" > ") {
        Some((arguments, file)) => (arguments, Some(file)),
        None => (arguments, None),
    };
    let Run { code, mut stdout, stderr } = run(arguments);
    if let Some(file) = file {
        sandbox.write(file, &std::mem::take(&mut stdout));
    }
    let code = if code == 0 { String::new() } else { format!("[exit {code}] ") };
    stdout + &code + &stderr
}
