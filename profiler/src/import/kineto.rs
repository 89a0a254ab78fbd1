//! Files of PyTorch's profiler (Kineto): ops with the kernels that they launched, and what the
//! allocator did meanwhile.
//!
//! Who reads what is not in them. It follows from the sizes of ops' inputs, as far as they were
//! recorded ([`live`]); a storage of which no use is known is memory that ops need beside their
//! tensors, for as long as it was there, and an op whose inputs are not known cannot run again.

pub(super) mod file;
mod flow;
mod live;
mod pairs;
pub(super) mod units;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use schema::{Role, Tensor};

use self::file::{File, Memory};
use self::flow::{Flow, flow};
use self::pairs::pair_up;
use self::units::{KernelOp, Linked, Nesting, link};
use super::error::ImportError;
use super::figures::{Figures, Step};
use super::format::Format;
use super::recording::{ImportOptions, Recording, of_pytorch};
use super::storages::tensors_and_ops;

/// What one iteration is: a part of the time, and its number.
pub(super) struct Window {
    pub number: u64,
    pub time: Range<i64>,
}

/// Imports a file; the caller checks the trace.
pub(super) fn import(
    bytes: &[u8],
    path: &Path,
    options: &ImportOptions,
) -> Result<Recording, ImportError> {
    let error = ImportError::content(path, Format::Kineto);
    let file = File::read(bytes).map_err(ImportError::json(path))?;
    let nesting = Nesting::new(&file);
    let linked = link(&file, &nesting);
    if linked.ops.is_empty() {
        return Err(error(
            "it has no op that ran: record with torch.profiler and activities for CPU and CUDA"
                .into(),
        ));
    }
    let (memory, other) = memory_of(&file);
    let windows = windows(&file, &linked);
    let mut figures = Figures { kernels: Some(linked.kernels), ..Figures::default() };
    figures.unlinked_kernels = Some(linked.unlinked);
    let replayed = pair_up(&memory, &mut figures);
    let levels = levels(&memory, replayed.base);
    let steps = windows.iter().map(|window| step(window, &linked, &memory, &levels));
    figures.steps = steps.collect();
    let chosen = choose(&figures.steps, options.step).map_err(error)?;
    let window = &windows[chosen];
    let ops = part(&linked, window);
    let flow = flow(&file, &nesting, ops, &memory, &window.time, replayed.base);
    let mut notes = replayed.notes;
    let asked = options.step.is_some();
    notes.extend(notes_on(&file, &linked, &figures, (window, asked), &flow, other));
    if linked.ops.len() > ops.len() && windows.len() == 1 {
        let left = linked.ops.len() - ops.len();
        notes.push(format!("{left} ops with kernels lie outside of any step and are left out"));
    }
    figures.step = Some(window.number);
    figures.recorded_peak_bytes = (!memory.is_empty()).then_some(flow.peak);
    let (mut tensors, ops) = tensors_and_ops(&flow.storages, &flow.units);
    if flow.unused_before > 0 {
        let bytes = schema::Bytes(flow.unused_before);
        tensors.push(Tensor::new("memory from before the iteration", bytes, Role::Parameter));
    }
    let device = match file.kernels.is_empty() {
        true => "a processor".to_string(),
        false => device_name(&file, &memory),
    };
    let source = format!("step {} of a PyTorch profile", window.number);
    let trace = of_pytorch((path, options), (device, &source), notes, (tensors, ops));
    Ok(Recording { format: Format::Kineto, trace: Some(trace), figures })
}

pub(super) fn device_name(file: &File, memory: &[&Memory]) -> String {
    let number = memory.first().map_or(0, |event| event.device.max(0)) as usize;
    let name = file.devices.get(number).or(file.devices.first());
    name.filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| "an unstated device".into())
}

