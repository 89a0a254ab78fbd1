//! A plan as the replay reads it: flat arrays and nothing that it does not need.

use schema::{Lane, Plan, Processor, Trace};

use crate::lanes::Speeds;

/// Actions, dependencies and memory in flat arrays. Made once; replayed as often as wanted.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) lane: Vec<Lane>,
    pub(crate) duration: Vec<u64>,
    /// Actions that must have ended, by action.
    pub(crate) after: Lists,
    /// The actions of each lane in order.
    pub(crate) queues: [Vec<u32>; Lane::COUNT],
    /// Bytes that come to be when an action starts, net of what is laid over inputs.
    pub(crate) allocates: Vec<u64>,
    /// Buffers whose last user in its lane an action is.
    pub(crate) last_uses: Lists,
    /// Bytes that a buffer gives back, net of what was laid over it.
    pub(crate) gives_back: Vec<u64>,
    /// In how many lanes a buffer has a user: it dies with the last of them. Zero: never.
    pub(crate) users: Vec<u32>,
    /// Bytes that are there before the first action.
    pub(crate) at_start: u64,
    pub(crate) speeds: Speeds,
}

/// Lists of small numbers, one after another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    pub fn push(&mut self, items: impl IntoIterator<Item = u32>) {
        self.items.extend(items);
        self.ends.push(self.items.len() as u32);
    }

    pub fn get(&self, index: usize) -> &[u32] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.items[begin as usize..self.ends[index] as usize]
    }
}

impl Program {
    /// The program of a well-formed plan.
    pub fn of(plan: &Plan) -> Self {
        let mut program = Self::empty(Speeds {
            both_directions_permille: plan.both_directions_permille,
            beside_codec_permille: plan.beside_codec_permille,
            beside_copy_permille: plan.beside_copy_permille,
        });
        let buffers = &plan.buffers;
        program.gives_back = buffers.iter().map(|b| b.bytes.0).collect();
        for action in &plan.actions {
            let after = action.after.iter().chain(&action.not_before);
            let mut allocates: u64 = action.writes.iter().map(|b| buffers[b.index()].bytes.0).sum();
            for pair in &action.in_place {
                let (input, output) = (&buffers[pair.input.index()], &buffers[pair.output.index()]);
                let end = (input.address + input.bytes.0).min(output.address + output.bytes.0);
                let shared = end.saturating_sub(input.address.max(output.address));
                allocates = allocates.saturating_sub(shared);
                let rest = &mut program.gives_back[pair.input.index()];
                *rest = rest.saturating_sub(shared);
            }
            program.push(plan.lane(action), action.duration.0, after.map(|id| id.0), allocates);
        }
        program.at_start = buffers.iter().filter(|b| b.at_start).map(|b| b.bytes.0).sum();
        program.find_last_uses(
            buffers.len(),
            plan.actions.iter().map(|a| {
                a.reads.iter().chain(&a.writes).chain(&a.holds).map(|b| b.0).collect::<Vec<_>>()
            }),
            |buffer| buffers[buffer].at_end,
        );
        program
    }

    /// The program that runs a trace as the framework did, everything kept until the framework
    /// gave it back.
    pub fn in_core(trace: &Trace) -> Self {
        let mut program = Self::empty(Speeds::ALONE);
        program.gives_back = trace.tensors.iter().map(|t| t.bytes.0).collect();
        let mut appears = vec![0; trace.ops.len()];
        let mut written = vec![false; trace.tensors.len()];
        for op in &trace.ops {
            op.writes.iter().for_each(|t| written[t.index()] = true);
        }
        for (tensor, _) in trace.tensors.iter().zip(&written).filter(|(_, written)| !**written) {
            match tensor.appears_before {
                Some(op) => appears[op.index()] += tensor.bytes.0,
                None => program.at_start += tensor.bytes.0,
            }
        }
        let mut freed = vec![false; trace.tensors.len()];
        let tensors = trace.tensors.len();
        // An op on the net begins when the device's ops before it have ended; the device waits for what it reads.
        let (mut on_device, mut from_net) = (None, vec![None; tensors]);
        // Each op's workspace is one more buffer, which that op alone uses.
        for (index, op) in trace.ops.iter().enumerate() {
            let bytes = |t: &schema::TensorId| trace.tensors[t.index()].bytes.0;
            let mut allocates = appears[index] + op.writes.iter().map(bytes).sum::<u64>();
            for pair in &op.in_place {
                let shared = bytes(&pair.input).min(bytes(&pair.output));
                allocates -= shared;
                program.gives_back[pair.input.index()] -= shared;
            }
            program.gives_back.push(op.workspace.0);
            let (lane, after): (_, Vec<u32>) = match op.on {
                Processor::Net => (Lane::Net, Vec::from_iter(on_device)),
                _ => (Lane::Compute, op.reads.iter().filter_map(|t| from_net[t.index()]).collect()),
            };
            if lane == Lane::Compute {
                on_device = Some(index as u32);
            } else {
                let filled = op.writes.iter().chain(op.mutates.iter().flatten());
                filled.for_each(|t| from_net[t.index()] = Some(index as u32));
            }
            program.push(lane, op.duration.0, after, allocates + op.workspace.0);
            program.last_uses.push(op.frees.iter().map(|t| t.0).chain([(tensors + index) as u32]));
            op.frees.iter().for_each(|t| freed[t.index()] = true);
        }
        program.users = freed.iter().map(|freed| u32::from(*freed)).collect();
        program.users.resize(tensors + trace.ops.len(), 1);
        program
    }

    /// How many actions there are.
    pub fn len(&self) -> usize {
        self.lane.len()
    }

    /// Whether there is no action.
    pub fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    fn empty(speeds: Speeds) -> Self {
        Self {
            lane: Vec::new(),
            duration: Vec::new(),
            after: Lists::default(),
            queues: Default::default(),
            allocates: Vec::new(),
            last_uses: Lists::default(),
            gives_back: Vec::new(),
            users: Vec::new(),
            at_start: 0,
            speeds,
        }
    }

    fn push(
        &mut self,
        lane: Lane,
        duration: u64,
        after: impl IntoIterator<Item = u32>,
        allocates: u64,
    ) {
        self.queues[lane.index()].push(self.lane.len() as u32);
        self.lane.push(lane);
        self.duration.push(duration);
        self.after.push(after);
        self.allocates.push(allocates);
    }

    fn find_last_uses(
        &mut self,
        buffers: usize,
        uses: impl Iterator<Item = Vec<u32>>,
        stays: impl Fn(usize) -> bool,
    ) {
        const NEVER: u32 = u32::MAX;
        let mut last = vec![[NEVER; Lane::COUNT]; buffers];
        for (action, used) in uses.enumerate() {
            for buffer in used {
                last[buffer as usize][self.lane[action].index()] = action as u32;
            }
        }
        let mut by_action = vec![Vec::new(); self.lane.len()];
        self.users = vec![0; buffers];
        for (buffer, last) in last.iter().enumerate().filter(|(buffer, _)| !stays(*buffer)) {
            for action in last.iter().filter(|action| **action != NEVER) {
                by_action[*action as usize].push(buffer as u32);
                self.users[buffer] += 1;
            }
        }
        for buffers in by_action {
            self.last_uses.push(buffers);
        }
    }
}
