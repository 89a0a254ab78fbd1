//! One of several ranks that train a network together, each on a batch of its own.
//!
//! Data parallelism, and the three stages of ZeRO (Rajbhandari et al. 2020, *ZeRO: Memory Optimizations Toward
//! Training Trillion Parameter Models*, section 5): a rank has its share of the optimizer's state (Pos), of the
//! gradients too (Pos+g), and of the parameters too (Pos+g+p). What goes over the network is theirs (section 7): twice
//! the parameters, of which stage 3 has one and a half times as much. Where we depart: of stage 1, which the paper
//! leaves open, gradients stay whole, as frameworks have them, and each rank wants the sum of its share alone.

use std::collections::BTreeMap;

use schema::{
    Bytes, InPlace, Nanos, NetLink, Op, OpKind, Phase, Processor, Role, Shard, Tensor, TensorId,
    Trace,
};

/// What goes over the network at once, at least, where more is waiting: a bucket of PyTorch's (Li et al. 2020,
/// *PyTorch Distributed*, section 4.2; `bucket_cap_mb`).
const BUCKET: Bytes = Bytes(25 << 20);

/// How many ranks there are, and what that changes.
pub(crate) struct Ranks<'a> {
    pub count: u32,
    pub shard: Option<Shard>,
    pub network: &'a NetLink,
    /// Time of an update of so many operations and bytes.
    pub update: &'a dyn Fn(u64, u64) -> Nanos,
    /// Time of adding so many bytes to as many.
    pub add: &'a dyn Fn(u64) -> Nanos,
}

/// What an update reads of one parameter: the parameter, and its gradients, whose sum it takes.
type Updated = (TensorId, Vec<TensorId>);

impl Ranks<'_> {
    /// A rank's iteration, of that of a device alone.
    ///
    /// # Errors
    /// Where an op of the update phase is none that frameworks' optimizers have.
    pub fn rank_of(&self, trace: Trace) -> Result<Trace, &'static str> {
        let is_update = |op: &Op| op.kind == OpKind::Optimizer;
        let updates: Vec<Vec<Updated>> = (trace.ops.iter())
            .map(|op| if is_update(op) { updated(&trace, op) } else { Ok(Vec::new()) })
            .collect::<Result<_, _>>()?;
        // After which op each gradient is there for good.
        let mut touched = BTreeMap::new();
        for (index, op) in trace.ops.iter().enumerate().filter(|(_, op)| !is_update(op)) {
            touched.extend(op.reads.iter().chain(&op.writes).map(|t| (*t, index)));
        }
        let mut ready: BTreeMap<usize, Vec<&Updated>> = BTreeMap::new();
        for (index, of) in
            updates.iter().enumerate().flat_map(|(i, all)| all.iter().map(move |of| (i, of)))
        {
            let last = of.1.iter().filter_map(|gradient| touched.get(gradient)).max();
            let last = last.filter(|last| **last < index).ok_or("a gradient that is not there")?;
            ready.entry(*last).or_default().push(of);
        }
        let mut rank = Rank {
            by: self,
            trace: &trace,
            tensors: trace.tensors.iter().map(|tensor| self.resident(tensor)).collect(),
            ops: Vec::with_capacity(trace.ops.len()),
            sums: BTreeMap::new(),
            gradients: Vec::new(),
            parameters: Vec::new(),
        };
        let windows = self.windows(&trace);
        let (mut at, mut gathered, mut ahead) = (0, BTreeMap::new(), BTreeMap::new());
        for (index, op) in trace.ops.iter().enumerate() {
            if let Some(window) = windows.get(at).filter(|window| window.first == index) {
                gathered = std::mem::take(&mut ahead);
                if gathered.is_empty() {
                    gathered = rank.gather(window);
                }
                at += 1;
                // While a window computes, the next of the phase is gathered.
                let next = windows.get(at).filter(|next| next.phase == window.phase);
                ahead = next.map(|next| rank.gather(next)).unwrap_or_default();
            }
            if is_update(op) {
                rank.update(op, &updates[index]);
                continue;
            }
            let mut op = op.clone();
            for read in &mut op.reads {
                if let Some((whole, last)) = gathered.get(read) {
                    *read = *whole;
                    op.frees.extend((*last == index).then_some(*whole));
                }
            }
            rank.ops.push(op);
            for of in ready.get(&index).into_iter().flatten() {
                rank.reduce(of);
            }
        }
        rank.flush_parameters();
        let Rank { tensors, ops, .. } = rank;
        Ok(Trace { tensors, ops, ..trace })
    }

    /// What a rank has of a tensor between iterations.
    fn resident(&self, of: &Tensor) -> Tensor {
        let sharded = match of.role {
            Role::OptimizerState => self.shard.is_some(),
            Role::Parameter => self.shard == Some(Shard::Zero3),
            _ => false,
        };
        if sharded { self.share(of) } else { of.clone() }
    }

    /// A rank's share of a tensor: as frameworks do, the last is filled up.
    fn share(&self, of: &Tensor) -> Tensor {
        let width = of.dtype.map_or(1, schema::Dtype::bytes);
        let elements = (of.bytes.0 / width).div_ceil(self.count.into());
        Tensor { name: format!("{}.share", of.name), bytes: Bytes(elements * width), ..of.clone() }
    }

    /// When parameters are there whole: ops one after another whose parameters fill a bucket, or one with more.
    fn windows(&self, trace: &Trace) -> Vec<Window> {
        let mut windows: Vec<Window> = Vec::new();
        if self.shard != Some(Shard::Zero3) {
            return windows;
        }
        let bytes = |t: TensorId| trace.tensors[t.index()].bytes;
        let is_parameter = |t: &&TensorId| trace.tensors[t.index()].role == Role::Parameter;
        for (index, op) in trace.ops.iter().enumerate() {
            let reads: Vec<TensorId> = op.reads.iter().filter(is_parameter).copied().collect();
            if reads.is_empty() || op.kind == OpKind::Optimizer {
                continue;
            }
            let fits = windows.last().is_some_and(|window: &Window| {
                let new = reads.iter().filter(|t| !window.last.contains_key(t));
                let all = window.last.keys().chain(new.clone()).map(|t| bytes(*t)).sum::<Bytes>();
                window.phase == op.phase && (new.count() == 0 || all <= BUCKET)
            });
            if !fits {
                windows.push(Window { first: index, phase: op.phase, last: BTreeMap::new() });
            }
            let window = windows.last_mut().expect("there is one by now");
            window.last.extend(reads.into_iter().map(|read| (read, index)));
        }
        windows
    }
}

