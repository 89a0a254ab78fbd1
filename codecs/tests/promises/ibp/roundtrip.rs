//! What is compressed comes back.

use codecs::ibp::{
    ChunkSize, IbpError, Metadata, Placement, RowCoder, Rows, Table, analyse, sample_of,
};
use proptest::prelude::*;

use super::{check_rows, table};

/// Rows of a whole number of chunks whose bits agree in part, with a Mask that may be anything.
#[derive(Debug, Clone)]
struct Case {
    chunk: ChunkSize,
    rows: Vec<u8>,
    mask: Vec<u8>,
    bitval: Vec<u8>,
}

fn cases() -> impl Strategy<Value = Case> {
    let byte = prop_oneof![Just(0u8), Just(0xff), any::<u8>()];
    let chunk = prop::sample::select(ChunkSize::ALL.to_vec());
    // Past a block of 64 lanes, and past the end of one by a part of a lane.
    let chunks = prop_oneof![1usize..40, 500usize..600];
    (chunk, chunks, 1usize..6).prop_flat_map(move |(chunk, chunks, rows)| {
        let bytes = chunk.bytes() * chunks;
        let mask = prop_oneof![
            Just(vec![0; bytes]),
            Just(vec![0xff; bytes]),
            prop::collection::vec(byte.clone(), bytes),
        ];
        let noise =
            prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], bytes * rows);
        let values = prop::collection::vec(any::<u8>(), bytes);
        (mask, values, noise).prop_map(move |(mask, values, noise)| {
            let rows = noise.iter().zip(values.iter().cycle()).map(|(noise, value)| noise ^ value);
            let bitval = values.iter().zip(&mask).map(|(value, mask)| value & mask).collect();
            Case { chunk, rows: rows.collect(), mask, bitval }
        })
    })
}

/// The bytes of a row by the letter of the layout, one bit at a time.
fn by_the_bit(case: &Case, row: &[u8]) -> Vec<u8> {
    let word = case.chunk.bytes();
    let mut participation = Vec::new();
    let mut payload = Vec::new();
    for ((chunk, mask), bitval) in
        row.chunks(word).zip(case.mask.chunks(word)).zip(case.bitval.chunks(word))
    {
        let participates =
            chunk.iter().zip(mask).zip(bitval).all(|((chunk, mask), value)| chunk & mask == *value);
        participation.push(participates);
        for bit in (0..word * 8).rev() {
            let of = |bytes: &[u8]| bytes[bit / 8] >> (bit % 8) & 1 == 1;
            if !participates || !of(mask) {
                payload.push(of(chunk));
            }
        }
    }
    let mut bytes = vec![0; participation.len().div_ceil(word * 8) * word];
    for (index, bit) in participation.into_iter().enumerate() {
        bytes[index / 8] |= u8::from(bit) << (index % 8);
    }
    let begin = bytes.len();
    bytes.resize(begin + payload.len().div_ceil(word * 8) * word, 0);
    for (index, bit) in payload.into_iter().enumerate() {
        let place = word * 8 - 1 - index % (word * 8);
        bytes[begin + index / (word * 8) * word + place / 8] |= u8::from(bit) << (place % 8);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_row_has_the_bytes_of_the_layout_and_comes_back(case in cases()) {
        let metadata = Metadata::new(case.mask.clone(), case.bitval.clone()).unwrap();
        let coder = RowCoder::new(metadata, case.chunk).unwrap();
        for row in case.rows.chunks(case.mask.len()) {
            let expected = by_the_bit(&case, row);
            let mut compressed = vec![0xaa];
            let smaller = coder.compress(row, &mut compressed);
            prop_assert_eq!(smaller, expected.len() < row.len());
            if smaller {
                prop_assert_eq!(&compressed[1..], &expected);
            }
            // Also a row that would not be kept so, and with other bytes behind it.
            let mut behind = expected.clone();
            behind.extend([0xff; 9]);
            let mut out = vec![0x55; row.len()];
            prop_assert_eq!(coder.decompress(&behind, &mut out), Ok(expected.len()));
            prop_assert_eq!(&out, row);
        }
    }

    #[test]
    fn every_row_of_a_table_can_be_read_by_itself(case in cases(), condensed in any::<bool>()) {
        let rows = Rows::new(&case.rows, case.mask.len()).unwrap();
        let placement = if condensed { Placement::Condensed } else { Placement::InPlace };
        let metadata = analyse(rows, case.chunk).unwrap().metadata;
        let mut table = table(rows, metadata, case.chunk, placement);
        check_rows(&table, rows);
        let sizes = table.sizes();
        prop_assert!(sizes.rows <= sizes.uncompressed);
        // Rows that arrive later are compressed with what is known.
        table.append(rows).unwrap();
        prop_assert_eq!(table.sizes().rows, 2 * sizes.rows);
        prop_assert_eq!(table.sizes().metadata, sizes.metadata);
        check_rows(&table, Rows::new(&case.rows.repeat(2), case.mask.len()).unwrap());
    }
}

#[test]
fn what_is_no_row_is_refused() {
    let metadata = Metadata::new(vec![0xff; 12], vec![0; 12]).unwrap();
    let unfit = RowCoder::new(metadata.clone(), ChunkSize::Eight);
    assert_eq!(unfit.err(), Some(IbpError::RowBytes { row_bytes: 12, chunk: 8 }));
    assert_eq!(Rows::new(&[0; 13], 12).err(), Some(IbpError::Partial { bytes: 13, row_bytes: 12 }));
    assert_eq!(Rows::new(&[], 0).err(), Some(IbpError::Partial { bytes: 0, row_bytes: 0 }));
    let none = Rows::new(&[], 12).unwrap();
    assert_eq!(analyse(none, ChunkSize::Four).err(), Some(IbpError::NoRows));

    let mut table = Table::new(vec![metadata], ChunkSize::Four, Placement::InPlace).unwrap();
    let of_another_size = table.append(Rows::new(&[0; 16], 8).unwrap());
    assert_eq!(of_another_size, Err(IbpError::RowBuffer { expected: 12, actual: 8 }));
    assert_eq!(table.read(0, &mut [0; 12]), Err(IbpError::NoSuchRow { row: 0, rows: 0 }));
    table.append(Rows::new(&[0; 24], 12).unwrap()).unwrap();
    assert_eq!(table.read(1, &mut [0; 11]), Err(IbpError::RowBuffer { expected: 12, actual: 11 }));
    assert_eq!(
        Table::new(vec![], ChunkSize::Four, Placement::InPlace).err(),
        Some(IbpError::ClusterCount(0))
    );
}

#[test]
fn a_sample_takes_each_row_at_most_once_and_in_order() {
    let sample = |count, seed| sample_of(100, count, seed).collect::<Vec<_>>();
    for count in [0, 1, 7, 99, 100, 1000] {
        let drawn = sample(count, 3);
        assert_eq!(drawn.len() as u64, count.min(100));
        assert!(drawn.is_sorted_by(|a, b| a < b) && drawn.iter().all(|row| *row < 100));
        assert_eq!(drawn, sample(count, 3));
    }
    assert_ne!(sample(7, 3), sample(7, 4));
}
