//! The part of a batch that one matrix product is about.

use super::Shape;

/// A group of channels of some neighbouring images.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    pub first: usize,
    pub count: usize,
    pub group: usize,
    /// Groups that the channels are divided into.
    pub groups: usize,
}

impl Tile {
    pub fn image<'a>(&self, data: &'a [f32], shape: Shape, index: usize) -> &'a [f32] {
        let (start, size) = self.place(shape, index);
        &data[start..start + size]
    }

    /// [`Tile::image`], to be written to.
    pub fn image_mut<'a>(&self, data: &'a mut [f32], shape: Shape, index: usize) -> &'a mut [f32] {
        let (start, size) = self.place(shape, index);
        &mut data[start..start + size]
    }

    fn place(&self, shape: Shape, index: usize) -> (usize, usize) {
        let size = shape.sample() / self.groups;
        (((self.first + index) * self.groups + self.group) * size, size)
    }

    /// Lays the images side by side: row by row a channel of each.
    pub fn gather(&self, images: &[f32], shape: Shape, beside: &mut [f32]) {
        let plane = shape.plane();
        for index in 0..self.count {
            let rows = beside.chunks_exact_mut(self.count * plane);
            let channels = self.image(images, shape, index).chunks_exact(plane);
            for (row, channel) in rows.zip(channels) {
                row[index * plane..][..plane].copy_from_slice(channel);
            }
        }
    }

    /// Puts what lies side by side back into the images.
    pub fn scatter(&self, beside: &[f32], shape: Shape, images: &mut [f32]) {
        let plane = shape.plane();
        for index in 0..self.count {
            let rows = beside.chunks_exact(self.count * plane);
            let channels = self.image_mut(images, shape, index).chunks_exact_mut(plane);
            for (row, channel) in rows.zip(channels) {
                channel.copy_from_slice(&row[index * plane..][..plane]);
            }
        }
    }
}
