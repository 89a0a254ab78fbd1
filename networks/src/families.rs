//! The networks that come with tidegate, a family a file.

mod densenet;
mod efficientnet;
mod inception;
mod mobilenet;
mod plain;
mod resnet;
mod sizes;
mod squeezenet;
mod transformers;
mod unet;

pub(super) use densenet::densenet121;
pub(super) use efficientnet::efficientnet_b0;
pub(super) use inception::inception_v4;
pub(super) use mobilenet::{mobilenet_v1, mobilenet_v2};
pub(super) use plain::{alexnet, alexnet_caffe, plain20, vgg16};
pub(super) use resnet::{Block, resnet, resnet_small, resnext101_3d};
pub(super) use sizes::TRANSFORMERS;
pub(super) use squeezenet::squeezenet;
pub(super) use unet::{unet, unet_milesial};

use schema::Dtype;

use super::builder::{Builder, Built};
use super::error::NetworkError;
use super::layer::{LayerId, Network, Window};
use super::options::{NetworkOptions, Optimizer};

/// The data that a convolutional network is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// 224 x 224 (or as a network's authors have it), 1000 classes.
    ImageNet,
    /// 32 x 32, 10 classes.
    Cifar10,
}

impl Data {
    fn classes(self) -> u64 {
        match self {
            Self::ImageNet => 1000,
            Self::Cifar10 => 10,
        }
    }

    /// Height and width where the options name none.
    fn extent(self, options: &NetworkOptions) -> [u64; 2] {
        let usual = match self {
            Self::ImageNet => 224,
            Self::Cifar10 => 32,
        };
        extent(options, usual)
    }
}

/// Height and width: those that the options choose, or a square.
fn extent(options: &NetworkOptions, usual: u64) -> [u64; 2] {
    options.image.map_or([usual; 2], |image| image.map(u64::from))
}

/// A builder for a network that learns with momentum in 32 bits, and its images.
fn images(
    name: &str,
    options: &NetworkOptions,
    [height, width]: [u64; 2],
) -> Result<(Builder, LayerId), NetworkError> {
    let mut b = Builder::new(name, options, Dtype::F32, Optimizer::Momentum)?;
    let image = b.input("images", &[3, height, width])?;
    Ok((b, image))
}

/// The average over all positions, as a pooling with one window: slower than a mean, and what
/// older networks have.
fn pool_whole(b: &mut Builder, name: &str, x: LayerId) -> Built {
    let kernel = b.shape(x)[2..].to_vec();
    let still = Window::cube(kernel.len(), 1, 1, 0);
    let window = Window { stride: kernel.clone(), kernel, ..still };
    b.average_pool(name, x, window)
}

/// A convolution, normalisation, and the activation that the options choose.
fn conv_norm_act(b: &mut Builder, name: &str, x: LayerId, to: u64, window: [u64; 3]) -> Built {
    let x = b.conv(&format!("{name}.conv"), x, to, window)?;
    let x = b.batch_norm(&format!("{name}.norm"), x)?;
    b.act(&format!("{name}.act"), x)
}

/// One layer that tells classes apart, which ends the network.
fn classify(mut b: Builder, x: LayerId, classes: u64) -> Result<Network, NetworkError> {
    let x = b.flatten("flatten", x)?;
    let x = b.linear("fc", x, classes, true)?;
    b.finish(x)
}
