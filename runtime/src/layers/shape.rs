//! Shapes, and how a sliding window changes them.

/// Dimensions in space that a layer may have: depth, rows, columns.
pub const SPACE: usize = 3;

/// Shape of a batch of volumes, images, signals or vectors: what has fewer than three dimensions
/// in space has ones in front. The layout in memory is sample, channel, depth, row, column, the
/// last of which varies fastest. No side is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Samples in the batch.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Depth, rows and columns.
    pub space: [usize; SPACE],
}

impl Shape {
    /// A batch of images of `h` rows and `w` columns.
    pub fn image(n: usize, c: usize, h: usize, w: usize) -> Self {
        Self { n, c, space: [1, h, w] }
    }

    /// The shape of `extents`, samples and channels first, with up to three dimensions in space.
    pub fn from_extents(extents: &[usize]) -> Result<Self, ShapeError> {
        let rank = || ShapeError::Rank { rank: extents.len() };
        let [n, c, given @ ..] = extents else { return Err(rank()) };
        let mut space = [1; SPACE];
        let first = SPACE.checked_sub(given.len()).ok_or_else(rank)?;
        space[first..].copy_from_slice(given);
        Ok(Self { n: *n, c: *c, space })
    }

    /// Number of elements.
    pub fn elements(self) -> usize {
        self.n * self.sample()
    }

    /// Elements of one sample.
    pub fn sample(self) -> usize {
        self.c * self.plane()
    }

    /// Elements of one channel of one sample.
    pub fn plane(self) -> usize {
        self.space.iter().product()
    }
}

/// A window that slides over depth, rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Extents of the window.
    pub kernel: [usize; SPACE],
    /// Distance between two positions of the window.
    pub stride: [usize; SPACE],
    /// Cells added at each of both ends.
    pub padding: [usize; SPACE],
    /// Whether a last window that reaches beyond the end counts.
    pub ceil: bool,
}

impl Window {
    /// A square window over rows and columns.
    pub fn square(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kernel: [1, kernel, kernel],
            stride: [1, stride, stride],
            padding: [0, padding, padding],
            ceil: false,
        }
    }

    /// A window with the same figures in each dimension.
    pub fn cube(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kernel: [kernel; SPACE],
            stride: [stride; SPACE],
            padding: [padding; SPACE],
            ceil: false,
        }
    }

    /// Cells of the window.
    pub fn volume(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Planes, extents of input, output and window, its steps and the padding, and whether even parts
    /// of the input take the window's place, for a kernel.
    pub(super) fn numbers(&self, input: Shape, output: Shape, parts: bool) -> [u64; 17] {
        let sides = [input.space, output.space, self.kernel, self.stride, self.padding];
        let planes = std::iter::once(input.n * input.c);
        let mut all = planes.chain(sides.into_iter().flatten()).chain([usize::from(parts)]);
        std::array::from_fn(|_| all.next().unwrap_or(0) as u64)
    }

    /// Number of positions along each side of `space`.
    pub fn positions(&self, space: [usize; SPACE]) -> Result<[usize; SPACE], ShapeError> {
        let mut positions = [0; SPACE];
        for (axis, position) in positions.iter_mut().enumerate() {
            *position = self.positions_along(axis, space[axis])?;
        }
        Ok(positions)
    }

    fn positions_along(&self, axis: usize, extent: usize) -> Result<usize, ShapeError> {
        let (kernel, stride) = (self.kernel[axis], self.stride[axis]);
        let padding = self.padding[axis];
        if kernel == 0 || stride == 0 {
            return Err(ShapeError::EmptyWindow { kernel, stride });
        }
        if padding >= kernel {
            return Err(ShapeError::Padding { kernel, padding });
        }
        let padded = extent + 2 * padding;
        let Some(room) = padded.checked_sub(kernel) else {
            return Err(ShapeError::TooSmall { kernel, padded });
        };
        // A window that begins in the padding behind the end has nothing to look at.
        let up = self.ceil && room.div_ceil(stride) * stride < extent + padding;
        Ok(1 + if up { room.div_ceil(stride) } else { room / stride })
    }

    /// The positions, of `positions` along a side of `extent`, at which the window's cell
    /// `offset` lies inside rather than in the padding.
    pub(super) fn inside(
        &self,
        axis: usize,
        offset: usize,
        extent: usize,
        positions: usize,
    ) -> std::ops::Range<usize> {
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let start = padding.saturating_sub(offset).div_ceil(stride);
        let end = (extent + padding).saturating_sub(offset).div_ceil(stride);
        let end = end.min(positions);
        start.min(end)..end
    }

    /// The cells of a side of `extent` that lie under the window at `position`.
    pub(super) fn under(
        &self,
        axis: usize,
        position: usize,
        extent: usize,
    ) -> std::ops::Range<usize> {
        let start = position * self.stride[axis];
        let (kernel, padding) = (self.kernel[axis], self.padding[axis]);
        start.saturating_sub(padding)..(start + kernel - padding).min(extent)
    }
}

