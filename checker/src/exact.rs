//! What holds under every timing, decided by the order that lanes and `after` make.
//!
//! Where all that touches the same memory, changes the same buffer, or fills and reads the same
//! buffer is ordered, each action finds the same under every timing as in the list's order.

use crate::machine::{Fallback, Machine};
use crate::order::Order;
use crate::prepared::{Does, Ends, Prepared};
use crate::wrong::{Rule, Wrong};

/// The actions that use a buffer of one arena.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uses {
    pub(crate) filled_by: Option<usize>,
    /// All that keep it, the one that fills it included.
    pub(crate) by: Vec<usize>,
}

impl Prepared<'_> {
    /// Whether the plan computes its trace under every timing.
    ///
    /// # Errors
    /// Names a rule that some timing breaks.
    pub fn check(&self) -> Result<(), Wrong> {
        let order = Order::of(self.plan);
        let uses = uses_of_buffers(self)?;
        check_reads(self, &order, &uses)?;
        check_changes(self, &order)?;
        check_addresses(self, &order, &uses)?;
        check_host(self, &order)?;
        check_changes_there(self, &order)?;
        let mut machine = Machine::new(self);
        machine.run_in_order(Fallback::Never)?;
        let falls_back = |does: &Does| matches!(does, Does::Compress { fallback: Some(_), .. });
        if !self.actions.iter().any(|action| falls_back(&action.does)) {
            return Ok(());
        }
        machine.run_in_order(Fallback::Always)?;
        // Of any two compressions, each falls back while the other does not: their places differ in a
        // bit.
        for bit in 0..self.actions.len().ilog2() + 1 {
            machine.run_in_order(Fallback::ByBit { bit, is_set: true })?;
            machine.run_in_order(Fallback::ByBit { bit, is_set: false })?;
        }
        Ok(())
    }
}

/// Who fills and uses each device buffer. Each is filled by one action, or before all of them.
pub(crate) fn uses_of_buffers(prepared: &Prepared) -> Result<Vec<Uses>, Wrong> {
    let plan = prepared.plan;
    let mut uses = vec![Uses::default(); plan.buffers.len()];
    for (id, action) in plan.actions.iter().enumerate() {
        for buffer in &action.writes {
            let at_start = plan.buffers[buffer.index()].at_start;
            if uses[buffer.index()].filled_by.replace(id).is_some() || at_start {
                let what = format!("{buffer} is filled already");
                return Err(Wrong::at(Rule::FilledOnce, id, what));
            }
        }
        for buffer in action.reads.iter().chain(&action.writes).chain(&action.holds) {
            uses[buffer.index()].by.push(id);
        }
    }
    Ok(uses)
}

/// What is read has been filled.
fn check_reads(prepared: &Prepared, order: &Order, uses: &[Uses]) -> Result<(), Wrong> {
    for action in 0..prepared.actions.len() {
        for read in prepared.reads_of(action) {
            let is_there = match uses[read.buffer].filled_by {
                Some(by) => order.is_before(by, action),
                None => prepared.plan.buffers[read.buffer].at_start,
            };
            if !is_there {
                let what = format!("buffer {} may have nothing yet", read.buffer);
                return Err(Wrong::at(Rule::ReadTooEarly, action, what));
            }
        }
    }
    Ok(())
}

/// An op that changes a buffer in place has it for itself.
fn check_changes(prepared: &Prepared, order: &Order) -> Result<(), Wrong> {
    let mut readers = vec![Vec::new(); prepared.plan.buffers.len()];
    for action in 0..prepared.actions.len() {
        prepared.reads_of(action).iter().for_each(|read| readers[read.buffer].push(action));
    }
    for action in 0..prepared.actions.len() {
        let changes = |read: &&crate::prepared::Read| read.ends == Ends::Changed;
        for read in prepared.reads_of(action).iter().filter(changes) {
            let beside = readers[read.buffer]
                .iter()
                .find(|other| **other != action && !are_ordered(order, action, **other));
            if let Some(other) = beside {
                let what = format!("actions[{other}] may read buffer {} meanwhile", read.buffer);
                return Err(Wrong::at(Rule::ChangedBeside, action, what));
            }
        }
    }
    Ok(())
}

/// The same of what an op changes on the host, which copies and other ops there read.
fn check_changes_there(prepared: &Prepared, order: &Order) -> Result<(), Wrong> {
    let mut readers = vec![Vec::new(); prepared.plan.host_buffers.len()];
    for (id, action) in prepared.actions.iter().enumerate() {
        prepared.there_of(id).iter().for_each(|read| readers[read.buffer].push(id));
        if let Does::H2d { host } = action.does {
            readers[host].push(id);
        }
    }
    for action in 0..prepared.actions.len() {
        for read in prepared.there_of(action).iter().filter(|read| read.ends == Ends::Changed) {
            let is_beside =
                |other: &&usize| **other != action && !are_ordered(order, action, **other);
            if let Some(other) = readers[read.buffer].iter().find(is_beside) {
                let what =
                    format!("actions[{other}] may read host buffer {} meanwhile", read.buffer);
                return Err(Wrong::at(Rule::ChangedBeside, action, what));
            }
        }
    }
    Ok(())
}

