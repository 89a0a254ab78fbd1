//! Training at work: a device that runs a plan learns to tell images apart, and the curves show
//! what the plan's codecs do to that.

mod constants;
mod images;
mod scenes;

use networks::{Activation, Builder, NetworkOptions, Optimizer, Window};
use schema::{Bytes, Dtype, Nanos, OpId, Phase, Task, TensorId, Timeline};

use crate::device::{AccessError, Device, RunFailure};
use crate::layers::index_from_cell;
use crate::memory::NoRoom;
use crate::network::{Network, NotTrainable, RunError};
use crate::profile::InCore;

pub use constants::Constants;
pub use images::{Images, Part};
pub use scenes::Scenes;

/// How long a network is trained, and how it is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// How often the images are gone through.
    pub epochs: usize,
    /// Batches of an epoch, the same ones in each.
    pub batches: usize,
    /// Batches of other images that the network is tested with after each epoch.
    pub test_batches: usize,
    /// Iterations before it, of a course that it follows.
    pub after: usize,
}

impl Course {
    /// Iterations up to its end.
    pub fn iterations(&self) -> usize {
        self.after + self.epochs * self.batches
    }

    /// Which of an epoch's batches an iteration has.
    pub fn batch_of(&self, iteration: usize) -> usize {
        iteration.saturating_sub(self.after) % self.batches.max(1)
    }

    /// Iterations up to the end of the epoch of an iteration.
    pub fn epoch_end(&self, iteration: usize) -> usize {
        iteration - self.batch_of(iteration) + self.batches.max(1)
    }
}

/// What became of a network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curves {
    /// The loss of each iteration.
    pub losses: Vec<f32>,
    /// After each epoch, the share of the test's images whose class the network tells.
    pub accuracies: Vec<f64>,
    /// Iterations up to the end of each epoch.
    pub epochs: Vec<usize>,
    /// The time of each iteration.
    pub iterations: Vec<Nanos>,
    /// What each iteration copied, out and in.
    pub copied: Vec<Bytes>,
}

