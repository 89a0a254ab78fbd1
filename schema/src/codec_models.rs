//! What codecs make of tensors on one device, and how long that takes.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::coded::CodedSize;
use crate::file::{Malformed, malformed};
use crate::{Bytes, Document, Nanos};

/// Models of the codecs of one device: the size that each makes of a tensor, and its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodecModels {
    /// The device for which the times hold.
    pub device: String,
    /// The file, command or publication that the models come from.
    pub source: String,
    /// The models, at most 255.
    pub models: Vec<CodecModel>,
}

/// A codec and its setting: what decisions, buffers and models name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodecRef {
    /// Its name, such as `zvc`, `lz4` or `zfp`.
    pub codec: String,
    /// Its setting, in the codec's own unit: bits per value for zfp, the absolute error bound for
    /// sz. Absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<f64>,
    /// What comes back.
    pub fidelity: Fidelity,
}

/// Shows `zvc`, `zfp(8)`.
impl std::fmt::Display for CodecRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.parameter {
            Some(parameter) => write!(f, "{}({parameter})", self.codec),
            None => f.write_str(&self.codec),
        }
    }
}

/// What comes back from a codec, and whether its output's size depends on the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// The same bits; the size depends on the data.
    Lossless,
    /// Values that differ by an error that nothing bounds; the size is the same whatever the data.
    FixedRate,
    /// Values within a bound of the original, which the codec's parameter states or, where it has none, is a share of the
    /// largest magnitude of a channel; the size depends on the data.
    ErrorBounded,
}

impl Fidelity {
    /// Whether the size depends on the data, so that a plan needs a way out for data that does
    /// worse than was reserved for.
    pub fn size_varies(self) -> bool {
        self != Self::FixedRate
    }
}

/// What one codec makes of tensors, and how long that takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodecModel {
    /// The codec's name, such as `zvc`, `lz4` or `zfp`.
    pub codec: String,
    /// Its setting, in the codec's own unit; see [`CodecRef::parameter`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<f64>,
    /// What comes back.
    pub fidelity: Fidelity,
    /// The size that it makes of a tensor.
    #[serde(deserialize_with = "size")]
    pub size: SizeModel,
    /// The time that making a tensor smaller takes.
    pub compress: TimeModel,
    /// The time that bringing it back takes.
    pub decompress: TimeModel,
}

/// A size as it is written now, or as an older tidegate wrote that of an entropy code: a cost of each zero and one of
/// each other value, which is what `sparsity` says of 32-bit values.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<SizeModel, D::Error> {
    let mut size = serde_json::Value::deserialize(from)?;
    let of = |field| size.get("coded")?.get(field)?.as_u64();
    if let (Some(zero), Some(dense)) = (of("zero_permille"), of("dense_permille")) {
        let margin = of("margin_permille").unwrap_or(0);
        let [overhead, dense] = [zero.min(dense), dense.saturating_sub(zero)];
        size = serde_json::json!({ "sparsity": {
            "overhead_permille": overhead, "dense_permille": dense, "margin_permille": margin,
        }});
    }
    serde_json::from_value(size).map_err(D::Error::custom)
}

/// The size that a codec makes of a tensor of 32-bit values, in thousandths of the tensor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizeModel {
    /// It depends on how many values are zero: what every value costs, and what those that are not
    /// zero cost on top. Zero-value compression (a bit per value, and the values that are not
    /// zero) costs 32 and 1000.
    Sparsity {
        /// Cost of every value. 32 for one bit of 32, rounded up.
        overhead_permille: u32,
        /// Cost of a value that is not zero. 1000: itself; 2000: itself and an index of 32 bits.
        dense_permille: u32,
        /// What a plan reserves on top, in thousandths of the expected size.
        margin_permille: u32,
    },
    /// It depends on zeros, on how smooth the values are and on the error bound, and not on how wide they are: an
    /// entropy code of what a predictor leaves.
    Coded(CodedSize),
    /// It is a fixed share of the tensor: a codec of fixed rate, or one whose size was found to be
    /// much the same on all data. What a codec of fixed rate makes of a sequence is counted in
    /// whole blocks of four values, each of a whole number of bits, and whole words of 64 bits, as
    /// ZFP does.
    Rate {
        /// The share.
        permille: u32,
        /// What a plan reserves on top, in thousandths of the expected size; nothing for a codec
        /// of fixed rate.
        #[serde(default, skip_serializing_if = "is_zero")]
        margin_permille: u32,
    },
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Time of a codec as a function of the tensor's size, in bands of the ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeModel {
    /// The bands by ascending limit, at least one; beyond the last, the last serves.
    pub bands: Vec<RatioBand>,
    /// Relative spread of what is left unexplained on samples that the fit has not seen; absent:
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_permille: Option<u32>,
    /// What the times rest on.
    pub basis: ModelBasis,
    /// The samples or the reasoning that they come from.
    pub source: String,
}

/// What a model's times rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelBasis {
    /// Samples taken on the device.
    Measured,
    /// A model of the device; nothing was run.
    Modelled,
}

/// Times for all tensors that become no larger than a share of themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatioBand {
    /// The largest share, in thousandths, compressed over raw.
    pub up_to_permille: u32,
    /// At least two points by ascending size, whose times do not fall. Linear in between; smaller
    /// tensors take as long as the first (the latency), larger ones as the last two say.
    pub points: Vec<TimePoint>,
}

