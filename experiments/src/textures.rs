//! How well zeros and smoothness tell what SZ makes of a network's activations.

use std::collections::BTreeSet;
use std::path::Path;

use regression::{CodedSample, fit_coded};
use reports::columns;
use schema::{CodedSize, Document, Op, OpKind, Phase, SizeModel, TensorId, Trace};

use crate::tables::read_parquet;
use crate::zeros::TensorZeros;

/// Smaller tensors are told by what a block costs beside.
const SMALLEST: u64 = 16 << 10;
/// What plans reserve beside.
const MARGIN_PERMILLE: u32 = 100;

/// How far models of SZ's sizes are off on activations that they have not seen.
pub struct Sizes {
    /// The errors, for people.
    pub text: String,
    /// A model fitted to all of these activations, as codec models have it; or zeros by layer and epoch, as TOML.
    pub written: String,
}

/// Of a file that `profile --epochs` wrote; nothing of any other, or of one without sizes. Zeros are to be written where
/// `output` is a TOML file.
pub fn sizes(file: &Path, output: Option<&Path>) -> Option<Sizes> {
    let rows: Vec<TensorZeros> = read_parquet(file).ok()?;
    let samples: Vec<(bool, CodedSample)> = rows.iter().flat_map(samples).collect();
    let of = |half: bool| -> Vec<CodedSample> {
        samples.iter().filter(|(is_odd, _)| *is_odd == half).map(|(_, sample)| *sample).collect()
    };
    let all: Vec<CodedSample> = samples.iter().map(|(_, sample)| *sample).collect();
    let half = fit_coded(&of(false), MARGIN_PERMILLE);
    let mut lines = vec![
        ["model of SZ's sizes", "samples", "median", "nine in ten", "together"].map(String::from),
    ];
    lines.extend(bundled().map(|model| line("bundled, of other networks", &model, &all)));
    lines.extend(half.map(|model| line("of half of the layers, on the other", &model, &of(true))));
    let lines: Vec<Vec<String>> = lines.into_iter().map(Vec::from).collect();
    let text = format!(
        "how far ratios are off that zeros and smoothness tell, on activations that the model has not seen:\n{}",
        columns(&lines)
    );
    if output.is_some_and(|output| output.extension().is_some_and(|of| of == "toml")) {
        return Some(Sizes { text, written: zeros(file, &rows)? });
    }
    let text = text + &jpeg_act(file, &rows);
    let model = fit_coded(&all, MARGIN_PERMILLE)?;
    Some(Sizes { text, written: serde_json::to_string(&SizeModel::Coded(model)).ok()? })
}

/// By how much JPEG-ACT makes feature maps smaller: all, what convolutions read, and what they make, which is what the
/// method `comet` compresses. Nothing where there are none.
fn jpeg_act(file: &Path, rows: &[TensorZeros]) -> String {
    let trace = Trace::read(&file.with_file_name("trace.json")).ok();
    let is_convolution = |op: &&Op| op.kind == OpKind::Convolution && op.phase == Phase::Forward;
    let convolutions: Vec<&Op> =
        trace.iter().flat_map(|trace| &trace.ops).filter(is_convolution).collect();
    let of = |tensors: fn(&Op) -> &[TensorId]| -> BTreeSet<u32> {
        convolutions.iter().flat_map(|op| tensors(op)).map(|tensor| tensor.0).collect()
    };
    let epochs: BTreeSet<u32> = rows.iter().map(|row| row.epoch).collect();
    let head = ["what JPEG-ACT makes of", "epoch", "jpeg-act-l", "jpeg-act-h"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for (what, tensors) in [
        ("all feature maps", None),
        ("what convolutions read", Some(of(|op| &op.reads))),
        ("what convolutions make", Some(of(|op| &op.writes))),
    ] {
        for epoch in &epochs {
            let counts = |row: &&TensorZeros| {
                row.epoch == *epoch
                    && tensors.as_ref().is_none_or(|tensors| tensors.contains(&row.tensor))
            };
            let maps = rows.iter().filter(counts).filter_map(|row| {
                Some([row.bytes.0, row.jpeg_act_l?.0, row.jpeg_act_h?.0].map(u128::from))
            });
            let [raw, low, high] =
                maps.fold([0; 3], |sum, map| [0, 1, 2].map(|at| sum[at] + map[at]));
            if raw > 0 {
                let ratio = |small: u128| format!("{:.2}x", raw as f64 / small as f64);
                lines.push(vec![what.into(), (epoch + 1).to_string(), ratio(low), ratio(high)]);
            }
        }
    }
    if lines.len() == 1 { String::new() } else { format!("\n{}", columns(&lines)) }
}

/// Zeros of what activations and poolings make, by layer and epoch, as `networks/zeros.toml` has them. What network it
/// was says the trace beside the file.
fn zeros(file: &Path, rows: &[TensorZeros]) -> Option<String> {
    let trace = Trace::read(&file.with_file_name("trace.json")).ok()?;
    let name = trace.provenance.recipe.as_ref()?.network.clone();
    let kinds = [OpKind::Activation, OpKind::Pooling];
    let made = trace.ops.iter().filter(|op| kinds.contains(&op.kind) && op.phase == Phase::Forward);
    let mut text = format!(
        "[{}]\nsource = \"`profile {name} --batch {} --epochs {}`\"\n\n[{0}.zeros_permille]\n",
        name.trim_end_matches("-cifar10"),
        trace.batch?,
        rows.iter().map(|row| row.epoch + 1).max()?,
    );
    for tensor in made.filter_map(|op| op.writes.first()) {
        let of = rows.iter().filter(|row| row.tensor == tensor.0);
        let shares: Vec<u32> = of.clone().map(|row| (1000.0 * row.zeros).round() as u32).collect();
        let Some(row) = of.clone().next().filter(|_| shares.iter().any(|share| *share > 0)) else {
            continue;
        };
        text += &format!("\"{}\" = {shares:?}\n", row.name);
    }
    Some(text)
}

fn bundled() -> Option<CodedSize> {
    let machine = scenarios::machine("titan-v").ok()?;
    scenarios::codec_models(&machine).models.into_iter().find_map(|model| match model.size {
        SizeModel::Coded(coded) => Some(coded),
        _ => None,
    })
}

/// What SZ made of a tensor, each with the half that the tensor's layer belongs to.
fn samples(row: &TensorZeros) -> Vec<(bool, CodedSample)> {
    let Some((texture, deviation)) = row.texture().filter(|_| row.bytes.0 >= SMALLEST) else {
        return Vec::new();
    };
    // A hash of the name, so that neighbours do not take turns (FNV-1a).
    let hash = row.name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let sample = |(bound, size): (f64, schema::Bytes)| {
        let ratio = size.0 as f64 / row.bytes.0 as f64;
        let sample = CodedSample { bound, zeros: row.zeros, texture, deviation, ratio };
        (hash >> 32 & 1 == 1, sample)
    };
    row.sizes().into_iter().filter(|(bound, _)| *bound > 0.0).map(sample).collect()
}

fn line(name: &str, model: &CodedSize, samples: &[CodedSample]) -> [String; 5] {
    let mut off: Vec<f64> =
        samples.iter().map(|s| (s.ratio / s.expected(model) - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    let at = |share: f64| off.get((off.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    let expected: f64 = samples.iter().map(|s| s.expected(model)).sum();
    let real: f64 = samples.iter().map(|s| s.ratio).sum();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let together = format!("{:+.1} %", 100.0 * (real / expected - 1.0));
    [name.into(), samples.len().to_string(), percent(at(0.5)), percent(at(0.9)), together]
}
