//! What codecs gain when they know a tensor's rows and planes.
//!
//! ```sh
//! cargo run --release -p tidegate-runtime --example codec_dimensions
//! ```
//!
//! Two networks learn to tell stripes apart. Then the tensors that convolutions read go through SZ and
//! ZFP three times: as the sequence that a plan's devices hand to codecs, as rows, and as planes. SZ's error
//! stays, so its ratio says what there is to gain; ZFP's bits stay, so its error does: a bit less a value
//! doubles it. Last, ZFP takes the sequence as rows of four, which is no knowledge about the tensor.

use std::collections::BTreeMap;
use std::error::Error;

use codecs::quality::quality;
use codecs::{Codec, Layout, TensorView, codec};
use networks::NetworkOptions;
use runtime::network::{Network, Step};
use runtime::profile::InCore;
use runtime::training::{Images, Part, classifier};
use schema::{Dtype, OpId, Phase, TensorId};

const BATCH: usize = 16;
const ITERATIONS: u64 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let images = Images { side: 64, channels: 3, noise: 0.5, seed: 1 };
    let image = Some([images.side as u32; 2]);
    let options = NetworkOptions { batch: BATCH as u32, image, ..NetworkOptions::default() };
    let resnet = Network::new(&networks::network("resnet18", &options)?, None)?;
    for network in [classifier(&images, BATCH)?, resnet] {
        println!("{}, {ITERATIONS} iterations of {BATCH} images", network.name);
        study(&network, &images)?;
    }
    Ok(())
}

fn study(network: &Network, images: &Images) -> Result<(), Box<dyn Error>> {
    let mut table = Table::new()?;
    let shapes = shapes(network);
    let mut in_core = InCore::new(network, 0).expect("it is small");
    let input = network.inputs().find(|id| network.tensor(*id).elements == BATCH * images.pixels());
    let (input, labels) = input.zip(network.labels()).ok_or("it takes other images")?;
    for iteration in 0..ITERATIONS {
        let mut pixels = vec![0.0; BATCH * images.pixels()];
        let mut classes = vec![0.0; BATCH];
        images.fill(Part::Training, iteration, &mut pixels, &mut classes);
        for (id, data) in [(input, &pixels), (labels, &classes)] {
            in_core.get_mut(id).ok_or("no input")?.copy_from_slice(data);
        }
        for (index, op) in network.ops().iter().enumerate() {
            let last = iteration + 1 == ITERATIONS && op.phase == Phase::Forward;
            if let (true, Step::Convolution(_), Some(id)) = (last, op.step, op.reads.first())
                && let (Some(shape), Some(data)) = (shapes.get(id), in_core.get(*id))
            {
                table.add(shape, data)?;
            }
            in_core.run(OpId::from_index(index))?;
            in_core.free(OpId::from_index(index));
        }
    }
    table.print();
    Ok(())
}

/// Shapes of what convolutions make, and of what others make of that without changing the shape or by
/// pooling.
fn shapes(network: &Network) -> BTreeMap<TensorId, [usize; 4]> {
    let mut shapes: BTreeMap<TensorId, [usize; 4]> = BTreeMap::new();
    for op in network.ops().iter().filter(|op| op.phase == Phase::Forward) {
        let of_input = op.reads.first().and_then(|id| shapes.get(id).copied());
        let Some(output) = op.writes.first() else { continue };
        let shape = match op.step {
            Step::Convolution(convolution) => {
                let output = convolution.output();
                Some([output.n, output.c, output.space[1], output.space[2]])
            }
            // Windows of ours halve rows and columns.
            Step::MaxPool(_) => of_input.map(|[n, c, h, w]| [n, c, h / 2, w / 2]),
            _ => of_input,
        };
        let shape =
            shape.filter(|s| s.iter().product::<usize>() == network.tensor(*output).elements);
        shape.map(|shape| shapes.insert(*output, shape));
    }
    shapes
}

/// Codecs, and for each the bytes and squared errors of all tensors so far.
struct Table {
    sz: Vec<(String, Box<dyn Codec>, f64)>,
    zfp: Vec<(String, Box<dyn Codec>, f64)>,
    raw: f64,
    zeros: f64,
    tensors: usize,
}

impl Table {
    fn new() -> Result<Self, Box<dyn Error>> {
        let all = |names: &[&str]| -> Result<Vec<_>, Box<dyn Error>> {
            names.iter().map(|name| Ok(((*name).to_string(), codec(name.parse()?)?, 0.0))).collect()
        };
        Ok(Self {
            sz: all(&[
                "sz:1e-3",
                "sz:1e-3:2d",
                "sz:1e-3:3d",
                "sz:1e-2",
                "sz:1e-2:2d",
                "sz:1e-2:3d",
            ])?,
            zfp: all(&["zfp:8", "zfp:8:2d", "zfp:8:3d", "zfp:8:2d"])?,
            raw: 0.0,
            zeros: 0.0,
            tensors: 0,
        })
    }

    fn add(&mut self, shape: &[usize], data: &[f32]) -> Result<(), Box<dyn Error>> {
        let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
        let layout = Layout::new(Dtype::F32, shape)?;
        let fours = Layout::new(Dtype::F32, &[data.len() / 4, 4])?;
        let view = TensorView::new(&layout, &bytes)?;
        for (_, codec, compressed) in &mut self.sz {
            *compressed += quality(codec.as_ref(), view)?.payload_bytes as f64;
        }
        let last = self.zfp.len() - 1;
        for (index, (_, codec, squares)) in self.zfp.iter_mut().enumerate() {
            let view = if index == last { TensorView::new(&fours, &bytes)? } else { view };
            *squares += quality(codec.as_ref(), view)?.difference.rms.powi(2) * data.len() as f64;
        }
        self.raw += bytes.len() as f64;
        self.zeros += data.iter().filter(|value| **value == 0.0).count() as f64;
        self.tensors += 1;
        Ok(())
    }

    fn print(&self) {
        let values = self.raw / 4.0;
        let zeros = 100.0 * self.zeros / values;
        println!("{} tensors, {:.1} MB, {zeros:.0} % zeros", self.tensors, self.raw / 1e6);
        for (name, _, compressed) in &self.sz {
            println!("{name:10}  ratio {:.2}", self.raw / compressed);
        }
        for (index, (name, _, squares)) in self.zfp.iter().enumerate() {
            let name = if index == 3 { "rows of 4" } else { name };
            println!(
                "{name:10}  error {:.1e} (root of the mean square)",
                (squares / values).sqrt()
            );
        }
        println!();
    }
}