/// Memory of the device that has most of it, in order of time; and how many events other devices had.
pub(super) fn memory_of(file: &File) -> (Vec<&Memory>, usize) {
    let mut sums: BTreeMap<i64, u128> = BTreeMap::new();
    // The host's memory only counts where nothing ran elsewhere.
    let counts = |event: &&Memory| event.device >= 0 || file.kernels.is_empty();
    for event in file.memory.iter().filter(counts) {
        *sums.entry(event.device).or_default() += u128::from(event.bytes.unsigned_abs());
    }
    let on_device = sums.keys().any(|device| *device >= 0);
    let most = sums.iter().filter(|(device, _)| **device >= 0 || !on_device);
    let Some((device, _)) = most.max_by_key(|(device, sum)| (**sum, std::cmp::Reverse(**device)))
    else {
        return (Vec::new(), 0);
    };
    let mut memory: Vec<&Memory> =
        file.memory.iter().filter(|event| event.device == *device).collect();
    memory.sort_by_key(|event| event.time);
    let others = file.memory.iter().filter(|event| event.device >= 0 && event.device != *device);
    (memory, others.count())
}

/// The iterations: between marks of the profiler's, or else from one end of the optimizer's step to
/// the next; or all.
pub(super) fn windows(file: &File, linked: &Linked) -> Vec<Window> {
    let named = |prefix: &'static str| {
        let spans = file.spans.iter().filter(move |span| file.name(span.name).starts_with(prefix));
        let mut spans: Vec<_> = spans.collect();
        spans.sort_by_key(|span| span.start);
        spans
    };
    let mut windows: Vec<Window> = Vec::new();
    let marks = named("ProfilerStep#");
    for (index, mark) in marks.iter().enumerate() {
        let number = file.name(mark.name).trim_start_matches("ProfilerStep#").parse();
        // What is called between two steps belongs to the one before.
        let end = marks.get(index + 1).map_or(mark.end, |next| next.start);
        let number = number.unwrap_or(index as u64);
        windows.push(Window { number, time: mark.start..end });
    }
    if windows.is_empty() {
        let mut start = i64::MIN;
        for (index, mark) in named("Optimizer.step").iter().enumerate() {
            windows.push(Window { number: index as u64 + 1, time: start..mark.end });
            start = mark.end;
        }
    }
    windows.retain(|window| !part(linked, window).is_empty());
    if windows.is_empty() {
        windows.push(Window { number: 1, time: i64::MIN..i64::MAX });
    }
    windows
}

/// The ops of one iteration; all are in order of time.
pub(super) fn part<'a>(linked: &'a Linked, window: &Window) -> &'a [KernelOp] {
    let before = |time: i64| linked.ops.partition_point(|op| op.start < time);
    let (from, to) = (before(window.time.start), before(window.time.end));
    &linked.ops[from..to.max(from)]
}

/// What is allocated before the first event and after each.
pub(super) fn levels(memory: &[&Memory], base: u64) -> Vec<u64> {
    let mut levels = vec![base];
    for event in memory {
        levels.push(levels[levels.len() - 1].saturating_add_signed(event.bytes));
    }
    levels
}

pub(super) fn step(window: &Window, linked: &Linked, memory: &[&Memory], levels: &[u64]) -> Step {
    let before = |time: i64| memory.partition_point(|event| event.time < time);
    let (from, to) = (before(window.time.start), before(window.time.end));
    let peak = levels.get(from..=to.max(from)).and_then(|levels| levels.iter().max());
    let ops = part(linked, window).iter();
    Step {
        step: window.number,
        time_ns: ops.map(|op| op.duration).fold(0, u64::saturating_add),
        allocated_peak_bytes: peak.copied().filter(|_| !memory.is_empty()),
    }
}

/// The step that is asked for, or the median by time.
pub(super) fn choose(steps: &[Step], wanted: Option<u64>) -> Result<usize, String> {
    if let Some(wanted) = wanted {
        let found = steps.iter().position(|step| step.step == wanted);
        return found.ok_or_else(|| {
            let has = match steps {
                [one] => format!("step {}", one.step),
                [first, .., last] => format!("steps {} to {}", first.step, last.step),
                [] => "no steps".into(),
            };
            format!("it has no step {wanted}: it has {has}")
        });
    }
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|index| (steps[*index].time_ns, *index));
    Ok(order[(order.len() - 1) / 2])
}

