//! What each task wants of its action's operands.

use schema::{
    Action, Buffer, BufferId, CodecId, CodecRef, HostBuffer, HostBufferId, OpId, Plan, Processor,
    Task, TensorId,
};

use crate::prepared::{Codec, Does, Ends, Fills, Prepare, Prepared, Read, Write};
use crate::wanted::Wanted;
use crate::wrong::{Rule, Wrong};

impl<'p> Prepared<'p> {
    /// Reads a well-formed plan.
    ///
    /// # Errors
    /// Where an action does not have what its task or op wants, memory lies outside of its arena or
    /// is smaller than what it holds, or the plan does not run each op once.
    pub fn new(plan: &'p Plan, wanted: &'p Wanted) -> Result<Self, Wrong> {
        let codec = |codec: &CodecRef| Codec {
            varies: codec.fidelity.size_varies(),
            is_lossy: codec.fidelity != schema::Fidelity::Lossless,
        };
        let mut prepared = Self {
            plan,
            wanted,
            actions: Vec::with_capacity(plan.actions.len()),
            reads: Vec::new(),
            writes: Vec::new(),
            there: Vec::new(),
            lanes: Default::default(),
            codecs: plan.codecs.iter().map(codec).collect(),
        };
        prepared.check_memory()?;
        for id in 0..plan.actions.len() {
            prepare(&mut prepared, id)?;
            let lane = prepared.actions[id].lane;
            prepared.lanes[lane].push(id as u32);
        }
        prepared.check_ops()?;
        prepared.check_outliving()?;
        prepared.check_homes()?;
        prepared.check_held()?;
        Ok(prepared)
    }
}

fn prepare(prepared: &mut Prepared, id: usize) -> Result<(), Wrong> {
    let plan = prepared.plan;
    let action = &plan.actions[id];
    let (reads, writes) = (prepared.reads.len() as u32, prepared.writes.len() as u32);
    let there = prepared.there.len() as u32;
    let does = match action.task {
        Task::Run(op) | Task::Recompute(op) if action.on == Processor::Host => {
            prepare_there(prepared, id, action, op)?
        }
        Task::Run(op) | Task::Recompute(op) => prepare_op(prepared, id, action, op)?,
        _ => prepare_transfer(prepared, id, action)?,
    };
    let reads = (reads, prepared.reads.len() as u32);
    let writes = (writes, prepared.writes.len() as u32);
    let lane = plan.lane(action).index();
    let there = (there, prepared.there.len() as u32);
    prepared.actions.push(Prepare { does, lane, reads, writes, there });
    Ok(())
}

/// An op on the host's processor reads each of its tensors, as itself, from one host buffer, changes
/// there what it changes, and makes nothing.
fn prepare_there(
    prepared: &mut Prepared,
    id: usize,
    action: &Action,
    op: OpId,
) -> Result<Does, Wrong> {
    let wrong = |what: String| Err(Wrong::at(Rule::Operands, id, what));
    let Some(work) = prepared.wanted.ops.get(op.index()) else {
        return wrong(format!("{op} is not in the trace"));
    };
    let on_device = [&action.reads, &action.writes, &action.holds];
    if on_device.iter().any(|list| !list.is_empty()) || !work.writes.is_empty() {
        return wrong(format!("{op} runs on the host and uses the device"));
    }
    let hosts = &prepared.plan.host_buffers;
    for &(tensor, version) in &work.reads {
        let is_there = |id: &&HostBufferId| hosts[id.index()].tensor == tensor;
        let mut of_tensor = action.there.iter().filter(is_there);
        let (Some(only), None) = (of_tensor.next(), of_tensor.next()) else {
            return wrong(format!("{op} has no {tensor} to read on the host, or several"));
        };
        let ends = if work.changes.contains(&tensor) { Ends::Changed } else { Ends::AsItWas };
        prepared.there.push(Read { buffer: only.index(), version: Some(version), ends });
    }
    match action.there.len() == work.reads.len() {
        true => Ok(Does::There),
        false => wrong(format!("{op} reads more on the host than it wants")),
    }
}

