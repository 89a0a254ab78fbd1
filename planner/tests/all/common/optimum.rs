//! The shortest iteration of all plans, whoever makes them: a search through all states that lanes
//! and memory can be in (Dijkstra's). Lanes do not slow each other. For a handful of ops and
//! tensors.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use planner::Problem;
use schema::{Bytes, Direction, Nanos, TensorId};

const LANES: usize = 4;
const COMPUTE: usize = 0;

/// A tensor, or its compressed form by a codec.
struct Form {
    tensor: usize,
    codec: Option<u8>,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Run(usize),
    Again(usize),
    ToHost(usize),
    FromHost(usize),
    Codec,
}

struct Action {
    what: What,
    lane: usize,
    time: u64,
    reads: u32,
    writes: u32,
    /// Inputs that outputs are laid over.
    overwrites: u32,
    allocates: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    /// The first op that has not started.
    next: u8,
    /// Forms that are on the device and on the host.
    device: u32,
    host: u32,
    /// What each lane does, and how long it still does that.
    lanes: [Option<(u16, u64)>; LANES],
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    forms: Vec<Form>,
    actions: Vec<Action>,
    constants: u32,
    outliving: u32,
    /// Which forms are of a tensor.
    of_tensor: Vec<u32>,
}

/// The shortest iteration, none where nothing fits; an error where that takes a look at more
/// states.
pub fn optimum(problem: &Problem, most_states: usize) -> Result<Option<Nanos>, ()> {
    let lanes: &[bool] = match problem.codecs.costs.lane() {
        Some(_) if problem.allowed.compress => &[false, true],
        _ => &[false],
    };
    let mut best = None;
    for codec_lane in lanes {
        let found = Search::new(problem, *codec_lane).run(most_states)?;
        best = [best, found].into_iter().flatten().min();
    }
    Ok(best.map(Nanos))
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'a>, codec_lane: bool) -> Self {
        let trace = problem.trace;
        let tensors = trace.tensors.len();
        let whole =
            |(tensor, t): (usize, &schema::Tensor)| Form { tensor, codec: None, bytes: t.bytes.0 };
        let mut forms: Vec<Form> = trace.tensors.iter().enumerate().map(whole).collect();
        let codecs = if problem.allowed.compress { problem.codecs.costs.len() as u8 } else { 0 };
        for codec in 0..codecs {
            for tensor in 0..tensors {
                if let Some(cost) = problem.codecs.costs.cost(codec, TensorId::from_index(tensor)) {
                    forms.push(Form { tensor, codec: Some(codec), bytes: cost.reserved.0 });
                }
            }
        }
        assert!(forms.len() <= 32, "few enough for a mask");
        let mut of_tensor = vec![0; tensors];
        for (index, form) in forms.iter().enumerate() {
            of_tensor[form.tensor] |= 1 << index;
        }
        let mask = |ids: &[TensorId]| ids.iter().fold(0u32, |mask, t| mask | 1 << t.index());
        let ids = (0..tensors).map(TensorId::from_index);
        let constants: Vec<_> =
            ids.clone().filter(|t| problem.model.producer(*t).is_none()).collect();
        let outliving: Vec<_> = ids.filter(|t| problem.model.last_use(*t).is_none()).collect();
        let mut search = Self {
            problem,
            actions: Vec::new(),
            constants: mask(&constants),
            outliving: mask(&outliving),
            of_tensor,
            forms,
        };
        search.add_runs();
        search.add_copies();
        search.add_codecs(if codec_lane { 3 } else { COMPUTE });
        search
    }

    fn add_runs(&mut self) {
        for (index, op) in self.problem.trace.ops.iter().enumerate() {
            let bytes = |t: &TensorId| self.problem.trace.tensors[t.index()].bytes.0;
            let mask = |ids: &[TensorId]| ids.iter().fold(0u32, |mask, t| mask | 1 << t.index());
            let all = |writes: &[TensorId]| writes.iter().map(bytes).sum::<u64>() + op.workspace.0;
            let shared: u64 =
                op.in_place.iter().map(|p| bytes(&p.input).min(bytes(&p.output))).sum();
            let over: Vec<TensorId> = op.in_place.iter().map(|p| p.input).collect();
            let mut ways = vec![(0, 0)];
            if !over.is_empty() {
                ways.push((mask(&over), shared));
            }
            let again = op.recompute.unwrap_or(op.duration).0;
            for (overwrites, shared) in ways {
                let action = |what, time, reads: &[TensorId], writes: &[TensorId]| Action {
                    what,
                    lane: COMPUTE,
                    time,
                    reads: mask(reads),
                    writes: mask(writes),
                    overwrites,
                    allocates: all(writes) - shared,
                };
                self.actions.push(action(What::Run(index), op.duration.0, &op.reads, &op.writes));
                // Pairs of a rerun with operands of its own are left aside.
                let may = overwrites == 0 || op.rerun.is_none();
                if self.problem.allowed.recompute && op.rerunnable && may {
                    let (reads, writes) = (op.reads_again(), op.writes_again());
                    self.actions.push(action(What::Again(index), again, reads, writes));
                }
            }
        }
    }

    fn add_copies(&mut self) {
        for index in 0..self.forms.len() {
            let bytes = self.forms[index].bytes;
            if !self.problem.allowed.swap || bytes == 0 {
                continue;
            }
            let time = |direction| self.problem.machine.link.copy_time(direction, Bytes(bytes)).0;
            let out = Action {
                what: What::ToHost(index),
                lane: 1,
                time: time(Direction::D2h),
                reads: 1 << index,
                writes: 0,
                overwrites: 0,
                allocates: 0,
            };
            let back = Action {
                what: What::FromHost(index),
                lane: 2,
                time: time(Direction::H2d),
                reads: 0,
                writes: 1 << index,
                overwrites: 0,
                allocates: bytes,
            };
            self.actions.extend([out, back]);
        }
    }

    fn add_codecs(&mut self, lane: usize) {
        for index in 0..self.forms.len() {
            let Form { tensor, codec: Some(codec), bytes } = self.forms[index] else { continue };
            let costs = &self.problem.codecs.costs;
            let cost = costs.cost(codec, TensorId::from_index(tensor)).expect("it has a form");
            let whole = self.forms[tensor].bytes;
            let action = |time, reads, writes, allocates| Action {
                what: What::Codec,
                lane,
                time,
                reads,
                writes,
                overwrites: 0,
                allocates,
            };
            self.actions.push(action(cost.compress.0, 1 << tensor, 1 << index, bytes));
            self.actions.push(action(cost.decompress.0, 1 << index, 1 << tensor, whole));
        }
    }

    fn bytes(&self, mask: u32) -> u64 {
        let there = self.forms.iter().enumerate().filter(|(index, _)| mask >> index & 1 == 1);
        there.map(|(_, form)| form.bytes).sum()
    }

    fn run(&self, most_states: usize) -> Result<Option<u64>, ()> {
        let start = State { next: 0, device: self.constants, host: 0, lanes: [None; LANES] };
        if self.bytes(start.device) > self.problem.budget.0 {
            return Ok(None);
        }
        let mut best = HashMap::from([(start, 0)]);
        let mut open = BinaryHeap::from([Reverse((0u64, start))]);
        let mut following = Vec::new();
        while let Some(Reverse((time, state))) = open.pop() {
            if best[&state] < time {
                continue;
            }
            let idle = state.lanes.iter().all(Option::is_none);
            let all_run = usize::from(state.next) == self.problem.trace.ops.len();
            if idle && all_run && state.device & self.outliving == self.outliving {
                return Ok(Some(time));
            }
            if best.len() > most_states {
                return Err(());
            }
            following.clear();
            self.proceed(&state, &mut following);
            for (after, following) in following.drain(..) {
                let at = time + after;
                let known = best.entry(following).or_insert(u64::MAX);
                if at < *known {
                    *known = at;
                    open.push(Reverse((at, following)));
                }
            }
        }
        Ok(None)
    }

    fn proceed(&self, state: &State, following: &mut Vec<(u64, State)>) {
        let running =
            || state.lanes.iter().flatten().map(|(id, _)| &self.actions[usize::from(*id)]);
        if let Some(dt) = state.lanes.iter().flatten().map(|(_, left)| *left).min() {
            let mut later = *state;
            for lane in &mut later.lanes {
                let Some((id, left)) = lane else { continue };
                *left -= dt;
                if *left == 0 {
                    let action = &self.actions[usize::from(*id)];
                    later.device = later.device & !action.overwrites | action.writes;
                    if let What::ToHost(form) = action.what {
                        later.host |= 1 << form;
                    }
                    *lane = None;
                }
            }
            following.push((dt, later));
        }
        let read = running().fold(0, |mask, action| mask | action.reads);
        let overwritten = running().fold(0, |mask, action| mask | action.overwrites);
        let coming = running().fold(0, |mask, action| mask | action.writes);
        let live = self.bytes(state.device) + running().map(|action| action.allocates).sum::<u64>();
        for (id, action) in self.actions.iter().enumerate() {
            let may = match action.what {
                What::Run(op) => op == usize::from(state.next),
                What::Again(op) => {
                    let copies = self.problem.allowed.swap || self.problem.allowed.compress;
                    let until = self.problem.model.rerunnable_until(schema::OpId(op as u32));
                    op < usize::from(state.next) && (copies || usize::from(state.next) <= until)
                }
                What::ToHost(form) => state.host >> form & 1 == 0,
                What::FromHost(form) => state.host >> form & 1 == 1,
                What::Codec => true,
            };
            let inputs_there = action.reads & !state.device == 0;
            let is_free = action.reads & overwritten == 0 && action.overwrites & read == 0;
            let is_news = action.what == What::Run(usize::from(state.next))
                || matches!(action.what, What::ToHost(_))
                || action.writes & !(state.device | coming) != 0;
            if !may || state.lanes[action.lane].is_some() || !inputs_there || !is_free || !is_news {
                continue;
            }
            let excess = (live + action.allocates).saturating_sub(self.problem.budget.0);
            let held = self.held(usize::from(state.next));
            let droppable = state.device & !(read | action.reads | held);
            self.each_drop(droppable, excess, |dropped| {
                let mut then = *state;
                then.device &= !dropped;
                if self.lost_a_constant(&then, coming) {
                    return;
                }
                then.lanes[action.lane] = Some((id as u16, action.time));
                then.next += u8::from(matches!(action.what, What::Run(_)));
                following.push((0, then));
            });
        }
    }

    /// What is held and must be there when an op starts.
    fn held(&self, next: usize) -> u32 {
        let tensors = (0..self.of_tensor.len()).map(TensorId::from_index);
        let held = tensors.filter(|tensor| self.problem.model.holds(*tensor, next));
        held.fold(0, |mask, tensor| mask | 1 << tensor.index())
    }

    fn lost_a_constant(&self, state: &State, coming: u32) -> bool {
        let there = state.device | state.host | coming;
        let is_constant = |tensor: usize| self.constants >> tensor & 1 == 1;
        (0..self.of_tensor.len()).any(|t| is_constant(t) && there & self.of_tensor[t] == 0)
    }

    /// Tells of all sets of forms, none of which has one too many, that make enough room.
    fn each_drop(&self, droppable: u32, excess: u64, mut tell: impl FnMut(u32)) {
        if excess == 0 {
            return tell(0);
        }
        let mut set = droppable;
        while set != 0 {
            let bytes = self.bytes(set);
            let is_minimal =
                |form: usize| set >> form & 1 == 0 || bytes - self.forms[form].bytes < excess;
            if bytes >= excess && (0..self.forms.len()).all(is_minimal) {
                tell(set);
            }
            set = (set - 1) & droppable;
        }
    }
}
