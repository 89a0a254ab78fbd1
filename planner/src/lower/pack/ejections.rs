//! Packing by taking out what is in the way.

use crate::split_mix::SplitMix;

use super::ALIGNMENT;
use super::item::Item;

/// Neighbours looked at until the search is given up.
const WORK: usize = 3_000_000;

/// Of items with more neighbours than these, none is taken out: finding these would take longer than all else.
const MOST_NEIGHBOURS: usize = 4_000_000;

/// What lies in the way is dearer by one part in so many for each time that it found no room of its own; and no dearer
/// than this, so that sums of prices are numbers.
const RISES: i64 = 50;
const DEAREST: i64 = 1 << 47;

/// So many of what has no place are drawn, of which the largest is placed next: the largest of all would go round in circles.
const DRAWN: usize = 3;

/// In a border's number, its address comes before so many bits, which say the neighbour and whether it is its end: of more
/// items than these can tell apart, none is taken out.
const BITS: u32 = 16;

const NOWHERE: u64 = u64::MAX;

/// An item that is there at the same time as another: this one must not begin less than `other` bytes above it,
/// nor less than `one` below it.
struct Neighbour {
    item: u32,
    one: u64,
    other: u64,
}

/// Items of which some have no place below a ceiling.
///
/// One after the other is put where what lies in the way is cheapest, and that is taken out, to be put elsewhere: the
/// guided ejection search of Nagata and Bräysy (2009; for vehicle routes). An item's price is its size at first, and rises
/// whenever nothing was free for it, so that what is hard to place stays.
struct Ejections<'a> {
    items: &'a [Item],
    neighbours: Vec<Vec<Neighbour>>,
    price: Vec<i64>,
    /// A multiple of the alignment.
    ceiling: u64,
    address: Vec<u64>,
    /// The items that are nowhere.
    left: Vec<usize>,
    /// Where an item begins or ends to be in the way ([`Ejections::cheapest`]).
    borders: Vec<u64>,
    random: SplitMix,
}

/// Addresses with which all items end below a ceiling, beginning from some with which they do not; none where none
/// are found.
pub(super) fn fitted(items: &[Item], address: &[u64], ceiling: u64) -> Option<Vec<u64>> {
    let mut ejections = Ejections::new(items, address, ceiling)?;
    let mut work = 0;
    while !ejections.left.is_empty() && work < WORK {
        let one = ejections.draw();
        work += ejections.neighbours[one].len();
        ejections.put(one);
    }
    ejections.left.is_empty().then_some(ejections.address)
}

impl<'a> Ejections<'a> {
    fn new(items: &'a [Item], address: &[u64], ceiling: u64) -> Option<Self> {
        let ceiling = ceiling / ALIGNMENT * ALIGNMENT;
        let is_too_large = |item: &Item| item.most.next_multiple_of(ALIGNMENT) > ceiling;
        if items.len() >> (BITS - 1) > 0 || items.iter().any(is_too_large) {
            return None;
        }
        let mut address = address.to_vec();
        let is_above = |index: &usize| address[*index].saturating_add(items[*index].most) > ceiling;
        let left: Vec<usize> = (0..items.len()).filter(is_above).collect();
        left.iter().for_each(|index| address[*index] = NOWHERE);
        Some(Self {
            items,
            neighbours: neighbours(items)?,
            price: items.iter().map(|item| DEAREST.min(item.most as i64)).collect(),
            ceiling,
            address,
            left,
            borders: Vec::new(),
            random: SplitMix::new(items.len() as u64),
        })
    }

    /// Takes one of the items that are nowhere.
    fn draw(&mut self) -> usize {
        let area = |item: &Item| u128::from(item.most) * u128::from(item.end - item.first);
        let count = self.left.len() as u64;
        let drawn = (0..DRAWN).map(|_| self.random.below(count) as usize);
        let largest = drawn.max_by_key(|at| area(&self.items[self.left[*at]]));
        self.left.swap_remove(largest.expect("some are drawn"))
    }

    /// Puts an item where what is in the way is cheapest, and takes that out.
    fn put(&mut self, one: usize) {
        let Place { price, at, .. } = self.cheapest(one);
        if price > 0 {
            self.price[one] = DEAREST.min(self.price[one] + self.price[one] / RISES + 1);
            for neighbour in &self.neighbours[one] {
                let other = neighbour.item as usize;
                let address = self.address[other];
                let is_apart = at + neighbour.one <= address || address + neighbour.other <= at;
                if address != NOWHERE && !is_apart {
                    self.address[other] = NOWHERE;
                    self.left.push(other);
                }
            }
        }
        self.address[one] = at;
    }

