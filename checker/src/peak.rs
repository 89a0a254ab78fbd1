//! What a plan says of its memory, as far as its order alone says it.
//!
//! The ends of the arenas are where the highest buffers end. The peak depends on the timing, so it
//! lies between what must be live during some action and the most that may be.

use crate::exact::uses_of_buffers;
use crate::order::Order;
use crate::prepared::Prepared;
use crate::wrong::{Rule, Wrong};

impl Prepared<'_> {
    /// Whether what the plan says of its memory is so: where its arenas end, and a peak that its
    /// order allows.
    ///
    /// # Errors
    /// Names the figure.
    pub fn check_predicted(&self) -> Result<(), Wrong> {
        let plan = self.plan;
        let wrong = |what: String| Err(Wrong::of(Rule::Predicted, what));
        let ends = plan.buffers.iter().map(|b| (b.address, b.bytes.0));
        if !is_end(ends, plan.predicted.arena.0) {
            return wrong(format!("the arena does not end at {}", plan.predicted.arena));
        }
        let ends = plan.host_buffers.iter().map(|b| (b.address, b.bytes.0));
        if !is_end(ends, plan.predicted.host_arena.0) {
            return wrong(format!("the host arena does not end at {}", plan.predicted.host_arena));
        }
        let (least, most) = bounds(self)?;
        match (least..=most).contains(&plan.predicted.peak.0) {
            true => Ok(()),
            false => wrong(format!("a peak lies between {least} and {most}")),
        }
    }
}

/// Whether the highest buffer ends there, or the highest that is not empty.
fn is_end(buffers: impl Iterator<Item = (u64, u64)> + Clone, end: u64) -> bool {
    let highest = |buffers: &mut dyn Iterator<Item = (u64, u64)>| {
        buffers.map(|(address, bytes)| address + bytes).max().unwrap_or_default()
    };
    let filled = &mut buffers.clone().filter(|(_, bytes)| *bytes > 0);
    [highest(filled), highest(&mut buffers.clone())].contains(&end)
}

fn bounds(prepared: &Prepared) -> Result<(u64, u64), Wrong> {
    let plan = prepared.plan;
    let order = Order::of(plan);
    let uses = uses_of_buffers(prepared)?;
    let (mut least, mut most) = (0, 0);
    for now in 0..plan.actions.len() {
        let (mut must, mut may) = (0, 0);
        for (buffer, uses) in plan.buffers.iter().zip(&uses) {
            if uses.filled_by.is_none() && !buffer.at_start {
                continue;
            }
            let begun = uses.filled_by.is_none_or(|by| by == now || order.is_before(by, now));
            let may_have_begun = uses.filled_by.is_none_or(|by| !order.is_before(now, by));
            let is_needed = |by: &usize| *by == now || order.is_before(now, *by);
            let needed = buffer.at_end || uses.by.iter().any(is_needed);
            let may_be_needed =
                buffer.at_end || uses.by.iter().any(|by| !order.is_before(*by, now));
            must += if begun && needed { buffer.bytes.0 } else { 0 };
            may += if may_have_begun && may_be_needed { buffer.bytes.0 } else { 0 };
        }
        // An output that lies over an input takes no room of its own, where it is no larger.
        for pair in &plan.actions[now].in_place {
            let bytes = |id: schema::BufferId| plan.buffers[id.index()].bytes.0;
            must = u64::saturating_sub(must, bytes(pair.input).min(bytes(pair.output)));
        }
        least = least.max(must);
        most = most.max(may);
    }
    Ok((least, most))
}
