//! SqueezeNet 1.1 (Iandola et al. 2016), as torchvision has it.

use super::{Data, images};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Network, Window};
use crate::options::NetworkOptions;

fn conv_act(b: &mut Builder, name: &str, x: LayerId, to: u64, [k, s, p]: [u64; 3]) -> Built {
    let x = b.convolution(name, x, to, Window::square(k, s, p), 1, true)?;
    b.act(&format!("{name}.act"), x)
}

fn fire(b: &mut Builder, name: &str, x: LayerId, squeeze: u64) -> Built {
    let x = conv_act(b, &format!("{name}.squeeze"), x, squeeze, [1, 1, 0])?;
    let left = conv_act(b, &format!("{name}.expand1x1"), x, 4 * squeeze, [1, 1, 0])?;
    let right = conv_act(b, &format!("{name}.expand3x3"), x, 4 * squeeze, [3, 1, 1])?;
    b.concat(&format!("{name}.concat"), &[left, right])
}

/// SqueezeNet 1.1. On 32 x 32 images the first step is 1.
pub fn squeezenet(name: &str, o: &NetworkOptions, data: Data) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, data.extent(o))?;
    let stem = if data == Data::ImageNet { [3, 2, 0] } else { [3, 1, 1] };
    let pool = Window { ceil: true, ..Window::square(3, 2, 0) };
    x = conv_act(&mut b, "conv1", x, 64, stem)?;
    x = b.max_pool("pool1", x, pool.clone())?;
    x = fire(&mut b, "fire2", x, 16)?;
    x = fire(&mut b, "fire3", x, 16)?;
    x = b.max_pool("pool3", x, pool.clone())?;
    x = fire(&mut b, "fire4", x, 32)?;
    x = fire(&mut b, "fire5", x, 32)?;
    x = b.max_pool("pool5", x, pool)?;
    for (name, squeeze) in [("fire6", 48), ("fire7", 48), ("fire8", 64), ("fire9", 64)] {
        x = fire(&mut b, name, x, squeeze)?;
    }
    x = b.dropout("dropout", x, 50)?;
    x = conv_act(&mut b, "conv10", x, data.classes(), [1, 1, 0])?;
    x = b.adaptive_pool("avgpool", x, 1)?;
    x = b.flatten("flatten", x)?;
    b.finish(x)
}
