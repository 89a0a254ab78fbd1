//! What `recordings/record.py` writes of its runs, and what names of recordings say.

use networks::{Call, Conventions, NetworkOptions, Operand, Optimizer, Timed, modelled_trace};
use schema::{Compute, Dtype, Nanos, Phase, Role};
use serde::Deserialize;
use simulator::in_core;

#[derive(Deserialize)]
pub(super) struct Summary {
    pub device: String,
    pub runs: Vec<Run>,
    #[serde(default)]
    ops: Vec<Op>,
}

/// A run; without times where it failed.
#[derive(Deserialize)]
pub(super) struct Run {
    pub name: String,
    pub step_ms: Option<f64>,
    pub forward_ms: Option<f64>,
    pub backward_ms: Option<f64>,
    pub peak_allocated: Option<u64>,
    #[serde(default)]
    pub tf32: bool,
}

#[derive(Deserialize)]
struct Op {
    op: String,
    #[serde(default)]
    dtype: String,
    #[serde(default)]
    tf32: bool,
    #[serde(default)]
    size: Size,
    #[serde(default)]
    mib: u64,
    ms: f64,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Size {
    One(u64),
    Convolution([u64; 4]),
    #[default]
    None,
}

pub(super) fn millis(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as u64)
}

impl Summary {
    /// The ops that were run alone, but those that took so little that it was the host's time.
    pub fn timed(&self, device: &Compute) -> Vec<Timed> {
        const HOST_MS: f64 = 0.15;
        let long = self.ops.iter().filter(|op| op.ms > HOST_MS && op.ms < 1e9);
        let timed = long.filter_map(|op| {
            let call = op.call()?;
            let works = call.works().unwrap_or_else(|| call.elementwise());
            Some(Timed {
                works: works.into_iter().map(|work| (work, 1)).collect(),
                dispatched: 0,
                recorded: millis(op.ms),
                device: device.clone(),
                recording: 0,
            })
        });
        timed.collect()
    }
}

impl Op {
    fn call(&self) -> Option<Call> {
        let width = if ["bfloat16", "float16"].contains(&self.dtype.as_str()) { 2 } else { 4 };
        let tensor = |shape: &[u64]| Operand::tensor(shape, width);
        let (name, inputs, outputs) = match (self.op.as_str(), &self.size) {
            ("matmul", Size::One(size)) => {
                let square = || tensor(&[*size, *size]);
                ("aten::mm", vec![square(), square()], vec![])
            }
            ("conv", Size::Convolution([samples, channels, extent, window])) => {
                let input = || tensor(&[*samples, *channels, *extent, *extent]);
                let weight = tensor(&[*channels, *channels, *window, *window]);
                ("aten::convolution", vec![input(), weight], vec![input()])
            }
            ("relu" | "copy", Size::None) => {
                let all = || tensor(&[self.mib.checked_mul(1 << 18).unwrap_or(0)]);
                let name = if self.op == "copy" { "aten::copy_" } else { "aten::relu" };
                (name, vec![all()], vec![all()])
            }
            _ => return None,
        };
        Some(Call { name: name.into(), inputs, outputs, tf32: self.tf32 && width == 4 })
    }
}

/// What a recording's name says: `network-b32-s512-f32`.
pub(super) struct Named {
    pub network: String,
    pub batch: Option<u32>,
    sequence: Option<u32>,
}

impl Named {
    pub fn of(stem: &str) -> Self {
        let number = |letter: char| {
            let mut parts = stem.split('-').skip(1).filter_map(|part| part.strip_prefix(letter));
            parts.find_map(|digits| digits.parse().ok())
        };
        let batch = number('b');
        let end = batch.and_then(|batch: u32| stem.find(&format!("-b{batch}")));
        let network = stem[..end.unwrap_or(stem.len())].to_string();
        Self { network, batch, sequence: number('s') }
    }

    /// The most memory that the network of this name needs in 32 bits with momentum, where its forward
    /// phase is as much arithmetic as was recorded. `from_nothing`: without what is there before the iteration,
    /// parameters and momentum.
    pub fn peak(&self, dtype: &str, forward_flops: u64, from_nothing: bool) -> Option<u64> {
        if dtype == "bf16" {
            return None;
        }
        let options = NetworkOptions {
            batch: self.batch?,
            sequence: self.sequence,
            dtype: Some(Dtype::F32),
            optimizer: Some(Optimizer::Momentum),
            ..NetworkOptions::default()
        };
        let letters = |name: &str| name.replace(['-', '_'], "");
        let is_like = |name: &str| letters(name) == letters(&self.network);
        let named = networks::networks().filter(|network| is_like(network.name));
        let named = named.min_by_key(|network| network.name != self.network)?;
        let network = networks::network(named.name, &options).ok()?;
        let lowered = network.lower(&Conventions::PYTORCH);
        let forward = lowered.tape.ops().iter().filter(|op| op.phase == Phase::Forward);
        let products = forward.filter(|op| op.work.product.is_some());
        let flops = products.map(|op| op.work.flops as f64).sum::<f64>();
        if (flops / forward_flops as f64 - 1.0).abs() > 0.03 {
            return None;
        }
        // Sizes are the same on every machine.
        let machine = scenarios::machine("a100-sxm").ok()?;
        let trace = modelled_trace(&network, &machine).ok()?;
        let before = trace.tensors.iter().filter(|tensor| {
            from_nothing && matches!(tensor.role, Role::Parameter | Role::OptimizerState)
        });
        let before: u64 = before.map(|tensor| tensor.bytes.0).sum();
        Some(in_core(&trace).peak.0.saturating_sub(before))
    }
}
