//! Images with the statistics of photographs, made from numbers alone.

use crate::layers::cell_from_index;
use crate::network::{Network, Random};
use crate::profile::InCore;

use schema::{Dtype, TensorId};

/// Leaves that fall on each other, smallest and largest radius and how many of the mean area cover an image: what
/// occludes what makes the edges, areas without an edge and the `1 / f` spectrum that photographs have
/// (Lee, Mumford and Huang, "Occlusion models for natural images", IJCV 2001: radii of density `r^-3`).
const RADII: [f32; 2] = [1.0, 0.35];
const COVERED: f32 = 3.0;
/// Deviation of the noise of a camera, where that of an image is about 1.
const NOISE: f32 = 0.03;

/// What a network of coloured square images is trained with: batches without end, none like another. The class of
/// an image shows in its mean colours, and in which way its leaves are long.
#[derive(Debug, Clone, Copy)]
pub struct Scenes {
    input: TensorId,
    labels: TensorId,
    side: usize,
    classes: usize,
    seed: u64,
}

impl Scenes {
    /// Those for a network; none where it takes no such images or tells no classes.
    pub fn of(network: &Network, seed: u64) -> Option<Self> {
        let (labels, loss) = (network.labels()?, network.loss()?);
        let batch = network.tensor(labels).elements;
        let loss_op = network.ops().iter().find(|op| op.writes.first() == Some(&loss))?;
        let classes = network.tensor(*loss_op.writes.get(1)?).elements / batch.max(1);
        let mut inputs = network.inputs();
        let input = inputs.find(|id| *id != labels && Some(*id) != network.dropout_seed())?;
        let pixels = network.tensor(input).elements / batch.max(1) / 3;
        let side = pixels.isqrt();
        let is_image = network.tensor(input).dtype == Dtype::F32 && side >= 4;
        let fits = is_image && network.tensor(input).elements == batch * 3 * side * side;
        fits.then_some(Self { input, labels, side, classes, seed })
    }

    /// Gives a network in core a batch, by its number.
    pub fn hand_in(&self, in_core: &mut InCore, batch: u64) {
        let mut classes = Vec::new();
        if let Some(pixels) = in_core.get_mut(self.input) {
            for (number, image) in pixels.chunks_mut(3 * self.side * self.side).enumerate() {
                let mut random = Random::new(self.seed);
                random.skip(batch << 20 | number as u64);
                let mut random = Random::new(random.next());
                let class = (random.next() % self.classes.max(1) as u64) as u32;
                self.draw(class, &mut random, image);
                classes.push(cell_from_index(class));
            }
        }
        if let Some(labels) = in_core.get_mut(self.labels) {
            labels.iter_mut().zip(classes).for_each(|(label, class)| *label = class);
        }
    }

    fn draw(&self, class: u32, random: &mut Random, image: &mut [f32]) {
        let side = self.side as f32;
        let mut palette = Random::new(u64::from(class));
        let mean: [f32; 3] = std::array::from_fn(|_| palette.uniform(0.6));
        let angle = palette.uniform(std::f32::consts::PI);
        let [least, most] = [RADII[0], (RADII[1] * side).max(2.0 * RADII[0])];
        // The mean of r² under r^-3 between both, times pi.
        let area = 2.0 * std::f32::consts::PI * (most / least).ln() * least * least;
        let count = (COVERED * side * side / area).ceil() as usize;
        // What nothing covers is a leaf as large as the image.
        for number in 0..=count {
            let unit = (random.uniform(0.5) + 0.5).min(0.999_999);
            let radius = least / (1.0 - unit * (1.0 - (least / most).powi(2))).sqrt();
            let radius = if number == 0 { 2.0 * side } else { radius };
            let at: [f32; 2] = std::array::from_fn(|_| (random.uniform(0.5) + 0.5) * side);
            self.fall(&Leaf::new(mean, angle, (at, radius), random), image);
        }
        blur(image, self.side);
        image.iter_mut().for_each(|pixel| *pixel += random.uniform(1.7 * NOISE));
    }

