//! MobileNet: depthwise convolutions between pointwise ones.

use super::{Data, classify, conv_norm_act, images};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Network, Window};
use crate::options::{Activation, NetworkOptions};

fn depthwise(b: &mut Builder, name: &str, x: LayerId, stride: u64) -> Built {
    let channels = b.channels(x);
    let window = Window::square(3, stride, 1);
    let x = b.convolution(&format!("{name}.conv"), x, channels, window, channels, false)?;
    b.batch_norm(&format!("{name}.norm"), x)
}

/// MobileNet (Howard et al. 2017), width 1. On 32 x 32 images the first step is 1.
pub fn mobilenet_v1(name: &str, o: &NetworkOptions, data: Data) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, data.extent(o))?;
    let stride = if data == Data::ImageNet { 2 } else { 1 };
    x = conv_norm_act(&mut b, "stem", x, 32, [3, stride, 1])?;
    let blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)].into_iter();
    let blocks = blocks.chain([(512, 1); 5]).chain([(1024, 2), (1024, 1)]);
    for (block, (to, stride)) in (1..).zip(blocks) {
        let name = format!("block{block}");
        x = depthwise(&mut b, &format!("{name}.depthwise"), x, stride)?;
        x = b.act(&format!("{name}.depthwise.act"), x)?;
        x = conv_norm_act(&mut b, &format!("{name}.pointwise"), x, to, [1, 1, 0])?;
    }
    x = b.adaptive_pool("avgpool", x, 1)?;
    classify(b, x, data.classes())
}

/// MobileNet v2 (Sandler et al. 2018), width 1, as torchvision has it: ReLU6 where the options
/// choose no activation.
pub fn mobilenet_v2(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let activation = Some(o.activation.unwrap_or(Activation::Relu6));
    let o = &NetworkOptions { activation, ..o.clone() };
    let (mut b, mut x) = images(name, o, Data::ImageNet.extent(o))?;
    x = conv_norm_act(&mut b, "stem", x, 32, [3, 2, 1])?;
    // Expansion, channels, repetitions and first step: table 2 of the paper.
    let stages = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ];
    let mut block = 0;
    for (expansion, to, repetitions, first) in stages {
        for repetition in 0..repetitions {
            block += 1;
            let name = format!("block{block}");
            let (from, shortcut) = (b.channels(x), x);
            let stride = if repetition == 0 { first } else { 1 };
            if expansion > 1 {
                let wide = expansion * from;
                x = conv_norm_act(&mut b, &format!("{name}.expand"), x, wide, [1, 1, 0])?;
            }
            x = depthwise(&mut b, &format!("{name}.depthwise"), x, stride)?;
            x = b.act(&format!("{name}.depthwise.act"), x)?;
            x = b.conv(&format!("{name}.project.conv"), x, to, [1, 1, 0])?;
            x = b.batch_norm(&format!("{name}.project.norm"), x)?;
            if stride == 1 && from == to {
                x = b.sum(&format!("{name}.add"), x, shortcut)?;
            }
        }
    }
    x = conv_norm_act(&mut b, "head", x, 1280, [1, 1, 0])?;
    x = b.adaptive_pool("avgpool", x, 1)?;
    x = b.flatten("flatten", x)?;
    x = b.dropout("dropout", x, 20)?;
    x = b.linear("fc", x, 1000, true)?;
    b.finish(x)
}
