//! ResNet-18 and smaller relatives.

use super::{Builder, Network, Value};
use crate::layers::{Sgd, Shape4, ShapeError, Window};

/// A residual network of basic blocks (He et al. 2016, "Deep Residual Learning for Image
/// Recognition", table 1): a stem, four stages that halve the image and double the channels, and
/// a classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResNet {
    /// Samples per iteration.
    pub batch: usize,
    /// Rows and columns of the image, which has three channels.
    pub image: usize,
    /// Channels of the first stage.
    pub width: usize,
    /// Blocks of each stage.
    pub blocks: usize,
    /// Classes.
    pub classes: usize,
}

/// A size that no network can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResNetError {
    /// Zero, or more than any memory would hold.
    #[error("{what} is {value}: it must be between 1 and {largest}")]
    Size {
        /// Which size.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The largest accepted one.
        largest: usize,
    },
    /// A layer that does not fit its input.
    #[error("a layer does not fit its input")]
    Shape(#[from] ShapeError),
}

impl ResNet {
    /// ResNet-18 for ImageNet's thousand classes.
    pub fn resnet18(batch: usize, image: usize) -> Self {
        Self { batch, image, width: 64, blocks: 2, classes: 1000 }
    }

    /// The training iteration, under the name `name`.
    pub fn build(&self, name: &str) -> Result<Network, ResNetError> {
        self.check()?;
        let window = |kernel, stride, padding| Window { kernel, stride, padding };
        let input = Shape4 { n: self.batch, c: 3, h: self.image, w: self.image };
        let (mut net, x) = Builder::new(name, input);
        let x = net.convolution("conv1", x, self.width, window(7, 2, 3))?;
        let x = net.batch_norm("bn1", x);
        let x = net.relu("relu", x);
        let mut x = net.max_pool("maxpool", x, window(3, 2, 1))?;
        for stage in 0..4 {
            for block in 0..self.blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = format!("layer{}.{block}", stage + 1);
                x = basic_block(&mut net, &name, x, self.width << stage, stride)?;
            }
        }
        let x = net.average_pool("avgpool", x);
        let logits = net.linear("fc", x, self.classes);
        Ok(net.classify(logits, Sgd::default()))
    }

    fn check(&self) -> Result<(), ResNetError> {
        for (what, value, largest) in [
            ("batch", self.batch, 1 << 16),
            ("image", self.image, 1 << 12),
            ("width", self.width, 1 << 12),
            ("blocks", self.blocks, 1 << 10),
            ("classes", self.classes, 1 << 20),
        ] {
            if !(1..=largest).contains(&value) {
                return Err(ResNetError::Size { what, value, largest });
            }
        }
        Ok(())
    }
}

/// Two convolutions and a connection past them, which is a convolution of one cell where the
/// block changes the shape.
fn basic_block(
    net: &mut Builder,
    name: &str,
    x: Value,
    channels: usize,
    stride: usize,
) -> Result<Value, ShapeError> {
    let named = |layer: &str| format!("{name}.{layer}");
    let three = |stride| Window { kernel: 3, stride, padding: 1 };
    let y = net.convolution(&named("conv1"), x, channels, three(stride))?;
    let y = net.batch_norm(&named("bn1"), y);
    let y = net.relu(&named("relu1"), y);
    let y = net.convolution(&named("conv2"), y, channels, three(1))?;
    let y = net.batch_norm(&named("bn2"), y);
    let shortcut = if y.shape == x.shape {
        x
    } else {
        let window = Window { kernel: 1, stride, padding: 0 };
        let x = net.convolution(&named("downsample.0"), x, channels, window)?;
        net.batch_norm(&named("downsample.1"), x)
    };
    let y = net.add(&named("add"), y, shortcut);
    Ok(net.relu(&named("relu2"), y))
}
