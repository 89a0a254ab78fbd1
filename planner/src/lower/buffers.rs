//! The buffers of a recording and the intervals for which they live.

use std::collections::HashMap;

use schema::{Buffer, Bytes, CodecId, HostBuffer, OpId, TensorId};
use simulator::{Materialised, NO_OP, Position, Record, RecordedCopy, Residency, Work};

use crate::lower::pack::Block;
use crate::{Beyond, Problem};

/// Everything that wants an address, and where to find it again.
pub(super) struct Layout {
    /// Residencies first, in the recording's order, then workspaces by position.
    pub device: Vec<Block>,
    /// One for each swap, in the order of the copies out, then those of compressed forms that stay.
    pub host: Vec<Block>,
    /// What each block of `host` is for: a tensor, or its compressed form by a codec.
    host_forms: Vec<(TensorId, Option<u8>)>,
    /// By block of `host`: of a tensor that has its home there, the block whose address and size it has,
    /// and whether it is the last that does.
    homes: Vec<Option<(usize, bool)>>,
    /// The host buffer of each packing whose size varies.
    pub host_of_packing: Vec<Option<usize>>,
    pub residencies: Vec<Residency>,
    /// The buffer of each position's workspace.
    pub workspace: Vec<Option<usize>>,
    /// Position after which a residency lies over another: (input, output) residencies.
    pub in_place: Vec<(u32, usize, usize)>,
    end: u32,
}

const NEVER: u32 = u32::MAX;

pub(super) fn layout(problem: &Problem, record: &Record) -> Layout {
    // When each copy on the host is needed for the last time: to come back, or by an update there.
    let mut needed = vec![None; record.outs.len()];
    for back in &record.backs {
        needed[back.swap as usize] = Some(back.events.1);
    }
    for update in &record.updates {
        for swap in &update.swaps {
            needed[*swap as usize] = needed[*swap as usize].max(Some(update.events.1));
        }
    }
    let residencies = sorted_by_donor(record);
    let end = record.positions.len() as u32 - 1;
    let bytes = |r: &Residency| match r.small {
        Some(packing) => record.packings[packing as usize].cost.reserved.0,
        None => problem.trace.tensors[r.tensor as usize].bytes.0,
    };
    let mut device: Vec<Block> = (residencies.iter())
        .map(|r| Block::new(bytes(r), comes_to_be(record, r), last_use_ends(record, r, end)))
        .collect();
    let in_place = donations(record, &residencies);
    for (_, input, output) in &in_place {
        device[*output].over = Some(*input);
    }
    let mut workspace = vec![None; record.positions.len()];
    for (position, run) in record.positions.iter().enumerate().take(end as usize) {
        let bytes = problem.trace.ops[run.op as usize].workspace.0;
        if bytes > 0 && matches!(run.work, Work::Run | Work::Again) {
            workspace[position] = Some(device.len());
            let (from, until) = record.run_events[position];
            device.push(Block::new(bytes, from + 1, until + 1));
        }
    }
    let mut layout = Layout {
        device,
        host: Vec::new(),
        host_forms: Vec::new(),
        homes: Vec::new(),
        host_of_packing: vec![None; record.packings.len()],
        residencies,
        workspace,
        in_place,
        end,
    };
    layout.add_host(problem, record, &needed);
    layout
}

/// Residencies in the order in which they come to be, so that one that lies over another is
/// listed after it.
fn sorted_by_donor(record: &Record) -> Vec<Residency> {
    let mut residencies = record.residencies.clone();
    residencies.sort_by_key(|r| (comes_to_be(record, r), r.tensor, r.first));
    residencies
}

/// Event 0 is before all events of the recording, which are counted from 1 here.
fn comes_to_be(record: &Record, residency: &Residency) -> u32 {
    match residency.origin {
        Materialised::AtStart => 0,
        Materialised::Written => record.run_events[residency.first as usize].0 + 1,
        Materialised::CopiedIn(back) => record.backs[back as usize].events.0 + 1,
    }
}

