//! Runs single cases: catches panics, counts memory, and ends what does not end.

#![allow(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::readers::Reader;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// No case needs as much at once: an allocation of it fails.
const LARGEST: usize = 8 << 30;

struct Counting;

impl Counting {
    fn more(bytes: usize) {
        let now = IN_USE.fetch_add(bytes, Relaxed) + bytes;
        MOST.fetch_max(now, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        Self::more(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        Self::more(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > LARGEST {
            return std::ptr::null_mut();
        }
        Self::more(size);
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory that any input may take, and what it may take for each of its bytes.
const ALLOWANCE: usize = 64 << 20;
const PER_BYTE: usize = 64;

/// A case that runs longer than this does not end.
const ENDLESS: Duration = Duration::from_secs(60);

pub struct Failure(pub String);

pub struct Watch {
    begin: Instant,
    /// Milliseconds after `begin` at which the case began that runs, and 0 where none does.
    running: Arc<AtomicU64>,
    /// The case that runs: what an abort leaves behind.
    current: Mutex<std::fs::File>,
    panicked: Arc<Mutex<String>>,
}

impl Watch {
    /// Begins; ends the process where a case is `timed` and does not end.
    pub fn begin(timed: bool) -> Self {
        let panicked = Arc::new(Mutex::new(String::new()));
        let said = Arc::clone(&panicked);
        std::panic::set_hook(Box::new(move |panic| {
            *said.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = panic.to_string();
        }));
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("fuzz-current-{}", std::process::id()));
        let current = Mutex::new(std::fs::File::create(file).expect("there is room"));
        let watch = Self { begin: Instant::now(), running: Arc::default(), current, panicked };
        if timed {
            let (begin, running) = (watch.begin, Arc::clone(&watch.running));
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                    let since = Duration::from_millis(running.load(Relaxed));
                    if since > Duration::ZERO && begin.elapsed().saturating_sub(since) > ENDLESS {
                        println!("a case does not end: {}", current_text());
                        std::process::exit(1);
                    }
                }
            });
        }
        watch
    }

    /// Runs a case, and says how long it took and whether the reader accepted it.
    pub fn case(
        &self,
        reader: &Reader,
        seed: u64,
        input: &[u8],
    ) -> (Duration, Result<bool, Failure>) {
        let note = format!("{} {seed}          \n", reader.name);
        let current = self.current.lock().expect("nobody panics with it");
        write_at_start(&current, note.as_bytes());
        let begin = Instant::now();
        self.running.store(self.begin.elapsed().as_millis().max(1) as u64, Relaxed);
        let before = IN_USE.load(Relaxed);
        MOST.store(before, Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| (reader.read)(input)));
        let most = MOST.load(Relaxed).saturating_sub(before);
        self.running.store(0, Relaxed);
        let allowed = ALLOWANCE + PER_BYTE * input.len();
        let outcome = match outcome {
            Err(_) => Err(Failure(self.panicked.lock().expect("nobody panics with it").clone())),
            Ok(_) if most > allowed => {
                let mib = most.next_power_of_two() >> 20;
                Err(Failure(format!("takes up to {mib} MiB, more than its bytes justify")))
            }
            Ok(accepted) => Ok(accepted),
        };
        (begin.elapsed(), outcome)
    }
}

fn current_text() -> String {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("fuzz-current-{}", std::process::id()));
    std::fs::read_to_string(file).unwrap_or_default()
}

fn write_at_start(mut file: &std::fs::File, bytes: &[u8]) {
    use std::io::{Seek, SeekFrom, Write};
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(bytes));
}