    /// Where what is in the way of an item is cheapest: at the bottom, at the ceiling, right above or right below a
    /// neighbour. Of what is free the lowest; of others any.
    fn cheapest(&mut self, one: usize) -> Place {
        let highest = self.ceiling - self.items[one].most.next_multiple_of(ALIGNMENT);
        let neighbours = &self.neighbours[one];
        let border = |address: u64, neighbour: usize, ends: bool| {
            (address / ALIGNMENT) << BITS | (neighbour as u64) << 1 | u64::from(ends)
        };
        self.borders.clear();
        let mut price = 0;
        for (number, neighbour) in neighbours.iter().enumerate() {
            let address = self.address[neighbour.item as usize];
            if address == NOWHERE {
                continue;
            }
            let first = (address + ALIGNMENT).saturating_sub(neighbour.one);
            if address < neighbour.one {
                price += self.price[neighbour.item as usize];
            } else if first <= highest {
                self.borders.push(border(first, number, false));
            }
            let after = address + neighbour.other;
            if after <= highest {
                self.borders.push(border(after, number, true));
            }
        }
        self.borders.sort_unstable();
        let mut place = Place { price, at: 0, equals: 1 };
        let address = |border: u64| (border >> BITS) * ALIGNMENT;
        let ends = |border: u64| border & 1 == 1;
        for all in self.borders.chunk_by(|one, next| address(*one) == address(*next)) {
            if place.price == 0 {
                return place;
            }
            let (before, at) = (price, address(all[0]));
            for border in all {
                let number = (border & ((1 << BITS) - 1)) >> 1;
                let other = self.price[neighbours[number as usize].item as usize];
                price += if ends(*border) { -other } else { other };
            }
            if !all.iter().all(|border| ends(*border)) {
                place.or(before, at - ALIGNMENT, &mut self.random);
            }
            if all.iter().any(|border| ends(*border)) {
                place.or(price, at, &mut self.random);
            }
        }
        place.or(price, highest, &mut self.random);
        place
    }
}

/// An address, and the price of what lies in the way there.
struct Place {
    price: i64,
    at: u64,
    /// How many were as cheap.
    equals: u64,
}

impl Place {
    fn or(&mut self, price: i64, at: u64, random: &mut SplitMix) {
        if price < self.price {
            *self = Self { price, at, equals: 1 };
        } else if price == self.price && price > 0 {
            self.equals += 1;
            if random.below(self.equals) == 0 {
                self.at = at;
            }
        }
    }
}

/// The neighbours of each item, which are in the order in which they begin; none where these are too many.
fn neighbours(items: &[Item]) -> Option<Vec<Vec<Neighbour>>> {
    let mut all: Vec<Vec<Neighbour>> = items.iter().map(|_| Vec::new()).collect();
    let mut count = 0;
    for (index, item) in items.iter().enumerate() {
        let later = items[index + 1..].iter().take_while(|later| later.first < item.end);
        for (number, later) in (index + 1..).zip(later) {
            let Some((one, other)) = item.beside(later) else { continue };
            all[index].push(Neighbour { item: number as u32, one, other });
            all[number].push(Neighbour { item: index as u32, one: other, other: one });
            count += 2;
            if count > MOST_NEIGHBOURS {
                return None;
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::pack::item::items;
    use crate::lower::pack::tests::cut_rectangle;
    use crate::lower::pack::{Block, groups};

    /// Blocks none of which has a place find some, apart from each other and below a ceiling little above the least. What has
    /// its place below a ceiling keeps it.
    #[test]
    fn what_is_in_the_way_finds_another_place() {
        let (mut fit, mut stay) = (0, 0);
        for seed in 0..40 {
            let blocks = cut_rectangle(64, 40, seed);
            let groups = groups(&blocks);
            let all: Vec<usize> = (0..groups.len()).collect();
            let (items, _) = items(&blocks, &groups, &all);
            let ceiling = 66 * ALIGNMENT;
            let Some(places) = fitted(&items, &vec![NOWHERE; items.len()], ceiling) else {
                continue;
            };
            fit += 1;
            for (index, one) in items.iter().enumerate() {
                assert!(places[index] + one.most <= ceiling, "seed {seed}");
                for (number, other) in items.iter().enumerate().skip(index + 1) {
                    let is_apart = places[index] + one.most <= places[number]
                        || places[number] + other.most <= places[index];
                    assert!(is_apart || one.beside(other).is_none(), "seed {seed}");
                }
            }
            let again = fitted(&items, &places, ceiling + ALIGNMENT);
            stay += usize::from(again.as_ref() == Some(&places));
        }
        assert!(fit > 30, "only {fit} of 40 fit");
        assert_eq!(stay, fit);
    }

    /// What is larger than all there is has no place, and neither has what lies beside it.
    #[test]
    fn what_is_too_large_fits_nowhere() {
        let blocks = [Block::new(3 * ALIGNMENT, 0, 2), Block::new(2 * ALIGNMENT, 1, 3)];
        let groups = groups(&blocks);
        let (items, _) = items(&blocks, &groups, &[0, 1]);
        assert_eq!(fitted(&items, &[NOWHERE; 2], 3 * ALIGNMENT - 1), None);
        let places = fitted(&items, &[0, NOWHERE], 5 * ALIGNMENT).expect("both fit");
        assert_eq!(places, [0, 3 * ALIGNMENT]);
        assert_eq!(fitted(&items, &[0, NOWHERE], 4 * ALIGNMENT), None);
    }
}
