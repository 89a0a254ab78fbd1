//! How fast codecs are on the processor.

use codecs::bench::{Row, Settings};
use schema::Dtype;

use super::{Bench, Measured};
use crate::Result;

impl Measured for Row {
    #[rustfmt::skip]
    const HEAD: &'static [&'static str] = &[
        "codec", "type", "ratio", "max error", "compress", "/naive", "/lz4", "2 threads", "decompress",
        "/naive", "/lz4", "2 threads",
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
pub fn host_codecs(settings: &Settings) -> Result<Bench<Row>> {
    let rows = codecs::bench::run(settings)?;
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
