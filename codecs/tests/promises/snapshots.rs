//! The bytes of small payloads, as a person reads them.

use schema::Dtype;

use crate::{codec, layout, payload};

/// Bytes in hexadecimal, 16 a line, in groups of 4.
fn hex(bytes: &[u8]) -> String {
    let group = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |line: &[u8]| line.chunks(4).map(group).collect::<Vec<_>>().join(" ");
    let numbered =
        bytes.chunks(16).enumerate().map(|(at, l)| format!("{:3}  {}", 16 * at, line(l)));
    numbered.collect::<Vec<_>>().join("\n")
}

#[test]
fn payloads_have_documented_bytes() {
    // 40 elements: two zeros, 1.0, -0.0, zeros, 2.0 in the second bitmap, zeros.
    let mut halves = [0u16; 40];
    (halves[2], halves[3], halves[34]) = (0x3c00, 0x8000, 0x4000);
    let halves: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    let layout = layout(Dtype::F16, &[5, 8]);
    let payloads = ["zvc", "rle", "csr"].map(|name| {
        let payload = payload(codec(name).as_ref(), &layout, &halves);
        format!("payload of {name}\n{}", hex(&payload))
    });
    insta::assert_snapshot!(payloads.join("\n\n"));
}

#[test]
fn what_does_not_shrink_is_raw() {
    let layout = layout(Dtype::F32, &[3]);
    let bytes: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let payloads = ["zvc", "rle", "csr", "lz4"]
        .map(|name| hex(&payload(codec(name).as_ref(), &layout, &bytes)));
    assert!(payloads.iter().all(|payload| *payload == payloads[0]), "{payloads:?}");
    insta::assert_snapshot!(payloads[0]);
}
