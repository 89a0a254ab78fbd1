//! Changes to memory, and to what is said of it.

use schema::{Buffer, Bytes, CodecId, Fidelity, HostBuffer, Plan, Predicted, TensorId};

use super::subject::Subject;

fn buffer_with(s: &mut Subject, serves: impl Fn(&Buffer) -> bool) -> Option<usize> {
    s.one_of(s.plan.buffers.len(), |plan, i| serves(&plan.buffers[i]))
}

/// A distance of any magnitude up to about that of a buffer.
fn distance(s: &mut Subject, bytes: u64) -> u64 {
    match s.random.below(4) {
        0 => 1,
        1 => 256,
        2 => bytes.max(1),
        _ => 1 + s.random.below(2 * bytes + 1),
    }
}

/// Moves an address up or down.
fn shift_by(s: &mut Subject, address: u64, bytes: Bytes) -> Option<u64> {
    let by = distance(s, bytes.0);
    if s.random.one_in(2) { Some(address + by) } else { address.checked_sub(by) }
}

pub(super) fn shift(s: &mut Subject) -> Option<()> {
    let buffer = buffer_with(s, |b| b.bytes.0 > 0)?;
    let Buffer { address, bytes, .. } = s.plan.buffers[buffer];
    s.plan.buffers[buffer].address = shift_by(s, address, bytes)?;
    Some(())
}

pub(super) fn move_onto(s: &mut Subject) -> Option<()> {
    let buffer = buffer_with(s, |b| b.bytes.0 > 0)?;
    let other = buffer_with(s, |b| b.bytes.0 > 0)?;
    let address = s.plan.buffers[other].address;
    let old = std::mem::replace(&mut s.plan.buffers[buffer].address, address);
    (old != address).then_some(())
}

pub(super) fn swap_addresses(s: &mut Subject) -> Option<()> {
    let a = buffer_with(s, |b| b.bytes.0 > 0)?;
    let bytes = s.plan.buffers[a].bytes;
    let b = match s.random.one_in(2) {
        true => s.one_of(s.plan.buffers.len(), |p, i| i != a && p.buffers[i].bytes == bytes)?,
        false => buffer_with(s, |b| b.bytes.0 > 0)?,
    };
    let (first, second) = (s.plan.buffers[a].address, s.plan.buffers[b].address);
    s.plan.buffers[a].address = second;
    s.plan.buffers[b].address = first;
    (first != second).then_some(())
}

fn smaller(s: &mut Subject, bytes: Bytes) -> Bytes {
    match s.random.below(3) {
        0 => Bytes(bytes.0 - 1),
        1 => Bytes(bytes.0 / 2),
        _ => Bytes(s.random.below(bytes.0)),
    }
}

pub(super) fn shrink(s: &mut Subject) -> Option<()> {
    let buffer = buffer_with(s, |b| b.bytes.0 > 0)?;
    s.plan.buffers[buffer].bytes = smaller(s, s.plan.buffers[buffer].bytes);
    Some(())
}

pub(super) fn grow(s: &mut Subject) -> Option<()> {
    let buffer = buffer_with(s, |_| true)?;
    let by = distance(s, s.plan.buffers[buffer].bytes.0);
    s.plan.buffers[buffer].bytes.0 += by;
    Some(())
}

fn host_with(s: &mut Subject) -> Option<usize> {
    s.one_of(s.plan.host_buffers.len(), |plan, i| plan.host_buffers[i].bytes.0 > 0)
}

pub(super) fn shift_host(s: &mut Subject) -> Option<()> {
    let host = host_with(s)?;
    let HostBuffer { address, bytes, .. } = s.plan.host_buffers[host];
    s.plan.host_buffers[host].address = shift_by(s, address, bytes)?;
    Some(())
}

pub(super) fn shrink_host(s: &mut Subject) -> Option<()> {
    let host = host_with(s)?;
    s.plan.host_buffers[host].bytes = smaller(s, s.plan.host_buffers[host].bytes);
    Some(())
}

pub(super) fn other_label(s: &mut Subject) -> Option<()> {
    let tensor = TensorId(s.random.below(s.trace.tensors.len() as u64) as u32);
    let hosts = s.plan.host_buffers.len();
    if hosts > 0 && s.random.one_in(4) {
        let host = s.random.below(hosts as u64) as usize;
        let old = std::mem::replace(&mut s.plan.host_buffers[host].tensor, tensor);
        return (old != tensor).then_some(());
    }
    let buffer = buffer_with(s, |_| true)?;
    let new = if s.random.one_in(8) { None } else { Some(tensor) };
    let old = std::mem::replace(&mut s.plan.buffers[buffer].tensor, new);
    (old != new).then_some(())
}

