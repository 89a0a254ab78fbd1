//! What writing a file leaves as it was, and what a signal does.

#![cfg(unix)]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};

use schema::{Document, Trace};

use crate::sandbox::{Sandbox, signals};

const RECORDING: &str = "tests/recordings/small.dtr.jsonl";

fn with_trace() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    import(&sandbox, "trace.json");
    let trace = sandbox.text("trace.json");
    fs::remove_file(sandbox.path("trace.json")).expect("it was written");
    (sandbox, trace)
}

fn import(sandbox: &Sandbox, output: &str) {
    sandbox.ok(&format!("import {RECORDING} -o {output}"));
}

/// Another program, in the sandbox's folder.
fn make(sandbox: &Sandbox, command: &str) -> bool {
    let mut words = command.split(' ');
    let program = words.next().expect("a program");
    let status = Command::new(program).args(words).current_dir(sandbox.path(".")).status();
    status.expect("the program is there").success()
}

#[test]
fn a_pipe_is_written_to_and_stays_one() {
    let (sandbox, trace) = with_trace();
    assert!(make(&sandbox, "mkfifo pipe"));
    let pipe = sandbox.path("pipe");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        File::open(pipe).expect("a pipe").read_to_string(&mut text).map(|_| text)
    });
    import(&sandbox, "pipe");
    // A reader who waits for ever would be one for whom the pipe was replaced.
    assert!(fs::metadata(sandbox.path("pipe")).expect("it is there").file_type().is_fifo());
    assert_eq!(reader.join().expect("it reads").expect("text"), trace);
    assert_eq!(sandbox.files(), ["pipe"]);
}

/// Where whoever runs the test may make a device.
#[cfg(target_os = "linux")]
#[test]
fn a_device_is_written_to_and_stays_one() {
    let sandbox = Sandbox::new();
    if !make(&sandbox, "mknod null c 1 3") {
        return eprintln!("skipped: not allowed to make a device");
    }
    import(&sandbox, "null");
    assert!(fs::metadata(sandbox.path("null")).expect("there").file_type().is_char_device());
}

#[test]
fn links_are_followed_and_stay_links() {
    let (sandbox, trace) = with_trace();
    sandbox.write("there", "old");
    fs::create_dir(sandbox.path("folder")).expect("a new folder");
    for (link, target) in [("a", "there"), ("b", "a"), ("c", "folder/made")] {
        symlink(target, sandbox.path(link)).expect("a new link");
    }
    import(&sandbox, "b");
    import(&sandbox, "c");
    for (link, target) in [("a", "there"), ("b", "a"), ("c", "folder/made")] {
        assert_eq!(fs::read_link(sandbox.path(link)).expect("a link").to_str(), Some(target));
    }
    assert_eq!([sandbox.text("there"), sandbox.text("folder/made")], [trace.clone(), trace]);
    assert_eq!(sandbox.files(), ["a", "b", "c", "folder", "there"]);

    symlink("round", sandbox.path("round")).expect("a new link");
    let failure = sandbox.fails(&format!("import {RECORDING} -o round"));
    assert!(failure.starts_with("[exit 1] error: cannot write round"), "{failure}");
}

#[test]
fn all_names_of_a_file_see_what_was_written() {
    let (sandbox, trace) = with_trace();
    sandbox.write("one", &"old ".repeat(10_000));
    fs::hard_link(sandbox.path("one"), sandbox.path("other")).expect("a new name");
    import(&sandbox, "one");
    assert_eq!(fs::metadata(sandbox.path("one")).expect("it is there").nlink(), 2);
    assert_eq!(sandbox.text("other"), trace);
}

