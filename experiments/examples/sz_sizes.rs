//! What SZ makes of activations of trained convolutions: `size` of the SZ models in `scenarios/codecs/gpu.toml`.
//!
//! Small networks learn to tell images apart that are like natural ones in what matters to a predictor: the
//! dead leaves model (Lee, Mumford and Huang, IJCV 2001), opaque shapes of sizes by a power law in front of each
//! other, which has photographs' edges and their spectrum. Each class has ellipses of another direction.
//! Sizes are fitted to two networks' tensors and held against those of the others.

use std::collections::BTreeMap;
use std::error::Error;
use std::f32::consts::PI;

use codecs::{CodecId, Dims, ErrorBound, Layout, TensorView, codec};
use networks::{Activation, Builder, LayerId, NetworkOptions, Optimizer, Window};
use runtime::layers::cell_from_index;
use runtime::network::{Network, Random};
use runtime::profile::InCore;
use schema::{Dtype, OpId, OpKind, Phase};

const SIDE: usize = 48;
const BATCH: usize = 4;
const ITERATIONS: u64 = 100;
const CLASSES: u64 = 10;

/// Error bounds as shares of a tensor's standard deviation.
const BOUNDS: [f64; 3] = [1e-3, 1e-2, 1e-1];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut seen = BTreeMap::new();
    for name in ["plain", "residual", "strided", "wide"] {
        seen.insert(name, samples(name)?);
    }
    println!(
        "bound  fitted to       zero  dense  by roughness  held out  tensor  median  most  whole network"
    );
    for (index, bound) in BOUNDS.into_iter().enumerate() {
        for (fitted, held_out) in [
            (["plain", "residual"], ["strided", "wide"]),
            (["strided", "wide"], ["plain", "residual"]),
        ] {
            let known: Vec<&Sample> = fitted.iter().flat_map(|name| &seen[name]).collect();
            let fit = Fit::of(&known, index);
            for name in held_out {
                println!(
                    "{bound:.0e}  {}  {}",
                    fitted.join("+"),
                    fit.against(name, &seen[name], index)
                );
            }
        }
        let all: Vec<&Sample> = seen.values().flatten().collect();
        let fit = Fit::of(&all, index);
        println!(
            "{bound:.0e}  all: zero {:.0}, dense {:.0}; by roughness {:?}",
            fit.plain[0],
            fit.plain[1],
            fit.rough.map(f64::round)
        );
    }
    Ok(())
}

/// A tensor that a convolution made, or a layer after it.
struct Sample {
    name: String,
    elements: f64,
    zeros: f64,
    /// Root of the mean square of differences along rows, in standard deviations.
    rough: f64,
    /// What SZ made of it within each bound, in thousandths of its size, along up to one axis and up to two.
    permille: [[f64; 2]; BOUNDS.len()],
}

/// Thousandths of its size as a sum over a tensor's values: of zeros, of others, and of others by the
/// binary logarithm of their roughness.
struct Fit {
    plain: [f64; 2],
    rough: [f64; 3],
}

impl Fit {
    fn of(samples: &[&Sample], bound: usize) -> Self {
        Self {
            plain: least_squares(samples.iter().map(|s| (terms(s), s.permille[bound][0]))),
            rough: least_squares(samples.iter().map(|s| (rough_terms(s), s.permille[bound][0]))),
        }
    }

    fn against(&self, name: &str, samples: &[Sample], bound: usize) -> String {
        let real = |s: &Sample| s.permille[bound][0];
        let by = |predicted: &dyn Fn(&Sample) -> f64| {
            let mut off: Vec<f64> =
                samples.iter().map(|s| 100.0 * (predicted(s) / real(s) - 1.0).abs()).collect();
            off.sort_unstable_by(f64::total_cmp);
            let sum = |of: &dyn Fn(&Sample) -> f64| {
                samples.iter().map(|s| s.elements * of(s)).sum::<f64>()
            };
            let whole = 100.0 * (sum(predicted) / sum(&real) - 1.0);
            format!(
                "median {:.1} % most {:.1} % whole {whole:+.1} %",
                off[off.len() / 2],
                off[off.len() - 1]
            )
        };
        let plain = by(&|s| dot(self.plain, terms(s)));
        let rough = by(&|s| dot(self.rough, rough_terms(s)));
        format!(
            "{name:<9} zero {:.0} dense {:.0}: {plain}; by roughness: {rough}",
            self.plain[0], self.plain[1]
        )
    }
}

