//! Inception v4 (Szegedy et al. 2017), as in the common PyTorch port: 299 x 299 images.

use super::{classify, extent, images, pool_whole};
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{LayerId, Network, Window};
use crate::options::NetworkOptions;

/// A convolution with its normalisation and activation: channels, then height and width of the
/// window, step, and whether it is padded to keep the size.
type Step = (u64, [u64; 2], u64, bool);

const fn point(to: u64) -> Step {
    (to, [1, 1], 1, true)
}

const fn square(to: u64) -> Step {
    (to, [3, 3], 1, true)
}

fn convolve(b: &mut Builder, name: &str, x: LayerId, (to, kernel, step, padded): Step) -> Built {
    let padding = kernel.map(|extent| if padded { extent / 2 } else { 0 }).to_vec();
    let window = Window { kernel: kernel.to_vec(), padding, ..Window::square(1, step, 0) };
    let x = b.convolution(&format!("{name}.conv"), x, to, window, 1, false)?;
    let x = b.batch_norm(&format!("{name}.norm"), x)?;
    b.act(&format!("{name}.act"), x)
}

fn branch(b: &mut Builder, name: &str, mut x: LayerId, steps: &[Step]) -> Built {
    for (index, step) in steps.iter().enumerate() {
        x = convolve(b, &format!("{name}.{index}"), x, *step)?;
    }
    Ok(x)
}

/// Branches side by side, the last of them after a pooling.
fn mixed(
    b: &mut Builder,
    name: &str,
    x: LayerId,
    branches: &[&[Step]],
    pooled: &[Step],
    reduces: bool,
) -> Built {
    let mut ends = Vec::new();
    for (index, steps) in branches.iter().enumerate() {
        ends.push(branch(b, &format!("{name}.branch{index}"), x, steps)?);
    }
    let pool = format!("{name}.pool");
    let pooling = match reduces {
        true => b.max_pool(&pool, x, Window::square(3, 2, 0))?,
        false => b.average_pool(&pool, x, Window::square(3, 1, 1))?,
    };
    ends.push(branch(b, &pool, pooling, pooled)?);
    b.concat(&format!("{name}.concat"), &ends)
}

pub fn inception_v4(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let (mut b, mut x) = images(name, o, extent(o, 299))?;
    x = stem(&mut b, x)?;
    for index in 0..4 {
        let branches: [&[Step]; 3] =
            [&[point(96)], &[point(64), square(96)], &[point(64), square(96), square(96)]];
        x = mixed(&mut b, &format!("a{index}"), x, &branches, &[point(96)], false)?;
    }
    let branches: [&[Step]; 2] =
        [&[(384, [3, 3], 2, false)], &[point(192), square(224), (256, [3, 3], 2, false)]];
    x = mixed(&mut b, "reduction-a", x, &branches, &[], true)?;
    let (row, column) = ([1, 7], [7, 1]);
    for index in 0..7 {
        let branches: [&[Step]; 3] = [
            &[point(384)],
            &[point(192), (224, row, 1, true), (256, column, 1, true)],
            &[
                point(192),
                (192, column, 1, true),
                (224, row, 1, true),
                (224, column, 1, true),
                (256, row, 1, true),
            ],
        ];
        x = mixed(&mut b, &format!("b{index}"), x, &branches, &[point(128)], false)?;
    }
    let branches: [&[Step]; 2] = [
        &[point(192), (192, [3, 3], 2, false)],
        &[point(256), (256, row, 1, true), (320, column, 1, true), (320, [3, 3], 2, false)],
    ];
    x = mixed(&mut b, "reduction-b", x, &branches, &[], true)?;
    for index in 0..3 {
        x = inception_c(&mut b, &format!("c{index}"), x)?;
    }
    x = pool_whole(&mut b, "avgpool", x)?;
    classify(b, x, 1000)
}

fn stem(b: &mut Builder, x: LayerId) -> Built {
    let steps = [(32, [3, 3], 2, false), (32, [3, 3], 1, false), square(64)];
    let x = branch(b, "stem", x, &steps)?;
    let pool = b.max_pool("stem.3a.pool", x, Window::square(3, 2, 0))?;
    let conv = convolve(b, "stem.3a", x, (96, [3, 3], 2, false))?;
    let x = b.concat("stem.3a.concat", &[pool, conv])?;
    let left = branch(b, "stem.4a.branch0", x, &[point(64), (96, [3, 3], 1, false)])?;
    let steps = [point(64), (64, [1, 7], 1, true), (64, [7, 1], 1, true), (96, [3, 3], 1, false)];
    let right = branch(b, "stem.4a.branch1", x, &steps)?;
    let x = b.concat("stem.4a.concat", &[left, right])?;
    let conv = convolve(b, "stem.5a", x, (192, [3, 3], 2, false))?;
    let pool = b.max_pool("stem.5a.pool", x, Window::square(3, 2, 0))?;
    b.concat("stem.5a.concat", &[conv, pool])
}

fn inception_c(b: &mut Builder, name: &str, x: LayerId) -> Built {
    let part = |part: &str| format!("{name}.{part}");
    let (row, column) = ((256, [1, 3], 1, true), (256, [3, 1], 1, true));
    let first = convolve(b, &part("branch0"), x, point(256))?;
    let second = convolve(b, &part("branch1"), x, point(384))?;
    let second_row = convolve(b, &part("branch1.row"), second, row)?;
    let second_column = convolve(b, &part("branch1.column"), second, column)?;
    let second = b.concat(&part("branch1.concat"), &[second_row, second_column])?;
    let steps = [point(384), (448, [3, 1], 1, true), (512, [1, 3], 1, true)];
    let third = branch(b, &part("branch2"), x, &steps)?;
    let third_row = convolve(b, &part("branch2.row"), third, row)?;
    let third_column = convolve(b, &part("branch2.column"), third, column)?;
    let third = b.concat(&part("branch2.concat"), &[third_row, third_column])?;
    let pool = b.average_pool(&part("pool"), x, Window::square(3, 1, 1))?;
    let fourth = convolve(b, &part("pool"), pool, point(256))?;
    b.concat(&part("concat"), &[first, second, third, fourth])
}
