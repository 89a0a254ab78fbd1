//! What helps at a shell: completions, manual pages, a machine's file, colours, and silence.

use std::process::Command;

use crate::sandbox::{Sandbox, repository};

#[test]
fn every_shell_and_the_manual_know_every_command() {
    let sandbox = Sandbox::new();
    let commands = sandbox.commands();
    let is_there = |name: &str| commands.iter().any(|command| command == name);
    assert!(is_there("plan") && is_there("completions"), "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = sandbox.ok(&format!("completions {shell}"));
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("budget"), "{shell}");
    }
    sandbox.ok("man -o man1");
    for command in &commands {
        let page = sandbox.text(&format!("man1/tidegate-{command}.1"));
        assert!(page.contains(".TH") && page.contains("\\-\\-help"), "{command}: {page}");
    }
    assert!(sandbox.text("man1/tidegate.1").contains("Exit codes"));

    // Bash takes what is printed.
    sandbox.write("tidegate.bash", &sandbox.ok("completions bash"));
    let checked = "source ./tidegate.bash && COMP_WORDS=(tidegate stu) COMP_CWORD=1 && \
                   _tidegate tidegate stu tidegate && echo ${COMPREPLY[*]}";
    match Command::new("bash").args(["-c", checked]).current_dir(sandbox.path(".")).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "study\n"),
        Err(_) => println!("skipped: there is no bash"),
    }
}

#[test]
fn a_file_for_the_machine_at_hand_is_a_machine() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok("init --like rtx-3090");
    assert!(said.contains("machine.toml"), "{said}");
    let text = sandbox.text("machine.toml");
    for part in ["inherits = \"rtx-3090\"", "[host]\n", "\n# d2h = \"25.0GB/s\"", "[sources]"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    sandbox.ok("compare resnet18-host -m machine.toml --methods in-core");
    // Every line that is commented out is one that may be stated.
    let stated: String = (text.lines())
        .map(|line| match line.strip_prefix("# ").filter(|rest| rest.contains(" = ")) {
            Some(figure) => format!("{figure}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    assert!(
        stated.contains("\nd2h = \"25.0GB/s\"") && stated.contains("\nreserved = "),
        "{stated}"
    );
    sandbox.write("stated.toml", &stated);
    sandbox.ok("compare resnet18-host -m stated.toml --methods in-core");
    assert_eq!(sandbox.ok("init --like rtx-3090 -o -"), text);
    let run = sandbox.run("init -o here.toml");
    match run.code {
        0 => drop(sandbox.ok("compare resnet18-host -m here.toml --methods in-core")),
        code => assert!(code == 2 && run.stderr.contains("--like rtx-3090"), "{}", run.stderr),
    }
}

#[test]
fn a_device_that_is_here_is_asked_and_measured() {
    let sandbox = Sandbox::new();
    let Some(run) = sandbox.run_on_stand_in("init --like h100-sxm -o here.toml", &[], &[]) else {
        return;
    };
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = sandbox.text("here.toml");
    for part in ["\nname = ", "\nmemory = ", "\nd2h = ", "link.h2d = \"measured by tidegate init\""]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // It has hardly any memory.
    sandbox.ok("compare resnet18-host -m here.toml --methods in-core -b 110%");
}

#[test]
fn colours_come_where_they_are_wanted_alone() {
    let sandbox = Sandbox::new();
    let run = |arguments: &str, settings: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments.split(' ')).current_dir(sandbox.path("."));
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(settings.iter().copied());
        String::from_utf8(command.output().expect("it runs").stderr).expect("UTF-8")
    };
    let coloured = |text: String| text.contains('\u{1b}');
    // No terminal is here.
    assert!(!coloured(run("plan --bacth 3", &[])));
    assert!(coloured(run("--color always plan --bacth 3", &[])));
    assert!(coloured(run("plan --bacth 3 --color=always", &[])));
    assert!(!coloured(run("plan --bacth 3 --color never", &[("CLICOLOR_FORCE", "1")])));
    assert!(!coloured(run("plan --bacth 3", &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")])));
}

#[test]
fn installing_is_described() {
    let pages = ["README.md", "docs/shell.md"].map(|page| repository().join(page));
    let text = pages.map(|page| std::fs::read_to_string(page).expect("it is there")).concat();
    for part in ["cargo install --path .", "tidegate completions", "tidegate man", "tidegate init"]
    {
        assert!(text.contains(part), "{part}");
    }
}