/// A stretch of ops for which parameters are gathered, and which of them reads each last.
struct Window {
    first: usize,
    phase: Phase,
    last: BTreeMap<TensorId, usize>,
}

/// What an update reads, as frameworks' optimizers order it: for each parameter its state, itself, its gradients.
fn updated(trace: &Trace, op: &Op) -> Result<Vec<Updated>, &'static str> {
    let mut all: Vec<Updated> = Vec::new();
    for &read in &op.reads {
        match trace.tensors[read.index()].role {
            Role::OptimizerState => {}
            Role::Parameter => all.push((read, Vec::new())),
            Role::Gradient => all.last_mut().ok_or("a gradient of nothing")?.1.push(read),
            _ => return Err("an update that reads more than parameters, state and gradients"),
        }
    }
    if all.iter().any(|(_, gradients)| gradients.is_empty()) {
        return Err("a gradient that two parameters have in common");
    }
    let outlives = |gradient: &TensorId| !op.frees.contains(gradient);
    if all.iter().flat_map(|(_, gradients)| gradients).any(outlives) {
        return Err("gradients that outlive their update");
    }
    Ok(all)
}

struct Rank<'a> {
    by: &'a Ranks<'a>,
    trace: &'a Trace,
    tensors: Vec<Tensor>,
    ops: Vec<Op>,
    /// What an update reads in place of each gradient.
    sums: BTreeMap<TensorId, TensorId>,
    /// Gradients that wait for the others of their bucket.
    gradients: Vec<TensorId>,
    /// Parameters that wait so, after their update.
    parameters: Vec<TensorId>,
}

