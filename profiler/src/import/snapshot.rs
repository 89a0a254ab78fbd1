//! Snapshots of PyTorch's CUDA memory: segments and blocks as they are at the end, and what was
//! allocated and freed before. They hold no ops, so that no trace can be made of them.

mod pickle;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use self::pickle::{Id, Pickle};
use super::error::{ImportError, quoted};
use super::figures::{Figures, Holder};
use super::format::Format;
use super::recording::Recording;
use super::reserved::{Change, Segment, from_empty, resumed};

/// How many places are listed of those that hold memory at the peak.
const LISTED: usize = 10;

pub(super) fn import(bytes: &[u8], path: &Path) -> Result<Recording, ImportError> {
    let error = ImportError::content(path, Format::MemorySnapshot);
    let pickle = Pickle::read(bytes).map_err(error)?;
    let segments = pickle.get(pickle.root, "segments");
    let traces = pickle.get(pickle.root, "device_traces");
    // `torch.cuda.memory_snapshot()` returns the list of segments alone.
    let segments = pickle.list(segments.unwrap_or(pickle.root));
    let traces = traces.map_or(&[][..], |traces| pickle.list(traces));
    if segments.is_empty() && traces.iter().all(|trace| pickle.list(*trace).is_empty()) {
        return Err(error(
            "it has neither segments nor a history: write one with torch.cuda.memory._dump_snapshot".into(),
        ));
    }
    let mut devices: BTreeMap<i64, Device> = BTreeMap::new();
    for segment in segments {
        let device = pickle.whole(*segment, "device").unwrap_or(0);
        devices.entry(device).or_default().segments.push(*segment);
    }
    for (device, trace) in traces.iter().enumerate() {
        let events = pickle.list(*trace);
        if !events.is_empty() {
            devices.entry(device as i64).or_default().events = events;
        }
    }
    let many = devices.len();
    let most = devices.iter().max_by_key(|(number, device)| {
        (device.events.len(), device.reserved(&pickle), std::cmp::Reverse(**number))
    });
    let Some((number, device)) = most else {
        return Err(error("it has no device: record it again".into()));
    };
    let mut figures = device.replay(&pickle);
    if many > 1 {
        figures.notes.push(format!("device {number} of {many} is taken, the one with most events"));
    }
    figures.notes.push(
        "a memory snapshot has no ops, so that it makes no trace: to plan, record the same run with \
         torch.profiler (record_shapes=True, profile_memory=True) or as an execution trace"
            .into(),
    );
    Ok(Recording { format: Format::MemorySnapshot, trace: None, figures })
}

#[derive(Default)]
struct Device<'a> {
    segments: Vec<Id>,
    events: &'a [Id],
}

struct Live {
    bytes: u64,
    frames: Option<Id>,
}