/// Why training ended early.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TrainingError {
    #[error("the network does not learn from these images: {why}")]
    OtherImages { why: String },
    #[error("an iteration did not end")]
    Run(#[from] RunFailure),
    #[error("a tensor is not to be had")]
    Access(#[from] AccessError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("the test did not run")]
    Test(#[from] RunError),
}

/// A small network for such images: twelve convolutions, halved by pooling after eight and ten of them, and a
/// linear layer. Eight alike at first, so that no one of them needs most of the memory at a time. Without the
/// batch norms behind the eighth, tenth and twelfth so deep a network stays at chance for long. Activations are
/// in place, as COMET's Caffe has them.
///
/// # Errors
/// If the images are too small for two poolings.
pub fn classifier(images: &Images, batch: usize) -> Result<Network, NotTrainable> {
    let batch = u32::try_from(batch).unwrap_or(u32::MAX);
    let options = NetworkOptions { batch, in_place: true, ..NetworkOptions::default() };
    let mut net = Builder::new("stripes", &options, Dtype::F32, Optimizer::Momentum)?;
    let [channels, side] = [images.channels, images.side].map(|extent| extent as u64);
    let mut x = net.input("images", &[channels, side, side])?;
    for (number, channels) in (1..).zip([8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 32, 32]) {
        let window = Window::square(3, 1, 1);
        x = net.convolution(&format!("conv{number}"), x, channels, window, 1, true)?;
        if let 8 | 10 | 12 = number {
            x = net.batch_norm(&format!("norm{number}"), x)?;
        }
        x = net.activation(&format!("relu{number}"), x, Activation::Relu)?;
        if let 8 | 10 = number {
            x = net.max_pool(&format!("pool{number}"), x, Window::square(2, 2, 0))?;
        }
    }
    let x = net.flatten("flat", x)?;
    let x = net.linear("fc", x, Images::CLASSES as u64, true)?;
    Network::new(&net.finish(x)?, None)
}

/// Trains `network` on a device that runs a plan for it, and tests it after each epoch, without a
/// memory limit. The course goes on where the curves end, perhaps on another device that was given
/// the first one's [`Constants`], and up to an iteration, or to the course's end where that comes
/// first. `progress` is called after every iteration with its loss.
///
/// # Errors
/// If the images do not fit the network, or an iteration does not end.
pub fn train(
    device: &mut dyn Device,
    network: &Network,
    images: &Images,
    course: Course,
    curves: &mut Curves,
    until: usize,
    mut progress: impl FnMut(f32),
) -> Result<(), TrainingError> {
    let mut lesson = Lesson::new(network, images)?;
    for iteration in curves.losses.len()..until.min(course.iterations()) {
        lesson.fill(Part::Training, course.batch_of(iteration));
        device.write(lesson.input, &lesson.pixels)?;
        device.write(lesson.labels, &lesson.classes)?;
        if let Some(seed) = network.dropout_seed() {
            let mut cells = vec![0.0; network.tensor(seed).elements];
            network.reseed(images.seed, iteration as u64, &mut cells);
            device.write(seed, &cells)?;
        }
        let timeline = device.run()?;
        let mut loss = [0.0];
        device.read(lesson.loss, &mut loss)?;
        curves.losses.push(loss[0]);
        curves.iterations.push(timeline.iteration);
        curves.copied.push(copied(&timeline));
        progress(loss[0]);
        if iteration + 1 == course.epoch_end(iteration) {
            let accuracy = lesson.test(device, course.test_batches)?;
            curves.accuracies.push(accuracy);
            curves.epochs.push(iteration + 1);
        }
    }
    Ok(())
}

fn copied(timeline: &Timeline) -> Bytes {
    let copies = timeline.intervals.iter();
    let copies = copies.filter(|i| matches!(i.task, Task::D2h(_) | Task::H2d(_)));
    copies.map(|copy| copy.bytes).sum()
}

/// Runs one iteration of training beside the device, on one of its batches, in-core and with the
/// device's weights, which stay as they are. `see` is called after every op, when what it read and made is still there: for
/// statistics of gradients and activations.
///
/// # Errors
/// As for [`train`].
pub fn look_inside(
    device: &mut dyn Device,
    network: &Network,
    (images, batch): (&Images, usize),
    mut see: impl FnMut(OpId, &InCore),
) -> Result<(), TrainingError> {
    let mut lesson = Lesson::new(network, images)?;
    let mut in_core = lesson.in_core(device)?;
    lesson.fill(Part::Training, batch);
    lesson.hand_in(&mut in_core);
    for id in (0..network.ops().len()).map(OpId::from_index) {
        in_core.run(id)?;
        see(id, &in_core);
        in_core.free(id);
    }
    Ok(())
}

struct Lesson<'a> {
    network: &'a Network,
    images: &'a Images,
    input: TensorId,
    labels: TensorId,
    loss: TensorId,
    /// The op that makes the loss and, as its second output, a probability for each class.
    loss_op: OpId,
    pixels: Vec<f32>,
    classes: Vec<f32>,
}

impl<'a> Lesson<'a> {
    fn new(network: &'a Network, images: &'a Images) -> Result<Self, TrainingError> {
        let other = |why: &str| TrainingError::OtherImages { why: why.into() };
        let labels = network.labels().ok_or_else(|| other("it has no loss"))?;
        let loss = network.loss().ok_or_else(|| other("it has no loss"))?;
        let loss_op = network.ops().iter().position(|op| op.writes.first() == Some(&loss));
        let loss_op = OpId::from_index(loss_op.ok_or_else(|| other("it has no loss"))?);
        let input =
            network.inputs().find(|id| *id != labels && Some(*id) != network.dropout_seed());
        let input = input.ok_or_else(|| other("it has no input"))?;
        let (elements, batch) = (network.tensor(input).elements, network.tensor(labels).elements);
        if elements != batch * images.pixels() {
            let (wanted, pixels) = (elements / batch.max(1), images.pixels());
            return Err(other(&format!(
                "it takes {wanted} pixels an image, and these have {pixels}"
            )));
        }
        let probabilities = network.op(loss_op).writes.get(1);
        let outputs = probabilities.map_or(0, |id| network.tensor(*id).elements);
        if outputs != batch * Images::CLASSES {
            return Err(other(&format!("it does not tell {} classes apart", Images::CLASSES)));
        }
        let (pixels, classes) = (vec![0.0; elements], vec![0.0; batch]);
        Ok(Self { network, images, input, labels, loss, loss_op, pixels, classes })
    }

    fn fill(&mut self, part: Part, batch: usize) {
        self.images.fill(part, batch as u64, &mut self.pixels, &mut self.classes);
    }

    /// The network in-core, with the device's weights.
    fn in_core(&self, device: &mut dyn Device) -> Result<InCore<'a>, TrainingError> {
        let mut in_core = InCore::new(self.network, 0)?;
        for (index, tensor) in self.network.tensors().iter().enumerate() {
            let id = TensorId::from_index(index);
            if let Some(data) = in_core.get_mut(id).filter(|_| tensor.is_constant()) {
                device.read(id, data)?;
            }
        }
        Ok(in_core)
    }

    /// Gives it the images that were filled in last.
    fn hand_in(&self, in_core: &mut InCore) {
        for (id, data) in [(self.input, &self.pixels), (self.labels, &self.classes)] {
            if let Some(cells) = in_core.get_mut(id) {
                cells.copy_from_slice(data);
            }
        }
    }

    /// The share of the test's images whose class is told by the device's weights. Normalisations
    /// and dropout work as in training.
    fn test(&mut self, device: &mut dyn Device, batches: usize) -> Result<f64, TrainingError> {
        let mut in_core = self.in_core(device)?;
        let mut right = 0;
        for batch in 0..batches {
            self.fill(Part::Test, batch);
            self.hand_in(&mut in_core);
            right += self.count_right(&mut in_core)?;
        }
        Ok(right as f64 / (batches * self.classes.len()).max(1) as f64)
    }

    /// A forward pass without what changes constants.
    fn count_right(&self, in_core: &mut InCore) -> Result<usize, TrainingError> {
        for (index, op) in self.network.ops().iter().enumerate() {
            let id = OpId::from_index(index);
            if op.phase != Phase::Forward || !op.updates.is_empty() {
                continue;
            }
            in_core.run(id)?;
            if id == self.loss_op {
                break;
            }
        }
        let probabilities = self.network.op(self.loss_op).writes[1];
        let probabilities = in_core.get(probabilities).unwrap_or_default();
        let rows = probabilities.chunks(Images::CLASSES).zip(&self.classes);
        let told = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]));
        let right =
            |(row, class): &(&[f32], &f32)| told(row) == Some(index_from_cell(**class) as usize);
        Ok(rows.filter(right).count())
    }
}
