//! A command of a step, in a process of its own: what happens to that happens to nothing else.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use schema::file::read_text;
use serde_json::Value;

use super::steps::{Command, Figures};

/// Why a command gave nothing.
pub(super) enum Ended {
    /// A program that is not on this machine.
    Absent(String),
    /// It failed, in a sentence, with what it printed all the same.
    Failed(String, Option<Value>),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string(), None)
    }
}

/// Runs a command in a folder, which gets its output, and returns its figures.
pub(super) fn run(
    command: &Command,
    folder: &Path,
    limit: Duration,
    lost: bool,
    proceeds: &dyn Fn() -> bool,
) -> Result<Option<Value>, Ended> {
    let own = std::env::current_exe()?;
    let mut process = match command.under.split_first() {
        None => Process::new(&own),
        Some((tool, arguments)) => {
            let found = which(tool).ok_or_else(|| Ended::Absent(format!("no {tool} is found")))?;
            let mut process = Process::new(found);
            process.args(arguments).arg(&own);
            process
        }
    };
    process.args(&command.arguments).current_dir(folder).stdin(Stdio::null());
    let [out, err] = ["out", "err"].map(|end| folder.join(format!("{}.{end}", command.what)));
    process.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = Family::spawn(process)?;
    if lost {
        child.kill();
    }
    let begin = Instant::now();
    let status = loop {
        match child.0.try_wait()? {
            Some(status) => break status,
            None if !proceeds() => return Err(Ended::Failed("interrupted".into(), None)),
            None if begin.elapsed() >= limit => {
                let why = format!("it did not end within {:.0} s", limit.as_secs_f64());
                return Err(Ended::Failed(of(command, &why), None));
            }
            None => sleep(LOOKS_APART),
        }
    };
    let figures = match &command.figures {
        Figures::None => None,
        Figures::Printed => read_json(&out),
        // A command that failed has not written it: there may be an older one.
        Figures::InFile(name) if status.success() => read_json(&folder.join(name)),
        Figures::InFile(_) => None,
    };
    if status.success() && (figures.is_some() || matches!(command.figures, Figures::None)) {
        return Ok(figures);
    }
    Err(Ended::Failed(of(command, &why(status, &err)), figures))
}

/// A process and all that it starts, which end with this value: what a tool runs would go on without it, and
/// a device would be busy with that while the next step is measured.
struct Family(Child);

impl Family {
    fn spawn(mut process: Process) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut process, 0);
        process.spawn().map(Self)
    }

    /// Ends all of it. What has ended already has no remedy and needs none.
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Ok(id) = i32::try_from(self.0.id()) {
            let group = nix::unistd::Pid::from_raw(id);
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.0.kill();
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// How often the clock is looked at while a command runs.
const LOOKS_APART: Duration = Duration::from_millis(20);

fn of(command: &Command, why: &str) -> String {
    format!("{}: {why}", command.what)
}

fn read_json(file: &Path) -> Option<Value> {
    serde_json::from_str(&read_text(file).ok()?).ok()
}

/// What a command said last, or how it ended.
fn why(status: ExitStatus, err: &Path) -> String {
    let said = read_text(err).unwrap_or_default();
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let error = lines.clone().find_map(|line| line.strip_prefix("error: "));
    match error.or_else(|| lines.next_back()) {
        Some(line) => line.to_string(),
        None => format!("it ended with {status} and said nothing"),
    }
}

/// A program in PATH, or where NVIDIA's toolkit has it.
fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    folders.map(|folder| folder.join(tool)).find(|file| file.is_file())
}
