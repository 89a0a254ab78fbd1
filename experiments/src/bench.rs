//! Tidegate itself, measured: how long its parts take, as ratios within one run where that can be.

mod codecs;
mod kernels;
mod lookups;
mod plan;
mod replay;
mod speed;
mod synthetic;

use reports::columns;
use serde::Serialize;

pub use codecs::host_codecs;
pub use kernels::{KernelSpeeds, all_codecs, kernels};
pub use plan::{Planning, planning};
pub use replay::{Replayed, replays};
pub use synthetic::{chain, uneven};

/// What was measured of one thing: a line of a table, and an entry in JSON.
pub trait Measured: Serialize {
    /// What its cells are.
    const HEAD: &'static [&'static str];

    /// Its line.
    fn cells(&self) -> Vec<String>;
}

/// What was measured, and what follows from it in sentences of a line each.
pub struct Bench<M> {
    /// Of each thing.
    pub rows: Vec<M>,
    /// The sentences.
    pub notes: String,
}

impl<M: Measured> Bench<M> {
    /// The table, and the sentences beneath.
    pub fn text(&self) -> String {
        table(&self.rows) + &self.notes
    }
}

fn table<M: Measured>(rows: &[M]) -> String {
    let head = M::HEAD.iter().map(|name| name.to_string()).collect();
    columns(&[head].into_iter().chain(rows.iter().map(M::cells)).collect::<Vec<_>>())
}

/// Least-squares slope of log time over log size, and how well it fits.
fn slope(points: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.map(|(size, time)| (size.ln(), time.ln())).collect();
    if points.len() < 2 {
        return None;
    }
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let xy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let yy: f64 = points.iter().map(|(_, y)| (y - mean_y).powi(2)).sum();
    Some((xy / xx, xy * xy / (xx * yy)))
}
