//! Lookups in a packed table give the rows that the table reads.

use codecs::Layout;
use codecs::ibp::{ChunkSize, LINE, Metadata, Placement, Rows, Table, analyse};
use codecs::kernels::{self, TableArgument};
use codecs::synthetic::Recipe;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use schema::Dtype;

use crate::codec::program;
use crate::emulator::{Emulator, Value};

/// Rows of a table of floats, of which some are like no others.
fn table(case: &Case) -> (Table, Vec<u8>) {
    let Case { row_bytes, rows, seed, .. } = *case;
    let layout = Layout::new(Dtype::F16, &[rows * row_bytes / 2]).unwrap();
    let mut bytes = Recipe { layout, sparsity: case.zeros, smoothness: 0.9, seed }.bytes().unwrap();
    let mut state = seed | 1;
    for row in bytes.chunks_exact_mut(row_bytes) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        if state >> 61 == 0 {
            row.iter_mut().for_each(|byte| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                *byte = (state >> 40) as u8;
            });
        }
    }
    let all = Rows::new(&bytes, row_bytes).unwrap();
    let first = analyse(all, case.chunk).unwrap().metadata;
    let mut clusters = vec![first];
    if case.clusters {
        // Bits that are zero, for rows of mostly zeros.
        clusters.push(Metadata::new(vec![0xf0; row_bytes], vec![0; row_bytes]).unwrap());
    }
    let mut table = Table::new(clusters, case.chunk, case.placement).unwrap();
    table.append(all).unwrap();
    (table, bytes)
}

#[derive(Debug, Clone)]
struct Case {
    row_bytes: usize,
    rows: usize,
    chunk: ChunkSize,
    placement: Placement,
    clusters: bool,
    zeros: f64,
    lookups: Vec<usize>,
    seed: u64,
    blocks: u32,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (1..200usize, 1..40usize, prop::sample::select(ChunkSize::ALL.to_vec()));
    let flags = (any::<bool>(), any::<bool>(), prop_oneof![Just(0.0), Just(0.97), 0.0..1.0]);
    let lookups = prop::collection::vec(any::<prop::sample::Index>(), 0..30);
    (shape, flags, lookups, any::<u64>(), 1u32..5).prop_map(
        |((words, rows, chunk), (in_place, clusters, zeros), lookups, seed, blocks)| Case {
            // Long ones too, of which the participation bits alone are several lines.
            row_bytes: 8 * if seed % 5 == 0 { words * 10 } else { words },
            rows,
            chunk,
            placement: if in_place { Placement::InPlace } else { Placement::Condensed },
            clusters,
            zeros,
            lookups: lookups.iter().map(|index| index.index(rows)).collect(),
            seed,
            blocks,
        },
    )
}

/// What the kernel leaves: rows and status.
fn gather(emulator: &mut Emulator, case: &Case, table: &Table, numbers: &[u64]) -> (Vec<u8>, u64) {
    let parts = table.parts();
    assert_eq!(parts.rows.len() % LINE, 0);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut buffers = vec![
        parts.rows.clone(),
        words(parts.ends),
        parts.metadata.clone(),
        parts.clusters.iter().flat_map(|cluster| cluster.to_le_bytes()).collect(),
        words(numbers),
        vec![case.seed as u8 ^ 0x5a; numbers.len() * case.row_bytes],
        vec![0xff; 8],
    ];
    let launch = kernels::gather(&parts, numbers.len() as u64, case.blocks);
    let value = |argument: &TableArgument| match *argument {
        TableArgument::Rows => Value::Buffer(0, 0),
        TableArgument::Ends => Value::Buffer(1, 0),
        TableArgument::Metadata => Value::Buffer(2, 0),
        TableArgument::Clusters => Value::Buffer(3, 0),
        TableArgument::Numbers => Value::Buffer(4, 0),
        TableArgument::Target => Value::Buffer(5, 0),
        TableArgument::Status => Value::Buffer(6, 0),
        TableArgument::Number(number) => Value::Number(number),
    };
    emulator.run(case.seed, &mut buffers, &[launch.map(value)]);
    let status = u64::from_le_bytes(*buffers[6].first_chunk().unwrap());
    (buffers.swap_remove(5), status)
}

#[test]
fn lookups_give_what_the_table_reads() {
    let Some(emulator) = program("ibp") else { return };
    let emulator = std::cell::RefCell::new(emulator);
    let config = ProptestConfig { cases: 80, failure_persistence: None, ..Default::default() };
    let compressed = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&cases(), |case| {
        let (table, bytes) = table(&case);
        let numbers: Vec<u64> = case.lookups.iter().map(|row| *row as u64).collect();
        let (left, status) = gather(&mut emulator.borrow_mut(), &case, &table, &numbers);
        prop_assert_eq!(status, u64::MAX);
        for (row, left) in case.lookups.iter().zip(left.chunks_exact(case.row_bytes)) {
            prop_assert_eq!(left, &bytes[row * case.row_bytes..][..case.row_bytes]);
            compressed.set(compressed.get() + u32::from(table.is_compressed(*row) == Some(true)));
        }
        Ok(())
    });
    result.unwrap();
    assert!(compressed.get() > 100, "{} rows were compressed", compressed.get());
}

#[test]
fn a_row_that_there_is_not_is_said() {
    let Some(mut emulator) = program("ibp") else { return };
    let case = Case {
        row_bytes: 64,
        rows: 9,
        chunk: ChunkSize::Four,
        placement: Placement::Condensed,
        clusters: false,
        zeros: 0.9,
        lookups: Vec::new(),
        seed: 3,
        blocks: 2,
    };
    let (table, bytes) = table(&case);
    let (left, status) = gather(&mut emulator, &case, &table, &[8, 0, 9, 3, 10]);
    assert_eq!(status, 2, "the third lookup is the first that failed");
    assert_eq!(left[..64], bytes[8 * 64..]);
}