/// The time for one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimePoint {
    /// Size of the raw tensor.
    pub bytes: Bytes,
    /// The time.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
}

/// Times beyond this are those of no codec.
const LONGEST: f64 = (1u64 << 50) as f64;

impl CodecModels {
    /// The models of codecs that reach a share of the speed that these say.
    pub fn at_speed(mut self, share: f64) -> Self {
        let slower = |time: Nanos| Nanos((time.0 as f64 / share).round().min(LONGEST) as u64);
        for times in self.models.iter_mut().flat_map(|m| [&mut m.compress, &mut m.decompress]) {
            let points = times.bands.iter_mut().flat_map(|band| &mut band.points);
            points.for_each(|point| point.time = slower(point.time));
        }
        self.source += &format!("; their speed is taken for {} % of that", 100.0 * share);
        self
    }
}

impl CodecModel {
    /// The codec and its setting.
    pub fn codec_ref(&self) -> CodecRef {
        let Self { codec, parameter, fidelity, .. } = self;
        CodecRef { codec: codec.clone(), parameter: *parameter, fidelity: *fidelity }
    }
}

impl Document for CodecModels {
    const FORMAT: &'static str = "tidegate/codec-models";
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Malformed> {
        if self.models.len() > 255 {
            let count = self.models.len();
            return malformed(format!(
                "there are {count} models, and a plan can name 255: leave some away"
            ));
        }
        for (index, model) in self.models.iter().enumerate() {
            let same = |o: &CodecModel| o.codec == model.codec && o.parameter == model.parameter;
            if self.models[..index].iter().any(same) {
                let codec = model.codec_ref();
                return malformed(format!(
                    "models[{index}] is of {codec}, and so is one before it: leave one away"
                ));
            }
            if let Some((field, why)) = model.problem() {
                return malformed(format!("models[{index}].{field} {why}"));
            }
        }
        Ok(())
    }
}

impl CodecModel {
    /// What is wrong with the model, with the field's name, or nothing.
    fn problem(&self) -> Option<(String, &'static str)> {
        if self.codec.is_empty() {
            return Some(("codec".into(), "has no name"));
        }
        if self.parameter.is_some_and(|p| !p.is_finite() || p <= 0.0) {
            return Some(("parameter".into(), "must be a number over 0"));
        }
        if let Some(why) = self.size.problem(self.fidelity) {
            return Some(("size".into(), why));
        }
        for (name, times) in [("compress", &self.compress), ("decompress", &self.decompress)] {
            if let Some((field, why)) = times.problem() {
                return Some((format!("{name}.{field}"), why));
            }
        }
        None
    }
}

impl SizeModel {
    /// What a plan reserves on top of the expected size, in thousandths of that.
    pub fn margin_permille(&self) -> u32 {
        match *self {
            Self::Sparsity { margin_permille, .. }
            | Self::Coded(CodedSize { margin_permille, .. })
            | Self::Rate { margin_permille, .. } => margin_permille,
        }
    }

    fn problem(&self, fidelity: Fidelity) -> Option<&'static str> {
        let (shares, margin) = match *self {
            Self::Sparsity { overhead_permille, dense_permille, margin_permille } => {
                ([overhead_permille, dense_permille], margin_permille)
            }
            Self::Coded(CodedSize { run_permille, value_permille, margin_permille, .. }) => {
                let largest = value_permille.into_iter().max().unwrap_or(0);
                ([run_permille, largest], margin_permille)
            }
            Self::Rate { permille, margin_permille } => ([permille, 0], margin_permille),
        };
        if shares.iter().any(|share| *share > 10_000) || margin > 10_000 {
            return Some("has a share over 10000: more than ten times the tensor");
        }
        if shares == [0, 0] {
            return Some("makes nothing of everything");
        }
        let fixed = matches!(self, Self::Rate { margin_permille: 0, .. });
        (!fidelity.size_varies() && !fixed)
            .then_some("of a codec of fixed rate must be a rate without a margin")
    }
}

impl TimeModel {
    fn problem(&self) -> Option<(String, &'static str)> {
        if self.bands.is_empty() {
            return Some(("bands".into(), "is empty: give at least one band"));
        }
        if self.bands.windows(2).any(|w| w[0].up_to_permille >= w[1].up_to_permille) {
            return Some(("bands".into(), "must be listed by ascending up_to_permille"));
        }
        let field = |index: usize| format!("bands[{index}].points");
        for (index, RatioBand { points, .. }) in self.bands.iter().enumerate() {
            if points.len() < 2 {
                return Some((field(index), "has fewer than two points: no line goes through one"));
            }
            if points.windows(2).any(|w| w[0].bytes >= w[1].bytes) {
                return Some((field(index), "must be listed by ascending size"));
            }
            if points.windows(2).any(|w| w[0].time > w[1].time) {
                return Some((field(index), "falls: a larger tensor takes no less time"));
            }
            let last = points[points.len() - 1];
            if last.bytes.0 > 1 << 50 || last.time.0 > 1 << 50 {
                return Some((field(index), "has a point beyond 2^50"));
            }
        }
        None
    }
}