/// Why a layer cannot have the shape that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ShapeError {
    #[error("a window of kernel {kernel} and stride {stride}: both must be at least 1")]
    EmptyWindow { kernel: usize, stride: usize },
    #[error("padding {padding} for a kernel of {kernel}: the padding must be less than the kernel")]
    Padding { kernel: usize, padding: usize },
    #[error("a kernel of {kernel} does not fit into {padded} padded cells: use a larger image")]
    TooSmall { kernel: usize, padded: usize },
    #[error("{channels} channels do not divide into {groups} groups")]
    Groups { channels: usize, groups: usize },
    #[error("the layer does not take {rank} dimensions")]
    Rank { rank: usize },
    #[error("{left:?} and {right:?} do not go together")]
    Mismatch { left: Vec<usize>, right: Vec<usize> },
    #[error("{what} is {value}: {remedy}")]
    Figure { what: &'static str, value: usize, remedy: &'static str },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn windows_that_cannot_slide_are_refused() {
        let along = |kernel, stride, padding, extent| {
            Window::square(kernel, stride, padding).positions([1, extent, 4]).map(|p| p[1])
        };
        assert_eq!(along(3, 1, 1, 1), Ok(1));
        assert_eq!(Window::square(7, 2, 3).positions([1, 224, 225]), Ok([1, 112, 113]));
        assert!(matches!(along(0, 1, 0, 4), Err(ShapeError::EmptyWindow { .. })));
        assert!(matches!(along(2, 0, 0, 4), Err(ShapeError::EmptyWindow { .. })));
        assert!(matches!(along(2, 1, 2, 4), Err(ShapeError::Padding { .. })));
        assert!(matches!(along(3, 1, 0, 2), Err(ShapeError::TooSmall { .. })));
    }

    #[test]
    fn fewer_dimensions_have_ones_in_front() {
        let space = |extents: &[usize]| Shape::from_extents(extents).map(|shape| shape.space);
        assert_eq!(space(&[2, 3]), Ok([1, 1, 1]));
        assert_eq!(space(&[2, 3, 4, 5]), Ok([1, 4, 5]));
        assert_eq!(space(&[2, 3, 4, 5, 6]), Ok([4, 5, 6]));
        assert_eq!(space(&[2]), Err(ShapeError::Rank { rank: 1 }));
        assert_eq!(space(&[1; 6]), Err(ShapeError::Rank { rank: 6 }));
    }

    proptest! {
        #[test]
        fn positions_inside_are_those_whose_cell_is_in_the_image(
            kernel in 1usize..6, stride in 1usize..5, padding in 0usize..5, extent in 1usize..12,
            ceil: bool,
        ) {
            let window = Window { ceil, ..Window::cube(kernel, stride, padding) };
            let Ok(positions) = window.positions_along(0, extent) else { return Ok(()) };
            for offset in 0..kernel {
                let expected: Vec<usize> = (0..positions)
                    .filter(|p| (padding..padding + extent).contains(&(p * stride + offset)))
                    .collect();
                let found: Vec<usize> = window.inside(0, offset, extent, positions).collect();
                prop_assert_eq!(found, expected);
            }
            for position in 0..positions {
                let under = window.under(0, position, extent);
                prop_assert!(!under.is_empty(), "every window sees something");
                let expected: Vec<usize> = (0..kernel)
                    .filter_map(|offset| (position * stride + offset).checked_sub(padding))
                    .filter(|cell| *cell < extent)
                    .collect();
                prop_assert_eq!(under.collect::<Vec<_>>(), expected);
            }
        }
    }
}
