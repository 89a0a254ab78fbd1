//! Places in one piece of memory.

/// Places one behind the other, each where any operand may begin.
#[derive(Default)]
pub(super) struct Offsets {
    /// Where the last one ends.
    pub end: u64,
}

impl Offsets {
    /// Where the next begins, of so many bytes.
    pub fn next(&mut self, bytes: u64) -> u64 {
        let begin = self.end;
        self.end = (begin + bytes).next_multiple_of(256);
        begin
    }
}
