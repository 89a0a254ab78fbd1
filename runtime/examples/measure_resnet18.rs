//! Measures a training iteration of ResNet-18 on this machine's processor and writes it as a
//! trace: `cargo run --release -p tidegate-runtime --example measure_resnet18 -- --batch 16
//! --image 112 -o resnet18.json`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use runtime::network::ResNet;
use runtime::profile::Profiler;
use schema::{Document, Nanos};

const USAGE: &str = "measure_resnet18 [--batch N] [--image N] [--warmup N] [--repeats N] \
                     [--seed N] [--date YYYY-MM-DD] -o FILE";

struct Arguments {
    batch: usize,
    image: usize,
    profiler: Profiler,
    date: String,
    output: PathBuf,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    match measure(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { batch, image, profiler, date, output } = arguments;
    let network = ResNet::resnet18(batch, image).build("resnet18")?;
    let mut done = 0;
    let profile = profiler.measure(&network, || {
        done += 1;
        if std::io::stderr().is_terminal() {
            eprint!("\riteration {done} of {}", profiler.warmup + profiler.repeats);
            let _ = std::io::stderr().flush();
        }
    })?;
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let source = format!(
        "cargo run --release -p tidegate-runtime --example measure_resnet18 -- --batch {batch} \
         --image {image} --warmup {} --repeats {} --seed {}",
        profiler.warmup, profiler.repeats, profiler.seed
    );
    let trace = profile.trace(&network, source, Some(date));
    trace.check()?;
    trace.write(&output)?;

    let nothing = Nanos::ZERO;
    let fastest = profile.iterations.iter().min().unwrap_or(&nothing);
    let slowest = profile.iterations.iter().max().unwrap_or(&nothing);
    eprintln!("{} ops, {} tensors", trace.ops.len(), trace.tensors.len());
    eprintln!("time: {} (iterations: {fastest} to {slowest})", trace.total_time());
    eprintln!("peak: {}, of which constants {}", profile.peak, trace.constant_bytes());
    eprintln!("losses: {:.4?}", profile.losses);
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        batch: 16,
        image: 112,
        profiler: Profiler { warmup: 2, repeats: 11, seed: 1 },
        date: today(),
        output: PathBuf::new(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--batch" => parsed.batch = number()?,
            "--image" => parsed.image = number()?,
            "--warmup" => parsed.profiler.warmup = number()?,
            "--repeats" => parsed.profiler.repeats = number()?,
            "--seed" => parsed.profiler.seed = number()? as u64,
            "--date" => parsed.date = value,
            "-o" => parsed.output = value.into(),
            _ => return Err(format!("{name} is unknown")),
        }
    }
    if parsed.output.as_os_str().is_empty() {
        return Err("-o FILE is missing".into());
    }
    Ok(parsed)
}

/// Today's date in UTC.
fn today() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of_day(since_1970.as_secs() / 86_400)
}

/// The date of a day counted from 1970-01-01. Years begin in March here, so that the leap day is
/// the last of its year (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date_of_day(day: u64) -> String {
    let day = day + 719_468; // from 0000-03-01
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, wraps) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + wraps)
}
