//! What is packed as one: blocks that lie at one address.

use super::{ALIGNMENT, Block, sections};

/// Blocks that lie at one address, and how high they reach, by section of time.
pub(super) struct Item {
    pub group: usize,
    /// The first section, and the one after the last.
    pub first: u32,
    pub end: u32,
    /// Where stretches of equal bytes begin, from `first` on, and their bytes.
    steps: Vec<(u32, u64)>,
    /// The most of them.
    pub most: u64,
}

/// The chosen groups as items, in the order in which they begin, and how many sections of time there are.
pub(super) fn items(
    blocks: &[Block],
    groups: &[Vec<usize>],
    chosen: &[usize],
) -> (Vec<Item>, usize) {
    let (sections, count) = sections(blocks, chosen.iter().flat_map(|group| &groups[*group]));
    let mut items: Vec<Item> = (chosen.iter())
        .filter_map(|group| Item::new(blocks, &groups[*group], *group, &sections))
        .collect();
    items.sort_by_key(|item| (item.first, item.group));
    (items, count)
}

impl Item {
    fn new(blocks: &[Block], group: &[usize], id: usize, sections: &[(u32, u32)]) -> Option<Self> {
        let of: Vec<(u32, u32, u64)> = (group.iter())
            .filter(|block| blocks[**block].bytes > 0)
            .map(|block| (sections[*block].0, sections[*block].1, blocks[*block].bytes))
            .collect();
        let first = of.iter().map(|(from, _, _)| *from).min()?;
        let end = of.iter().map(|(_, until, _)| *until).max()?;
        let mut borders: Vec<u32> =
            of.iter().flat_map(|(from, until, _)| [*from, *until]).collect();
        borders.sort_unstable();
        borders.dedup();
        borders.pop();
        let bytes_at = |section: u32| {
            let there = of.iter().filter(|(from, until, _)| (*from..*until).contains(&section));
            there.map(|(_, _, bytes)| *bytes).max().unwrap_or(0)
        };
        let mut steps: Vec<(u32, u64)> = borders.into_iter().map(|at| (at, bytes_at(at))).collect();
        steps.dedup_by_key(|(_, bytes)| *bytes);
        let most = of.iter().map(|(_, _, bytes)| *bytes).max()?;
        Some(Self { group: id, first, end, steps, most })
    }

    /// The sections in which it has the same bytes, and those.
    pub fn stretches(&self) -> impl Iterator<Item = (std::ops::Range<usize>, u64)> + '_ {
        let ends = self.steps[1..].iter().map(|(section, _)| *section).chain([self.end]);
        let stretch =
            |((begin, bytes), end): (&(u32, u64), u32)| (*begin as usize..end as usize, *bytes);
        self.steps.iter().zip(ends).map(stretch)
    }

    /// The most aligned bytes that this item and another have while both are there; none where they never are.
    pub fn beside(&self, other: &Self) -> Option<(u64, u64)> {
        let mut most = None;
        let some = |(_, bytes): &(_, u64)| *bytes > 0;
        for (here, bytes) in self.stretches().filter(some) {
            for (there, others) in other.stretches().filter(some) {
                if here.start < there.end && there.start < here.end {
                    let (one, two) = most.unwrap_or((0, 0));
                    most = Some((bytes.max(one), others.max(two)));
                }
            }
        }
        most.map(|(one, two): (u64, u64)| {
            (one.next_multiple_of(ALIGNMENT), two.next_multiple_of(ALIGNMENT))
        })
    }
}
