//! U-Net (Ronneberger et al. 2015) in the form that is most used: padded convolutions with batch
//! normalisation, and bilinear up-sampling.

use super::{extent, images};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Network, Window};
use crate::options::NetworkOptions;

/// Two convolutions, with so many channels between them and after them.
fn double(b: &mut Builder, name: &str, x: LayerId, [between, to]: [u64; 2]) -> Built {
    let x = convolution(b, &format!("{name}.1"), x, between)?;
    convolution(b, &format!("{name}.2"), x, to)
}

/// With a bias, though a normalisation follows.
fn convolution(b: &mut Builder, name: &str, x: LayerId, to: u64) -> Built {
    let window = Window::square(3, 1, 1);
    let x = b.convolution(&format!("{name}.conv"), x, to, window, 1, true)?;
    let x = b.batch_norm(&format!("{name}.norm"), x)?;
    b.act(&format!("{name}.act"), x)
}

/// U-Net for one class, on images whose extent is a multiple of 16: 512 x 512 where the options
/// name none. On the way up, both convolutions leave as few channels, as those of PyTorch-UNet did before
/// November of 2019.
pub fn unet(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    built(name, o, |_, to| to)
}

/// The same as PyTorch-UNet has it since: the first convolution on the way up halves the channels.
pub fn unet_milesial(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    built(name, o, |from, _| from / 2)
}

/// With so many channels between two convolutions on the way up, for those before and after them.
fn built(
    name: &str,
    o: &NetworkOptions,
    between: impl Fn(u64, u64) -> u64,
) -> Result<Network, NetworkError> {
    let extent = extent(o, 512);
    if let Some(odd) = extent.iter().find(|extent| *extent % 16 != 0) {
        let why =
            format!("has an extent of {odd}: U-Net halves it four times, so use a multiple of 16");
        return Err(NetworkError::Option { network: name.to_string(), option: "image", why });
    }
    let (mut b, mut x) = images(name, o, extent)?;
    x = double(&mut b, "in", x, [64; 2])?;
    let mut across = vec![x];
    for (level, to) in (1..=4).zip([128, 256, 512, 512]) {
        x = b.max_pool(&format!("down{level}.pool"), x, Window::square(2, 2, 0))?;
        x = double(&mut b, &format!("down{level}"), x, [to; 2])?;
        across.push(x);
    }
    across.pop();
    for (level, to) in (1..=4).zip([256, 128, 64, 64]) {
        let name = format!("up{level}");
        x = b.upsample(&format!("{name}.upsample"), x, 2)?;
        let skipped = across.pop().unwrap_or(x);
        x = b.concat(&format!("{name}.concat"), &[skipped, x])?;
        let from = b.shape(x)[1];
        x = double(&mut b, &name, x, [between(from, to), to])?;
    }
    x = b.convolution("out", x, 1, Window::square(1, 1, 0), 1, true)?;
    b.finish(x)
}
