//! A timeline as a trace for the Perfetto UI (<https://ui.perfetto.dev>) and `chrome://tracing`.
//!
//! The format is the JSON of the Trace Event Format: complete events (`X`) on one thread per
//! lane, flow events (`s`, `t`, `f`) along each swapped tensor's way, counters (`C`) for memory.

use std::collections::HashMap;
use std::fmt::Write as _;

use schema::{ActionId, Interval, Lane, MemoryPoint, Nanos, Task, Timeline};
use serde_json::{Value, json};

/// The one process of the trace.
const PID: u32 = 1;

/// The timeline as a trace in JSON, one event per line.
///
/// The process is named after method, trace and machine, and has one thread per lane. Arguments of
/// an event say what it moved and how fast, and why its lane stood idle before it. Arrows lead
/// from a copy out to the copy in and on to the first op that reads the tensor. Times are
/// microseconds with three decimals, exact to the nanosecond.
///
/// Perfetto drops an event that begins before the last one on its lane has ended; a lane runs one
/// action at a time, so a timeline holds none.
pub fn perfetto(timeline: &Timeline) -> String {
    let mut events = Events::default();
    name_lanes(&mut events, timeline);
    let positions: HashMap<ActionId, usize> =
        timeline.intervals.iter().enumerate().map(|(i, interval)| (interval.action, i)).collect();
    let flows = flows(timeline, &positions);
    for (interval, flows) in timeline.intervals.iter().zip(&flows) {
        let waited_for = interval.stall.and_then(|stall| positions.get(&stall.on));
        let waited_for = waited_for.map(|&i| timeline.intervals[i].label.as_str());
        events.complete(interval, waited_for);
        // Readers bind a flow event to the slice that was opened last on its thread, so these
        // must follow their interval's own event.
        for flow in flows {
            events.flow(interval, *flow);
        }
    }
    count_memory(&mut events, timeline);
    let about = json!({
        "method": timeline.method,
        "trace": timeline.trace,
        "machine": timeline.machine,
        "iteration_ns": timeline.iteration,
        "peak_bytes": timeline.peak,
        "budget_bytes": timeline.budget,
    });
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[\n{}\n]}}\n",
        events.lines
    )
}

fn name_lanes(events: &mut Events, timeline: &Timeline) {
    let basis = format!("{:?}", timeline.basis).to_lowercase();
    let process = format!("{} ({basis})", timeline.title());
    events.metadata("process_name", 0, json!({ "name": process }));
    for lane in timeline.lanes() {
        let name = match lane {
            Lane::Compute => "compute",
            Lane::D2h => "d2h (copies out)",
            Lane::H2d => "h2d (copies in)",
            Lane::Codec => "codec",
            Lane::Host => "host (updates)",
            Lane::Net => "net",
        };
        events.metadata("thread_name", thread(lane), json!({ "name": name }));
        events.metadata("thread_sort_index", thread(lane), json!({ "sort_index": lane.index() }));
    }
}

/// Threads count from one: zero means "no thread" to some readers.
fn thread(lane: Lane) -> usize {
    lane.index() + 1
}

fn count_memory(events: &mut Events, timeline: &Timeline) {
    for &MemoryPoint { at, resident, in_flight } in &timeline.memory {
        events.counter("resident", at, resident.0);
        events.counter("in flight", at, in_flight.0);
    }
    // A counter is a step function that ends at its last event: a constant one needs two.
    for at in [Nanos::ZERO, timeline.iteration] {
        events.counter("budget", at, timeline.budget.0);
    }
}

/// A part of a tensor's way through host memory; the copy in gives the way its id.
#[derive(Clone, Copy)]
struct Flow {
    phase: &'static str,
    h2d: ActionId,
}

/// Ops and codecs read what was copied in.
fn is_use(lane: Lane) -> bool {
    matches!(lane, Lane::Compute | Lane::Codec | Lane::Net)
}

