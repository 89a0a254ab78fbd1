//! Readers of tables in Parquet.

use std::path::Path;
use std::sync::OnceLock;

use experiments::tables::{Row, Table, read_parquet, write_parquet};
use experiments::zeros::TensorZeros;
use profiler::codec_samples::CodecSample;
use regression::{Sample, fit_size, fit_times};
use reports::MethodResult;
use schema::{Bytes, BytesPerSec, Fidelity, Nanos, PendingFile};

pub fn table<T: Table>(rows: &[T]) -> Vec<u8> {
    with_file(|file| {
        let pending = PendingFile::create(file).expect("there is room");
        write_parquet(rows, pending).expect("there is room");
        std::fs::read(file).expect("it was written")
    })
}

pub fn with_file<R>(work: impl FnOnce(&Path) -> R) -> R {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("there is room"));
    work(&folder.path().join("table.parquet"))
}

pub fn rows() -> Vec<Row> {
    let row = |batch: u32| Row {
        study: "links".into(),
        network: "resnet50".into(),
        batch: Some(batch),
        machine: "titan-v".into(),
        bandwidth: BytesPerSec(50_000_000_000),
        answer: MethodResult {
            method: "pooch".into(),
            reason: batch.is_multiple_of(2).then(|| "too little memory".into()),
            iteration: (batch % 2 == 1).then_some(Nanos(1_500_000)),
            slowdown: Some(1.5),
            ..MethodResult::default()
        },
        ..Row::default()
    };
    (1..6).map(row).collect()
}

pub fn zeros() -> Vec<TensorZeros> {
    let row = |tensor: u32| TensorZeros {
        epoch: tensor / 4,
        tensor: tensor % 4,
        name: format!("relu{}", tensor % 4),
        bytes: Bytes(4096),
        zeros: f64::from(tensor) / 20.0,
        ..TensorZeros::default()
    };
    (0..20).map(row).collect()
}

pub fn samples() -> Vec<CodecSample> {
    let row = |index: u64| {
        let (bytes, zeros) = ((1 + index % 6) << 20, index / 6 % 4);
        CodecSample {
            device: "one".into(),
            codec: "zvc".into(),
            fidelity: "lossless".into(),
            dtype: "f32".into(),
            threads: 1,
            runs: 5,
            sparsity: 0.2 * (1 + zeros) as f64,
            bytes: Bytes(bytes),
            compressed: Bytes(bytes * (9 - 2 * zeros) / 10),
            compress: Nanos(1000 + bytes * (10 - zeros) / 7),
            decompress: Nanos(2000 + bytes * (8 - zeros) / 9),
            ..CodecSample::default()
        }
    };
    (0..24).map(row).collect()
}

pub fn read<T: Table>(bytes: &[u8]) -> Option<Vec<T>> {
    with_file(|file| {
        std::fs::write(file, bytes).expect("there is room");
        read_parquet(file).ok()
    })
}

pub fn read_table<T: Table>(bytes: &[u8]) -> bool {
    read::<T>(bytes).is_some()
}

/// As `fit` does, where few enough are left to fit quickly.
pub fn read_samples(bytes: &[u8]) -> bool {
    let Some(rows) = read::<CodecSample>(bytes) else { return false };
    let sample = |row: &CodecSample| Sample {
        bytes: row.bytes,
        compressed: row.compressed,
        sparsity: row.sparsity,
        time: row.compress,
    };
    let samples: Vec<Sample> = rows.iter().take(32).map(sample).collect();
    for fidelity in [Fidelity::Lossless, Fidelity::FixedRate, Fidelity::ErrorBounded] {
        let _ = fit_size(&samples, fidelity);
    }
    let _ = fit_times(&samples, "fuzzed");
    true
}
