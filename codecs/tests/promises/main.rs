//! What all codecs promise.

mod damage;
mod ibp;
mod ids;
mod jpeg_act;
mod lossless;
mod snapshots;
mod synthetic;
mod sz;
mod zfp;

use codecs::{Codec, CodecId, Layout, TensorView};
use schema::Dtype;

fn codec(name: &str) -> Box<dyn Codec> {
    codecs::codec(name.parse::<CodecId>().unwrap()).unwrap()
}

fn lossless() -> impl Iterator<Item = Box<dyn Codec>> {
    let all = codecs::all().iter().map(|entry| codec(entry.example));
    all.filter(|codec| codec.fidelity() == codecs::Fidelity::Lossless)
}

fn layout(dtype: Dtype, shape: &[usize]) -> Layout {
    Layout::new(dtype, shape).unwrap()
}

/// The payload that a codec makes of a tensor.
fn payload(codec: &dyn Codec, layout: &Layout, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa; codec.worst_case(layout)];
    let len = codec.compress(TensorView::new(layout, bytes).unwrap(), &mut out).unwrap();
    out.truncate(len);
    out
}

/// The tensor that a codec makes of a payload.
fn restored(codec: &dyn Codec, layout: &Layout, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x55; layout.bytes()];
    codec.decompress(payload, layout, &mut out).unwrap();
    out
}

fn on_threads<R: Send>(threads: usize, run: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}
