//! The static safety proof.
//!
//! For any two buffers whose address ranges overlap, every use of one ends before the other comes
//! to be, and every read of a buffer comes after what fills it, in the order that lanes and
//! `after` make. Then no timing, however different from the prediction, puts two live buffers at
//! one address, runs out of memory or reads a buffer too early.
//!
//! The proof is exact: it walks the actions in list order and keeps, for every address, the
//! buffer that holds it. A buffer that takes an address over must come after all uses of the
//! holder. Consecutive holders of every address being ordered, all its holders are.

use schema::{Action, ActionId, BufferId, Bytes, CodecId, Lane, Plan, Task};

use crate::{Addresses, HappensBefore};

/// Why a plan is not safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Unsafe {
    /// A buffer beyond the arena.
    #[error("{buffer} ends at {end} B, beyond the {arena} of {size}")]
    OutsideArena {
        buffer: String,
        end: u64,
        /// `device arena` or `host arena`.
        arena: &'static str,
        size: Bytes,
    },
    /// Two live buffers at one address.
    #[error(
        "{second_buffer} of {second} overlaps {first_buffer}, and {first}, which uses \
         {first_buffer}, need not have ended when {second} starts"
    )]
    Overlap {
        /// An action that uses the earlier buffer.
        first: ActionId,
        first_buffer: String,
        /// The action that writes the later buffer.
        second: ActionId,
        second_buffer: String,
    },
    /// A buffer laid over one that must stay.
    #[error("{buffer} of {action} overlaps {kept}, which must be there when the iteration ends")]
    OverlapsKept { action: ActionId, buffer: String, kept: String },
    /// Two buffers at one address before the first action.
    #[error("{first} and {second} overlap, and both are filled before the iteration begins")]
    OverlapAtStart { first: String, second: String },
    /// A read that may come before the buffer is filled.
    #[error("{reader} needs {buffer}, which {writer} fills and need not have filled by then")]
    ReadTooEarly { reader: ActionId, buffer: String, writer: ActionId },
    /// A buffer that nothing fills.
    #[error("{user} needs {buffer}, which nothing fills")]
    NeverFilled { user: ActionId, buffer: String },
    /// A buffer that must be there when the iteration ends, and that nothing fills.
    #[error("{buffer} must be there when the iteration ends, and nothing fills it")]
    NeverThere { buffer: String },
    #[error("{second} fills {buffer}, which is filled already: a buffer is filled once")]
    FilledTwice { second: ActionId, buffer: String },
    /// An in-place pair that is not an input and an output of its action at one address, each in
    /// one pair.
    #[error(
        "{action} lays {output} over {input}, which are not one of its inputs and one of its outputs, \
         each once and both at one address"
    )]
    InPlace { action: ActionId, input: BufferId, output: BufferId },
    /// A copy or codec without the host buffer that it needs, or an action with one that it must
    /// not have.
    #[error("{action} has {problem}")]
    Host { action: ActionId, problem: &'static str },
}

/// Proves that a well-formed plan is safe under every timing, or names what breaks it.
pub fn prove(plan: &Plan) -> Result<(), Unsafe> {
    let order = HappensBefore::of(plan);
    let mut device = Space::device(plan);
    let mut host = Space::host(plan);
    for (index, action) in plan.actions.iter().enumerate() {
        let id = ActionId::from_index(index);
        for buffer in action.reads.iter().chain(&action.holds) {
            device.note_use(buffer.0, id);
        }
        for buffer in &action.writes {
            device.note_fill(buffer.0, id)?;
        }
        for buffer in &action.there {
            host.note_use(buffer.0, id);
        }
        check_in_place(plan, id, action)?;
        check_host(plan, id, action)?;
        match (action.task, action.host) {
            (Task::D2h(_), Some(buffer)) => host.note_copy_out(plan, &order, buffer.0, id)?,
            (Task::Compress(_), Some(buffer)) => host.note_fill(buffer.0, id)?,
            (_, Some(buffer)) => host.note_use(buffer.0, id),
            (_, None) => {}
        }
    }
    for space in [&device, &host] {
        space.check_each()?;
    }
    device.check_reads(
        &order,
        plan.actions
            .iter()
            .map(|a| [&a.reads[..], &a.holds[..]].concat().iter().map(|b| b.0).collect()),
    )?;
    host.check_reads(
        &order,
        plan.actions.iter().map(|a| match (a.task, a.host) {
            (Task::H2d(_) | Task::Decompress(_), Some(buffer)) => vec![buffer.0],
            _ => a.there.iter().map(|buffer| buffer.0).collect(),
        }),
    )?;
    host.check_sources(plan)?;
    device.check_overlaps(plan, &order)?;
    host.check_overlaps(plan, &order)
}