fn are_ordered(order: &Order, a: usize, b: usize) -> bool {
    order.is_before(a, b) || order.is_before(b, a)
}

/// Of two buffers that share addresses one has been used for the last time before the other
/// begins.
fn check_addresses(prepared: &Prepared, order: &Order, uses: &[Uses]) -> Result<(), Wrong> {
    let buffers = &prepared.plan.buffers;
    let lives = |id: &usize| buffers[*id].at_start || uses[*id].filled_by.is_some();
    let ranges: Vec<_> = (0..buffers.len())
        .filter(lives)
        .map(|id| (buffers[id].address, buffers[id].bytes.0, id))
        .collect();
    for_each_overlap(ranges, |a, b| {
        let is_given_up = |first: usize, second: usize| {
            let Some(begins) = uses[second].filled_by else { return false };
            let lies_over = (prepared.reads_of(begins).iter())
                .any(|r| r.buffer == first && r.ends == Ends::Replaced { by: second });
            let is_done = |by: &usize| order.is_before(*by, begins) || (lies_over && *by == begins);
            !buffers[first].at_end && uses[first].by.iter().all(is_done)
        };
        match is_given_up(a, b) || is_given_up(b, a) {
            true => Ok(()),
            false => {
                let what = format!("buffers {a} and {b} may be in use at one address");
                Err(Wrong::of(Rule::Overwritten, what))
            }
        }
    })
}

/// The same of host buffers, of which each is filled once, by a copy or by the compression whose
/// compressed form that copies.
fn check_host(prepared: &Prepared, order: &Order) -> Result<(), Wrong> {
    let hosts = &prepared.plan.host_buffers;
    let mut uses: Vec<Vec<usize>> = vec![Vec::new(); hosts.len()];
    let mut fills: Vec<Vec<usize>> = vec![Vec::new(); hosts.len()];
    for (id, action) in prepared.actions.iter().enumerate() {
        prepared.there_of(id).iter().for_each(|read| uses[read.buffer].push(id));
        let (host, fills_it) = match action.does {
            Does::D2h { host } | Does::Compress { fallback: Some(host), .. } => (host, true),
            Does::H2d { host } | Does::Decompress { fallback: Some(host), .. } => (host, false),
            _ => continue,
        };
        let is_copy = |id: usize| matches!(prepared.actions[id].does, Does::D2h { .. });
        let is_filled = fills[host].iter().any(|by| is_copy(*by) == is_copy(id));
        if fills_it && (is_filled || hosts[host].at_start) {
            let what = format!("host buffer {host} is filled already");
            return Err(Wrong::at(Rule::FilledOnce, id, what));
        }
        if fills_it {
            fills[host].push(id);
        }
        uses[host].push(id);
    }
    for (host, fills) in fills.iter().enumerate() {
        for by in fills {
            let other = |id: &&usize| **id != *by && !are_ordered(order, *by, **id);
            if let Some(id) = uses[host].iter().find(other) {
                let what = format!("host buffer {host} may be filled meanwhile");
                return Err(Wrong::at(Rule::ReadTooEarly, *id, what));
            }
        }
    }
    let ranges: Vec<_> = (0..hosts.len())
        .filter(|id| !uses[*id].is_empty() || hosts[*id].at_start)
        .map(|id| (hosts[id].address, hosts[id].bytes.0, id))
        .collect();
    for_each_overlap(ranges, |a, b| {
        let is_given_up = |first: usize, second: usize| {
            let all = |by: &usize| uses[second].iter().all(|then| order.is_before(*by, *then));
            !hosts[first].at_end && !hosts[second].at_start && uses[first].iter().all(all)
        };
        match is_given_up(a, b) || is_given_up(b, a) {
            true => Ok(()),
            false => {
                let what = format!("host buffers {a} and {b} may be in use at one address");
                Err(Wrong::of(Rule::Overwritten, what))
            }
        }
    })
}

/// Looks at each two ranges, given as address, size and number, that share an address.
fn for_each_overlap(
    mut ranges: Vec<(u64, u64, usize)>,
    mut look: impl FnMut(usize, usize) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    ranges.retain(|(_, bytes, _)| *bytes > 0);
    ranges.sort_unstable();
    for (i, (address, bytes, a)) in ranges.iter().enumerate() {
        let overlapping = ranges[i + 1..].iter().take_while(|(other, ..)| *other < address + bytes);
        for (.., b) in overlapping {
            look(*a, *b)?;
        }
    }
    Ok(())
}