impl Device<'_> {
    fn reserved(&self, pickle: &Pickle) -> i128 {
        let size = |segment: &Id| pickle.whole(*segment, "total_size").unwrap_or(0).max(0);
        self.segments.iter().map(|segment| i128::from(size(segment))).sum()
    }

    fn at_end(&self, pickle: &Pickle) -> HashMap<i64, Live> {
        let mut live = HashMap::new();
        for segment in &self.segments {
            let mut address = pickle.whole(*segment, "address").unwrap_or(0);
            let blocks =
                pickle.get(*segment, "blocks").map_or(&[][..], |blocks| pickle.list(blocks));
            for block in blocks {
                let size = pickle.whole(*block, "size").unwrap_or(0).max(0);
                address = pickle.whole(*block, "address").unwrap_or(address);
                let state = pickle.get(*block, "state").and_then(|state| pickle.text(state));
                if state == Some("active_allocated") {
                    // Old versions keep stacks in a history.
                    let history = pickle.get(*block, "history");
                    let first = history.and_then(|history| pickle.list(history).first().copied());
                    let frames = pickle.get(*block, "frames");
                    let frames = frames.or_else(|| pickle.get(first?, "frames"));
                    live.insert(address, Live { bytes: size.unsigned_abs(), frames });
                }
                address = address.saturating_add(size);
            }
        }
        live
    }

    /// The curves of what was allocated and reserved, from what is there at the end backwards to the
    /// start and then forward; and what held most where the first was highest.
    fn replay(&self, pickle: &Pickle) -> Figures {
        let mut figures = Figures::default();
        let at_end = self.at_end(pickle);
        let sum = |live: &HashMap<i64, Live>| {
            live.values().map(|one| i128::from(one.bytes)).sum::<i128>()
        };
        let events: Vec<Event> =
            self.events.iter().filter_map(|event| Event::of(pickle, *event)).collect();
        let passed_over = self.events.len() - events.len();
        let (allocated, reserved, _) = curve(&events, 0, 0);
        let base = sum(&at_end) - allocated.last;
        let reserved_base = self.reserved(pickle) - reserved.last;
        let off = base < 0 || reserved_base < 0;
        let (base, reserved_base) = (base.max(0), reserved_base.max(0));
        let (allocated, reserved, frees_alone) = curve(&events, base, reserved_base);
        let over = count_over(&events);
        figures.allocations =
            events.iter().filter(|event| event.action == Action::Allocate).count() as u64;
        figures.frees = events.iter().filter(|event| event.action == Action::Free).count() as u64;
        figures.unmatched = frees_alone + over;
        figures.recorded_peak_bytes = u64::try_from(allocated.most).ok();
        figures.reserved_peak_bytes = u64::try_from(reserved.most).ok();
        self.predict(pickle, &events, &at_end, &mut figures);
        figures.at_peak = self.holders(pickle, &events[..allocated.at], &at_end, base);
        let notes = &mut figures.notes;
        let mut note = |applies: bool, text: String| notes.extend(applies.then_some(text));
        note(
            events.is_empty(),
            "it has no history, so that the peak is what is there at the end: record with \
            torch.cuda.memory._record_memory_history()"
                .into(),
        );
        note(
            !events.is_empty(),
            format!(
                "the most that was allocated is at event {} of {}; {} bytes were there before the first, and {} \
             at the end, in {} segments of {} bytes",
                allocated.at,
                events.len(),
                base,
                sum(&at_end),
                self.segments.len(),
                self.reserved(pickle)
            ),
        );
        note(
            frees_alone > 0,
            format!("{frees_alone} frees have no allocation in the history, which may begin later"),
        );
        note(over > 0, format!("{over} allocations lie where one was that is never freed"));
        note(
            off,
            "the history frees more than there was: what is there at the end contradicts it".into(),
        );
        note(
            passed_over > 0,
            format!("{passed_over} events without an action, an address or a size are left out"),
        );
        figures
    }

    /// What the model of the allocator makes of the history: from the segments and blocks that were there
    /// before it, which follow from those at the end, and from nothing but what was allocated.
    fn predict(
        &self,
        pickle: &Pickle,
        events: &[Event],
        at_end: &HashMap<i64, Live>,
        figures: &mut Figures,
    ) {
        if events.is_empty() {
            return;
        }
        let (mut segments, mut expandable) = (BTreeMap::new(), false);
        for segment in &self.segments {
            let whole = |key: &str| pickle.whole(*segment, key).map_or(0, i64::unsigned_abs);
            let kind = pickle.get(*segment, "segment_type").and_then(|kind| pickle.text(kind));
            let small = kind == Some("small");
            segments.insert(whole("address"), Segment { bytes: whole("total_size"), small });
        }
        let mut live: BTreeMap<u64, u64> =
            at_end.iter().map(|(address, one)| (address.unsigned_abs(), one.bytes)).collect();
        for event in events.iter().rev() {
            let address = event.address.unsigned_abs();
            expandable |= event.mapped;
            match event.action {
                Action::Allocate => drop(live.remove(&address)),
                Action::Free => drop(live.insert(address, event.bytes)),
                Action::Reserve => drop(segments.remove(&address)),
                Action::GiveBack => {
                    let small = event.bytes <= 2 << 20;
                    segments.insert(address, Segment { bytes: event.bytes, small });
                }
                Action::Other => {}
            }
        }
        let changes: Vec<Change> = events.iter().filter_map(Event::change).collect();
        if expandable {
            let note = "its segments grow (expandable_segments), which the model of the allocator does not";
            figures.notes.push(note.into());
        } else if let Some((bytes, alike)) = resumed(&segments, &live, &changes) {
            figures.predicted_reserved_bytes = Some(bytes);
            figures.placed_alike = Some(alike);
        }
        // What is freed before anything is allocated takes no memory from what comes later.
        for (address, _) in changes.iter().take_while(|change| change.1 < 0) {
            live.remove(address);
        }
        figures.reserved_from_empty_bytes = from_empty(live, &changes);
    }

    /// What was live after some events, by the place in the program that allocated it.
    fn holders(
        &self,
        pickle: &Pickle,
        events: &[Event],
        at_end: &HashMap<i64, Live>,
        base: i128,
    ) -> Vec<Holder> {
        let mut live: HashMap<i64, Live> = HashMap::new();
        let mut freed_before = 0i128;
        for event in events {
            match event.action {
                Action::Allocate => {
                    let one = Live { bytes: event.bytes, frames: event.frames };
                    live.insert(event.address, one);
                }
                Action::Free if live.remove(&event.address).is_none() => {
                    freed_before += i128::from(event.bytes);
                }
                _ => {}
            }
        }
        let mut places: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut add = |place: String, count: u64, bytes: u64| {
            let sums = places.entry(place).or_default();
            sums.0 += count;
            sums.1 = sums.1.saturating_add(bytes);
        };
        for one in live.values() {
            add(place(pickle, one.frames), 1, one.bytes);
        }
        // Of what was there before the history, what is still there at the end has a place.
        let mut before = base - freed_before;
        if self.events.is_empty() {
            for one in at_end.values() {
                add(place(pickle, one.frames), 1, one.bytes);
                before -= i128::from(one.bytes);
            }
        }
        if let Some(bytes) = u64::try_from(before).ok().filter(|bytes| *bytes > 0) {
            add("from before the history".into(), 1, bytes);
        }
        let holder = |(place, (allocations, bytes))| Holder { place, allocations, bytes };
        let mut holders: Vec<Holder> = places.into_iter().map(holder).collect();
        holders.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.place.cmp(&other.place)));
        holders.truncate(LISTED);
        holders
    }
}

