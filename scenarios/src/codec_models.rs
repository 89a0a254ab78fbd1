//! The codec models that come with tidegate: shares of a device's memory bandwidth, expanded to a
//! document for the machine that is planned for, or rates that were stated for its GPU.

use schema::{
    Bytes, BytesPerSec, CodecModel, CodecModels, Fidelity, Machine, ModelBasis, Nanos, RatioBand,
    SizeModel, TimeModel, TimePoint,
};
use serde::Deserialize;

use crate::amount::amount;

const BUNDLED: &str = include_str!("../codecs/gpu.toml");
const HOST: &str = include_str!("../codecs/host.toml");
const STATED: [&str; 2] =
    [include_str!("../codecs/comet.toml"), include_str!("../codecs/cswap.toml")];

/// Where the second point of every line lies: so far out that rounding it shows nowhere.
const LARGE: Bytes = Bytes(1 << 40);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    device: DeviceTable,
    /// With raw bytes per second in thousandths of the bandwidth of copies.
    codec: Vec<CodecTable<u32>>,
}

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

/// Rates of kernels, whatever the bandwidth of the GPU's memory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedFile {
    machines: Vec<String>,
    /// What a call takes beside.
    #[serde(deserialize_with = "amount")]
    launch: Option<Nanos>,
    sources: StatedSources,
    codec: Vec<StatedCodec>,
    /// What these machines alone compress with.
    #[serde(default)]
    model: Vec<CodecTable<HostRate>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedSources {
    launch: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedCodec {
    name: String,
    /// Absent: at every parameter.
    parameter: Option<f64>,
    compress: HostRate,
    decompress: HostRate,
    source: String,
}

impl StatedFile {
    /// A model with the times that are stated for its codec, where they are.
    fn apply(&self, mut model: CodecModel) -> CodecModel {
        let is_it = |c: &&StatedCodec| {
            c.name == model.codec && (c.parameter.is_none() || c.parameter == model.parameter)
        };
        let Some(codec) = self.codec.iter().find(is_it) else { return model };
        let times = |rate: &HostRate| self.times(rate, &codec.source);
        (model.compress, model.decompress) = (times(&codec.compress), times(&codec.decompress));
        model
    }

    /// A launch and so many bytes per second.
    fn times(&self, rate: &HostRate, source: &str) -> TimeModel {
        let launch = self.launch.expect("a test reads it");
        let rate = rate.0.expect("a test reads it");
        let source = format!("{rate} ({source}); {launch} beside ({})", self.sources.launch);
        modelled(line(launch, rate.0.into()), source)
    }
}

/// Codecs as loops of a host's processor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    codec: Vec<CodecTable<HostRate>>,
}

/// Raw bytes per second.
#[derive(Debug, Deserialize)]
struct HostRate(#[serde(deserialize_with = "amount")] Option<BytesPerSec>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodecTable<R> {
    name: String,
    parameter: Option<f64>,
    fidelity: Fidelity,
    size: SizeModel,
    compress: R,
    decompress: R,
    sources: CodecSources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodecSources {
    /// Said for the reader of the file; a document has no place for it.
    #[allow(dead_code)]
    size: String,
    compress: String,
    decompress: String,
}

impl<R> CodecTable<R> {
    /// The model, with times by a rate and where that comes from.
    fn model(self, times: impl Fn(R, &str) -> TimeModel) -> CodecModel {
        CodecModel {
            codec: self.name,
            parameter: self.parameter,
            fidelity: self.fidelity,
            size: self.size,
            compress: times(self.compress, &self.sources.compress),
            decompress: times(self.decompress, &self.sources.decompress),
        }
    }
}

/// The bundled codec models for a machine: what codecs would take as kernels that reach stated
/// shares of the bandwidth of its device memory, or rates that are stated for its GPU. Modelled, and
/// each model says from what.
pub fn codec_models(machine: &Machine) -> CodecModels {
    let DeviceFile { device, codec } = toml::from_str(BUNDLED).expect("a test reads it");
    let times = |permille, source: &str| device.times(machine, permille, source);
    let mut models: Vec<CodecModel> = codec.into_iter().map(|codec| codec.model(times)).collect();
    let mut from = "its memory bandwidth and stated shares of it";
    let mut stated = STATED.into_iter().map(|file| {
        let file: StatedFile = toml::from_str(file).expect("a test reads it");
        file
    });
    let name = machine.name.split('+').next().unwrap_or_default();
    if let Some(mut stated) = stated.find(|file| file.machines.iter().any(|of| of == name)) {
        from = "rates that are stated for it and, for other codecs, shares of its memory bandwidth";
        models = models.into_iter().map(|model| stated.apply(model)).collect();
        let others = std::mem::take(&mut stated.model).into_iter();
        models.extend(others.map(|model| model.model(|rate, source| stated.times(&rate, source))));
    }
    CodecModels {
        device: machine.device.name.clone(),
        source: format!("modelled for {} from {from}; nothing was run", machine.device.name),
        models,
    }
}

/// The bundled models of codecs on a host's processor, for methods that compress there. Modelled,
/// and each model says from what.
pub fn host_codec_models() -> CodecModels {
    let file: HostFile = toml::from_str(HOST).expect("a test reads it");
    let times = |rate: HostRate, source: &str| {
        let rate = rate.0.expect("a test reads it");
        modelled(line(Nanos::ZERO, rate.0.into()), format!("{rate} ({source})"))
    };
    CodecModels {
        device: "host".into(),
        source: "modelled from stated rates of a host's processor; nothing was run".into(),
        models: file.codec.into_iter().map(|codec| codec.model(times)).collect(),
    }
}

/// Times that do not depend on the ratio.
fn modelled(points: Vec<TimePoint>, source: String) -> TimeModel {
    let bands = vec![RatioBand { up_to_permille: 1000, points }];
    TimeModel { bands, spread_permille: None, basis: ModelBasis::Modelled, source }
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
        let source = format!(
            "{} % of the bandwidth of copies ({source}), which is {} % of {peak} ({}); {launch} \
             beside ({})",
            percent(share_permille),
            percent(self.copy_permille),
            self.sources.copy_permille,
            self.sources.launch
        );
        modelled(line(launch, bytes_per_sec / 1_000_000), source)
    }
}

#[cfg(test)]
#[path = "codec_models_tests.rs"]
mod tests;
