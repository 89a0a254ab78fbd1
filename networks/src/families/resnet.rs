//! Residual networks (He et al., *Deep Residual Learning*, CVPR 2016), and ResNeXt in 3-D.

use schema::Dtype;

use super::{Data, classify, extent, images};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Movement, Network, Window};
use crate::options::{NetworkOptions, Optimizer};

/// What a residual network has in a block.
#[derive(Clone, Copy)]
pub enum Block {
    /// Two convolutions of 3 x 3.
    Basic,
    /// One of 3 x 3 between two of 1 x 1, with the step in the middle, as torchvision has it.
    Bottleneck,
    /// The same with the step in the first, as the paper's models for Caffe have it.
    CaffeBottleneck,
}

/// ResNet of `blocks` blocks a stage. For 32 x 32 images the stem is one 3x3 convolution.
pub fn resnet(
    name: &str,
    o: &NetworkOptions,
    data: Data,
    blocks: [u64; 4],
    of: Block,
) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, data.extent(o))?;
    let stem = if data == Data::ImageNet { [7, 2, 3] } else { [3, 1, 1] };
    x = super::conv_norm_act(&mut b, "stem", x, 64, stem)?;
    if data == Data::ImageNet {
        x = b.max_pool("maxpool", x, Window::square(3, 2, 1))?;
    }
    for (stage, (count, width)) in (1..).zip(blocks.into_iter().zip([64, 128, 256, 512])) {
        for block in 0..count {
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            let name = format!("layer{stage}.{block}");
            let (first, second) = match of {
                Block::CaffeBottleneck => (stride, 1),
                _ => (1, stride),
            };
            let steps = match of {
                Block::Basic => vec![(width, [3, stride, 1]), (width, [3, 1, 1])],
                _ => vec![(width, [1, first, 0]), (width, [3, second, 1]), (4 * width, [1, 1, 0])],
            };
            x = residual_block(&mut b, &name, x, &steps, stride)?;
        }
    }
    x = b.adaptive_pool("avgpool", x, 1)?;
    classify(b, x, data.classes())
}

/// ResNet for 32 x 32 images with `blocks` basic blocks in each of three stages: 6 n + 2 layers.
/// Shortcuts that change the size take every other position and add zero channels.
pub fn resnet_small(name: &str, o: &NetworkOptions, blocks: u64) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, Data::Cifar10.extent(o))?;
    x = super::conv_norm_act(&mut b, "stem", x, 16, [3, 1, 1])?;
    for (stage, width) in (1..).zip([16, 32, 64]) {
        for block in 0..blocks {
            let name = format!("layer{stage}.{block}");
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            let shortcut = x;
            x = super::conv_norm_act(&mut b, &format!("{name}.1"), x, width, [3, stride, 1])?;
            x = b.conv(&format!("{name}.2.conv"), x, width, [3, 1, 1])?;
            x = b.batch_norm(&format!("{name}.2.norm"), x)?;
            let to = b.shape(x).to_vec();
            let shortcut = match stride {
                1 => shortcut,
                _ => b.movement(&format!("{name}.shortcut"), shortcut, Movement::Subsample, to)?,
            };
            x = b.sum(&format!("{name}.add"), x, shortcut)?;
            x = b.act(&format!("{name}.act"), x)?;
        }
    }
    x = super::pool_whole(&mut b, "avgpool", x)?;
    classify(b, x, 10)
}

fn residual_block(
    b: &mut Builder,
    name: &str,
    x: LayerId,
    steps: &[(u64, [u64; 3])],
    stride: u64,
) -> Built {
    let mut y = x;
    for (step, (to, window)) in (1..).zip(steps) {
        y = b.conv(&format!("{name}.conv{step}"), y, *to, *window)?;
        y = b.batch_norm(&format!("{name}.norm{step}"), y)?;
        if step < steps.len() {
            y = b.act(&format!("{name}.act{step}"), y)?;
        }
    }
    let mut shortcut = x;
    if b.shape(x) != b.shape(y) {
        let to = b.channels(y);
        shortcut = b.conv(&format!("{name}.downsample.conv"), x, to, [1, stride, 0])?;
        shortcut = b.batch_norm(&format!("{name}.downsample.norm"), shortcut)?;
    }
    let sum = b.sum(&format!("{name}.add"), y, shortcut)?;
    b.act(&format!("{name}.act"), sum)
}

/// ResNeXt-101 for videos with 3-D convolutions (Hara, Kataoka, Satoh, *Can Spatiotemporal 3D CNNs
/// Retrace the History of 2D CNNs and ImageNet?*, CVPR 2018): 32 groups, 64 frames of 112 x 112,
/// the 400 classes of Kinetics.
pub fn resnext101_3d(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::F32, Optimizer::Momentum)?;
    let [height, width] = extent(o, 112);
    let mut x = b.input("video", &[3, o.frames.map_or(64, u64::from), height, width])?;
    let stem = Window { stride: vec![1, 2, 2], ..Window::cube(3, 7, 1, 3) };
    x = conv_norm(&mut b, "stem", x, 64, stem, 1)?;
    x = b.act("stem.act", x)?;
    x = b.max_pool("maxpool", x, Window::cube(3, 3, 2, 1))?;
    for (stage, (count, width)) in (1..).zip([3, 4, 23, 3].into_iter().zip([128, 256, 512, 1024])) {
        for block in 0..count {
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            let name = format!("layer{stage}.{block}");
            let part = |part: &str| format!("{name}.{part}");
            let shortcut = x;
            x = conv_norm(&mut b, &part("1"), x, width, Window::cube(3, 1, 1, 0), 1)?;
            x = b.act(&part("1.act"), x)?;
            x = conv_norm(&mut b, &part("2"), x, width, Window::cube(3, 3, stride, 1), 32)?;
            x = b.act(&part("2.act"), x)?;
            x = conv_norm(&mut b, &part("3"), x, 2 * width, Window::cube(3, 1, 1, 0), 1)?;
            let shortcut = match block {
                0 => {
                    let window = Window::cube(3, 1, stride, 0);
                    conv_norm(&mut b, &part("downsample"), shortcut, 2 * width, window, 1)?
                }
                _ => shortcut,
            };
            x = b.sum(&part("add"), x, shortcut)?;
            x = b.act(&part("act"), x)?;
        }
    }
    classify(b, x, 400)
}

fn conv_norm(
    b: &mut Builder,
    name: &str,
    x: LayerId,
    to: u64,
    window: Window,
    groups: u64,
) -> Built {
    let x = b.convolution(&format!("{name}.conv"), x, to, window, groups, false)?;
    b.batch_norm(&format!("{name}.norm"), x)
}
