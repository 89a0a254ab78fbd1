//! How much of each tensor is zero and how smooth the rest is, epoch by epoch, and what SZ makes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codecs::CodecId;
use codecs::jpeg_act::Table as Quantised;
use planner::{Monitor, Progress};
use profiler::MeasureError;
use runtime::network::Network;
use runtime::profile::{InCore, share_of_zeros};
use runtime::training::Scenes;
use schema::{Bytes, Dtype, OpId, Phase, Recipe, Texture, Trace};

use crate::recipes::described;
use crate::tables::{Cell, Kind, Table, Value, read_parquet, table};
use crate::train::{compressed, deviation, within};
use crate::{Error, Result};

/// The share of zeros of one tensor after an epoch of training.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct TensorZeros {
    /// The epoch, counted from 0.
    pub epoch: u32,
    /// The tensor's number in its trace.
    pub tensor: u32,
    pub name: String,
    pub bytes: Bytes,
    /// Share of its values that are zero, in the epoch's last iteration.
    pub zeros: f64,
    /// The others' magnitude, as [`Texture`] has it; files of an older tidegate have none of this.
    pub value: Option<f64>,
    pub step: Option<f64>,
    pub runs: Option<f64>,
    /// Standard deviation of all values.
    pub deviation: Option<f64>,
    /// What SZ makes of it within a tenth of the deviation.
    pub sz_tenth: Option<Bytes>,
    /// Within a hundredth.
    pub sz_hundredth: Option<Bytes>,
    /// Within a thousandth.
    pub sz_thousandth: Option<Bytes>,
    /// What JPEG-ACT makes of it by its first table, where it is a batch of feature maps.
    pub jpeg_act_l: Option<Bytes>,
    /// By its second.
    pub jpeg_act_h: Option<Bytes>,
}

impl TensorZeros {
    /// How its values lie, with their standard deviation.
    pub fn texture(&self) -> Option<(Texture, f64)> {
        let Self { value, step, runs, deviation, .. } = *self;
        Some((Texture { value: value?, step: step?, runs: runs? }, deviation?))
    }

    /// What SZ made of it, each with the error bound.
    pub fn sizes(&self) -> Vec<(f64, Bytes)> {
        let deviation = self.deviation.unwrap_or(0.0);
        let all = [(1e-1, self.sz_tenth), (1e-2, self.sz_hundredth), (1e-3, self.sz_thousandth)];
        all.into_iter().filter_map(|(share, size)| Some((share * deviation, size?))).collect()
    }

    /// Of a tensor's values, and its shape where it is known.
    fn of(epoch: u32, tensor: u32, name: &str, shape: Option<&[usize]>, data: &[f32]) -> Self {
        let [jpeg_act_l, jpeg_act_h] =
            [Quantised::Low, Quantised::High].map(|table| jpeg_act(table, shape?, data));
        let texture = codecs::texture(data);
        let deviation = deviation(data);
        let [sz_tenth, sz_hundredth, sz_thousandth] =
            [1e-1, 1e-2, 1e-3].map(|share| within(share * deviation, "sz", data));
        Self {
            epoch,
            tensor,
            name: name.into(),
            bytes: Bytes(size_of_val(data) as u64),
            zeros: share_of_zeros(data),
            value: Some(texture.value),
            step: Some(texture.step),
            runs: Some(texture.runs),
            deviation: Some(deviation),
            sz_tenth,
            sz_hundredth,
            sz_thousandth,
            jpeg_act_l,
            jpeg_act_h,
        }
    }
}

table!(TensorZeros {
    epoch: u32 = "epoch",
    tensor: u32 = "tensor",
    name: String = "name",
    bytes: Bytes = "bytes",
    zeros: f64 = "zeros",
    value: Option<f64> = "value",
    step: Option<f64> = "step",
    runs: Option<f64> = "runs",
    deviation: Option<f64> = "deviation",
    sz_tenth: Option<Bytes> = "sz_1e-1_bytes",
    sz_hundredth: Option<Bytes> = "sz_1e-2_bytes",
    sz_thousandth: Option<Bytes> = "sz_1e-3_bytes",
    jpeg_act_l: Option<Bytes> = "jpeg-act-l_bytes",
    jpeg_act_h: Option<Bytes> = "jpeg-act-h_bytes",
});

/// What JPEG-ACT makes of a batch of feature maps; nothing of what is none.
fn jpeg_act(table: Quantised, shape: &[usize], data: &[f32]) -> Option<Bytes> {
    let is_map = shape.len() == 4 && shape.iter().product::<usize>() == data.len();
    let codec = codecs::codec(CodecId::JpegAct { table }).ok().filter(|_| is_map)?;
    compressed(codec.as_ref(), shape, data)
}

/// How long a network is watched.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// How many epochs.
    pub epochs: u32,
    /// Iterations of an epoch: on a batch of [`Scenes`] each where the network takes images and tells classes, else on one
    /// random batch.
    pub iterations: u32,
    /// Seed of weights, samples, labels and dropout.
    pub seed: u64,
}

