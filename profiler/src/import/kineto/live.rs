//! Which live storage an op was given, told from its size: a profiler's file names no tensors.
//!
//! The rules, from the surest on. A backward node is given gradients of the sizes that it states, and
//! what its forward op (of the same sequence number) read or made. What has the sizes of a parameter is
//! one. Of several storages that fit, the one that was made last and nothing has read. What is read
//! again is where a branch began: of what was made since the last branch ended, the one that was read
//! least often and longest ago; but linear layers side by side read what the last one read. Sizes that
//! nothing has are those of a part of what was last viewed. What has up to 512 bytes looks all alike.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use schema::OpKind;

use super::file::Input;

/// A storage while it lives, and what came of it.
#[derive(Debug)]
pub(super) struct Block {
    pub bytes: u64,
    /// The op that made it; absent: it was there before the iteration.
    pub made_by: Option<usize>,
    pub freed_by: Option<usize>,
    /// Whether its memory was given back in the iteration.
    pub freed: bool,
    /// Ops that read or change it, in order.
    pub uses: Vec<usize>,
    pub changes: Vec<usize>,
    /// Whether nothing has read what is in it now.
    fresh: bool,
    /// The op that wrote what is in it now, and how many have read it since.
    written_by: Option<usize>,
    reads: usize,
    kind: OpKind,
    in_backward: bool,
    /// Whether a batch norm has read it.
    normalised: bool,
}

#[derive(Default)]
pub(super) struct Blocks {
    pub all: Vec<Block>,
    /// Those that live, by size, in the order of their making.
    live: BTreeMap<u64, Vec<usize>>,
    /// Sizes that the iteration has made.
    made: BTreeSet<u64>,
    /// What was viewed last, and whether as something larger.
    viewed: Vec<(usize, bool)>,
    /// The last op at which a branch ended.
    branch_ended: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub op: usize,
    pub kind: OpKind,
    pub gradients: bool,
}

/// How many storages of one size are looked at, from the youngest on.
const LOOKED_AT: usize = 512;

/// What the allocator rounds up to.
pub(super) const GRAIN: u64 = 512;

/// Sizes of what a tensor of that size may lie in. The allocator rounds up to 512 bytes, and leaves up to
/// 1 MiB on what is larger than that; on the host nothing is rounded.
fn holding(bytes: u64) -> RangeInclusive<u64> {
    const LARGE: u64 = 1 << 20;
    let least = bytes.div_ceil(GRAIN) * GRAIN;
    bytes..=if least > LARGE { least + LARGE } else { least }
}

impl Blocks {
    pub fn add(
        &mut self,
        bytes: u64,
        made_by: Option<usize>,
        kind: OpKind,
        in_backward: bool,
    ) -> usize {
        let index = self.all.len();
        if made_by.is_some() {
            self.made.insert(bytes);
        }
        self.live.entry(bytes).or_default().push(index);
        self.all.push(Block {
            bytes,
            made_by,
            freed_by: None,
            freed: false,
            uses: Vec::new(),
            changes: Vec::new(),
            fresh: made_by.is_some(),
            written_by: made_by,
            reads: 0,
            kind,
            in_backward,
            normalised: false,
        });
        index
    }

    /// An op is known to have made a storage.
    pub fn make(&mut self, index: usize, op: usize, kind: OpKind, in_backward: bool) {
        let block = &mut self.all[index];
        self.made.insert(block.bytes);
        (block.made_by, block.written_by, block.fresh) = (Some(op), Some(op), true);
        (block.kind, block.in_backward) = (kind, in_backward);
    }

    /// Something is freed that can only be what came from the host just now and nothing has read: it
    /// is what that replaces, from before the recording, and the new one is as little counted.
    pub fn replaced(&mut self, index: usize) {
        let block = &self.all[index];
        if block.fresh {
            self.made.remove(&block.bytes);
        }
    }

    /// Gives a storage's memory back, after an op or before all.
    pub fn free(&mut self, index: usize, by: Option<usize>) {
        let block = &mut self.all[index];
        (block.freed, block.freed_by) = (true, by);
        if let Some(list) = self.live.get_mut(&block.bytes) {
            // In the order of their making, so that one is found by halving.
            if let Ok(place) = list.binary_search(&index) {
                list.remove(place);
            }
        }
    }