    fn fall(&self, leaf: &Leaf, image: &mut [f32]) {
        let reach = |centre: f32| {
            let [from, to] = [centre - 2.0 * leaf.radius, centre + 2.0 * leaf.radius];
            (from.max(0.0) as usize)..(to.ceil().max(0.0) as usize).min(self.side)
        };
        for y in reach(leaf.at[1]) {
            for x in reach(leaf.at[0]) {
                let [dx, dy] = [x as f32 - leaf.at[0], y as f32 - leaf.at[1]];
                let along = dx * leaf.axis[0] + dy * leaf.axis[1];
                let across = dy * leaf.axis[0] - dx * leaf.axis[1];
                if along * along / leaf.stretch + across * across * leaf.stretch
                    > leaf.radius * leaf.radius
                {
                    continue;
                }
                let light = (dx * leaf.light[0] + dy * leaf.light[1]) / leaf.radius;
                for (channel, colour) in leaf.colour.iter().enumerate() {
                    image[(channel * self.side + y) * self.side + x] = colour + light;
                }
            }
        }
    }
}

/// An ellipse of one colour, on which the light falls from one side.
struct Leaf {
    at: [f32; 2],
    radius: f32,
    axis: [f32; 2],
    stretch: f32,
    colour: [f32; 3],
    light: [f32; 2],
}

impl Leaf {
    fn new(mean: [f32; 3], angle: f32, (at, radius): ([f32; 2], f32), random: &mut Random) -> Self {
        let (sin, cos) = (angle + random.uniform(0.4)).sin_cos();
        let grey = random.uniform(1.6);
        let colour = mean.map(|mean| mean + grey + random.uniform(0.5));
        let light = std::array::from_fn(|_| random.uniform(0.3));
        let stretch = 1.0 + (random.uniform(0.5) + 0.5) * 1.5;
        Self { at, radius, axis: [cos, sin], stretch, colour, light }
    }
}

/// What a lens does: weights 1, 2, 1 along rows and columns.
fn blur(image: &mut [f32], side: usize) {
    for channel in image.chunks_mut(side * side) {
        for stride in [1, side] {
            let before = channel.to_vec();
            for (at, pixel) in channel.iter_mut().enumerate() {
                let place = at / stride % side;
                let last = if place == 0 { at } else { at - stride };
                let next = if place + 1 == side { at } else { at + stride };
                *pixel = (before[last] + 2.0 * before[at] + before[next]) / 4.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(class: u32, seed: u64) -> Vec<f32> {
        let [input, labels] = [TensorId(0), TensorId(1)];
        let scenes = Scenes { input, labels, side: 64, classes: 10, seed };
        let mut image = vec![0.0; 3 * 64 * 64];
        scenes.draw(class, &mut Random::new(seed), &mut image);
        image
    }

    /// Photographs have mean squares of differences that grow with the distance much less than in
    /// proportion, and neighbours that are much alike.
    #[test]
    fn neighbours_are_alike_and_far_places_are_not() {
        let differences = |distance: usize| {
            let mut sum = 0.0;
            for image in (0..8).map(|seed| scene(3, seed)) {
                let rows = image.chunks(64).flat_map(|row| row.iter().zip(&row[distance..]));
                sum += rows.map(|(a, b)| f64::from((a - b) * (a - b))).sum::<f64>()
                    / image.len() as f64;
            }
            sum / 8.0
        };
        let [near, middle, far] = [1, 4, 16].map(differences);
        assert!(near < 0.3 * middle && middle < far && far < 4.0 * middle, "{near} {middle} {far}");
    }

    #[test]
    fn an_image_is_that_of_its_number_and_shows_its_class() {
        assert_eq!(scene(1, 5), scene(1, 5));
        assert_ne!(scene(1, 5), scene(1, 6));
        // Leaves fall at the same places for the same seed, so that their own colours cancel out.
        let apart = (0..6).map(|seed| scene(1, seed)).zip((0..6).map(|seed| scene(2, seed)));
        let mut apart_by = [0.0; 3];
        for (one, other) in apart {
            for (at, (one, other)) in one.iter().zip(&other).enumerate() {
                apart_by[at / (64 * 64)] += (one - other) / (6.0 * 64.0 * 64.0);
            }
        }
        assert!(apart_by.iter().any(|mean: &f32| mean.abs() > 0.1), "{apart_by:?}");
    }
}