/// Trains a network on this machine's processor and looks at values: of each tensor of floats that the
/// forward pass makes, in the last iteration of each epoch. The network is that of the recipe, whose layers tell shapes.
///
/// # Errors
/// If there is too little memory, or an op fails.
pub fn zeros_by_epoch(
    network: &Network,
    recipe: &Recipe,
    course: Course,
    monitor: &dyn Monitor,
) -> Result<Vec<TensorZeros>> {
    let mut in_core = InCore::new(network, course.seed)?;
    let scenes = Scenes::of(network, course.seed);
    let described = described(recipe)?;
    let extents = |shape: &[u64]| shape.iter().map(|extent| *extent as usize).collect();
    let shapes: BTreeMap<&str, Vec<usize>> =
        described.layers().map(|(name, shape)| (name, extents(shape))).collect();
    let mut rows = Vec::new();
    let of = u64::from(course.epochs) * u64::from(course.iterations);
    for iteration in 0..of {
        if !monitor.proceed(Progress { phase: "zeros", done: iteration, of }) {
            return Err(MeasureError::Interrupted.into());
        }
        if let Some(cells) = network.dropout_seed().and_then(|seed| in_core.get_mut(seed)) {
            network.reseed(course.seed, iteration, cells);
        }
        if let Some(scenes) = scenes {
            scenes.hand_in(&mut in_core, iteration);
        }
        let epoch = (iteration / u64::from(course.iterations)) as u32;
        let is_last = (iteration + 1) % u64::from(course.iterations) == 0;
        for (index, op) in network.ops().iter().enumerate() {
            let id = OpId::from_index(index);
            in_core.run(id)?;
            if is_last && op.phase == Phase::Forward {
                for tensor in &op.writes {
                    let about = network.tensor(*tensor);
                    let floats = in_core
                        .get(*tensor)
                        .filter(|_| matches!(about.dtype, Dtype::F32 | Dtype::Bf16));
                    let shape = shapes.get(about.name.as_str()).map(Vec::as_slice);
                    let row = |data| TensorZeros::of(epoch, tensor.0, &about.name, shape, data);
                    rows.extend(floats.map(row));
                }
            }
            in_core.free(id);
        }
    }
    Ok(rows)
}

/// Zeros that were counted.
pub struct Zeros {
    file: PathBuf,
    rows: Vec<TensorZeros>,
    /// Epochs, at least one.
    epochs: u32,
}

impl Zeros {
    /// The file that they are from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads what `profile --epochs` wrote.
    ///
    /// # Errors
    /// If it is no table of zeros.
    pub fn read(file: &Path) -> Result<Self> {
        let rows: Vec<TensorZeros> = read_parquet(file).map_err(Error::StudyTable)?;
        if let Some(row) = rows.iter().position(|row| !(0.0..=1.0).contains(&row.zeros)) {
            return Err(Error::NoShare(file.into(), row + 1, rows[row].zeros));
        }
        match rows.iter().map(|row| row.epoch.saturating_add(1)).max() {
            Some(epochs) => Ok(Self { file: file.into(), rows, epochs }),
            None => Err(Error::NothingCounted(file.into())),
        }
    }
}

/// States in a trace what was counted of it, at a moment of a training of `end` epochs over which the
/// epochs that were counted are spread evenly.
///
/// # Errors
/// Where other tensors were counted than the trace has.
pub fn apply(zeros: &Zeros, (epoch, end): (u32, u32), trace: &mut Trace) -> Result<()> {
    let Zeros { file, rows, epochs: counted } = zeros;
    let at = (u64::from(epoch) * u64::from(*counted) / u64::from(end.max(1))) as u32;
    let at = at.min(*counted - 1);
    for row in rows.iter().filter(|row| row.epoch == at) {
        let tensor = trace.tensors.get_mut(row.tensor as usize);
        match tensor.filter(|tensor| tensor.name == row.name && tensor.bytes == row.bytes) {
            Some(tensor) => {
                tensor.sparsity = Some(row.zeros);
                tensor.texture = row.texture().map(|(texture, _)| texture);
            }
            None => {
                let TensorZeros { tensor, name, bytes, .. } = row.clone();
                return Err(Error::OtherTensors { file: file.clone(), tensor, name, bytes });
            }
        }
    }
    Ok(())
}

/// For each epoch the share of zeros over all tensors, by bytes.
pub fn means(rows: &[TensorZeros]) -> Vec<(u32, f64)> {
    let epochs = rows.iter().map(|row| row.epoch + 1).max().unwrap_or(0);
    let mean = |epoch: u32| {
        let of_epoch = rows.iter().filter(|row| row.epoch == epoch);
        let (bytes, zeros) = of_epoch.fold((0.0, 0.0), |(bytes, zeros), row| {
            (bytes + row.bytes.0 as f64, zeros + row.zeros * row.bytes.0 as f64)
        });
        (epoch, if bytes > 0.0 { zeros / bytes } else { 0.0 })
    };
    (0..epochs).map(mean).collect()
}