    /// The storage that a free without an address means: of that size, what the op before it made
    /// within itself or else what that read; then what was used last.
    pub fn meant_by_free(&self, bytes: u64, op: Option<usize>, inside: bool) -> Option<usize> {
        let candidates = self.live.get(&bytes)?.iter().rev().take(LOOKED_AT);
        candidates.copied().max_by_key(|index| {
            let block = &self.all[*index];
            let own = block.made_by == op && op.is_some();
            let last = block.uses.last().copied();
            // What a backward op saved dies with it; its gradient may be another's, too.
            let used = last.is_some() && last == op;
            (own == inside, !block.fresh, used, !block.in_backward, last, block.made_by)
        })
    }

    /// Live storages in which a tensor of that size may lie.
    fn fitting(&self, bytes: u64) -> impl Iterator<Item = usize> {
        let sizes = self.live.range(holding(bytes));
        sizes.flat_map(|(_, list)| list.iter().rev().take(LOOKED_AT)).copied()
    }

    /// Whether the iteration has made anything in which a tensor of that size may lie, or small things
    /// of any sort.
    pub fn was_made(&self, bytes: u64) -> bool {
        bytes <= GRAIN || self.made.range(holding(bytes)).next().is_some()
    }

    /// What an op was given. It is not marked as read.
    pub fn find(&self, input: Input, reader: Reader) -> Option<usize> {
        let known = |index: &usize| {
            let block = &self.all[*index];
            block.made_by != Some(reader.op) && (!reader.gradients || block.in_backward)
        };
        let linear = |kind| kind == OpKind::MatrixProduct;
        let fresh = self.fitting(input.bytes).filter(known).filter(|index| {
            let block = &self.all[*index];
            block.fresh && !(linear(reader.kind) && linear(block.kind) && !reader.gradients)
        });
        if let Some(newest) = fresh.max_by_key(|index| self.all[*index].made_by) {
            return Some(newest);
        }
        let again = self.fitting(input.bytes).filter(known).filter(|index| {
            let block = &self.all[*index];
            !block.uses.is_empty() || block.made_by.is_none()
        });
        if linear(reader.kind) || reader.gradients {
            return again.max_by_key(|index| self.all[*index].uses.last());
        }
        let branch = again.min_by_key(|index| {
            let block = &self.all[*index];
            let ended = block.written_by.is_none_or(|op| op < self.branch_ended);
            let last = block.uses.last().map_or(0, |op| op + 1);
            (block.normalised, ended, block.reads, if ended { usize::MAX - last } else { last })
        });
        branch.or_else(|| self.part_of_viewed(input.bytes))
    }

    /// An op reads what it was found to be given.
    pub fn guessed(&mut self, index: usize, reader: Reader) {
        let again = !self.all[index].fresh;
        if again && !reader.gradients && reader.kind != OpKind::MatrixProduct {
            self.branch_ended = reader.op;
        }
    }

    fn part_of_viewed(&self, bytes: u64) -> Option<usize> {
        let holds = |(index, larger): &&(usize, bool)| {
            let block = &self.all[*index];
            !block.freed && (*larger || block.bytes >= bytes)
        };
        self.viewed.iter().rev().find(holds).map(|(index, _)| *index)
    }

    /// The first of some storages that lives and has that size.
    pub fn first_of(&self, some: &[usize], bytes: u64) -> Option<usize> {
        let fits = |index: &&usize| {
            let block = &self.all[**index];
            !block.freed && holding(bytes).contains(&block.bytes)
        };
        some.iter().find(fits).copied()
    }

    pub fn view(&mut self, index: usize, larger: bool) {
        const KEPT: usize = 16;
        if self.viewed.len() == KEPT {
            self.viewed.remove(0);
        }
        self.viewed.push((index, larger));
    }

    pub fn read(&mut self, index: usize, reader: Reader) {
        let block = &mut self.all[index];
        block.fresh = false;
        block.normalised |=
            reader.kind == OpKind::Normalisation && block.kind != OpKind::Elementwise;
        if block.uses.last() != Some(&reader.op) {
            block.uses.push(reader.op);
            block.reads += 1;
        }
    }

    pub fn change(&mut self, index: usize, reader: Reader) {
        self.read(index, reader);
        let block = &mut self.all[index];
        (block.fresh, block.kind) = (block.made_by.is_some(), reader.kind);
        (block.written_by, block.reads, block.normalised) = (Some(reader.op), 0, false);
        block.changes.push(reader.op);
    }
}