#[test]
fn mode_and_owner_stay_and_a_new_file_has_what_the_umask_leaves() {
    let (sandbox, trace) = with_trace();
    let about = |name: &str| fs::metadata(sandbox.path(name)).expect("it is there");
    sandbox.write("private", "old");
    fs::set_permissions(sandbox.path("private"), PermissionsExt::from_mode(0o640)).expect("ours");
    // Only root gives files away.
    let owner = match std::os::unix::fs::chown(sandbox.path("private"), Some(1234), Some(1234)) {
        Ok(()) => (1234, 1234),
        Err(_) => (about("private").uid(), about("private").gid()),
    };
    import(&sandbox, "private");
    let written = about("private");
    assert_eq!((written.mode() & 0o7777, (written.uid(), written.gid())), (0o640, owner));
    assert_eq!(sandbox.text("private"), trace);

    for (umask, mode) in [("077", 0o600), ("002", 0o664)] {
        let shell = format!("umask {umask}; exec \"$0\" import {RECORDING} -o {umask}");
        let mut command = Command::new("sh");
        command.args(["-c", &shell, env!("CARGO_BIN_EXE_tidegate")]);
        let run = command.current_dir(sandbox.path(".")).output().expect("a shell");
        assert!(run.status.success());
        assert_eq!(about(umask).mode() & 0o7777, mode);
    }
}

#[test]
fn what_must_not_be_written_is_refused() {
    let (sandbox, trace) = with_trace();
    sandbox.write("locked", "old");
    fs::set_permissions(sandbox.path("locked"), PermissionsExt::from_mode(0o444)).expect("ours");
    // Root writes what it likes, but the mode stays.
    let allowed = OpenOptions::new().write(true).open(sandbox.path("locked")).is_ok();
    let run = sandbox.run(&format!("import {RECORDING} -o locked"));
    let (code, text) = if allowed { (0, trace.as_str()) } else { (1, "old") };
    assert_eq!((run.code, sandbox.text("locked").as_str()), (code, text), "{}", run.stderr);
    let mode = fs::metadata(sandbox.path("locked")).expect("it is there").mode();
    assert_eq!(mode & 0o7777, 0o444);
    let failure = sandbox.fails(&format!("import {RECORDING} -o absent/"));
    assert!(failure.starts_with("[exit 1] error: cannot write absent/"), "{failure}");
    assert_eq!(sandbox.files(), ["locked"]);
}

/// A command that waits for its input, which is a pipe, with an output that is about to be written.
struct Waiting {
    child: Child,
    input: File,
}

impl Waiting {
    fn on(sandbox: &Sandbox, shell: &str) -> Self {
        assert!(make(sandbox, "mkfifo in"));
        let child = Command::new("sh")
            .args(["-c", shell, env!("CARGO_BIN_EXE_tidegate")])
            .current_dir(sandbox.path("."))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        // Opens once the command reads.
        let input = OpenOptions::new().write(true).open(sandbox.path("in")).expect("a pipe");
        Self { child, input }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }
}

#[test]
fn a_signal_removes_what_was_not_yet_written_wherever_a_command_is() {
    for command in ["import in -o out.json", "fit in -o out.json", "export in --to svg -o out.json"]
    {
        for (signal, code) in signals() {
            let sandbox = Sandbox::new();
            let waiting = Waiting::on(&sandbox, &format!("exec \"$0\" {command}"));
            let [temporary, _] = sandbox.files().try_into().expect("a file beside the pipe");
            assert!(temporary.starts_with(".out.json.tmp"), "{temporary}");
            waiting.signal(signal);
            let status = waiting.child.wait_with_output().expect("it ends").status;
            assert_eq!(
                (status.code(), sandbox.files()),
                (Some(code), vec!["in".into()]),
                "{command}"
            );
        }
    }
}

/// As `nohup` starts it.
#[test]
fn a_command_that_is_to_outlive_its_terminal_does() {
    let (sandbox, trace) = with_trace();
    let recording = sandbox.text(RECORDING);
    let shell = "trap '' HUP; exec \"$0\" import in --network small -o out.json";
    let mut waiting = Waiting::on(&sandbox, shell);
    waiting.signal("-HUP");
    waiting.input.write_all(recording.as_bytes()).expect("it reads");
    drop(waiting.input);
    let ended = waiting.child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let ops = |text: &str| Trace::from_json(text, "a".as_ref()).expect("a trace").ops;
    assert_eq!(ops(&sandbox.text("out.json")), ops(&trace));
}
