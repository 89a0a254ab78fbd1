//! What a plan's codecs make of the tensors of a batch.

use codecs::{Codec, CodecId, Layout, TensorView, claims::codec_of, codec};
use reports::Applied;
use runtime::device::Device;
use runtime::network::Network;
use runtime::training::{Images, TrainingError, look_inside};
use schema::{Bytes, Dtype, Phase, Plan};

/// What they make of each tensor of one of its batches, beside the device and with its weights: what comes of
/// forward ops is the same there, as no lossy codec is applied before it.
pub(super) fn applied(
    device: &mut dyn Device,
    network: &Network,
    plan: &Plan,
    images: (&Images, usize),
    iterations: usize,
) -> Result<Vec<Applied>, TrainingError> {
    let mut applied = Vec::new();
    look_inside(device, network, images, |id, in_core| {
        let op = network.op(id);
        for made in op.writes.iter().filter(|_| op.phase == Phase::Forward) {
            let decided = plan.decisions.iter().filter(|decision| decision.tensor == *made);
            let Some(used) = decided.filter_map(|decision| decision.codec).next() else { continue };
            let small =
                plan.buffers.iter().find(|b| b.tensor == Some(*made) && b.compressed.is_some());
            let named = &plan.codecs[used.index()];
            let made_by = |data| sequence(codec_of(named).ok()?.as_ref(), data);
            let Some((data, compressed)) =
                in_core.get(*made).and_then(|data| Some((data, made_by(data)?)))
            else {
                continue;
            };
            applied.push(Applied {
                iterations,
                tensor: network.tensor(*made).name.clone(),
                codec: named.to_string(),
                raw_bytes: Bytes(4 * data.len() as u64),
                compressed_bytes: compressed,
                reserved_bytes: small.map_or(compressed, |buffer| buffer.bytes),
            });
        }
    })?;
    Ok(applied)
}

/// What an error-bounded codec makes of some numbers within a bound.
pub(crate) fn within(bound: f64, name: &str, data: &[f32]) -> Option<Bytes> {
    let id: CodecId = format!("{name}:{bound}").parse().ok()?;
    sequence(codec(id).ok()?.as_ref(), data)
}

/// What a codec makes of some numbers, which lie as devices show them to it.
fn sequence(codec: &dyn Codec, data: &[f32]) -> Option<Bytes> {
    compressed(codec, &[data.len()], data)
}

/// What a codec makes of a tensor of this shape.
pub(crate) fn compressed(codec: &dyn Codec, shape: &[usize], data: &[f32]) -> Option<Bytes> {
    let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    let layout = Layout::new(Dtype::F32, shape).ok()?;
    let mut payload = vec![0; codec.worst_case(&layout)];
    let length = codec.compress(TensorView::new(&layout, &bytes).ok()?, &mut payload).ok()?;
    Some(Bytes(length as u64))
}
