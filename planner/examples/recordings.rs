//! How good `tide`'s plans are on recordings of the DTR prototype: against what DTR itself loses, and
//! against the bound that no plan can beat.
//!
//! ```sh
//! cargo run --release -p tidegate-planner --example recordings -- FOLDER
//! ```
//!
//! The folder holds op logs (`*.dtr.jsonl`). Every log is planned for 80 to 30 % of its in-core peak
//! on a Titan V: with recomputation alone, as DTR does; with swapping over PCIe 3; the same with
//! zero-value compression at half zeros; and over PCIe 5.
//!
//! `--families COUNT` plans as many made-up traces in place of recordings, of 500 to 5000 ops or of
//! those that `--ops 20-200` says, with other seeds after `--seed`. `--evaluations COUNT` limits
//! searches differently, `--only WORD` keeps to the variants with that word in their names,
//! and `--budgets 40,30` to these shares. `--bounds` plans nothing: a line has the bound and how long
//! that took. `--rivals` plans with all other methods, too, which takes some minutes, and names the
//! fastest of them; one that is faster than `tide` ends the run as a failure.
//!
//! A line is a plan: its slowdown, DTR's, the share of DTR's overhead that is left, the gap of its time
//! to the bound, and how long planning took. Below are the averages, and how many times the overhead of the
//! bound plans have. Every plan is proven safe before it is counted.

use std::path::{Path, PathBuf};
use std::time::Instant;

use planner::families::{self, Family};
use planner::methods::{Dtr, Method, Tide};
use planner::{Allowed, Bound, CodecOptions, Limits, NoMonitor, Problem, bound, plan, tightened};
use profiler::import::{ImportOptions, import};
use schema::{Bytes, CodecModels, Machine, Trace};
use simulator::in_core;

/// What a plan may do, and on which machine.
struct Variant {
    name: &'static str,
    machine: &'static str,
    swap: bool,
    codecs: Codecs,
}

#[derive(Clone, Copy, PartialEq)]
enum Codecs {
    None,
    Zvc,
    /// All that there are, lossy ones among them.
    All,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "recompute", machine: "titan-v", swap: false, codecs: Codecs::None },
    Variant { name: "joint", machine: "titan-v", swap: true, codecs: Codecs::None },
    Variant { name: "zvc", machine: "titan-v", swap: true, codecs: Codecs::Zvc },
    Variant { name: "pcie5", machine: "titan-v+pcie5", swap: true, codecs: Codecs::None },
    Variant { name: "codecs", machine: "rtx-3090", swap: true, codecs: Codecs::All },
    Variant { name: "in-place", machine: "titan-v", swap: false, codecs: Codecs::Zvc },
];

/// What is asked for.
struct Arguments {
    folder: PathBuf,
    limits: Limits,
    families: u64,
    ops: [u64; 2],
    seed: u64,
    only: String,
    budgets: Vec<u64>,
    rivals: bool,
    bounds: bool,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments = Arguments::read()?;
    let mut traces = made_up(&arguments)?;
    let folder = (traces.is_empty()).then(|| std::fs::read_dir(&arguments.folder)).transpose()?;
    for entry in folder.into_iter().flatten() {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".dtr.jsonl") {
            let text = std::fs::read_to_string(&path)?;
            traces.extend(import(&text, &path, None, &ImportOptions::default())?.trace);
        }
    }
    if arguments.families == 0 {
        traces.sort_by(|a, b| a.network.cmp(&b.network));
    }
    if traces.is_empty() {
        return Err(format!("no *.dtr.jsonl in {}", arguments.folder.display()).into());
    }
    let mut beaten = 0;
    for variant in VARIANTS.iter().filter(|variant| variant.name.contains(&arguments.only)) {
        let machine = scenarios::machine(variant.machine)?;
        println!("{}: {}, {}", variant.name, variant.machine, machine.link.name);
        let mut rows = Vec::new();
        for trace in &traces {
            for percent in &arguments.budgets {
                if arguments.bounds {
                    println!("{}", bounds(trace, &machine, variant, *percent, &arguments));
                    continue;
                }
                let row = row(trace, &machine, variant, *percent, &arguments)?;
                println!("{}", row.text);
                rows.push(row);
            }
        }
        if !arguments.bounds {
            println!("{}\n", summary(&rows));
        }
        beaten += rows.iter().filter(|row| row.beaten).count();
    }
    if beaten > 0 {
        return Err(format!("{beaten} plans are slower than another method's").into());
    }
    Ok(())
}

