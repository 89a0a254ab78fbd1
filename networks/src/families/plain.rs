//! Chains of convolutions: AlexNet, VGG16, Plain20.

use super::{Data, classify, images};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Network, Window};
use crate::options::NetworkOptions;

/// A convolution with bias, and an activation.
fn conv_act(b: &mut Builder, name: &str, x: LayerId, to: u64, [k, s, p]: [u64; 3]) -> Built {
    let x = b.convolution(name, x, to, Window::square(k, s, p), 1, true)?;
    b.act(&format!("{name}.act"), x)
}

/// AlexNet as torchvision has it (Krizhevsky, *One weird trick*, 2014). For 32 x 32 images the
/// first window and its step are smaller, and the classifier narrower, as is usual there.
pub fn alexnet(name: &str, o: &NetworkOptions, data: Data) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, data.extent(o))?;
    let small = data == Data::Cifar10;
    let pool = if small { Window::square(2, 2, 0) } else { Window::square(3, 2, 0) };
    let first = if small { [3, 2, 1] } else { [11, 4, 2] };
    let second = if small { [3, 1, 1] } else { [5, 1, 2] };
    x = conv_act(&mut b, "conv1", x, 64, first)?;
    x = b.max_pool("pool1", x, pool.clone())?;
    x = conv_act(&mut b, "conv2", x, 192, second)?;
    x = b.max_pool("pool2", x, pool.clone())?;
    for (name, to) in [("conv3", 384), ("conv4", 256), ("conv5", 256)] {
        x = conv_act(&mut b, name, x, to, [3, 1, 1])?;
    }
    x = b.max_pool("pool5", x, pool)?;
    if !small {
        x = b.adaptive_pool("avgpool", x, 6)?;
    }
    x = b.flatten("flatten", x)?;
    for name in ["fc6", "fc7"] {
        x = b.dropout(&format!("{name}.dropout"), x, 50)?;
        x = b.linear(name, x, 4096, true)?;
        x = b.act(&format!("{name}.act"), x)?;
    }
    x = b.linear("fc8", x, data.classes(), true)?;
    b.finish(x)
}

/// AlexNet as Caffe has it (`bvlc_alexnet`): wider, in groups, with images of 227 x 227. Its two local response
/// normalisations stand as batch norms, which keep tensors of the same sizes.
pub fn alexnet_caffe(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, super::extent(o, 227))?;
    for (layer, to, window, groups) in [
        (1, 96, Window::square(11, 4, 0), 1),
        (2, 256, Window::square(5, 1, 2), 2),
        (3, 384, Window::square(3, 1, 1), 1),
        (4, 384, Window::square(3, 1, 1), 2),
        (5, 256, Window::square(3, 1, 1), 2),
    ] {
        x = b.convolution(&format!("conv{layer}"), x, to, window, groups, true)?;
        x = b.act(&format!("relu{layer}"), x)?;
        if layer <= 2 {
            x = b.batch_norm(&format!("norm{layer}"), x)?;
        }
        if layer != 3 && layer != 4 {
            x = b.max_pool(&format!("pool{layer}"), x, Window::square(3, 2, 0))?;
        }
    }
    x = b.flatten("flatten", x)?;
    for name in ["fc6", "fc7"] {
        x = b.linear(name, x, 4096, true)?;
        x = b.act(&format!("{name}.act"), x)?;
        x = b.dropout(&format!("{name}.dropout"), x, 50)?;
    }
    x = b.linear("fc8", x, 1000, true)?;
    b.finish(x)
}

/// VGG16, configuration D (Simonyan and Zisserman 2015), as torchvision has it. For 32 x 32
/// images the classifier has 512 inputs and hidden units.
pub fn vgg16(name: &str, o: &NetworkOptions, data: Data) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, data.extent(o))?;
    for (block, (layers, to)) in (1..).zip([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]) {
        for layer in 1..=layers {
            x = conv_act(&mut b, &format!("conv{block}_{layer}"), x, to, [3, 1, 1])?;
        }
        x = b.max_pool(&format!("pool{block}"), x, Window::square(2, 2, 0))?;
    }
    let (extent, hidden) = if data == Data::ImageNet { (7, 4096) } else { (1, 512) };
    x = b.adaptive_pool("avgpool", x, extent)?;
    x = b.flatten("flatten", x)?;
    for name in ["fc6", "fc7"] {
        x = b.linear(name, x, hidden, true)?;
        x = b.act(&format!("{name}.act"), x)?;
        x = b.dropout(&format!("{name}.dropout"), x, 50)?;
    }
    x = b.linear("fc8", x, data.classes(), true)?;
    b.finish(x)
}

/// Plain20: the 20-layer network without shortcuts that residual networks are compared with (He
/// et al. 2016, section 4.2). On ImageNet it keeps its three stages, as CSWAP+ does, and so has
/// far larger feature maps than any other network here.
pub fn plain20(name: &str, o: &NetworkOptions, data: Data) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, data.extent(o))?;
    x = super::conv_norm_act(&mut b, "stem", x, 16, [3, 1, 1])?;
    for (stage, to) in (1..).zip([16, 32, 64]) {
        for layer in 1..=6 {
            let stride = if stage > 1 && layer == 1 { 2 } else { 1 };
            let name = format!("stage{stage}.{layer}");
            x = super::conv_norm_act(&mut b, &name, x, to, [3, stride, 1])?;
        }
    }
    x = b.adaptive_pool("avgpool", x, 1)?;
    classify(b, x, data.classes())
}