impl Rank<'_> {
    fn tensor(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        TensorId::from_index(self.tensors.len() - 1)
    }

    fn bytes(&self, of: &[TensorId]) -> Bytes {
        of.iter().map(|t| self.tensors[t.index()].bytes).sum()
    }

    /// An op of all ranks, named after the first tensor, on so many bytes that go round the ring.
    fn collective(&mut self, kind: (OpKind, Phase), first: TensorId, bytes: Bytes) -> &mut Op {
        let (what, rounds) = match kind.0 {
            OpKind::AllReduce => ("all_reduce", 2),
            OpKind::ReduceScatter => ("reduce_scatter", 1),
            _ => ("all_gather", 1),
        };
        let time = self.by.network.ring_time(self.by.count, bytes).0.saturating_mul(rounds);
        let name = self.tensors[first.index()].name.trim_end_matches(".share");
        let op = Op::new(format!("{what}.{name}"), kind, Nanos(time));
        self.ops.push(Op { on: Processor::Net, ..op });
        self.ops.last_mut().expect("just pushed")
    }

    /// Gathers the parameters of a window: what each is there as, and which op reads it last.
    fn gather(&mut self, window: &Window) -> BTreeMap<TensorId, (TensorId, usize)> {
        let whole: BTreeMap<TensorId, (TensorId, usize)> = (window.last.iter())
            .map(|(parameter, last)| {
                let of = &self.trace.tensors[parameter.index()];
                let name = format!("{}.whole", of.name);
                (*parameter, (self.tensor(Tensor { name, ..of.clone() }), *last))
            })
            .collect();
        let reads: Vec<TensorId> = whole.keys().copied().collect();
        let writes: Vec<TensorId> = whole.values().map(|(whole, _)| *whole).collect();
        let bytes = self.bytes(&writes);
        let op = self.collective((OpKind::AllGather, window.phase), reads[0], bytes);
        (op.reads, op.writes) = (reads, writes);
        whole
    }

    /// A parameter's gradients are there: they are added up and wait for their bucket.
    fn reduce(&mut self, (_, gradients): &Updated) {
        let mut sum = gradients[0];
        for &other in &gradients[1..] {
            let of = self.tensors[sum.index()].clone();
            let (name, bytes) = (format!("{}.sum", of.name), of.bytes);
            let total = self.tensor(Tensor { name: name.clone(), ..of });
            let kind = (OpKind::Elementwise, Phase::Backward);
            self.ops.push(Op {
                reads: vec![sum, other],
                writes: vec![total],
                in_place: vec![InPlace { input: sum, output: total }],
                frees: vec![sum, other],
                bytes_moved: Some(Bytes(3 * bytes.0)),
                ..Op::new(name, kind, (self.by.add)(bytes.0))
            });
            sum = total;
        }
        self.sums.extend(gradients.iter().map(|gradient| (*gradient, sum)));
        self.gradients.push(sum);
        if self.bytes(&self.gradients) >= BUCKET {
            self.flush_gradients();
        }
    }

    fn flush_gradients(&mut self) {
        let bucket = std::mem::take(&mut self.gradients);
        let Some(&first) = bucket.first() else { return };
        let bytes = self.bytes(&bucket);
        let in_place = self.by.shard < Some(Shard::Zero2);
        let sums: Vec<TensorId> = (bucket.iter())
            .map(|gradient| {
                let of = self.tensors[gradient.index()].clone();
                let reduced = if in_place { of } else { self.by.share(&of) };
                let name = reduced.name.trim_end_matches(".share");
                self.tensor(Tensor { name: format!("{name}.reduced"), ..reduced.clone() })
            })
            .collect();
        let over =
            |(input, output): (&TensorId, &TensorId)| InPlace { input: *input, output: *output };
        let pairs = bucket.iter().zip(&sums).map(over).filter(|_| in_place).collect();
        let kind = self.by.shard.map_or(OpKind::AllReduce, |_| OpKind::ReduceScatter);
        let op = self.collective((kind, Phase::Backward), first, bytes);
        (op.reads, op.frees) = (bucket.clone(), bucket.clone());
        (op.writes, op.in_place) = (sums.clone(), pairs);
        let now: BTreeMap<TensorId, TensorId> = bucket.into_iter().zip(sums).collect();
        for sum in self.sums.values_mut() {
            *sum = now.get(sum).copied().unwrap_or(*sum);
        }
    }

    fn update(&mut self, op: &Op, of: &[Updated]) {
        let waits = |t: &TensorId| self.sums.get(t).is_some_and(|sum| self.gradients.contains(sum));
        if of.iter().flat_map(|(_, gradients)| gradients).any(waits) {
            self.flush_gradients();
        }
        let mut op = op.clone();
        for list in [&mut op.reads, &mut op.frees] {
            let mut now: Vec<TensorId> = Vec::with_capacity(list.len());
            for tensor in list.iter().map(|t| self.sums.get(t).unwrap_or(t)) {
                // Of several gradients there is one sum.
                if !now.contains(tensor) {
                    now.push(*tensor);
                }
            }
            *list = now;
        }
        if self.by.shard.is_some() {
            let share = |all: u64| all.div_ceil(self.by.count.into());
            let (flops, bytes) = (op.flops.map(share), op.bytes_moved.map(|bytes| share(bytes.0)));
            op.duration = (self.by.update)(flops.unwrap_or(0), bytes.unwrap_or(0));
            (op.flops, op.bytes_moved) = (flops, bytes.map(Bytes));
        }
        self.ops.push(op);
        if matches!(self.by.shard, Some(Shard::Zero1 | Shard::Zero2)) {
            self.parameters.extend(of.iter().map(|(parameter, _)| *parameter));
            if self.bytes(&self.parameters) >= BUCKET {
                self.flush_parameters();
            }
        }
    }

    /// What a rank has updated goes to all others, in place.
    fn flush_parameters(&mut self) {
        let bucket = std::mem::take(&mut self.parameters);
        let Some(&first) = bucket.first() else { return };
        let bytes = self.bytes(&bucket);
        let op = self.collective((OpKind::AllGather, Phase::Update), first, bytes);
        (op.rerunnable, op.mutates) = (false, Some(bucket.clone()));
        op.reads = bucket;
    }
}

#[cfg(test)]
#[path = "ranks_tests.rs"]
mod tests;