/// For each interval, the flows that touch it.
fn flows(timeline: &Timeline, positions: &HashMap<ActionId, usize>) -> Vec<Vec<Flow>> {
    let intervals = &timeline.intervals;
    let mut first_use = HashMap::new();
    for (i, interval) in intervals.iter().enumerate().filter(|(_, x)| is_use(x.lane)) {
        for &h2d in &interval.follows {
            first_use.entry(h2d).or_insert(i);
        }
    }
    let mut flows = vec![Vec::new(); intervals.len()];
    for (i, interval) in intervals.iter().enumerate().filter(|(_, x)| x.lane == Lane::H2d) {
        let d2h = interval.follows.iter().find_map(|action| positions.get(action).copied());
        let first_use = first_use.get(&interval.action).copied();
        let way: Vec<usize> = [d2h, Some(i), first_use].into_iter().flatten().collect();
        let last = way.len() - 1;
        if last == 0 {
            continue;
        }
        for (step, &at) in way.iter().enumerate() {
            let phase = match step {
                0 => "s",
                step if step == last => "f",
                _ => "t",
            };
            flows[at].push(Flow { phase, h2d: interval.action });
        }
    }
    flows
}

/// Lines of JSON, one event each.
#[derive(Default)]
struct Events {
    lines: String,
}

impl Events {
    fn metadata(&mut self, name: &str, thread: usize, args: Value) {
        self.line(format_args!(r#""ph":"M","name":"{name}","tid":{thread},"args":{args}"#));
    }

    fn complete(&mut self, interval: &Interval, waited_for: Option<&str>) {
        let name = Value::from(interval.label.as_str());
        self.line(format_args!(
            r#""ph":"X","cat":"{}","name":{name},"tid":{},"ts":{},"dur":{},"args":{}"#,
            kind(interval.task),
            thread(interval.lane),
            micros(interval.start),
            micros(interval.duration()),
            arguments(interval, waited_for),
        ));
    }

    /// Flow events lie at the start of their interval, where no neighbour can claim them.
    fn flow(&mut self, interval: &Interval, flow: Flow) {
        let binding = if flow.phase == "f" { r#","bp":"e""# } else { "" };
        self.line(format_args!(
            r#""ph":"{}","cat":"swap","name":"swap","id":{},"tid":{},"ts":{}{binding}"#,
            flow.phase,
            flow.h2d.0,
            thread(interval.lane),
            micros(interval.start),
        ));
    }

    fn counter(&mut self, name: &str, at: Nanos, bytes: u64) {
        let at = micros(at);
        self.line(format_args!(
            r#""ph":"C","name":"{name}","tid":0,"ts":{at},"args":{{"bytes":{bytes}}}"#
        ));
    }

    fn line(&mut self, fields: std::fmt::Arguments<'_>) {
        if !self.lines.is_empty() {
            self.lines.push_str(",\n");
        }
        write!(self.lines, r#"{{"pid":{PID},{fields}}}"#).expect("a string takes all text");
    }
}

fn kind(task: Task) -> &'static str {
    match task {
        Task::Run(_) => "run",
        Task::Recompute(_) => "recompute",
        Task::D2h(_) => "d2h",
        Task::H2d(_) => "h2d",
        Task::Compress(_) => "compress",
        Task::Decompress(_) => "decompress",
    }
}

fn arguments(interval: &Interval, waited_for: Option<&str>) -> Value {
    let mut args = serde_json::Map::new();
    args.insert("action".into(), interval.action.0.into());
    match interval.task {
        Task::Run(op) | Task::Recompute(op) => args.insert("op".into(), op.0.into()),
        Task::D2h(tensor)
        | Task::H2d(tensor)
        | Task::Compress(tensor)
        | Task::Decompress(tensor) => {
            args.insert("bytes".into(), interval.bytes.0.into());
            let per_sec = u128::from(interval.bytes.0) * 1_000_000_000;
            if let Some(bandwidth) = per_sec.checked_div(u128::from(interval.duration().0)) {
                let bandwidth = u64::try_from(bandwidth).unwrap_or(u64::MAX);
                args.insert("bytes_per_sec".into(), bandwidth.into());
            }
            args.insert("tensor".into(), tensor.0.into())
        }
    };
    if let Some(stall) = interval.stall {
        let cause = format!("{:?}", stall.cause).to_lowercase();
        args.insert("stall_cause".into(), cause.into());
        args.insert("stall_idle_ns".into(), stall.idle.0.into());
        args.insert("stall_on_action".into(), stall.on.0.into());
        if let Some(label) = waited_for {
            args.insert("stall_on".into(), label.into());
        }
    }
    Value::Object(args)
}

/// Microseconds with three decimals: every nanosecond has its own text, and no float is involved.
fn micros(at: Nanos) -> String {
    format!("{}.{:03}", at.0 / 1000, at.0 % 1000)
}

#[cfg(test)]
mod tests;
