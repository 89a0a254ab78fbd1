//! EfficientNet-B0 (Tan and Le 2019), as torchvision has it.

use super::{Data, conv_norm_act, images};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Network, Window};
use crate::options::{Activation, NetworkOptions};

/// EfficientNet-B0, with SiLU where the options choose no activation.
pub fn efficientnet_b0(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let activation = Some(o.activation.unwrap_or(Activation::Silu));
    let o = &NetworkOptions { activation, ..o.clone() };
    let (mut b, mut x) = images(name, o, Data::ImageNet.extent(o))?;
    x = conv_norm_act(&mut b, "stem", x, 32, [3, 2, 1])?;
    // Expansion, window, first step, channels and repetitions: table 1 of the paper.
    let stages = [
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ];
    let mut block = 0;
    for (expansion, kernel, first, to, repetitions) in stages {
        for repetition in 0..repetitions {
            block += 1;
            let stride = if repetition == 0 { first } else { 1 };
            let window = Window::square(kernel, stride, kernel / 2);
            x = inverted(&mut b, &format!("block{block}"), x, expansion, window, to)?;
        }
    }
    x = conv_norm_act(&mut b, "head", x, 1280, [1, 1, 0])?;
    x = b.adaptive_pool("avgpool", x, 1)?;
    x = b.flatten("flatten", x)?;
    x = b.dropout("dropout", x, 20)?;
    x = b.linear("fc", x, 1000, true)?;
    b.finish(x)
}

fn inverted(
    b: &mut Builder,
    name: &str,
    x: LayerId,
    expansion: u64,
    window: Window,
    to: u64,
) -> Built {
    let part = |part: &str| format!("{name}.{part}");
    let (from, shortcut) = (b.channels(x), x);
    let keeps_size = window.stride[0] == 1 && from == to;
    let wide = expansion * from;
    let mut x = x;
    if expansion > 1 {
        x = conv_norm_act(b, &part("expand"), x, wide, [1, 1, 0])?;
    }
    x = b.convolution(&part("depthwise.conv"), x, wide, window, wide, false)?;
    x = b.batch_norm(&part("depthwise.norm"), x)?;
    x = b.act(&part("depthwise.act"), x)?;
    let mut scale = b.adaptive_pool(&part("squeeze"), x, 1)?;
    let point = || Window::square(1, 1, 0);
    scale = b.convolution(&part("squeeze.fc1"), scale, from / 4, point(), 1, true)?;
    scale = b.act(&part("squeeze.act"), scale)?;
    scale = b.convolution(&part("squeeze.fc2"), scale, wide, point(), 1, true)?;
    scale = b.activation(&part("squeeze.gate"), scale, Activation::Sigmoid)?;
    x = b.multiply(&part("scale"), x, scale)?;
    x = b.conv(&part("project.conv"), x, to, [1, 1, 0])?;
    x = b.batch_norm(&part("project.norm"), x)?;
    if keeps_size {
        x = b.sum(&part("add"), x, shortcut)?;
    }
    Ok(x)
}
