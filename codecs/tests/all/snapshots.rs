//! The bytes of small frames, as a person reads them.

use codecs::frame::{HEADER_BYTES, encode};
use codecs::{Layout, TensorView};
use schema::Dtype;

use crate::{codec, layout};

/// Bytes in hexadecimal, 16 a line, in groups of 4.
fn hex(bytes: &[u8]) -> String {
    let group = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |line: &[u8]| line.chunks(4).map(group).collect::<Vec<_>>().join(" ");
    let numbered =
        bytes.chunks(16).enumerate().map(|(at, l)| format!("{:3}  {}", 16 * at, line(l)));
    numbered.collect::<Vec<_>>().join("\n")
}

fn frame(name: &str, layout: &Layout, bytes: &[u8]) -> Vec<u8> {
    encode(codec(name).as_ref(), TensorView::new(layout, bytes).unwrap()).unwrap()
}

#[test]
fn frames_have_documented_bytes() {
    // 40 elements: two zeros, 1.0, -0.0, zeros, 2.0 in the second bitmap, zeros.
    let mut halves = [0u16; 40];
    (halves[2], halves[3], halves[34]) = (0x3c00, 0x8000, 0x4000);
    let halves: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    let layout = layout(Dtype::F16, &[5, 8]);
    let mut text = String::new();
    for name in ["zvc", "rle", "csr"] {
        let frame = frame(name, &layout, &halves);
        let (header, payload) = frame.split_at(HEADER_BYTES);
        if name == "zvc" {
            text += &format!("header of zvc\n{}\n\n", hex(header));
        }
        text += &format!("payload of {name}\n{}\n\n", hex(payload));
    }
    insta::assert_snapshot!(text.trim_end());
}

#[test]
fn what_does_not_shrink_is_raw() {
    let layout = layout(Dtype::F32, &[3]);
    let bytes: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let payloads = ["zvc", "rle", "csr", "lz4"].map(|name| frame(name, &layout, &bytes));
    for frame in &payloads {
        assert_eq!(hex(&frame[HEADER_BYTES..]), hex(&payloads[0][HEADER_BYTES..]));
    }
    insta::assert_snapshot!(hex(&payloads[0][HEADER_BYTES..]));
}