/// Copies have a host buffer, ops none. Codecs whose output's size varies have one with room for
/// the raw tensor: with it, the plan is as safe where the data does worse than was reserved for.
fn check_host(plan: &Plan, id: ActionId, action: &Action) -> Result<(), Unsafe> {
    let problem = match (action.task, action.host) {
        (Task::D2h(_) | Task::H2d(_), None) => "no host buffer to copy to or from",
        (Task::Run(_) | Task::Recompute(_), Some(_)) => "a host buffer, but copies nothing",
        (Task::Compress(_) | Task::Decompress(_), host) => {
            let buffers = || action.reads.iter().chain(&action.writes);
            let buffers = || buffers().map(|buffer| &plan.buffers[buffer.index()]);
            let varies = |codec: CodecId| plan.codecs[codec.index()].fidelity.size_varies();
            let needed = buffers().any(|buffer| buffer.compressed.is_some_and(varies));
            let raw = buffers().map(|buffer| buffer.bytes).max().unwrap_or_default();
            match host.map(|host| plan.host_buffers[host.index()].bytes) {
                None if needed => "no host buffer for data that does worse than was reserved for",
                Some(room) if needed && room < raw => "a host buffer without room for the tensor",
                Some(_) if !needed => "a host buffer, which its codec never needs",
                _ => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    Err(Unsafe::Host { action: id, problem })
}

fn check_in_place(plan: &Plan, id: ActionId, action: &Action) -> Result<(), Unsafe> {
    for (index, pair) in action.in_place.iter().enumerate() {
        let (input, output) = (pair.input, pair.output);
        let again = action.in_place[..index].iter().any(|p| p.input == input || p.output == output);
        let [from, to] = [input, output].map(|id| &plan.buffers[id.index()]);
        // What is empty lies nowhere.
        let apart = from.address != to.address && from.bytes.min(to.bytes) > Bytes::ZERO;
        let operands = action.reads.contains(&input) && action.writes.contains(&output);
        if again || apart || !operands {
            return Err(Unsafe::InPlace { action: id, input, output });
        }
    }
    Ok(())
}

/// One arena and the buffers in it.
struct Space {
    arena: &'static str,
    buffer_name: &'static str,
    size: Bytes,
    ranges: Vec<(u64, u64)>,
    at_start: Vec<bool>,
    at_end: Vec<bool>,
    /// The action with which the buffer comes to be.
    begins_with: Vec<Option<ActionId>>,
    /// The action after which its content is whole.
    filled_by: Vec<Option<ActionId>>,
    /// The last action of each lane that uses the buffer.
    last_use: Vec<[Option<ActionId>; Lane::COUNT]>,
    lanes: Vec<Lane>,
}

impl Space {
    fn device(plan: &Plan) -> Self {
        let buffers = &plan.buffers;
        Self {
            at_start: buffers.iter().map(|b| b.at_start).collect(),
            at_end: buffers.iter().map(|b| b.at_end).collect(),
            ..Self::new(
                "device arena",
                "buffer",
                plan.budget,
                buffers.iter().map(|b| (b.address, b.address + b.bytes.0)).collect(),
                plan,
            )
        }
    }

    fn host(plan: &Plan) -> Self {
        let buffers = &plan.host_buffers;
        let ranges = buffers.iter().map(|b| (b.address, b.address + b.bytes.0)).collect();
        Self {
            at_start: buffers.iter().map(|b| b.at_start).collect(),
            at_end: buffers.iter().map(|b| b.at_end).collect(),
            ..Self::new("host arena", "host buffer", plan.host_budget, ranges, plan)
        }
    }

    fn new(
        arena: &'static str,
        buffer_name: &'static str,
        size: Bytes,
        ranges: Vec<(u64, u64)>,
        plan: &Plan,
    ) -> Self {
        let count = ranges.len();
        Self {
            arena,
            buffer_name,
            size,
            ranges,
            at_start: vec![false; count],
            at_end: vec![false; count],
            begins_with: vec![None; count],
            filled_by: vec![None; count],
            last_use: vec![[None; Lane::COUNT]; count],
            lanes: plan.actions.iter().map(|a| plan.lane(a)).collect(),
        }
    }

    fn name(&self, buffer: u32) -> String {
        format!("{} {buffer}", self.buffer_name)
    }

    fn note_use(&mut self, buffer: u32, action: ActionId) {
        let lane = self.lanes[action.index()];
        self.last_use[buffer as usize][lane.index()] = Some(action);
    }

    fn note_fill(&mut self, buffer: u32, action: ActionId) -> Result<(), Unsafe> {
        let filled = self.filled_by[buffer as usize].replace(action);
        if filled.is_some() || self.at_start[buffer as usize] {
            return Err(Unsafe::FilledTwice { second: action, buffer: self.name(buffer) });
        }
        self.begins_with[buffer as usize] = Some(action);
        self.note_use(buffer, action);
        Ok(())
    }

    /// The copy out of a compressed form goes to the host buffer that its compression brought into
    /// being, and filled only where the compressed form would have been too large.
    fn note_copy_out(
        &mut self,
        plan: &Plan,
        order: &HappensBefore,
        buffer: u32,
        action: ActionId,
    ) -> Result<(), Unsafe> {
        let filled = self.filled_by[buffer as usize];
        let by_codec = |id: &ActionId| matches!(plan.actions[id.index()].task, Task::Compress(_));
        let Some(writer) = filled.filter(by_codec) else { return self.note_fill(buffer, action) };
        if !order.ends_before(writer, action) {
            let buffer = self.name(buffer);
            return Err(Unsafe::ReadTooEarly { reader: action, buffer, writer });
        }
        self.filled_by[buffer as usize] = Some(action);
        self.note_use(buffer, action);
        Ok(())
    }

    fn check_each(&self) -> Result<(), Unsafe> {
        for (index, (_, end)) in self.ranges.iter().enumerate() {
            if self.at_end[index] && !self.at_start[index] && self.filled_by[index].is_none() {
                return Err(Unsafe::NeverThere { buffer: self.name(index as u32) });
            }
            if *end > self.size.0 {
                return Err(Unsafe::OutsideArena {
                    buffer: self.name(index as u32),
                    end: *end,
                    arena: self.arena,
                    size: self.size,
                });
            }
        }
        Ok(())
    }

    fn check_reads(
        &self,
        order: &HappensBefore,
        reads: impl Iterator<Item = Vec<u32>>,
    ) -> Result<(), Unsafe> {
        for (index, reads) in reads.enumerate() {
            let reader = ActionId::from_index(index);
            for buffer in reads {
                match self.filled_by[buffer as usize] {
                    None if self.at_start[buffer as usize] => {}
                    None => {
                        let buffer = self.name(buffer);
                        return Err(Unsafe::NeverFilled { user: reader, buffer });
                    }
                    Some(writer) if order.ends_before(writer, reader) => {}
                    Some(writer) => {
                        let buffer = self.name(buffer);
                        return Err(Unsafe::ReadTooEarly { reader, buffer, writer });
                    }
                }
            }
        }
        Ok(())
    }

    /// A copy in brings back what a copy out took, and an op reads that; a decompression finds what a compression may
    /// have put there.
    fn check_sources(&self, plan: &Plan) -> Result<(), Unsafe> {
        let by_codec = |action: &Option<ActionId>| {
            action.is_some_and(|id| matches!(plan.actions[id.index()].task, Task::Compress(_)))
        };
        for (index, action) in plan.actions.iter().enumerate() {
            let copied = action.host.map(|host| (host, action.task));
            let read = action.there.iter().map(|host| (*host, action.task));
            for (host, task) in copied.into_iter().chain(read) {
                let filled = match task {
                    Task::D2h(_) | Task::Compress(_) => true,
                    Task::Decompress(_) => by_codec(&self.begins_with[host.index()]),
                    _ => !by_codec(&self.filled_by[host.index()]),
                };
                if !filled {
                    let user = ActionId::from_index(index);
                    return Err(Unsafe::NeverFilled { user, buffer: self.name(host.0) });
                }
            }
        }
        Ok(())
    }

    fn check_overlaps(&self, plan: &Plan, order: &HappensBefore) -> Result<(), Unsafe> {
        let mut holders = Addresses::default();
        for buffer in (0..self.ranges.len() as u32).filter(|b| self.at_start[*b as usize]) {
            if let Some(first) = holders.take(self.ranges[buffer as usize], buffer).first() {
                let (first, second) = (self.name(*first), self.name(buffer));
                return Err(Unsafe::OverlapAtStart { first, second });
            }
        }
        let mut filled: Vec<(ActionId, u32)> = (self.begins_with.iter().enumerate())
            .filter_map(|(buffer, action)| action.map(|action| (action, buffer as u32)))
            .collect();
        filled.sort_unstable();
        for (action, buffer) in filled {
            for holder in holders.take(self.ranges[buffer as usize], buffer) {
                self.check_hand_over(plan, order, holder, buffer, action)?;
            }
        }
        Ok(())
    }

    /// Whether every use of `holder` has ended when `action` starts to write `buffer` over it.
    fn check_hand_over(
        &self,
        plan: &Plan,
        order: &HappensBefore,
        holder: u32,
        buffer: u32,
        action: ActionId,
    ) -> Result<(), Unsafe> {
        if self.at_end[holder as usize] {
            return Err(Unsafe::OverlapsKept {
                action,
                buffer: self.name(buffer),
                kept: self.name(holder),
            });
        }
        let writer = &plan.actions[action.index()];
        // Host buffers have no in-place pairs; their ids must not be taken for device buffers'.
        let in_place = self.arena == "device arena"
            && writer.in_place.iter().any(|p| p.input.0 == holder && p.output.0 == buffer);
        for user in self.last_use[holder as usize].into_iter().flatten() {
            if !(order.ends_before(user, action) || (in_place && user == action)) {
                return Err(Unsafe::Overlap {
                    first: user,
                    first_buffer: self.name(holder),
                    second: action,
                    second_buffer: self.name(buffer),
                });
            }
        }
        Ok(())
    }
}