pub(super) fn swap_codec(s: &mut Subject) -> Option<()> {
    let codecs = s.plan.codecs.len() as u64;
    if codecs == 0 {
        return None;
    }
    let drawn = s.random.below(codecs + 1) as u32;
    let codec = drawn.checked_sub(1).map(CodecId);
    let is_small = |plan: &Plan, i: usize| plan.host_buffers[i].compressed.is_some();
    let old = match s.random.below(3) {
        0 => {
            let host = s.one_of(s.plan.host_buffers.len(), is_small)?;
            std::mem::replace(&mut s.plan.host_buffers[host].compressed, codec)
        }
        _ => {
            let any = s.random.one_in(4);
            let buffer = buffer_with(s, |b| any || b.compressed.is_some())?;
            std::mem::replace(&mut s.plan.buffers[buffer].compressed, codec)
        }
    };
    (old != codec).then_some(())
}

pub(super) fn other_fidelity(s: &mut Subject) -> Option<()> {
    let codec = s.one_of(s.plan.codecs.len(), |_, _| true)?;
    let all = [Fidelity::Lossless, Fidelity::FixedRate, Fidelity::ErrorBounded];
    let new = s.random.of(&all);
    let old = std::mem::replace(&mut s.plan.codecs[codec].fidelity, new);
    (old != new).then_some(())
}

/// Of every other plan with something on the host when an iteration begins, such a host buffer.
fn home_with(s: &mut Subject, serves: impl Fn(&HostBuffer) -> bool) -> Option<usize> {
    let moves = s.plan.host_buffers.iter().any(|host| host.at_start);
    let count = s.plan.host_buffers.len();
    (moves && s.random.one_in(2))
        .then(|| s.one_of(count, |plan, i| serves(&plan.host_buffers[i])))
        .flatten()
}

pub(super) fn flip_at_end(s: &mut Subject) -> Option<()> {
    let from = !s.random.one_in(3);
    if let Some(host) = home_with(s, |host| host.at_end == from) {
        s.plan.host_buffers[host].at_end = !from;
        return Some(());
    }
    let buffer = buffer_with(s, |b| b.at_end == from)?;
    s.plan.buffers[buffer].at_end = !from;
    Some(())
}

pub(super) fn flip_at_start(s: &mut Subject) -> Option<()> {
    let from = !s.random.one_in(3);
    if let Some(host) = home_with(s, |host| host.at_start == from) {
        s.plan.host_buffers[host].at_start = !from;
        return Some(());
    }
    let buffer = buffer_with(s, |b| b.at_start == from)?;
    s.plan.buffers[buffer].at_start = !from;
    Some(())
}

pub(super) fn shrink_arena(s: &mut Subject) -> Option<()> {
    let host = s.random.one_in(2);
    let plan = &mut s.plan;
    let (arena, budget) = match host {
        true => (plan.predicted.host_arena, &mut plan.host_budget),
        false => (plan.predicted.arena, &mut plan.budget),
    };
    if arena == Bytes::ZERO {
        return None;
    }
    let less = if s.random.one_in(2) { 1 } else { 1 + s.random.below(arena.0) };
    *budget = Bytes(arena.0 - less);
    Some(())
}

/// Has the plan predict another figure.
pub(super) fn forge(s: &mut Subject, figure: fn(&mut Predicted) -> &mut Bytes) -> Option<()> {
    let bytes = figure(&mut s.plan.predicted);
    let forged = match s.random.below(4) {
        0 => Bytes(bytes.0 + 1),
        1 => Bytes(bytes.0.checked_sub(1)?),
        2 => Bytes(bytes.0 / 3),
        _ => Bytes(bytes.0 * 3 + 1),
    };
    (std::mem::replace(bytes, forged) != forged).then_some(())
}

pub(super) fn other_codec(s: &mut Subject) -> Option<()> {
    let codec = s.one_of(s.plan.codecs.len(), |_, _| true)?;
    let all = [
        ("zvc", None, Fidelity::Lossless),
        ("sz", Some(1e-3), Fidelity::ErrorBounded),
        ("zfp", Some(8.0), Fidelity::FixedRate),
    ];
    let (name, parameter, fidelity) = s.random.of(&all);
    let new = schema::CodecRef { codec: name.into(), parameter, fidelity };
    let old = std::mem::replace(&mut s.plan.codecs[codec], new.clone());
    (old != new).then_some(())
}
