//! The codec models that come with tidegate: shares of a device's memory bandwidth, expanded to a
//! document for the machine that is planned for.

use schema::{
    Bytes, BytesPerSec, CodecModel, CodecModels, Fidelity, Machine, ModelBasis, Nanos, RatioBand,
    SizeModel, TimeModel, TimePoint,
};
use serde::Deserialize;

use crate::amount::amount;

const BUNDLED: &str = include_str!("../codecs/gpu.toml");
const HOST: &str = include_str!("../codecs/host.toml");

/// Where the second point of every line lies: so far out that rounding it shows nowhere.
const LARGE: Bytes = Bytes(1 << 40);

/// Codecs as kernels of a GPU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodecFile {
    device: DeviceTable,
    codec: Vec<CodecTable>,
}

/// What all kernels of a device have in common.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    /// Bandwidth of copies within device memory, in thousandths of its peak.
    copy_permille: u32,
    /// Time of a kernel without work.
    #[serde(deserialize_with = "amount")]
    launch: Option<Nanos>,
    sources: DeviceSources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceSources {
    copy_permille: String,
    launch: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodecTable {
    name: String,
    parameter: Option<f64>,
    fidelity: Fidelity,
    size: SizeModel,
    /// Raw bytes per second, in thousandths of the bandwidth of copies.
    compress_permille: u32,
    decompress_permille: u32,
    sources: CodecSources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodecSources {
    /// Said for the reader of the file; a document has no place for it.
    #[allow(dead_code)]
    size: String,
    compress_permille: String,
    decompress_permille: String,
}

/// The bundled codec models for a machine: what codecs would take as kernels that reach stated
/// shares of the bandwidth of its device memory. Modelled, and each model says from what.
pub fn codec_models(machine: &Machine) -> CodecModels {
    let file: CodecFile = toml::from_str(BUNDLED).expect("a test reads it");
    let device = &file.device;
    let model = |codec: CodecTable| CodecModel {
        compress: device.times(machine, codec.compress_permille, &codec.sources.compress_permille),
        decompress: device.times(
            machine,
            codec.decompress_permille,
            &codec.sources.decompress_permille,
        ),
        codec: codec.name,
        parameter: codec.parameter,
        fidelity: codec.fidelity,
        size: codec.size,
    };
    CodecModels {
        device: machine.device.name.clone(),
        source: format!(
            "modelled from the memory bandwidth of {} and stated shares of it; nothing was run",
            machine.device.name
        ),
        models: file.codec.into_iter().map(model).collect(),
    }
}

/// Codecs as loops of a host's processor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    codec: Vec<HostCodecTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostCodecTable {
    name: String,
    fidelity: Fidelity,
    size: SizeModel,
    /// Raw bytes per second.
    #[serde(deserialize_with = "amount")]
    compress: Option<BytesPerSec>,
    #[serde(deserialize_with = "amount")]
    decompress: Option<BytesPerSec>,
    sources: HostCodecSources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostCodecSources {
    /// Said for the reader of the file; a document has no place for it.
    #[allow(dead_code)]
    size: String,
    compress: String,
    decompress: String,
}

/// The bundled models of codecs on a host's processor, for methods that compress there. Modelled,
/// and each model says from what.
pub fn host_codec_models() -> CodecModels {
    let file: HostFile = toml::from_str(HOST).expect("a test reads it");
    let times = |rate: Option<BytesPerSec>, source: String| {
        let rate = rate.expect("a test reads it");
        TimeModel {
            bands: vec![RatioBand {
                up_to_permille: 1000,
                points: line(Nanos::ZERO, rate.0.into()),
            }],
            spread_permille: None,
            basis: ModelBasis::Modelled,
            source: format!("{rate} ({source})"),
        }
    };
    let model = |codec: HostCodecTable| CodecModel {
        codec: codec.name,
        parameter: None,
        fidelity: codec.fidelity,
        size: codec.size,
        compress: times(codec.compress, codec.sources.compress),
        decompress: times(codec.decompress, codec.sources.decompress),
    };
    CodecModels {
        device: "host".into(),
        source: "modelled from stated rates of a host's processor; nothing was run".into(),
        models: file.codec.into_iter().map(model).collect(),
    }
}

/// A time without work, and beyond it so many bytes per second.
fn line(launch: Nanos, bytes_per_sec: u128) -> Vec<TimePoint> {
    let time = u128::from(LARGE.0) * 1_000_000_000 / bytes_per_sec.max(1);
    let point = |bytes, time: u128| TimePoint {
        bytes,
        time: launch + Nanos(u64::try_from(time).unwrap_or(u64::MAX).min(1 << 49)),
    };
    vec![point(Bytes::ZERO, 0), point(LARGE, time)]
}

impl DeviceTable {
    /// A line over the size: the launch, and a share of the bandwidth of copies.
    fn times(&self, machine: &Machine, share_permille: u32, source: &str) -> TimeModel {
        let peak = machine.device.compute.memory_bandwidth;
        let launch = self.launch.expect("a test reads it");
        let bytes_per_sec =
            u128::from(peak.0) * u128::from(self.copy_permille) * u128::from(share_permille);
        let percent = |permille: u32| f64::from(permille) / 10.0;
        TimeModel {
            bands: vec![RatioBand {
                up_to_permille: 1000,
                points: line(launch, bytes_per_sec / 1_000_000),
            }],
            spread_permille: None,
            basis: ModelBasis::Modelled,
            source: format!(
                "{} % of the bandwidth of copies ({source}), which is {} % of {peak} ({}); {launch} \
                 beside ({})",
                percent(share_permille),
                percent(self.copy_permille),
                self.sources.copy_permille,
                self.sources.launch
            ),
        }
    }
}

#[cfg(test)]
#[path = "codec_models_tests.rs"]
mod tests;
