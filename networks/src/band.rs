//! How far forecasts are off, by what most of their arithmetic is.

use schema::{Compute, OpKind};
use serde::{Deserialize, Serialize};

use super::work::{Units, Work};

/// How far forecasts are off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Half of them are off by no more than that share.
    pub half: f64,
    /// Nine of ten are.
    pub nine_of_ten: f64,
    /// How many they are.
    pub forecasts: u32,
}

/// What most arithmetic of an iteration is, by which forecasts are more or less certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Matrix products of 32 bits.
    Products,
    /// Convolutions of 32 bits, for which libraries choose among algorithms.
    Convolutions,
    /// On matrix units.
    MatrixUnits,
}

impl Arithmetic {
    /// All.
    pub const ALL: [Self; 3] = [Self::Products, Self::Convolutions, Self::MatrixUnits];

    /// That of some works on a device.
    pub fn of<'a>(works: impl Iterator<Item = &'a Work>, device: &Compute) -> Self {
        let mut flops = [0.0; 3];
        for work in works.map(|work| work.on(device)) {
            let kind = match (work.units, work.kind) {
                (Units::Vectors, OpKind::Convolution) => Self::Convolutions,
                (Units::Vectors, _) => Self::Products,
                _ => Self::MatrixUnits,
            };
            flops[kind as usize] += work.flops as f64;
        }
        let most = Self::ALL.into_iter().rev();
        most.max_by(|a, b| flops[*a as usize].total_cmp(&flops[*b as usize]))
            .unwrap_or(Self::Products)
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        ["products", "convolutions", "matrix-units"][self as usize]
    }
}

impl Band {
    /// That of some relative errors; none where there are none.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut errors: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        let last = errors.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (low, high) = (errors[place.floor() as usize], errors[place.ceil() as usize]);
            (1e4 * (low + (high - low) * place.fract())).round() / 1e4
        };
        Some(Self { half: at(0.5), nine_of_ten: at(0.9), forecasts: errors.len() as u32 })
    }
}

impl Band {
    /// As its text, to a tenth of a per cent.
    pub fn in_tenths(&self) -> String {
        let (half, most) = (100.0 * self.half, 100.0 * self.nine_of_ten);
        format!("half within {half:.1} %, nine of ten within {most:.1} %")
    }
}

impl std::fmt::Display for Band {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (half, most) = (100.0 * self.half, 100.0 * self.nine_of_ten);
        write!(f, "half of such forecasts within {half:.0} %, nine of ten within {most:.0} %")
    }
}
