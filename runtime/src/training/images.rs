//! Images that a small network learns to tell apart, made from numbers alone.

use std::f32::consts::PI;

use crate::layers::cell_from_index;
use crate::network::Random;

/// Square images of ten classes: stripes of ten directions under noise, each image with a phase, a
/// width of stripes and colours of its own. No pixel tells classes apart; what does is in the
/// neighbourhood of every pixel, which is what convolutions look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Images {
    /// Rows and columns.
    pub side: usize,
    /// Colours.
    pub channels: usize,
    /// Largest deviation of a pixel from its stripe, whose own values lie between -1 and 1.
    pub noise: f32,
    /// What they are drawn from.
    pub seed: u64,
}

/// Which images: none is in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those to learn from.
    Training,
    /// Those to be tested with.
    Test,
}

impl Images {
    /// How many classes there are.
    pub const CLASSES: usize = 10;

    /// Pixels of an image, all colours counted.
    pub fn pixels(&self) -> usize {
        self.side * self.side * self.channels
    }

    /// Fills in a batch and its labels: as many images as there are labels, colours first, then
    /// rows. The same batch of a part is the same whenever it is asked for.
    pub fn fill(&self, part: Part, batch: u64, pixels: &mut [f32], labels: &mut [f32]) {
        let part = match part {
            Part::Training => 0,
            Part::Test => 1 << 63,
        };
        let images = pixels.chunks_mut(self.pixels().max(1)).zip(&mut *labels);
        for (number, (image, label)) in images.enumerate() {
            // A sequence for each image, so that batches of any size have much the same ones.
            let mut random = Random::new(self.seed ^ part);
            random.skip(batch << 20 | number as u64);
            let mut random = Random::new(random.next());
            let class = random.next() % Self::CLASSES as u64;
            self.draw(class as f32, &mut random, image);
            *label = cell_from_index(class as u32);
        }
    }

    fn draw(&self, class: f32, random: &mut Random, image: &mut [f32]) {
        let (sin, cos) = (class * PI / Self::CLASSES as f32).sin_cos();
        // Two to four stripes across the image.
        let frequency = 2.0 * PI * (3.0 + random.uniform(1.0)) / self.side as f32;
        let phase = random.uniform(PI);
        for channel in image.chunks_mut(self.side * self.side) {
            let strength = 0.75 + random.uniform(0.25);
            for (y, row) in channel.chunks_mut(self.side).enumerate() {
                for (x, pixel) in row.iter_mut().enumerate() {
                    let along = x as f32 * cos + y as f32 * sin;
                    let stripe = (frequency * along + phase).sin();
                    *pixel = strength * stripe + random.uniform(self.noise);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::index_from_cell;

    const IMAGES: Images = Images { side: 8, channels: 2, noise: 0.5, seed: 3 };

    fn batch(part: Part, number: u64) -> (Vec<f32>, Vec<u32>) {
        let (mut pixels, mut labels) = (vec![0.0; 50 * IMAGES.pixels()], vec![0.0; 50]);
        IMAGES.fill(part, number, &mut pixels, &mut labels);
        (pixels, labels.into_iter().map(index_from_cell).collect())
    }

    #[test]
    fn batches_are_the_same_each_time_and_differ_from_each_other() {
        assert_eq!(batch(Part::Training, 4), batch(Part::Training, 4));
        assert_ne!(batch(Part::Training, 4), batch(Part::Training, 5));
        assert_ne!(batch(Part::Training, 4), batch(Part::Test, 4));
    }

    #[test]
    fn all_classes_occur_and_pixels_lie_within_bounds() {
        let (pixels, labels) = batch(Part::Training, 0);
        let occur = (0..Images::CLASSES as u32).filter(|class| labels.contains(class));
        assert_eq!(occur.count(), Images::CLASSES);
        assert!(labels.iter().all(|class| *class < Images::CLASSES as u32));
        assert!(pixels.iter().all(|pixel| pixel.abs() <= 1.5));
        let mean = pixels.iter().sum::<f32>() / pixels.len() as f32;
        assert!(mean.abs() < 0.1, "{mean}");
    }
}
