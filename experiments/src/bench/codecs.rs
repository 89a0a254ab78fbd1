//! How fast codecs are on the processor.

use codecs::bench::{Row, Settings, Speed};
use schema::Dtype;
use serde::Serialize;

use super::{Bench, Measured};
use crate::Result;

/// One codec and element type.
#[derive(Serialize)]
pub struct CodecSpeed {
    codec: String,
    dtype: Dtype,
    /// Uncompressed over compressed bytes.
    ratio: f64,
    /// Null where what comes back is not finite.
    max_abs_error: f64,
    rms_error: f64,
    compress: OneWay,
    decompress: OneWay,
    copy: Copying,
}

#[derive(Serialize)]
struct Copying {
    bytes_per_second: u64,
    two_threads: f64,
}

#[derive(Serialize)]
struct OneWay {
    bytes_per_second: u64,
    over_naive: f64,
    over_lz4: f64,
    two_threads: f64,
}

impl Measured for CodecSpeed {
    const HEAD: &'static [&'static str] = &[
        "codec",
        "type",
        "ratio",
        "max error",
        "compress",
        "/naive",
        "/lz4",
        "2 threads",
        "decompress",
        "/naive",
        "/lz4",
        "2 threads",
    ];

    fn cells(&self) -> Vec<String> {
        let error = match self.max_abs_error {
            0.0 => "0".into(),
            error => format!("{error:.1e}"),
        };
        let mut cells =
            vec![self.codec.clone(), dtype_name(self.dtype), format!("{:.2}", self.ratio), error];
        for way in [&self.compress, &self.decompress] {
            cells.push(format!("{:.0} MB/s", way.bytes_per_second as f64 / 1e6));
            let factors = [way.over_naive, way.over_lz4, way.two_threads];
            cells.extend(factors.map(|factor| format!("{factor:.2}")));
        }
        cells
    }
}

/// Times codecs.
///
/// # Errors
/// If a codec fails.
pub fn host_codecs(settings: &Settings) -> Result<Bench<CodecSpeed>> {
    let rows: Vec<CodecSpeed> = codecs::bench::run(settings)?.iter().map(measured).collect();
    let mut notes =
        "speeds in uncompressed bytes on one thread; /naive and /lz4: times the speed of a \
                     scalar loop for zvc and of LZ4;\n2 threads: times the speed on one\n"
            .to_string();
    // What memory allows, for each element type.
    for row in rows.chunk_by(|a, b| a.dtype == b.dtype).filter_map(<[_]>::first) {
        notes += &format!(
            "copying the {} tensor: {:.0} MB/s, {:.2} times that on 2 threads\n",
            dtype_name(row.dtype),
            row.copy.bytes_per_second as f64 / 1e6,
            row.copy.two_threads
        );
    }
    Ok(Bench { rows, notes })
}

/// As options name it.
pub(super) fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}

fn measured(row: &Row) -> CodecSpeed {
    let way = |speed: Speed| OneWay {
        bytes_per_second: speed.bytes_per_second as u64,
        over_naive: speed.over_naive,
        over_lz4: speed.over_lz4,
        two_threads: speed.two_threads,
    };
    CodecSpeed {
        codec: row.codec.to_string(),
        dtype: row.dtype,
        ratio: row.ratio,
        max_abs_error: row.difference.max_abs,
        rms_error: row.difference.rms,
        compress: way(row.compress),
        decompress: way(row.decompress),
        copy: Copying {
            bytes_per_second: row.copy.bytes_per_second as u64,
            two_threads: row.copy.two_threads,
        },
    }
}