/// So many made-up traces: each family in turn, with other seeds.
fn made_up(arguments: &Arguments) -> Result<Vec<Trace>> {
    let Arguments { families: count, ops: [least, most], seed, .. } = *arguments;
    let all: Vec<Family> = families::all().collect();
    let name = |index: u64| {
        let of = all[index as usize % all.len()].name;
        let ops = least + (most - least) * (index * 7919 % count) / count;
        format!("{of}:seed={},ops={ops}", seed + index)
    };
    (0..count).map(|index| Ok(families::family(&name(index))?)).collect()
}

impl Arguments {
    fn read() -> Result<Self> {
        let mut arguments = Self {
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces"),
            limits: Limits::default(),
            families: 0,
            ops: [500, 5000],
            seed: 0,
            only: String::new(),
            budgets: vec![80, 70, 60, 50, 40, 30],
            rivals: false,
            bounds: false,
        };
        let mut given = std::env::args().skip(1);
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or(format!("{argument} wants a value"));
            match argument.as_str() {
                "--evaluations" => arguments.limits.evaluations = value()?.parse()?,
                "--families" => arguments.families = value()?.parse()?,
                "--seed" => arguments.seed = value()?.parse()?,
                "--ops" => {
                    let range = value()?;
                    let (least, most) = range.split_once('-').ok_or("--ops wants LEAST-MOST")?;
                    arguments.ops = [least.parse()?, most.parse()?];
                }
                "--rivals" => arguments.rivals = true,
                "--bounds" => arguments.bounds = true,
                "--only" => arguments.only = value()?,
                "--budgets" => {
                    let numbers = value()?;
                    let numbers = numbers.split(',').map(str::parse);
                    arguments.budgets = numbers.collect::<std::result::Result<_, _>>()?;
                }
                folder => arguments.folder = folder.into(),
            }
        }
        Ok(arguments)
    }
}

/// One plan.
struct Row {
    text: String,
    /// Share of DTR's overhead, where DTR has a plan.
    share: Option<f64>,
    /// The same of the bound: no plan has less.
    floor: Option<f64>,
    gap: Option<f64>,
    /// The overhead over the least that is proven, where that is more than none.
    over: Option<f64>,
    seconds: f64,
    /// Another method's plan is faster.
    beaten: bool,
}

fn problem<'a>(
    trace: &'a Trace,
    machine: &'a Machine,
    variant: &Variant,
    budget: Bytes,
) -> Problem<'a> {
    let mut problem = Problem::new(trace, machine, budget);
    let compress = variant.codecs != Codecs::None;
    if compress {
        let mut models: CodecModels = scenarios::codec_models(machine);
        let lossy = variant.codecs == Codecs::All;
        models.models.retain(|model| lossy || model.codec == "zvc");
        problem = problem.with_codecs(&models, CodecOptions { sparsity: Some(0.5), lossy });
    }
    problem.allowed = Allowed { swap: variant.swap, recompute: true, compress };
    problem
}

/// The bounds of one budget: overheads, and the time that the first took.
fn bounds(
    trace: &Trace,
    machine: &Machine,
    variant: &Variant,
    percent: u64,
    arguments: &Arguments,
) -> String {
    let base = in_core(trace);
    let mut problem = problem(trace, machine, variant, Bytes(base.peak.0 / 100 * percent));
    problem.limits = arguments.limits;
    let overhead = |bound: Bound| {
        let time = bound.time().map(|time| time.ratio(base.iteration) - 1.0);
        time.map_or("-".to_string(), |overhead| format!("{overhead:.4}"))
    };
    let begin = Instant::now();
    let first = bound(&problem);
    let taken = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let last = tightened(&problem, &NoMonitor);
    let longer = begin.elapsed().as_secs_f64();
    let name = &trace.network;
    format!(
        "  {name:<12} {percent} %: {} in {:.1} ms, {} in {longer:.2} s",
        overhead(first),
        1000.0 * taken,
        overhead(last)
    )
}