/// An op reads each of its tensors, as itself, from a buffer, fills a buffer for each that it
/// makes, and has room to work in.
///
/// It may name buffers beside those: what is read must be there, what is written holds nothing.
fn prepare_op(
    prepared: &mut Prepared,
    id: usize,
    action: &Action,
    op: OpId,
) -> Result<Does, Wrong> {
    let wrong = |rule, what: String| Err(Wrong::at(rule, id, what));
    let Some(work) = prepared.wanted.ops.get(op.index()) else {
        return wrong(Rule::Operands, format!("{op} is not in the trace"));
    };
    let is_first = matches!(action.task, Task::Run(_));
    let (reads, writes) = match is_first {
        true => (&work.reads, &work.writes),
        false => (&work.again.0, &work.again.1),
    };
    let changes = |tensor: TensorId| is_first && work.changes.contains(&tensor);
    let buffers = &prepared.plan.buffers;
    let buffer = |id: BufferId| &buffers[id.index()];
    let holds = |id: BufferId, tensor: TensorId| {
        buffer(id).tensor == Some(tensor) && buffer(id).compressed.is_none()
    };
    for &(tensor, _) in reads {
        let of_tensor = action.reads.iter().filter(|id| holds(**id, tensor)).count();
        match of_tensor {
            0 => return wrong(Rule::Operands, format!("{op} has no {tensor} to read")),
            1 => {}
            _ if changes(tensor) => {
                return wrong(Rule::Operands, format!("{op} changes one of two of {tensor}"));
            }
            _ => {}
        }
    }
    for &tensor in writes {
        match action.writes.iter().filter(|id| holds(**id, tensor)).count() {
            1 => {}
            0 => return wrong(Rule::Operands, format!("{op} has nowhere to write {tensor}")),
            _ => return wrong(Rule::Operands, format!("{op} writes {tensor} twice")),
        }
    }
    let room = action.writes.iter().map(|id| buffer(*id)).filter(|b| b.tensor.is_none());
    let room = room.map(|b| b.bytes.0).max().unwrap_or_default();
    if room < work.workspace {
        return wrong(Rule::Size, format!("{op} works in {room} bytes, not {}", work.workspace));
    }
    for pair in &action.in_place {
        let (input, output) = (pair.input, pair.output);
        let may = work.in_place.iter().any(|p| holds(input, p.input) && holds(output, p.output));
        let inputs = action.in_place.iter().filter(|p| p.input == input).count();
        if !may || inputs > 1 || !action.reads.contains(&input) || !action.writes.contains(&output)
        {
            return wrong(Rule::InPlace, format!("{output} may not lie over {input}"));
        }
        // What is empty lies nowhere.
        let are_filled = buffer(input).bytes.0 > 0 && buffer(output).bytes.0 > 0;
        if are_filled && buffer(input).address != buffer(output).address {
            return wrong(Rule::InPlace, format!("{output} begins elsewhere than {input}"));
        }
    }
    for &id in &action.reads {
        let operand = reads.iter().find(|(tensor, _)| holds(id, *tensor));
        let ends = match action.in_place.iter().find(|pair| pair.input == id) {
            Some(pair) => Ends::Replaced { by: pair.output.index() },
            None if operand.is_some_and(|(tensor, _)| changes(*tensor)) => Ends::Changed,
            None => Ends::AsItWas,
        };
        let version = operand.map(|(_, version)| *version);
        prepared.reads.push(Read { buffer: id.index(), version, ends });
    }
    for &id in &action.writes {
        let is_output = writes.iter().any(|tensor| holds(id, *tensor));
        let fills = if is_output { Fills::Output } else { Fills::Nothing };
        prepared.writes.push(Write { buffer: id.index(), fills });
    }
    Ok(Does::Op)
}

/// Copies and codecs have one tensor, and one buffer on each side.
fn prepare_transfer(prepared: &mut Prepared, id: usize, action: &Action) -> Result<Does, Wrong> {
    let plan = prepared.plan;
    let wrong = |rule, what: &str| Err(Wrong::at(rule, id, what));
    let (Task::D2h(tensor) | Task::H2d(tensor) | Task::Compress(tensor) | Task::Decompress(tensor)) =
        action.task
    else {
        unreachable!("ops are prepared elsewhere");
    };
    let is_small = |id: BufferId| plan.buffers[id.index()].compressed;
    let sides = (&action.reads[..], &action.writes[..]);
    let does = match (action.task, sides) {
        (Task::D2h(_), ([_], [])) => action.host.map(|h| Does::D2h { host: h.index() }),
        (Task::H2d(_), ([], [_])) => action.host.map(|h| Does::H2d { host: h.index() }),
        (Task::Compress(_), ([raw], [small])) if is_small(*raw).is_none() => {
            let does = is_small(*small).map(|codec| fallback(prepared, id, action.host, codec));
            let does = does.transpose()?;
            does.map(|(codec, fallback)| Does::Compress { codec, fallback })
        }
        (Task::Decompress(_), ([small], [raw])) if is_small(*raw).is_none() => {
            let does = is_small(*small).map(|codec| fallback(prepared, id, action.host, codec));
            let does = does.transpose()?;
            does.map(|(codec, fallback)| Does::Decompress { codec, fallback })
        }
        _ => None,
    };
    let Some(does) = does else {
        return wrong(Rule::Operands, "its task has other operands than these");
    };
    if !action.in_place.is_empty() {
        return wrong(Rule::InPlace, "what it reads and what it writes are both needed");
    }
    let of_tensor = |buffer: &Buffer| buffer.tensor == Some(tensor);
    let named = action.reads.iter().chain(&action.writes);
    if !named.map(|id| &plan.buffers[id.index()]).all(of_tensor) {
        return wrong(Rule::Operands, "a buffer is another tensor's");
    }
    let host = match does {
        Does::D2h { host } | Does::H2d { host } => Some(host),
        Does::Compress { fallback, .. } | Does::Decompress { fallback, .. } => fallback,
        Does::Op | Does::There => None,
    };
    if host.is_some_and(|host| plan.host_buffers[host].tensor != tensor) {
        return wrong(Rule::Operands, "the host buffer is another tensor's");
    }
    for id in &action.reads {
        let read = Read { buffer: id.index(), version: None, ends: Ends::AsItWas };
        prepared.reads.push(read);
    }
    for id in &action.writes {
        prepared.writes.push(Write { buffer: id.index(), fills: Fills::Carried });
    }
    Ok(does)
}

/// A codec whose size varies needs a host buffer that has room for the tensor itself.
fn fallback(
    prepared: &Prepared,
    id: usize,
    host: Option<HostBufferId>,
    codec: CodecId,
) -> Result<(u32, Option<usize>), Wrong> {
    if !prepared.codecs[codec.index()].varies {
        return Ok((codec.0, None));
    }
    let Some(host) = host.map(HostBufferId::index) else {
        return Err(Wrong::at(Rule::Codec, id, "data that does worse has nowhere to go"));
    };
    let HostBuffer { tensor, bytes, .. } = prepared.plan.host_buffers[host];
    match bytes.0 < prepared.wanted.tensors[tensor.index()].bytes {
        true => Err(Wrong::at(Rule::Size, id, "data that does worse has too little room")),
        false => Ok((codec.0, Some(host))),
    }
}
