//! Runs the command in an empty folder.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::stand_in::stand_in;

/// An empty folder with the repository's small recordings and table in it, in which the command
/// runs.
pub struct Sandbox {
    folder: TempDir,
}

pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    fn of(command: &mut assert_cmd::Command) -> Self {
        let output = command.output().expect("the command starts");
        Self {
            code: output.status.code().expect("no signal ends it"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in [
            "tests/recordings/small.dtr.jsonl",
            "tests/recordings/small.opgraph.json",
            "tests/recordings/small.kineto.json",
            "tests/recordings/small.et.json",
            "tests/recordings/small.snapshot-4.pickle",
            "tests/recordings/packed.tar.gz",
            "recordings/h100/resnet50-b32-f32.kineto.json.gz",
            "recordings/h100/resnet50-b32-f32.snapshot.pickle.gz",
            "tests/tables/weights.bf16",
            "tests/onnx/block.onnx",
            "tests/onnx/folded.onnx",
        ] {
            let to = folder.path().join(name);
            let parent = to.parent().expect("it is in a folder");
            std::fs::create_dir_all(parent).expect("a new folder is writable");
            std::fs::copy(repository().join(name), to).expect("the file is there");
        }
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file was written")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("writable");
        std::fs::write(path, text).expect("the folder is writable");
    }

    /// The names in the folder, in order; the folder of recordings and tables left out.
    pub fn files(&self) -> Vec<String> {
        self.files_of("")
    }

    /// The same of a folder in it.
    pub fn files_of(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .filter(|name| name != "tests" && name != "recordings")
            .collect();
        names.sort();
        names
    }

    /// Runs `tidegate` with arguments that are separated by blanks.
    pub fn run(&self, arguments: &str) -> Run {
        self.run_with_input(arguments, "")
    }

    /// The same, with a text on the standard input.
    pub fn run_with_input(&self, arguments: &str, input: &str) -> Run {
        Run::of(self.command(arguments).write_stdin(input))
    }

    fn command(&self, arguments: &str) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        command.env("COLUMNS", "100");
        command
    }

    /// The same on a CUDA device that is none (see `runtime/tests/cuda/driver.h`), with libraries
    /// beside driver and compiler, and with settings; nothing where there is no compiler to make
    /// one, which is said.
    pub fn run_on_stand_in(
        &self,
        arguments: &str,
        libraries: &[&str],
        settings: &[(&str, &str)],
    ) -> Option<Run> {
        let folder = stand_in(&[&["libcuda.so", "libnvrtc.so"], libraries].concat())?;
        let mut command = self.command(arguments);
        command.env("LD_LIBRARY_PATH", &folder).env("TIDEGATE_CUDA_LIBRARIES", &folder);
        command.envs(settings.iter().copied());
        Some(Run::of(&mut command))
    }

    /// The same of what must succeed; its standard output.
    pub fn ok_on_stand_in(
        &self,
        arguments: &str,
        libraries: &[&str],
        settings: &[(&str, &str)],
    ) -> Option<String> {
        let run = self.run_on_stand_in(arguments, libraries, settings)?;
        assert_eq!(run.code, 0, "tidegate {arguments}\n{}", run.stderr);
        Some(run.stdout)
    }

    /// Runs what must succeed and returns the standard output.
    pub fn ok(&self, arguments: &str) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "tidegate {arguments}\n{}", run.stderr);
        run.stdout
    }

    /// The same, read as JSON.
    pub fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.ok(arguments)).expect("JSON")
    }

    /// Runs what must fail with a code and say something.
    #[track_caller]
    pub fn refuses(&self, arguments: &str, code: i32, said: &str) {
        let run = self.run(arguments);
        assert_eq!(run.code, code, "tidegate {arguments}\n{}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(said), "tidegate {arguments}\n{said}\n{}", run.stderr);
    }

    /// Runs what must fail and returns how, for a snapshot.
    pub fn fails(&self, arguments: &str) -> String {
        let run = self.run(arguments);
        assert_ne!(run.code, 0, "tidegate {arguments}\n{}", run.stdout);
        format!("[exit {}] {}", run.code, run.stderr)
    }

    /// The names of all commands, from the help.
    pub fn commands(&self) -> Vec<String> {
        let help = self.ok("--help");
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let listed = listed.take_while(|line| !line.is_empty());
        let listed = listed.filter(|line| !line.starts_with("   "));
        let names = listed.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(String::from).collect()
    }

    /// What the JSON of a document of the folder has in it.
    pub fn content(&self, name: &str) -> Value {
        let mut document: Value = serde_json::from_str(&self.text(name)).expect("JSON");
        document["content"].take()
    }
}

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Signals that end a command, with the exit code that each leaves. Those that whoever started the
/// tests has them ignore, as `nohup` does, their children do not hear either: they are left out.
#[cfg(unix)]
pub fn signals() -> Vec<(&'static str, i32)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let heard = |(name, number): &(&str, i32)| {
        let heard = ignored & 1 << (number - 1) == 0;
        if !heard {
            println!("skipped: SIG{}, which the tests were started to ignore", &name[1..]);
        }
        heard
    };
    let signals = [("-INT", 2), ("-TERM", 15), ("-HUP", 1)].into_iter().filter(heard);
    signals.map(|(name, number)| (name, 128 + number)).collect()
}

/// A text without what differs from run to run: the time that planning took, which ends the rows
/// of a comparison.
pub fn without_times(text: &str) -> String {
    let mask = |line: &str| match line.strip_suffix(" s").and_then(|rest| rest.rsplit_once("  ")) {
        // How many blanks there are depends on the time.
        Some((row, seconds)) if seconds.trim().parse::<f64>().is_ok() => {
            format!("{}  ...", row.trim_end())
        }
        _ => line.to_string(),
    };
    let lines: Vec<String> = text.lines().map(mask).collect();
    lines.join("\n")
}
