//! Every reader under broken input: whatever the bytes, it returns, and takes no memory that the
//! bytes do not justify; and what it accepts can be used.
//!
//! Inputs are those of `readers`, and those that once broke a reader (`corpus/READER/`), changed at
//! random from a seed. `cargo test --test fuzz` runs some hundred cases of each reader in half a
//! minute; `TIDEGATE_FUZZ_SECONDS=600 cargo test --test fuzz -- plan trace` runs these two for ten
//! minutes each, watches for cases that do not end, and says which took longest. A failure names
//! its seed, and its input is kept; `TIDEGATE_SEED=N TIDEGATE_CASES=1` replays it. Built as tests
//! are, arithmetic that overflows panics.

mod codec_readers;
mod mutate;
mod readers;
mod table_readers;
mod watch;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use runtime::network::Random;

use crate::mutate::mutated;
use crate::readers::{Reader, readers};
use crate::watch::{Failure, Watch};

/// Cases of a reader where nobody asks for more.
const CASES: u64 = 300;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_named =
        |reader: &&Reader| named.is_empty() || named.iter().any(|name| name == reader.name);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("TIDEGATE_FUZZ_SECONDS");
    // A long run goes where no other has been.
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs() << 24);
    let course = Course {
        first: number("TIDEGATE_SEED").unwrap_or(if seconds.is_some() { now } else { 0 }),
        cases: number("TIDEGATE_CASES"),
        length: seconds.map(Duration::from_secs),
    };
    let watch = Watch::begin(seconds.is_some());
    let failures: usize =
        readers().iter().filter(is_named).map(|reader| course.run(reader, &watch)).sum();
    ExitCode::from(u8::from(failures > 0))
}

struct Course {
    /// The first seed; those that follow are next.
    first: u64,
    cases: Option<u64>,
    /// How long each reader has; without it, cases are counted.
    length: Option<Duration>,
}

impl Course {
    /// Tries a reader, and says how often it failed.
    fn run(&self, reader: &Reader, watch: &Watch) -> usize {
        let kept = kept(reader.name);
        let corpus: Vec<Vec<u8>> = reader.corpus.iter().cloned().chain(kept).collect();
        let most = self.cases.unwrap_or(if self.length.is_some() { u64::MAX } else { CASES });
        let begin = Instant::now();
        let mut failures = BTreeSet::new();
        let (mut done, mut accepted, mut longest) = (0, 0u64, (Duration::ZERO, 0));
        if self.cases.is_none() {
            for (index, input) in corpus.iter().enumerate() {
                let why = match watch.case(reader, u64::MAX, input).1 {
                    Err(Failure(why)) => why,
                    // What nothing follows from finds nothing.
                    Ok(false) if index < reader.corpus.len() => "is not accepted".into(),
                    Ok(_) => continue,
                };
                println!("{}: input {index} of the corpus: {why}", reader.name);
                failures.insert(why);
            }
        }
        while done < most && self.length.is_none_or(|length| begin.elapsed() < length) {
            let seed = self.first.wrapping_add(done);
            let input = mutated(reader.form, &corpus, &mut Random::new(seed));
            let (took, outcome) = watch.case(reader, seed, &input);
            longest = longest.max((took, seed));
            accepted += u64::from(matches!(outcome, Ok(true)));
            if let Err(Failure(why)) = outcome {
                // Each kind once: what broke one case breaks thousands.
                if failures.insert(why.clone()) {
                    let file = file_of(reader.name, seed);
                    let _ = std::fs::write(&file, &input);
                    println!("{}: seed {seed}: {why}\n    input: {}", reader.name, file.display());
                }
            }
            done += 1;
        }
        let seconds = match self.length {
            Some(_) => {
                let (longest, seed) = longest;
                let seconds = begin.elapsed().as_secs();
                format!(" in {seconds} s, the longest {longest:.1?} (seed {seed})")
            }
            None => String::new(),
        };
        println!(
            "{}: {done} cases{seconds}, {accepted} accepted, {} kinds of failures",
            reader.name,
            failures.len()
        );
        failures.len()
    }
}

/// Inputs that broke the reader once.
fn kept(reader: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(reader);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("readable")).collect()
}

/// Where the input of a failure is kept.
fn file_of(reader: &str, seed: u64) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{reader}-{seed}"))
}
