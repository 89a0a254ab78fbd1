//! The level of memory that is resident beside the ops' outputs, as tensors.

use std::cmp::Reverse;

/// A part of the level with one lifetime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its size, never zero.
    pub bytes: u64,
    /// The op at which it comes; `None`: it is there from the start.
    pub from: Option<usize>,
    /// The last op at which it is there; `None`: it outlives the iteration.
    pub until: Option<usize>,
}

/// Pieces that add up to the level at every op, sorted by when they come. The level at op 0 is
/// there from the start. A rise is a piece that begins there; a fall ends the pieces that came
/// last, the last one in part where it is larger than the fall. What the level never falls below
/// is so one piece that lasts for the whole iteration.
pub(super) fn pieces(levels: impl Iterator<Item = u64>) -> Vec<Piece> {
    let mut ended = Vec::new();
    let mut present: Vec<Piece> = Vec::new();
    let mut held = 0;
    for (op, level) in levels.enumerate() {
        if level > held {
            let from = (op > 0).then_some(op);
            present.push(Piece { bytes: level - held, from, until: None });
        }
        let mut fall = held.saturating_sub(level);
        while let Some(mut piece) = present.pop_if(|_| fall > 0) {
            let part = fall.min(piece.bytes);
            fall -= part;
            // Only a level above zero falls, so that there is an op before this one.
            ended.push(Piece { bytes: part, from: piece.from, until: op.checked_sub(1) });
            if part < piece.bytes {
                piece.bytes -= part;
                present.push(piece);
            }
        }
        held = level;
    }
    ended.append(&mut present);
    ended.sort_by_key(|piece| (piece.from, Reverse(piece.until.unwrap_or(usize::MAX))));
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(levels: &[u64]) -> String {
        let line = |piece: &Piece| {
            let end = |op: Option<usize>, none: &str| op.map_or(none.into(), |op| op.to_string());
            format!(
                "{} B from {} to {}",
                piece.bytes,
                end(piece.from, "start"),
                end(piece.until, "end")
            )
        };
        pieces(levels.iter().copied()).iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_constant_level_is_one_piece() {
        insta::assert_snapshot!(text(&[5, 5, 5]));
        assert_eq!(text(&[0, 0]), "");
    }

    #[test]
    fn rises_come_and_falls_end_what_came_last() {
        insta::assert_snapshot!(text(&[10, 14, 20, 13, 13, 4, 6]));
    }

    proptest! {
        #[test]
        fn the_pieces_add_up_to_the_level_at_every_op(
            levels in prop::collection::vec(0u64..20, 1..40)
        ) {
            let pieces = pieces(levels.iter().copied());
            for (op, level) in levels.iter().enumerate() {
                let there = |p: &&Piece| {
                    p.from.unwrap_or(0) <= op && op <= p.until.unwrap_or(usize::MAX)
                };
                let sum: u64 = pieces.iter().filter(there).map(|p| p.bytes).sum();
                prop_assert_eq!(sum, *level);
            }
            prop_assert!(pieces.iter().all(|p| p.bytes > 0));
            // Each fall splits one piece at most.
            prop_assert!(pieces.len() <= 2 * levels.len());
        }
    }
}
