//! DenseNet-121 (Huang et al. 2017), as torchvision has it.

use super::{Data, classify, conv_norm_act, images};
use crate::error::NetworkError;
use crate::layer::{Network, Window};
use crate::options::NetworkOptions;

/// Channels that each layer adds.
const GROWTH: u64 = 32;

/// DenseNet-121. Each layer reads one concatenation of all that came before it in its block.
pub fn densenet121(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, Data::ImageNet.extent(o))?;
    x = conv_norm_act(&mut b, "stem", x, 64, [7, 2, 3])?;
    x = b.max_pool("maxpool", x, Window::square(3, 2, 1))?;
    for (block, count) in (1..=4).zip([6, 12, 24, 16]) {
        for layer in 1..=count {
            let part = |part: &str| format!("dense{block}.{layer}.{part}");
            let mut y = b.batch_norm(&part("norm1"), x)?;
            y = b.act(&part("act1"), y)?;
            y = b.conv(&part("conv1"), y, 4 * GROWTH, [1, 1, 0])?;
            y = b.batch_norm(&part("norm2"), y)?;
            y = b.act(&part("act2"), y)?;
            y = b.conv(&part("conv2"), y, GROWTH, [3, 1, 1])?;
            x = b.concat(&part("concat"), &[x, y])?;
        }
        let part = |part: &str| format!("transition{block}.{part}");
        x = b.batch_norm(&part("norm"), x)?;
        x = b.act(&part("act"), x)?;
        if block < 4 {
            let half = b.channels(x) / 2;
            x = b.conv(&part("conv"), x, half, [1, 1, 0])?;
            x = b.average_pool(&part("pool"), x, Window::square(2, 2, 0))?;
        }
    }
    x = b.adaptive_pool("avgpool", x, 1)?;
    classify(b, x, 1000)
}
