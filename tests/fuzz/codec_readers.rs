//! Readers of what codecs wrote.

use codecs::ibp::{ChunkSize, Metadata, RowCoder, Rows, analyse};
use codecs::synthetic::Recipe;
use codecs::{CodecId, Layout, TensorView};
use schema::Dtype;

pub fn tensor() -> (Layout, Vec<u8>) {
    let layout = Layout::new(Dtype::F32, &[4, 3, 16, 16]).expect("it is small");
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.5, seed: 1 };
    let bytes = recipe.bytes().expect("a recipe");
    (layout, bytes)
}

pub fn every_codec() -> impl Iterator<Item = Box<dyn codecs::Codec>> {
    let ids = codecs::all().iter().filter_map(|entry| entry.example.parse::<CodecId>().ok());
    ids.filter_map(|id| codecs::codec(id).ok())
}

pub fn payloads() -> Vec<Vec<u8>> {
    let (layout, bytes) = tensor();
    let input = TensorView::new(&layout, &bytes).expect("as long as it says");
    let payload = |codec: Box<dyn codecs::Codec>| {
        let mut payload = vec![0; codec.worst_case(&layout)];
        let length = codec.compress(input, &mut payload).expect("floats");
        payload.truncate(length);
        payload
    };
    every_codec().map(payload).collect()
}

/// By every codec: what is another's is as good as any.
pub fn read_payload(bytes: &[u8]) -> bool {
    let mut accepted = false;
    for (dtype, shape) in [(Dtype::F32, &[4, 3, 16, 16][..]), (Dtype::F16, &[7, 61])] {
        let layout = Layout::new(dtype, shape).expect("it is small");
        let mut out = vec![0; layout.bytes()];
        for codec in every_codec() {
            accepted |= codec.decompress(bytes, &layout, &mut out).is_ok();
        }
    }
    accepted
}

/// Rows that agree in most of their bits: mask and values, and then what is packed.
pub fn packed_rows() -> Vec<Vec<u8>> {
    let row = |row: u8| (0..ROW as u8).map(move |byte| byte & 0x3c | row & byte & 3);
    let rows: Vec<u8> = (0..16).flat_map(row).collect();
    let of_chunk = |chunk: ChunkSize| {
        let metadata = analyse(Rows::new(&rows, ROW).expect("whole rows"), chunk);
        let metadata = metadata.expect("there are rows").metadata;
        let mut packed = [metadata.mask(), metadata.bitval()].concat();
        let coder = RowCoder::new(metadata, chunk).expect("chunks fit rows");
        let packs = rows.chunks(ROW).all(|row| coder.compress(row, &mut packed));
        assert!(packs, "rows agree");
        packed
    };
    ChunkSize::ALL.map(of_chunk).to_vec()
}

const ROW: usize = 64;

pub fn read_packed_rows(bytes: &[u8]) -> bool {
    let Some((metadata, rows)) = bytes.split_at_checked(2 * ROW) else { return false };
    let mut accepted = false;
    for chunk in ChunkSize::ALL {
        let metadata = Metadata::new(metadata[..ROW].to_vec(), metadata[ROW..].to_vec());
        let coder = metadata.and_then(|metadata| RowCoder::new(metadata, chunk));
        let Ok(coder) = coder else { continue };
        let (mut rest, mut out) = (rows, vec![0; ROW]);
        while let Ok(length) = coder.decompress(rest, &mut out) {
            accepted = true;
            rest = match rest.split_at_checked(length) {
                Some((_, rest)) if length > 0 => rest,
                _ => break,
            };
        }
    }
    accepted
}
