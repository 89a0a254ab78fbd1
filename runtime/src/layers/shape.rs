//! Shapes, and how a sliding window changes them.

/// Shape of a batch of images, or of a batch of vectors with `h` and `w` equal to one. The
/// layout in memory is NCHW: `w` varies fastest. No side is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape4 {
    /// Samples in the batch.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
}

impl Shape4 {
    /// Number of elements.
    pub fn elements(self) -> usize {
        self.n * self.image()
    }

    /// Elements of one sample.
    pub fn image(self) -> usize {
        self.c * self.plane()
    }

    /// Elements of one channel of one sample.
    pub fn plane(self) -> usize {
        self.h * self.w
    }
}

/// A square window that slides over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Rows and columns of the window.
    pub kernel: usize,
    /// Distance between two positions of the window.
    pub stride: usize,
    /// Rows or columns added on each of the four sides.
    pub padding: usize,
}

impl Window {
    /// Number of positions along a side of `extent` elements.
    pub fn positions(self, extent: usize) -> Result<usize, ShapeError> {
        let Self { kernel, stride, padding } = self;
        if kernel == 0 || stride == 0 {
            return Err(ShapeError::EmptyWindow { kernel, stride });
        }
        if padding >= kernel {
            return Err(ShapeError::Padding { kernel, padding });
        }
        let padded = extent + 2 * padding;
        if padded < kernel {
            return Err(ShapeError::TooSmall { kernel, padded });
        }
        Ok((padded - kernel) / stride + 1)
    }

    /// The positions, of `positions` along a side of `extent`, at which the window's cell
    /// `offset` lies inside the image rather than in the padding.
    pub(super) fn inside(
        self,
        offset: usize,
        extent: usize,
        positions: usize,
    ) -> std::ops::Range<usize> {
        let start = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let end = (extent + self.padding).saturating_sub(offset).div_ceil(self.stride);
        let end = end.min(positions);
        start.min(end)..end
    }
}

/// Why a layer cannot have the shape that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A window without cells, or one that does not move.
    #[error("a window of kernel {kernel} and stride {stride}: both must be at least 1")]
    EmptyWindow {
        /// The kernel.
        kernel: usize,
        /// The stride.
        stride: usize,
    },
    /// Windows that would see nothing but padding.
    #[error("padding {padding} for a kernel of {kernel}: the padding must be less than the kernel")]
    Padding {
        /// The kernel.
        kernel: usize,
        /// The padding.
        padding: usize,
    },
    /// A window that does not fit into the image.
    #[error(
        "a kernel of {kernel} does not fit into {padded} padded rows or columns: use a larger image"
    )]
    TooSmall {
        /// The kernel.
        kernel: usize,
        /// The image's side with its padding.
        padded: usize,
    },
    /// Channels that the groups cannot share evenly.
    #[error("{channels} channels do not divide into {groups} groups")]
    Groups {
        /// The channels, of input or output.
        channels: usize,
        /// The groups.
        groups: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn windows_that_cannot_slide_are_refused() {
        let window = |kernel, stride, padding| Window { kernel, stride, padding };
        assert_eq!(window(3, 1, 1).positions(1), Ok(1));
        assert_eq!(window(7, 2, 3).positions(224), Ok(112));
        assert!(matches!(window(0, 1, 0).positions(4), Err(ShapeError::EmptyWindow { .. })));
        assert!(matches!(window(2, 0, 0).positions(4), Err(ShapeError::EmptyWindow { .. })));
        assert!(matches!(window(2, 1, 2).positions(4), Err(ShapeError::Padding { .. })));
        assert!(matches!(window(3, 1, 0).positions(2), Err(ShapeError::TooSmall { .. })));
    }

    proptest! {
        #[test]
        fn positions_inside_are_those_whose_cell_is_in_the_image(
            kernel in 1usize..6, stride in 1usize..5, padding in 0usize..5, extent in 1usize..12,
        ) {
            let window = Window { kernel, stride, padding };
            let Ok(positions) = window.positions(extent) else { return Ok(()) };
            for offset in 0..kernel {
                let expected: Vec<usize> = (0..positions)
                    .filter(|p| (padding..padding + extent).contains(&(p * stride + offset)))
                    .collect();
                let found: Vec<usize> = window.inside(offset, extent, positions).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
