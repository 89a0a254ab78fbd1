//! What ends the command from outside: Ctrl-C, `kill`, a terminal that is closed.
//!
//! No computation has to listen. A thread of its own hears the signal, removes temporary files and
//! ends the process, unless a search runs that ends by itself with what it has; that is waited for, with a
//! word on a terminal where it takes longer than a moment. After a second signal nothing is waited for.

use std::io::{self, IsTerminal};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{Builder, sleep};
use std::time::Duration;

use runtime::device::Stop;
use schema::remove_temporary_files;

use crate::exit::Exit;
use crate::output::tell;

static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);
/// Whether something runs that ends by itself when it is asked to.
static ENDS_ITSELF: AtomicBool = AtomicBool::new(false);
/// The exit code of the first signal; 0 before.
static CODE: AtomicU8 = AtomicU8::new(0);

/// Hears signals from here on.
#[cfg(unix)]
pub fn listen() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    // `nohup` has the command outlive its terminal.
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| *s != SIGHUP || !is_ignored(*s));
    let mut signals = signal_hook::iterator::Signals::new(heard)?;
    let listening = move || signals.forever().for_each(|signal| hear(128 + signal as u8));
    Builder::new().name("signals".into()).spawn(listening).map(drop)
}

/// Ctrl-C ends the process, wherever it is.
#[cfg(not(unix))]
pub fn listen() -> io::Result<()> {
    Ok(())
}

/// Whether a signal is ignored already. Asking ignores it, until there is a handler.
#[cfg(unix)]
#[allow(unsafe_code, reason = "no safe function asks what a signal does")]
fn is_ignored(signal: i32) -> bool {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    let Ok(signal) = Signal::try_from(signal) else { return false };
    // SAFETY: ignoring runs no code, and what was there before is only looked at.
    let before = unsafe { sigaction(signal, &ignore) };
    before.is_ok_and(|before| matches!(before.handler(), SigHandler::SigIgn))
}

#[cfg(unix)]
fn hear(code: u8) {
    let is_first = CODE.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok();
    STOP.request();
    let waits = is_first && ENDS_ITSELF.load(Ordering::Acquire);
    let wait = || {
        sleep(Duration::from_millis(1500));
        if io::stderr().is_terminal() {
            // A terminal may be what does not move: it holds nothing up.
            let say = || tell("ending with what is done; once more, and it ends at once\n");
            Builder::new().spawn(say).ok();
        }
        // A search may be about to place a large plan's buffers.
        sleep(Duration::from_secs(8));
        end();
    };
    if !waits || Builder::new().spawn(wait).is_err() {
        end();
    }
}

/// Ends the process. Without a word: whoever reads may be what does not move.
#[cfg(unix)]
fn end() -> ! {
    remove_temporary_files();
    signal_hook::low_level::exit(exit_code().into())
}

/// From here on the first signal ends what runs rather than the process, for as long as that takes no
/// more than a moment.
pub fn end_by_ourselves() {
    ENDS_ITSELF.store(true, Ordering::Release);
}

pub fn interrupted() -> bool {
    STOP.is_requested()
}

/// Stops devices at a signal.
pub fn stop() -> Stop {
    STOP.clone()
}

/// The exit code of a command that was interrupted: 128 and the signal's number.
pub fn exit_code() -> u8 {
    match CODE.load(Ordering::Acquire) {
        0 => Exit::Interrupted as u8,
        code => code,
    }
}
