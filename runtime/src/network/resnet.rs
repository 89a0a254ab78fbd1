//! ResNet-18 and smaller relatives.

use super::{Builder, Initial, Network, Value};
use crate::layers::{Activation, Optimizer, Sgd, ShapeError, Window};

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
        let mut net = Builder::new(name, self.batch);
        let shape = [self.batch, 3, self.image, self.image];
        let x = net.input("input", &shape, Initial::normalised());
        let x = net.convolution("conv1", &x, self.width, (Window::square(7, 2, 3), 1), false)?;
        let x = net.batch_norm("bn1", &x)?;
        let x = net.activation("relu", &x, Activation::Relu);
        let mut x = net.max_pool("maxpool", &x, Window::square(3, 2, 1))?;
        for stage in 0..4 {
            for block in 0..self.blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = format!("layer{}.{block}", stage + 1);
                x = basic_block(&mut net, &name, &x, self.width << stage, stride)?;
            }
        }
        let x = net.adaptive_pool("avgpool", &x, &[1])?;
        let x = net.view(&x, &[self.batch, self.width << 3])?;
        let logits = net.linear("fc", &x, self.classes, true)?;
        Ok(net.classify(&logits, Some(Optimizer::Sgd(Sgd::default()))))
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
    x: &Value,
    channels: usize,
    stride: usize,
) -> Result<Value, ShapeError> {
    let named = |layer: &str| format!("{name}.{layer}");
    let three = |stride| (Window::square(3, stride, 1), 1);
    let y = net.convolution(&named("conv1"), x, channels, three(stride), false)?;
    let y = net.batch_norm(&named("bn1"), &y)?;
    let y = net.activation(&named("relu1"), &y, Activation::Relu);
    let y = net.convolution(&named("conv2"), &y, channels, three(1), false)?;
    let y = net.batch_norm(&named("bn2"), &y)?;
    let shortcut = if y.shape == x.shape {
        x.clone()
    } else {
        let window = Window::square(1, stride, 0);
        let x = net.convolution(&named("downsample.0"), x, channels, (window, 1), false)?;
        net.batch_norm(&named("downsample.1"), &x)?
    };
    let y = net.add(&named("add"), &y, &shortcut)?;
    Ok(net.activation(&named("relu2"), &y, Activation::Relu))
}