fn row(
    trace: &Trace,
    machine: &Machine,
    variant: &Variant,
    percent: u64,
    arguments: &Arguments,
) -> Result<Row> {
    let base = in_core(trace);
    let budget = Bytes(base.peak.0 / 100 * percent);
    let begin = Instant::now();
    let mut problem = problem(trace, machine, variant, budget);
    problem.limits = arguments.limits;
    let planned = plan(&Tide, &problem, &NoMonitor);
    let seconds = begin.elapsed().as_secs_f64();
    let slowdown = |time: u64| time as f64 / base.iteration.0 as f64;
    let dtr = Dtr::run(&problem, budget).ok().map(|run| slowdown(run.time.0));
    let bound = tightened(&problem, &NoMonitor).time();
    let (text, beaten) = (String::new(), false);
    let mut row = Row { text, share: None, floor: None, gap: None, over: None, seconds, beaten };
    let share = |slowdown: f64| dtr.map(|dtr| (slowdown - 1.0) / (dtr - 1.0));
    let shown = |number: Option<f64>| number.map_or("-".to_string(), |n| format!("{n:.4}"));
    let percents = |number: Option<f64>| {
        number.map_or("-".to_string(), |number| format!("{:.2}%", 100.0 * number))
    };
    let rival = arguments.rivals.then(|| fastest_rival(&problem)).flatten();
    row.beaten = rival.as_ref().is_some_and(|(time, _)| {
        planned.as_ref().map_or(true, |plan| *time < plan.predicted.iteration.0)
    });
    let mut ours = None;
    let mut why = String::new();
    match planned {
        Ok(plan) => {
            let time = plan.predicted.iteration;
            ours = Some(slowdown(time.0));
            row.share = share(slowdown(time.0));
            row.gap = bound.map(|bound| time.ratio(bound) - 1.0);
            let least = bound.map(|bound| slowdown(bound.0) - 1.0).filter(|least| *least > 0.0);
            row.over = least.map(|least| (slowdown(time.0) - 1.0) / least);
        }
        Err(error) => why = format!(", no plan: {error}"),
    }
    row.floor = bound.and_then(|bound| share(slowdown(bound.0)));
    row.text = format!(
        "  {:<12} {percent} %: {}, dtr {}, share {} (floor {}), gap {}, {seconds:.2} s{why}{}",
        trace.network,
        shown(ours),
        shown(dtr),
        percents(row.share),
        percents(row.floor),
        percents(row.gap),
        rival.map_or(String::new(), |(time, name)| format!(", {name} {:.4}", slowdown(time))),
    );
    Ok(row)
}

/// The fastest plan of all methods that a comparison takes, but for `tide`.
fn fastest_rival(problem: &Problem) -> Option<(u64, &'static str)> {
    let others = planner::methods::all()
        .into_iter()
        .filter(|method| method.name() != Tide.name() && !method.only_on_request());
    let time = |method: Box<dyn Method>| {
        let plan = plan(method.as_ref(), problem, &NoMonitor).ok()?;
        Some((plan.predicted.iteration.0, method.name()))
    };
    others.filter_map(time).min()
}

fn summary(rows: &[Row]) -> String {
    let mean = |values: Vec<f64>| 100.0 * values.iter().sum::<f64>() / values.len().max(1) as f64;
    let gaps: Vec<f64> = rows.iter().filter_map(|row| row.gap).collect();
    let worst = 100.0 * gaps.iter().copied().fold(0.0, f64::max);
    let over: Vec<f64> = rows.iter().filter_map(|row| row.over).collect();
    let over = match over.iter().copied().reduce(f64::max) {
        Some(worst) => {
            format!("{:.3} times its on average, {worst:.3} at worst", mean(over) / 100.0)
        }
        None => "none where it has none".to_string(),
    };
    let slowest = rows.iter().map(|row| row.seconds).fold(0.0, f64::max);
    format!(
        "  {} of {} planned; {:.2} % of DTR's overhead on average (no plan: below {:.2} %); gap to the \
         bound {:.2} % on average, {worst:.2} % at worst, overhead {over}; {slowest:.2} s at most",
        gaps.len(),
        rows.len(),
        mean(rows.iter().filter_map(|row| row.share).collect()),
        mean(rows.iter().filter(|row| row.share.is_some()).filter_map(|row| row.floor).collect()),
        mean(gaps.clone()),
    )
}