fn last_use_ends(record: &Record, residency: &Residency, end: u32) -> u32 {
    if residency.last == end {
        return NEVER;
    }
    let ended = |position: u32| record.run_events[position as usize].1 + 1;
    // What an update on the host is handed may leave with a codec's run, of another tensor on a lane of its
    // own, which need not end after the last op that reads it.
    let is_codec = |position: &u32| record.positions[*position as usize].is_codec();
    let op = (residency.first..=residency.last).rev().find(|position| !is_codec(position));
    let is_handed_over = residency.small.is_none() && is_codec(&residency.last);
    let run = ended(residency.last).max(op.filter(|_| is_handed_over).map_or(0, ended));
    residency.copied_out.map_or(run, |swap| run.max(record.outs[swap as usize].events.1 + 1))
}

fn donations(record: &Record, residencies: &[Residency]) -> Vec<(u32, usize, usize)> {
    let mut of_tensor: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, residency) in residencies.iter().enumerate() {
        of_tensor.entry(residency.tensor).or_default().push(index);
    }
    let find = |tensor: TensorId, at: &dyn Fn(&Residency) -> bool| {
        of_tensor.get(&tensor.0)?.iter().copied().find(|i| at(&residencies[*i]))
    };
    let donation = |(position, input, output): &(u32, TensorId, TensorId)| {
        let input = find(*input, &|r| r.last == *position && r.copied_out.is_none())?;
        let output = find(*output, &|r| r.first == *position && r.origin == Materialised::Written)?;
        Some((*position, input, output))
    };
    record.donations.iter().filter_map(donation).collect()
}

impl Layout {
    fn add_host(&mut self, problem: &Problem, record: &Record, needed: &[Option<u32>]) {
        let raw = |tensor: TensorId| problem.trace.tensors[tensor.index()].bytes.0;
        for (out, needed) in record.outs.iter().zip(needed) {
            let costs = &problem.codecs.costs;
            let small = (out.codec.and_then(|codec| costs.cost(codec, out.tensor)))
                .or(out.there.and_then(|codec| costs.host_cost(codec, out.tensor)));
            let bytes = small.map_or(raw(out.tensor), |cost| cost.reserved.0);
            let until = needed.map_or(NEVER, |end| end + 1);
            let block = match out.home.map(|home| home.at_start) {
                Some(true) => Block::new(bytes, 0, NEVER),
                // It lies where the tensor has its home.
                Some(false) => Block::new(0, out.events.0 + 1, NEVER),
                None => Block::new(bytes, out.events.0 + 1, until),
            };
            self.host.push(block);
            self.host_forms.push((out.tensor, out.codec.or(out.there)));
        }
        self.homes = homes(record);
        for (position, run) in record.positions.iter().enumerate() {
            let Work::Decompress(id) = run.work else { continue };
            let packing = &record.packings[id as usize];
            if !packing.cost.variable {
                continue;
            }
            // The tensor itself may go there, from the compression to the decompression.
            let tensor = TensorId(packing.tensor);
            let from = record.run_events[packing.position as usize].0 + 1;
            let block = Block::new(raw(tensor), from, record.run_events[position].1 + 1);
            let host = packing.swap.map_or(self.host.len(), |swap| swap as usize);
            if packing.swap.is_some() {
                self.host[host] = block;
            } else {
                self.host.push(block);
                self.host_forms.push((tensor, Some(packing.codec)));
            }
            self.host_of_packing[id as usize] = Some(host);
        }
    }

    /// The buffers whose addresses reach beyond the budget.
    pub fn beyond(&self, record: &Record, budget: Bytes) -> Vec<Beyond> {
        let runs = record.positions.iter().zip(&record.run_events);
        let is_first = |of: &Position| matches!(of.work, Work::Run) && of.op != NO_OP;
        let first_runs = runs.filter(|(position, _)| is_first(position));
        let ends: Vec<u32> = first_runs.map(|(_, (_, end))| end + 1).collect();
        // The first op that ends at an event or later.
        let op = |event: u32| {
            let op = ends.partition_point(|end| *end < event);
            OpId::from_index(op.min(ends.len().saturating_sub(1)))
        };
        let end = |block: &Block| Bytes(block.address.saturating_add(block.bytes));
        let beyond = self.device.iter().filter(|block| block.bytes > 0 && end(block) > budget);
        let beyond = beyond.map(|block| Beyond {
            first: op(block.from.saturating_add(1)),
            last: op(block.until),
            bytes: end(block) - budget,
        });
        beyond.collect()
    }