/// The innermost frame that is the user's, or else any.
fn place(pickle: &Pickle, frames: Option<Id>) -> String {
    let frames = frames.map_or(&[][..], |frames| pickle.list(frames));
    let text = |frame: Id, key: &str| {
        pickle.get(frame, key).and_then(|text| pickle.text(text)).unwrap_or("")
    };
    let is_own = |frame: &&Id| {
        let file = text(**frame, "filename");
        file.ends_with(".py") && !file.contains("/torch/")
    };
    match frames.iter().find(is_own).or(frames.first()) {
        Some(frame) => {
            let line = pickle.whole(*frame, "line").unwrap_or(0);
            quoted(&format!("{}:{line} {}", text(*frame, "filename"), text(*frame, "name")))
        }
        None => "an unstated place".into(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allocate,
    Free,
    Reserve,
    GiveBack,
    Other,
}

struct Event {
    action: Action,
    address: i64,
    bytes: u64,
    frames: Option<Id>,
    /// Whether it is of a segment that grows.
    mapped: bool,
}

impl Event {
    fn change(&self) -> Option<Change> {
        let bytes = i64::try_from(self.bytes).ok()?;
        match self.action {
            Action::Allocate => Some((self.address.unsigned_abs(), bytes)),
            Action::Free => Some((self.address.unsigned_abs(), -bytes)),
            _ => None,
        }
    }

    fn of(pickle: &Pickle, event: Id) -> Option<Self> {
        let name = pickle.text(pickle.get(event, "action")?)?;
        let action = match name {
            "alloc" => Action::Allocate,
            // `free_completed` follows each, when all streams are done with it.
            "free_requested" | "free" => Action::Free,
            "segment_alloc" | "segment_map" => Action::Reserve,
            "segment_free" | "segment_unmap" => Action::GiveBack,
            _ => Action::Other,
        };
        let known = action != Action::Other;
        let size = pickle.whole(event, "size").filter(|size| (0..1 << 60).contains(size));
        // An `oom` has a size, but no address.
        let address = pickle.whole(event, "addr");
        Some(Self {
            action,
            address: if known { address? } else { 0 },
            // The history states what was asked for; the allocator rounds that up.
            bytes: if known { size?.unsigned_abs().next_multiple_of(512) } else { 0 },
            frames: pickle.get(event, "frames"),
            mapped: matches!(name, "segment_map" | "segment_unmap"),
        })
    }
}

struct Curve {
    last: i128,
    most: i128,
    /// How many events lead to the most.
    at: usize,
}

impl Curve {
    fn add(&mut self, bytes: i128, at: usize) {
        self.last += bytes;
        if self.last > self.most {
            (self.most, self.at) = (self.last, at);
        }
    }
}

/// What is allocated and what is reserved, and how many frees have no allocation.
fn curve(events: &[Event], base: i128, reserved_base: i128) -> (Curve, Curve, u64) {
    let mut allocated = Curve { last: base, most: base, at: 0 };
    let mut reserved = Curve { last: reserved_base, most: reserved_base, at: 0 };
    let mut live: HashMap<i64, u64> = HashMap::new();
    let mut alone = 0;
    for (index, event) in events.iter().enumerate() {
        let bytes = i128::from(event.bytes);
        match event.action {
            Action::Allocate => {
                live.insert(event.address, event.bytes);
                allocated.add(bytes, index + 1);
            }
            Action::Free => {
                alone += u64::from(live.remove(&event.address).is_none());
                allocated.add(-bytes, index + 1);
            }
            Action::Reserve => reserved.add(bytes, index + 1),
            Action::GiveBack => reserved.add(-bytes, index + 1),
            Action::Other => {}
        }
    }
    (allocated, reserved, alone)
}

/// Allocations where one was that the history does not free.
fn count_over(events: &[Event]) -> u64 {
    let mut live = std::collections::HashSet::new();
    let mut over = 0;
    for event in events {
        match event.action {
            Action::Allocate => over += u64::from(!live.insert(event.address)),
            Action::Free => drop(live.remove(&event.address)),
            _ => {}
        }
    }
    over
}
