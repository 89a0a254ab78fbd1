//! Operands in 16 bits: ops compute on cells, which lie in memory of the lane's own.

use schema::TensorId;

use super::gate::Turn;
use super::memory::Memory;
use crate::device::script::{OpWork, Place};
use crate::network::bf16::{narrow, widen};
use crate::network::{Network, Operands};

/// Cells that a network's ops need for operands in 16 bits, at most.
pub(super) fn cells(network: &Network) -> usize {
    let of_op = |op: &crate::network::Op| -> usize {
        let operands = op.reads.iter().chain(&op.writes).map(|id| network.tensor(*id));
        operands.filter(|tensor| tensor.is_narrow()).map(|tensor| tensor.elements).sum()
    };
    network.ops().iter().map(of_op).max().unwrap_or(0)
}

/// Lets `run` work on an op's operands.
pub(super) fn with_operands<E>(
    (memory, network): (&Memory, &Network),
    turn: &mut Turn,
    work: &OpWork,
    cells: &mut [f32],
    run: impl FnOnce(Operands<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let op = network.op(work.op);
    let narrow_one = |id: &TensorId| network.tensor(*id).is_narrow();
    let reads: Vec<bool> = op.reads.iter().map(narrow_one).collect();
    let writes: Vec<bool> = op.writes.iter().map(narrow_one).collect();
    if !reads.contains(&true) && !writes.contains(&true) {
        return run(memory.operands(turn, work));
    }
    let mut rest = &mut *cells;
    let mut take = |turn: &mut Turn, place: Place| {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(place.bytes / 2);
        rest = others;
        widen(memory.read(turn, work, place), own);
        own
    };
    // What an output lies over is read from there.
    let wide_writes: Vec<Option<&mut [f32]>> = work
        .writes
        .iter()
        .zip(&writes)
        .map(|(place, narrow)| narrow.then(|| take(turn, *place)))
        .collect();
    let wide_reads: Vec<Option<&mut [f32]>> = work
        .reads
        .iter()
        .zip(&reads)
        .map(|(place, narrow)| place.filter(|_| *narrow).map(|place| take(turn, place)))
        .collect();
    let plain = |place: &Place, narrow: &bool| if *narrow { Place::NOTHING } else { *place };
    let in_cells = OpWork {
        op: work.op,
        there: work.there,
        reads: (work.reads.iter().zip(&reads))
            .map(|(place, narrow)| place.as_ref().map(|place| plain(place, narrow)))
            .collect(),
        updates: work.updates.clone(),
        writes: work.writes.iter().zip(&writes).map(|(place, one)| plain(place, one)).collect(),
        workspace: work.workspace,
    };
    let mut operands = memory.operands(turn, &in_cells);
    for (operand, wide) in operands.reads.iter_mut().zip(wide_reads) {
        if let Some(wide) = wide {
            *operand = Some(wide);
        }
    }
    for (operand, wide) in operands.writes.iter_mut().zip(wide_writes) {
        if let Some(wide) = wide {
            *operand = wide;
        }
    }
    run(operands)?;
    // They lie in `cells` in the order in which they were taken.
    let mut made = &*cells;
    for (place, _) in work.writes.iter().zip(writes).filter(|(_, narrow)| *narrow) {
        let (own, others) = made.split_at(place.bytes / 2);
        made = others;
        narrow(own, memory.write(turn, work, *place));
    }
    Ok(())
}