fn terms(s: &Sample) -> [f64; 2] {
    [s.zeros, 1.0 - s.zeros]
}

fn rough_terms(s: &Sample) -> [f64; 3] {
    [s.zeros, 1.0 - s.zeros, (1.0 - s.zeros) * s.rough.log2()]
}

fn dot<const N: usize>(a: [f64; N], b: [f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The numbers whose sum with the terms is least off, in shares of what it should be.
fn least_squares<const N: usize>(rows: impl Iterator<Item = ([f64; N], f64)>) -> [f64; N] {
    let mut sums = vec![vec![0.0; N + 1]; N];
    for (terms, wanted) in rows {
        for (i, row) in sums.iter_mut().enumerate() {
            for j in 0..N {
                row[j] += terms[i] * terms[j] / (wanted * wanted);
            }
            row[N] += terms[i] / wanted;
        }
    }
    for pivot in 0..N {
        let by = sums[pivot].clone();
        for (_, row) in sums.iter_mut().enumerate().filter(|(other, _)| *other != pivot) {
            let share = row[pivot] / by[pivot];
            row.iter_mut().zip(&by).for_each(|(cell, by)| *cell -= share * by);
        }
    }
    std::array::from_fn(|i| sums[i][N] / sums[i][i])
}

fn samples(name: &str) -> Result<Vec<Sample>> {
    let (network, widths) = network(name)?;
    let labels = network.labels().ok_or("no labels")?;
    let input = network.inputs().find(|id| *id != labels).ok_or("no input")?;
    let mut in_core = InCore::new(&network, 1)?;
    let mut samples = Vec::new();
    for iteration in 0..ITERATIONS {
        let (pixels, classes) = batch(iteration);
        in_core.get_mut(input).ok_or("no input")?.copy_from_slice(&pixels);
        in_core.get_mut(labels).ok_or("no labels")?.copy_from_slice(&classes);
        for (index, op) in network.ops().iter().enumerate() {
            let id = OpId::from_index(index);
            in_core.run(id)?;
            let looked_at = matches!(op.work.kind, OpKind::Convolution | OpKind::Activation);
            if iteration + 1 == ITERATIONS && op.phase == Phase::Forward && looked_at {
                let made = op.writes[0];
                let data = in_core.get(made).ok_or("not made")?;
                let name = &network.tensor(made).name;
                let width = *widths.get(name).ok_or("no layer's tensor")?;
                samples.push(sample(name, data, width)?);
            }
            in_core.free(id);
        }
        let loss = network.loss().and_then(|loss| Some(in_core.get(loss)?[0]));
        if iteration % 30 == 0 || iteration + 1 == ITERATIONS {
            eprintln!("{name}: loss {:.3} after {}", loss.unwrap_or(f32::NAN), iteration + 1);
        }
    }
    for s in &samples {
        eprintln!(
            "{name} {:<10} zeros {:.2} rough {:.2} {:?}",
            s.name, s.zeros, s.rough, s.permille
        );
    }
    Ok(samples)
}

fn sample(name: &str, data: &[f32], width: usize) -> Result<Sample> {
    let count = data.len() as f64;
    let mean = data.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let deviation =
        (data.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count).sqrt();
    let steps = data.chunks(width).flat_map(|row| row.windows(2));
    let squares = steps.map(|pair| f64::from(pair[1] - pair[0]).powi(2)).sum::<f64>();
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    let layout = Layout::new(Dtype::F32, &[data.len() / width, width])?;
    let mut permille = [[0.0; 2]; BOUNDS.len()];
    for (bound, permille) in BOUNDS.into_iter().zip(&mut permille) {
        let bound = ErrorBound::new(bound * deviation).ok_or("no bound")?;
        for (dims, permille) in [Dims::One, Dims::Two].into_iter().zip(permille) {
            let sz = codec(CodecId::Sz { bound, dims })?;
            let mut payload = vec![0; sz.worst_case(&layout)];
            let length = sz.compress(TensorView::new(&layout, &bytes)?, &mut payload)?;
            *permille = 1000.0 * length as f64 / bytes.len() as f64;
        }
    }
    let zeros = data.iter().filter(|x| **x == 0.0).count() as f64 / count;
    let rough = (squares / count).sqrt() / deviation;
    Ok(Sample { name: name.into(), elements: count, zeros, rough, permille })
}

/// A network, and how wide the feature maps of its layers are.
fn network(name: &str) -> Result<(Network, BTreeMap<String, usize>)> {
    let options = NetworkOptions { batch: BATCH as u32, ..NetworkOptions::default() };
    let mut net = Builder::new(name, &options, Dtype::F32, Optimizer::Momentum)?;
    let mut widths = BTreeMap::new();
    let mut x = net.input("images", &[3, SIDE as u64, SIDE as u64])?;
    // Channels, kernel and stride of convolutions; a pooling where there is no kernel.
    let layers: &[[u64; 3]] = match name {
        "plain" => &[
            [12, 3, 1],
            [12, 3, 1],
            [0; 3],
            [24, 3, 1],
            [24, 3, 1],
            [0; 3],
            [32, 3, 1],
            [32, 3, 1],
        ],
        "residual" => &[[16, 3, 1], [16, 3, 1], [16, 3, 1], [32, 3, 2], [32, 3, 1], [32, 3, 1]],
        "strided" => &[[24, 7, 2], [0; 3], [32, 3, 1], [32, 3, 1], [0; 3], [48, 3, 1]],
        _ => &[[8, 5, 1], [16, 5, 1], [0; 3], [24, 5, 1], [24, 5, 1]],
    };
    for (number, [channels, kernel, stride]) in layers.iter().enumerate() {
        let before: LayerId = x;
        if *kernel == 0 {
            x = net.max_pool(&format!("pool{number}"), x, Window::square(2, 2, 0))?;
            continue;
        }
        let norm = name == "residual";
        let (window, conv) =
            (Window::square(*kernel, *stride, kernel / 2), format!("conv{number}"));
        x = net.convolution(&conv, x, *channels, window, 1, !norm)?;
        let width = *net.shape(x).last().ok_or("no width")? as usize;
        widths.extend([conv, format!("relu{number}")].map(|layer| (layer, width)));
        if norm {
            x = net.batch_norm(&format!("norm{number}"), x)?;
        }
        if norm && net.shape(x) == net.shape(before) {
            x = net.sum(&format!("sum{number}"), x, before)?;
        }
        x = net.activation(&format!("relu{number}"), x, Activation::Relu)?;
    }
    let x = net.flatten("flat", x)?;
    let x = net.linear("fc", x, CLASSES, true)?;
    Ok((Network::new(&net.finish(x)?, Some(0.005))?, widths))
}

/// Images and their classes.
fn batch(number: u64) -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(number);
    let mut pixels = vec![0.0; BATCH * 3 * SIDE * SIDE];
    let classes = pixels.chunks_mut(3 * SIDE * SIDE).map(|image| {
        let class = random.next() % CLASSES;
        leaves(class as f32 * PI / CLASSES as f32, &mut random, image);
        cell_from_index(class as u32)
    });
    let classes = classes.collect();
    (pixels, classes)
}

/// Ellipses one in front of the other, whose radii are distributed as the third power of their inverse.
fn leaves(direction: f32, random: &mut Random, image: &mut [f32]) {
    const LEAST: f32 = 2.0;
    const MOST: f32 = SIDE as f32 / 2.0;
    let mut share = || (random.uniform(1.0) + 1.0) / 2.0;
    for _ in 0..150 {
        // The inverse of the distribution function of radii between the least and the most.
        let [least, most] = [LEAST, MOST].map(|radius| radius.powi(-2));
        let radius = (least - share() * (least - most)).powf(-0.5);
        let [x, y] = [share(), share()].map(|at| at * SIDE as f32);
        let (sin, cos) = (direction + 0.2 * (share() - 0.5)).sin_cos();
        let grey = 2.0 * share() - 1.0;
        let colour = [share(), share(), share()].map(|tint| grey + 0.4 * (tint - 0.5));
        // Light falls off over a leaf, as on what is not flat.
        let slope = 0.6 * (share() - 0.5) / radius;
        for row in 0..SIDE {
            for column in 0..SIDE {
                let (dx, dy) = (column as f32 - x, row as f32 - y);
                let (along, across) = (dx * cos + dy * sin, dy * cos - dx * sin);
                if (along / radius).powi(2) + (3.0 * across / radius).powi(2) > 1.0 {
                    continue;
                }
                for (channel, colour) in image.chunks_mut(SIDE * SIDE).zip(colour) {
                    channel[row * SIDE + column] = colour + slope * (dx + dy);
                }
            }
        }
    }
    image.iter_mut().for_each(|pixel| *pixel += 0.01 * (2.0 * share() - 1.0));
}
