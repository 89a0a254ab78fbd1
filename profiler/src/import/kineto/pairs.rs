//! Frees with their allocations, and sums held against what the recording states.

use std::collections::{BTreeMap, HashMap};

use super::file::Memory;
use crate::import::figures::Figures;
use crate::import::reserved::{from_before, from_empty};

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
