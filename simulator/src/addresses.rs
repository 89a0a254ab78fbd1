//! Who holds which addresses of an arena.

use std::collections::BTreeMap;

/// Ranges of addresses and their holders, none overlapping.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// Begin of each range, with its end and its holder.
    ranges: BTreeMap<u64, (u64, u32)>,
}

impl Addresses {
    /// Gives the range from `begin` to before `end` to a holder and returns those who held parts
    /// of it, by ascending address. An empty range is held by nobody.
    pub fn take(&mut self, (begin, end): (u64, u64), holder: u32) -> Vec<u32> {
        if begin >= end {
            return Vec::new();
        }
        let mut held: Vec<(u64, u64, u32)> = (self.ranges.range(..end).rev())
            .map(|(begin, (end, holder))| (*begin, *end, *holder))
            .take_while(|(_, held_end, _)| *held_end > begin)
            .collect();
        held.reverse();
        for &(held_begin, held_end, previous) in &held {
            self.ranges.remove(&held_begin);
            if held_begin < begin {
                self.ranges.insert(held_begin, (begin, previous));
            }
            if held_end > end {
                self.ranges.insert(end, (held_end, previous));
            }
        }
        self.ranges.insert(begin, (end, holder));
        held.into_iter().map(|(_, _, previous)| previous).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_taken_from_all_who_held_parts_of_it() {
        let mut addresses = Addresses::default();
        let none: [u32; 0] = [];
        assert_eq!(addresses.take((0, 10), 1), none);
        assert_eq!(addresses.take((10, 20), 2), none);
        assert_eq!(addresses.take((5, 15), 3), [1, 2]);
        assert_eq!(addresses.take((0, 20), 4), [1, 3, 2]);
        assert_eq!(addresses.take((7, 7), 5), none);
        assert_eq!(addresses.take((3, 4), 6), [4]);
        assert_eq!(addresses.take((0, 20), 7), [4, 6, 4]);
    }
}