    pub fn device_buffers(&self, record: &Record) -> Vec<Buffer> {
        // What is no residency's is workspace.
        let residencies = self.residencies.iter().map(Some).chain(std::iter::repeat(None));
        let buffer = |(r, block): (Option<&Residency>, &Block)| Buffer {
            tensor: r.map(|r| TensorId(r.tensor)),
            address: block.address,
            bytes: Bytes(block.bytes),
            compressed: r
                .and_then(|r| r.small)
                .map(|id| codec_id(record.packings[id as usize].codec)),
            at_start: r.is_some_and(|r| r.origin == Materialised::AtStart),
            at_end: r.is_some_and(|r| r.last == self.end),
        };
        residencies.zip(&self.device).map(buffer).collect()
    }

    pub fn host_buffers(&self) -> Vec<HostBuffer> {
        let buffers = self.host_forms.iter().enumerate().map(|(index, (tensor, codec))| {
            let home = self.homes.get(index).copied().flatten();
            let block = &self.host[home.map_or(index, |(first, _)| first)];
            HostBuffer {
                tensor: *tensor,
                address: block.address,
                bytes: Bytes(block.bytes),
                compressed: codec.map(codec_id),
                at_start: home.is_some_and(|(first, _)| first == index),
                at_end: home.is_some_and(|(_, is_last)| is_last),
            }
        });
        buffers.collect()
    }
}

/// For each of the record's copies out: of a tensor that has its home on the host, the one that has it
/// at the start, and whether it is the tensor's last.
fn homes(record: &Record) -> Vec<Option<(usize, bool)>> {
    let (mut first, mut last) = (HashMap::new(), HashMap::new());
    let at_home = || record.outs.iter().enumerate().filter(|(_, out)| out.home.is_some());
    for (index, out) in at_home() {
        first.entry(out.tensor).or_insert(index);
        last.insert(out.tensor, index);
    }
    let home = |(index, out): (usize, &RecordedCopy)| {
        out.home.map(|_| (first[&out.tensor], last[&out.tensor] == index))
    };
    record.outs.iter().enumerate().map(home).collect()
}

/// A treatment's codec as the plan's list has it.
pub(super) fn codec_id(codec: u8) -> CodecId {
    CodecId(u32::from(codec))
}

#[cfg(test)]
mod tests {
    use schema::Bytes;

    use crate::methods::by_name;
    use crate::{Beyond, NoMonitor, PlanError, Problem, lower};

    /// Lowered to less memory than they take, decisions reach beyond it, by as much as they say, while ops run
    /// that are there.
    #[test]
    fn what_reaches_beyond_the_budget_is_said() {
        let machine = scenarios::machine("p100").expect("it is bundled");
        let in_core = by_name("in-core").expect("a method");
        for family in crate::families::all() {
            let name = format!("{}:seed=5,ops=150", family.name);
            let trace = crate::families::family(&name).expect("a family");
            let peak = simulator::in_core(&trace).peak;
            let roomy = Problem::new(&trace, &machine, Bytes(2 * peak.0));
            let decided = in_core.decide(&roomy, roomy.budget, &NoMonitor).expect("all is kept");
            let problem = Problem::new(&trace, &machine, Bytes(peak.0 / 2));
            let error =
                lower(&problem, roomy.budget, &decided).expect_err("it takes twice as much");
            let PlanError::Fragmented { short_by, beyond, .. } = error else {
                panic!("{name}: {error}")
            };
            assert_eq!(beyond.iter().map(|beyond| beyond.bytes).max(), Some(short_by), "{name}");
            let is_there = |Beyond { first, last, .. }: &Beyond| {
                first <= last && last.index() < trace.ops.len()
            };
            assert!(beyond.iter().all(is_there), "{name}: {beyond:?}");
        }
    }
}