fn notes_on(
    file: &File,
    linked: &Linked,
    figures: &Figures,
    (window, asked): (&Window, bool),
    flow: &Flow,
    other_devices: usize,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |applies: bool, text: String| notes.extend(applies.then_some(text));
    let steps = figures.steps.len();
    let why = if asked { "by --step" } else { "the median by time" };
    note(steps > 1, format!("of {steps} steps, number {} is taken, {why}", window.number));
    let shaped = file.spans.iter().any(|span| !span.inputs.is_empty());
    note(
        shaped,
        "what ops read is inferred from the sizes of their inputs, autograd's numbers and when memory \
         was given back: the recording does not state it"
            .into(),
    );
    note(
        !shaped,
        "the recording has no shapes, so that what ops read is not known and no tensor can be planned: \
         record with record_shapes=True"
            .into(),
    );
    note(
        figures.allocations == 0,
        "the recording has no memory events, so that its tensors are not known: record with \
         profile_memory=True"
            .into(),
    );
    note(
        flow.unknown.0 > 0,
        format!(
            "{} allocations of {} bytes, of which no use is known, are memory that ops need beside \
             their tensors for as long as they were there",
            flow.unknown.0, flow.unknown.1
        ),
    );
    note(
        flow.unknown_inputs > 0,
        format!(
            "{} ops have inputs that are not known; they cannot run again",
            flow.unknown_inputs
        ),
    );
    note(
        linked.unlinked > 0,
        format!(
            "{} kernels belong to no op that was recorded; each is an op of its own",
            linked.unlinked
        ),
    );
    note(
        linked.host_copy_time + linked.fill_time > 0,
        format!(
            "ops take what their kernels and copies within the device take; copies from and to the \
             host ({} ns in all steps) and fills ({} ns) are left out",
            linked.host_copy_time, linked.fill_time
        ),
    );
    note(
        linked.streams > 1,
        format!("kernels ran on {} streams; their ops are taken one after another", linked.streams),
    );
    note(
        file.kernels.is_empty(),
        "nothing ran on a device: ops take what they took on the host".into(),
    );
    note(
        other_devices > 0,
        format!("{other_devices} allocations and frees of other devices are left out"),
    );
    note(
        file.malformed > 0,
        format!("{} events without a time or a size are left out", file.malformed),
    );
    if let Some((rank, ranks)) = file.ranks {
        note(ranks > 1, format!("rank {rank} of {ranks} alone; its collectives cannot run again"));
    }
    let counts = shaped && flow.units.iter().any(|unit| unit.name.contains("batch_norm"));
    note(
        counts,
        "batch norms are taken as ones that can run again without counting their statistics twice"
            .into(),
    );
    notes
}

/// Times of the ops of one iteration, by what execution traces know them by, or in their order.
pub(super) fn times(file: &File, wanted: Option<u64>) -> Result<Times, String> {
    let nesting = Nesting::new(file);
    let linked = link(file, &nesting);
    let windows = windows(file, &linked);
    let steps: Vec<Step> = windows.iter().map(|window| step(window, &linked, &[], &[])).collect();
    let window = &windows[choose(&steps, wanted)?];
    let durations: HashMap<usize, u64> =
        linked.ops.iter().filter_map(|op| Some((op.span?, op.duration))).collect();
    let mut spans: Vec<usize> = nesting
        .outermost_ops()
        .filter(|span| window.time.contains(&file.spans[*span].start))
        .collect();
    spans.sort_by_key(|span| (file.spans[*span].start, *span));
    let ops = spans.into_iter().map(|span| TimedOp {
        name: file.name(file.spans[span].name).to_string(),
        function: file.spans[span].function,
        duration: durations.get(&span).copied().unwrap_or(0),
    });
    let device = device_name(file, &[]);
    Ok(Times { ops: ops.collect(), step: window.number, device })
}

/// Ops of a profile, as an execution trace needs them.
pub(super) struct Times {
    pub ops: Vec<TimedOp>,
    pub step: u64,
    pub device: String,
}

pub(super) struct TimedOp {
    pub name: String,
    pub function: Option<u64>,
    pub duration: u64,
}
