//! Lorenzo prediction on integers, as differences along axes.
//!
//! The Lorenzo predictor of `n` dimensions leaves what is left when differences are taken along
//! each axis in turn: `q - W` in 1-D, `q - (W + N - NW)` in 2-D, `q` less the alternating sum of 7
//! neighbours in 3-D. Its inverse is an inclusive prefix sum along each axis (cuSZ+, Tian et al.,
//! CLUSTER 2021). On integers both are exact.

/// One axis of a tensor, in elements of its row-major order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    /// From an element to its neighbour.
    stride: usize,
    /// From a line of neighbours to the next; the last line of a block may be shorter.
    pub(super) extent: usize,
}

/// The axes of a shape without a 0, the last dimension first. Dimensions of 1 have no neighbours
/// and are none.
pub(super) fn axes(shape: &[usize]) -> Vec<Axis> {
    let mut stride = 1;
    let mut axes = Vec::new();
    for &length in shape.iter().rev().filter(|length| **length > 1) {
        let extent = stride * length;
        axes.push(Axis { stride, extent });
        stride = extent;
    }
    axes
}

impl Axis {
    /// Differences along the axis of whole lines of neighbours.
    pub(super) fn difference(self, values: &[i32], differences: &mut [i32]) {
        let lines = values.chunks(self.extent).zip(differences.chunks_mut(self.extent));
        for (values, differences) in lines {
            let edge = self.stride.min(values.len());
            differences[..edge].copy_from_slice(&values[..edge]);
            let neighbours = values.iter().zip(&values[edge..]);
            for (d, (before, value)) in differences[edge..].iter_mut().zip(neighbours) {
                *d = value.wrapping_sub(*before);
            }
        }
    }

    /// The inverse of [`difference`](Self::difference), in place. Wraps on damaged data.
    pub(super) fn accumulate(self, values: &mut [i32]) {
        for line in values.chunks_mut(self.extent) {
            if self.stride == 1 {
                let mut sum = 0i32;
                for value in line {
                    sum = sum.wrapping_add(*value);
                    *value = sum;
                }
                continue;
            }
            let mut rest = line;
            while rest.len() > self.stride {
                let (before, after) = rest.split_at_mut(self.stride);
                for (value, before) in after.iter_mut().zip(before) {
                    *value = value.wrapping_add(*before);
                }
                rest = after;
            }
        }
    }
}

/// About how many bits the differences take once coded, in eighths: eight times the binary
/// logarithm, and the same again for sign and class; zeros, which come in runs, nothing.
pub(super) fn cost(differences: &[i32]) -> u64 {
    // An `f32`'s bits above its 20 lowest are its logarithm in eighths, cut into straight lines.
    // Saturated, zero's fall to 0.
    const HALF: u32 = 0.5f32.to_bits() >> 20;
    let eighths = |d: &i32| {
        let bits = (d.wrapping_abs() as f32).to_bits() >> 20;
        bits.max(HALF) - HALF
    };
    differences.chunks(1 << 16).map(|part| u64::from(part.iter().map(eighths).sum::<u32>())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(shape: &[usize], values: &[i32]) -> Vec<i32> {
        axes(shape).into_iter().fold(values.to_vec(), |values, axis| {
            let mut out = vec![0; values.len()];
            axis.difference(&values, &mut out);
            out
        })
    }

    /// The predictor as it is written in the papers, on a whole tensor.
    #[test]
    fn differences_are_the_lorenzo_predictor() {
        let (depth, height, width) = (3, 4, 5);
        let values: Vec<i32> = (0..60).map(|i| i * i * 7 % 101 - 50).collect();
        let at = |z: i32, y: i32, x: i32| match z.min(y).min(x) {
            ..0 => 0,
            _ => values[((z * height + y) * width + x) as usize],
        };
        let got = differences(&[3, 4, 5], &values);
        for (i, got) in (0..).zip(got) {
            let (z, y, x) = (i / (height * width), i / width % height, i % width);
            assert!(z < depth);
            let predicted = at(z, y, x - 1) + at(z, y - 1, x) + at(z - 1, y, x)
                - at(z, y - 1, x - 1)
                - at(z - 1, y, x - 1)
                - at(z - 1, y - 1, x)
                + at(z - 1, y - 1, x - 1);
            assert_eq!(got, at(z, y, x) - predicted);
        }
    }

    #[test]
    fn prefix_sums_undo_differences_wherever_a_block_ends() {
        for shape in [&[97][..], &[13, 9], &[4, 5, 6], &[2, 1, 3], &[120, 1], &[1, 1]] {
            let values: Vec<i32> = (0..shape.iter().product::<usize>() as i32)
                .map(|i| i.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) >> 9)
                .collect();
            for end in 0..=values.len() {
                let block = &values[..end];
                let mut back = differences(shape, block);
                for axis in axes(shape).into_iter().rev() {
                    axis.accumulate(&mut back);
                }
                assert_eq!(back, block, "{shape:?} up to {end}");
            }
        }
    }

    #[test]
    fn larger_differences_cost_more_and_zeros_nothing() {
        let costs = [0, 1, 2, 3, 4, -8, 1 << 20].map(|d| cost(&[d]));
        assert_eq!(costs, [0, 8, 16, 20, 24, 32, 168]);
    }
}
