//! What a recording says of itself, beside the trace that it makes.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::kineto::file::Memory;
use super::reserved::{from_before, from_empty};

/// Figures of a recording; what it does not know is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Allocations of the whole recording.
    pub allocations: u64,
    /// Frees of the whole recording.
    pub frees: u64,
    /// Frees without an allocation, and allocations where something was.
    pub unmatched: u64,
    /// Events after which the sum of allocations and frees is not what the recording states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals_off: Option<u64>,
    /// The most that was allocated at once, in the chosen step or, without steps, ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_peak_bytes: Option<u64>,
    /// The most that the allocator had reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_peak_bytes: Option<u64>,
    /// The most that the model of the allocator reserves ([`simulator::CachingAllocator`]), beginning with
    /// what was reserved when the recording began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_reserved_bytes: Option<u64>,
    /// The same in a process that begins with what was allocated then, and nothing else reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_from_empty_bytes: Option<u64>,
    /// Allocations that the model places where they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed_alike: Option<u64>,
    /// Kernels of the whole recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u64>,
    /// Those whose op was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlinked_kernels: Option<u64>,
    /// The step that became the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// All steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Ops of an execution trace, and those of them whose time a profile has under the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_ops: Option<TimedOps>,
    /// What held most at the peak, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_peak: Vec<Holder>,
    /// What had to be decided where there is no trace to say so.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// One iteration of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its number: the profiler's, or counted from 1.
    pub step: u64,
    /// What its ops take.
    pub time_ns: u64,
    /// The most that was allocated in it.
    pub allocated_peak_bytes: Option<u64>,
}

/// How well an execution trace and a profile agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimedOps {
    /// Ops of the trace.
    pub ops: u64,
    /// Those that the profile has, too.
    pub agree: u64,
}

/// Allocations of one place in the program that were live at the peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The place, innermost frame first.
    pub place: String,
    /// How many allocations.
    pub allocations: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// What a replay of all allocations shows.
pub(super) struct Replayed {
    /// What was allocated before the recording, as far as it shows.
    pub base: u64,
    pub notes: Vec<String>,
}

/// Pairs frees with allocations, by address where there are any and else by size, and holds the sums
/// against the totals that the recording states.
pub(super) fn pair_up(memory: &[&Memory], figures: &mut Figures) -> Replayed {
    let mut notes = Vec::new();
    let stated = memory
        .first()
        .and_then(|first| first.allocated.map(|total| total.saturating_add_signed(-first.bytes)));
    let mut addresses: HashMap<u64, u64> = HashMap::new();
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut sum, mut least) = (0i128, 0i128);
    let (mut frees_alone, mut over, mut off) = (0u64, 0u64, 0u64);
    for event in memory {
        let bytes = event.bytes.unsigned_abs();
        sum += i128::from(event.bytes);
        least = least.min(sum);
        if let (Some(total), Some(base)) = (event.allocated, stated) {
            off += u64::from(i128::from(base) + sum != i128::from(total));
        }
        figures.reserved_peak_bytes = figures.reserved_peak_bytes.max(event.reserved);
        if event.bytes > 0 {
            figures.allocations += 1;
            match event.address {
                Some(address) => over += u64::from(addresses.insert(address, bytes).is_some()),
                None => *sizes.entry(bytes).or_default() += 1,
            }
        } else if event.bytes < 0 {
            figures.frees += 1;
            let found = match event.address {
                Some(address) => addresses.remove(&address) == Some(bytes),
                None => {
                    sizes.get_mut(&bytes).and_then(|n| n.checked_sub(1).map(|m| *n = m)).is_some()
                }
            };
            frees_alone += u64::from(!found);
        }
    }
    figures.unmatched = frees_alone + over;
    figures.totals_off = stated.map(|_| off);
    let base = stated.unwrap_or_else(|| u64::try_from(-least).unwrap_or(0));
    if let Some(first) = memory.first().filter(|first| first.device >= 0) {
        let changes: Vec<_> = memory
            .iter()
            .map(|event| (event.address.unwrap_or(event.bytes.unsigned_abs()), event.bytes))
            .collect();
        let (held, sum) = from_before(&changes);
        let stays = (u64::MAX, base.saturating_sub(sum));
        let held = held.into_iter().map(|(key, bytes)| (key, bytes.unsigned_abs()));
        figures.reserved_from_empty_bytes = from_empty(held.chain([stays]), &changes);
        let before = first.reserved.unwrap_or(0);
        figures.predicted_reserved_bytes =
            figures.reserved_from_empty_bytes.map(|bytes| bytes.max(before));
    }
    if !memory.is_empty() && stated.is_none() {
        notes.push(format!(
            "what was allocated before the recording is not in it and not counted, such as parameters \
             and optimizer state{}",
            if base > 0 { format!(", but for {base} bytes that it gives back") } else { String::new() }
        ));
    }
    if frees_alone > 0 {
        notes.push(format!("{frees_alone} frees have no allocation in the recording"));
    }
    if over > 0 {
        notes.push(format!("{over} allocations lie where one was that is never freed"));
    }
    if off > 0 {
        notes.push(format!(
            "after {off} events the recording states another total than they add up to"
        ));
    }
    Replayed { base, notes }
}
