//! Where a build can go on that has decisions in common with the last one.

use schema::TensorId;

use super::{GONE, RESIDENT, Sequence};
use crate::parts::Materialised;
use crate::{Model, NO_OP};

/// Snapshots from which a build with the same decisions up to an op can go on.
pub(super) const SNAPSHOTS: usize = 24;

#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub op: usize,
    state: Vec<u32>,
    lengths: Lengths,
    carry: u64,
    peak: (u64, u32),
    recompute_ns: u64,
    codec_ns: u64,
}

/// How long the lists of a sequence are.
#[derive(Debug, Clone, Copy, Default)]
struct Lengths {
    positions: usize,
    swaps: usize,
    departures: usize,
    packings: usize,
    returns: usize,
    donations: usize,
    updates: usize,
    updated: usize,
}

impl Sequence {
    /// Begins anew, and returns the first op.
    pub(super) fn restart(&mut self, model: &Model) -> usize {
        self.valid_snapshots = 0;
        self.truncate(Lengths::default());
        self.residencies.clear();
        self.carry = 0;
        self.peak = (0, 0);
        self.recompute_ns = 0;
        self.codec_ns = 0;
        self.due = 0;
        for (tensor, producer) in model.producer.iter().enumerate() {
            self.state[tensor] = if *producer == NO_OP { RESIDENT } else { GONE };
            if model.is_at_home(TensorId::from_index(tensor)) {
                self.begin_at_home(model, tensor as u32);
            } else if *producer == NO_OP {
                self.carry += model.bytes[tensor];
                self.first_position[tensor] = 0;
                self.last_position[tensor] = 0;
                self.origin[tensor] = Materialised::AtStart;
            }
        }
        0
    }

    /// Goes on from the last snapshot before a change, and returns its op.
    pub(super) fn resume(&mut self, model: &Model, unchanged_until: usize) -> usize {
        let usable =
            self.snapshots[..self.valid_snapshots].partition_point(|s| s.op <= unchanged_until);
        if usable == 0 {
            return self.restart(model);
        }
        self.valid_snapshots = usable;
        let snapshot = std::mem::take(&mut self.snapshots[usable - 1]);
        self.truncate(snapshot.lengths);
        self.state.copy_from_slice(&snapshot.state);
        self.carry = snapshot.carry;
        self.peak = snapshot.peak;
        self.recompute_ns = snapshot.recompute_ns;
        self.codec_ns = snapshot.codec_ns;
        let op = snapshot.op;
        self.due = op as u32;
        self.find_homes(model);
        self.snapshots[usable - 1] = snapshot;
        op
    }

    fn truncate(&mut self, lengths: Lengths) {
        let positions = lengths.positions;
        self.positions.truncate(positions);
        self.moves.truncate(positions);
        self.load.truncate(positions);
        self.swaps.truncate(lengths.swaps);
        self.departures.truncate(lengths.departures);
        self.packings.truncate(lengths.packings);
        let codecs = self.codec_positions.partition_point(|p| (*p as usize) < positions);
        self.codec_positions.truncate(codecs);
        self.returns.truncate(lengths.returns);
        self.donations.truncate(lengths.donations);
        self.updates.truncate(lengths.updates);
        self.updated.truncate(lengths.updated);
        self.burst.clear();
        self.stack.clear();
    }

    /// Takes a snapshot before an op, if there is room for one.
    pub(super) fn save(&mut self, op: usize) {
        let Some(snapshot) = self.snapshots.get_mut(self.valid_snapshots) else { return };
        snapshot.op = op;
        snapshot.state.clear();
        snapshot.state.extend_from_slice(&self.state);
        snapshot.lengths = Lengths {
            positions: self.positions.len(),
            swaps: self.swaps.len(),
            departures: self.departures.len(),
            packings: self.packings.len(),
            returns: self.returns.len(),
            donations: self.donations.len(),
            updates: self.updates.len(),
            updated: self.updated.len(),
        };
        snapshot.carry = self.carry;
        snapshot.peak = self.peak;
        snapshot.recompute_ns = self.recompute_ns;
        snapshot.codec_ns = self.codec_ns;
        self.valid_snapshots += 1;
    }
}
