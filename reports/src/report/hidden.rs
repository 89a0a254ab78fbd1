//! How much of the copying goes on while the device computes.

use schema::{Lane, Nanos, Timeline};

use crate::text::percent;

/// A copy lane's busy time, and the part of it in which the compute lane is busy, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hidden {
    pub copying: Nanos,
    pub hidden: Nanos,
}

impl Hidden {
    pub fn of(timeline: &Timeline, lane: Lane) -> Self {
        let compute = spans(timeline, Lane::Compute);
        let mut next = 0;
        let (mut copying, mut hidden) = (Nanos::ZERO, Nanos::ZERO);
        for (start, end) in spans(timeline, lane) {
            copying += end - start;
            while compute.get(next).is_some_and(|(_, finish)| *finish <= start) {
                next += 1;
            }
            for (begin, finish) in compute[next..].iter().take_while(|(begin, _)| *begin < end) {
                hidden += (*finish).min(end).saturating_sub((*begin).max(start));
            }
        }
        Self { copying, hidden }
    }

    /// The part as a share, in words.
    pub fn text(self) -> String {
        match self.copying {
            Nanos::ZERO => "-".into(),
            copying => percent(self.hidden.ratio(copying)),
        }
    }
}

/// When a lane is busy, in order and without overlap.
fn spans(timeline: &Timeline, lane: Lane) -> Vec<(Nanos, Nanos)> {
    let all = timeline.on(lane).map(|interval| (interval.start, interval.end));
    let mut spans: Vec<_> = all.filter(|(start, end)| start < end).collect();
    spans.sort_unstable();
    let mut merged: Vec<(Nanos, Nanos)> = Vec::new();
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn copies_beside_compute_are_hidden_and_others_are_not() {
        let timeline = examples::timeline();
        // The copy out runs from 1,000,001 to 2,000,001 beside conv2, the copy in from 2,000,001 to
        // 3,000,001, of which conv2 covers the half up to 2,500,000.
        let out = Hidden::of(&timeline, Lane::D2h);
        assert_eq!(out, Hidden { copying: Nanos(1_000_000), hidden: Nanos(1_000_000) });
        let back = Hidden::of(&timeline, Lane::H2d);
        assert_eq!(back, Hidden { copying: Nanos(1_000_000), hidden: Nanos(499_999) });
    }
}
