//! Products of matrices, and convolutions.

use super::arguments::{Argument, OpOperands, Parts, Writer, args};
use super::blas::{BLAS, BLAS_HALVES, calls};
use super::product::{Matrices, Strides};
use super::simple;
use crate::layers::{Linear, MASKED, Product};
use crate::network::Step;

/// Rows and columns of outputs that a block of threads computes at once.
const TILE: usize = 64;

impl<A: Copy + PartialEq> Matrices<A> {
    pub fn write(&self, writer: &mut Writer<A>) {
        if let Some(calls) = self.calls(writer) {
            let kernel = if writer.halves.is_some() { BLAS_HALVES } else { BLAS };
            calls.into_iter().for_each(|call| writer.library(kernel, call));
            self.hide(writer);
            return self.add_bias(writer);
        }
        let operand = |(address, of): (Argument<A>, Strides)| {
            args![address, of.start, of.sample, of.head, of.divide, of.side, of.inner, of.outer]
        };
        let mut operands = [operand(self.a), operand(self.b), args![self.y]].concat();
        operands.extend(self.places.map(Argument::Number));
        let sizes = args![
            self.bias,
            self.samples,
            self.heads,
            self.rows,
            self.columns,
            self.inner,
            self.split,
            self.scale,
            self.masked.is_some(),
            self.masked.unwrap_or(0.0),
            self.accumulate,
        ];
        let tiles = self.rows.div_ceil(TILE) * self.columns.div_ceil(TILE);
        writer.rows("product/product", self.samples * self.heads * tiles, operands, sizes);
    }
}

/// Whether rows, columns or inner dimension of a convolution do not fit 32 bits, in which its
/// kernels count.
pub(super) fn is_too_large(step: &Step) -> bool {
    let (Step::Convolution(conv) | Step::ConvolutionWeights(conv) | Step::ConvolutionInput(conv)) =
        step
    else {
        return false;
    };
    let numbers = conv.numbers();
    let ([images, _, from], [_, channels, to]) = (inputs(&numbers), outputs(&numbers));
    let volume = numbers[10..13].iter().product::<u64>() as usize;
    let most = [images.saturating_mul(from.max(to)), channels.saturating_mul(volume), conv.rows()];
    most.into_iter().any(|count| u32::try_from(count).is_err())
}

impl<A: Copy + PartialEq> Matrices<A> {
    /// What cuBLAS is told, if it can be: each part of the inner dimension and of the right operand
    /// in its turn.
    fn calls(&self, writer: &Writer<A>) -> Option<Vec<Vec<Argument<A>>>> {
        if !writer.means.blas || (self.split < self.inner && !self.inner.is_multiple_of(self.split))
        {
            return None;
        }
        let bytes = if writer.halves.is_some() { 2 } else { 4 };
        let parts = writer.halves.unwrap_or(Parts { count: 1, apart: 0 });
        let pieces = (self.inner / self.split).max(1) as u64;
        let piece = |of: Strides, piece| Strides { start: of.start + piece * of.outer, ..of };
        let part = |index: u64| {
            let (place, part) = (index / parts.count, index % parts.count);
            let of = Self {
                a: (self.a.0, piece(self.a.1, place)),
                b: (self.b.0.behind(part * parts.apart), piece(self.b.1, place)),
                inner: self.inner.min(self.split),
                accumulate: self.accumulate || index > 0,
                ..*self
            };
            calls(&of, bytes)
        };
        let all: Option<Vec<_>> = (0..pieces * parts.count).map(part).collect();
        Some(all?.into_iter().flatten().collect())
    }

    /// Puts the value that hides keys where it belongs, which cuBLAS does not.
    fn hide(&self, writer: &mut Writer<A>) {
        let Some(masked) = self.masked else { return };
        let Self { samples, heads, rows, columns, .. } = *self;
        let mut numbers = args![samples, heads, rows, columns, masked];
        numbers.extend(self.places.map(Argument::Number));
        writer.rows("floats/hide", samples * heads * rows, numbers, args![self.y]);
    }

    /// Adds the bias, where there is one, to rows behind one another.
    fn add_bias(&self, writer: &mut Writer<A>) {
        if self.bias == Argument::Nothing {
            return;
        }
        add_to_channels(writer, [self.rows, self.columns, 1], self.y, self.bias);
    }
}

pub(super) fn write<A: Copy + PartialEq>(
    step: &Step,
    op: &OpOperands<'_, A>,
    writer: &mut Writer<A>,
) -> Option<()> {
    match step {
        Step::Convolution(conv) if is_plain(step, writer) && op.reads.len() == 2 => {
            let ([images, channels, plane], [_, to, _]) = sides(&conv.numbers());
            let w = (op.read(1)?, Strides::plain(channels, 1));
            let x = Strides { sample: (channels * plane) as u64, ..Strides::plain(1, plane) };
            let sizes = [to, plane, channels];
            let product = Matrices::plain(w, (op.read(0)?, x), op.write(0)?, sizes);
            let places = [0, (to * plane) as u64, 0, plane as u64, 1];
            Matrices { samples: images, places, ..product }.write(writer);
        }
        Step::ConvolutionInput(conv) if is_plain(step, writer) => {
            let ([images, channels, plane], [_, to, _]) = sides(&conv.numbers());
            let w = (op.read(0)?, Strides::plain(1, channels));
            let dy = Strides { sample: (to * plane) as u64, ..Strides::plain(1, plane) };
            let sizes = [channels, plane, to];
            let product = Matrices::plain(w, (op.read(1)?, dy), op.write(0)?, sizes);
            let places = [0, (channels * plane) as u64, 0, plane as u64, 1];
            Matrices { samples: images, places, ..product }.write(writer);
        }
        Step::Convolution(conv) => {
            let [images, channels, plane] = outputs(&conv.numbers());
            let operands = args![op.read(0)?, op.read(1)?, op.optional_read(2), op.write(0)?];
            let sizes = [channels, images * plane];
            tiles(writer, "product/convolution", conv.numbers(), sizes, operands);
        }
        Step::ConvolutionWeights(conv) => {
            let sizes = outputs(&conv.numbers());
            let (kernel, operands) = ("product/convolution_weights", op.first([2, 0, 1])?);
            tiles(writer, kernel, conv.numbers(), [sizes[1], conv.rows()], operands);
            if op.writes.len() > 1 {
                sum_of_channels(writer, sizes, op.read(1)?, op.write(1)?);
            }
        }
        Step::ConvolutionInput(conv) => {
            let [images, channels, plane] = inputs(&conv.numbers());
            let (kernel, operands) = ("product/convolution_input", op.first([2, 0, 1])?);
            tiles(writer, kernel, conv.numbers(), [channels, images * plane], operands);
        }
        Step::Linear(Linear { rows, inputs, outputs }) => {
            let (a, b) = (Strides::plain(*inputs, 1), Strides::plain(*inputs, 1));
            let (x, w) = ((op.read(0)?, a), (op.read(1)?, b));
            let product = Matrices::plain(x, w, op.write(0)?, [*rows, *outputs, *inputs]);
            Matrices { bias: op.optional_read(2), ..product }.write(writer);
        }
        Step::LinearWeights(Linear { rows, inputs, outputs }) => {
            let (dy, x) = (Strides::plain(1, *outputs), Strides::plain(1, *inputs));
            let (dy, x) = ((op.read(1)?, dy), (op.read(0)?, x));
            Matrices::plain(dy, x, op.write(0)?, [*outputs, *inputs, *rows]).write(writer);
            if op.writes.len() > 1 {
                sum_of_channels(writer, [*rows, *outputs, 1], op.read(1)?, op.write(1)?);
            }
        }
        Step::LinearInput(Linear { rows, inputs, outputs }) => {
            let (dy, w) = (Strides::plain(*outputs, 1), Strides::plain(1, *inputs));
            let (dy, w) = ((op.read(1)?, dy), (op.read(0)?, w));
            Matrices::plain(dy, w, op.write(0)?, [*rows, *inputs, *outputs]).write(writer);
        }
        Step::Product(product) => {
            let [a, b, y] = product.strides();
            let group = product.group as u64;
            let matrices = of_product(
                product,
                (op.read(0)?, strides(a, 1, a[2], a[3])),
                (op.read(1)?, strides(b, group, b[3], b[2])),
                (op.write(0)?, y),
            );
            let masked = product.causal.then_some(MASKED);
            Matrices { masked, ..matrices }.write(writer);
        }
        Step::ProductLeft(product) => {
            let [a, b, y] = product.strides();
            let group = product.group as u64;
            let matrices = of_product(
                product,
                (op.read(1)?, strides(y, 1, y[2], y[3])),
                (op.read(0)?, strides(b, group, b[2], b[3])),
                (op.write(0)?, a),
            );
            let (columns, inner) = (product.inner, product.columns);
            Matrices { columns, inner, split: inner, ..matrices }.write(writer);
        }
        Step::ProductRight(product) => {
            // Heads that share a right operand are parts of the inner dimension.
            let [a, b, y] = product.strides();
            let group = product.group as u64;
            let shared = |of: [u64; 4], side| Strides {
                outer: of[1],
                ..strides([of[0], of[1] * group, of[2], of[3]], 1, side, of[2])
            };
            let matrices = of_product(
                product,
                (op.read(0)?, shared(a, a[3])),
                (op.read(1)?, shared(y, y[3])),
                (op.write(0)?, b),
            );
            Matrices {
                heads: product.heads / product.group,
                rows: product.inner,
                inner: product.group * product.rows,
                split: product.rows,
                ..matrices
            }
            .write(writer);
        }
        _ => return None,
    }
    Some(())
}

/// Whether a convolution is a product of matrices for each image, and cuBLAS is there for it: a
/// window of one cell that goes everywhere, and one group.
fn is_plain<A: Copy>(step: &Step, writer: &Writer<A>) -> bool {
    let (Step::Convolution(conv) | Step::ConvolutionInput(conv)) = step else { return false };
    let numbers = conv.numbers();
    let (groups, window, padding) = (numbers[3], &numbers[10..16], &numbers[16..19]);
    let one_cell = window.iter().all(|n| *n == 1) && padding.iter().all(|n| *n == 0);
    writer.means.blas && groups == 1 && one_cell
}

/// Images, channels and plane of a convolution's input and of its output.
fn sides(numbers: &[u64; 19]) -> ([usize; 3], [usize; 3]) {
    (inputs(numbers), outputs(numbers))
}

/// Strides of an operand of which samples and heads lie so far apart.
fn strides(of: [u64; 4], divide: u64, side: u64, inner: u64) -> Strides {
    Strides { start: 0, sample: of[0], head: of[1], divide, side, inner, outer: 0 }
}

/// A product as the forward pass has it, with an output laid out as given.
fn of_product<A: Copy + PartialEq>(
    product: &Product,
    a: (Argument<A>, Strides),
    b: (Argument<A>, Strides),
    (y, [sample, head, row, column]): (Argument<A>, [u64; 4]),
) -> Matrices<A> {
    let sizes = [product.rows, product.columns, product.inner];
    Matrices {
        places: [0, sample, head, row, column],
        samples: product.batch,
        heads: product.heads,
        scale: product.scale,
        ..Matrices::plain(a, b, y, sizes)
    }
}

/// A convolution of which a group has so many rows and columns of outputs.
fn tiles<A: Copy>(
    writer: &mut Writer<A>,
    kernel: &'static str,
    numbers: [u64; 19],
    [rows, columns]: [usize; 2],
    operands: Vec<Argument<A>>,
) {
    let groups = numbers[3] as usize;
    let tiles = groups * (rows / groups).div_ceil(TILE) * columns.div_ceil(TILE);
    writer.rows(kernel, tiles, numbers.map(Argument::Number).into(), operands);
}

/// Images, channels and elements of a plane of a convolution's input.
fn inputs(numbers: &[u64; 19]) -> [usize; 3] {
    [numbers[0], numbers[1], numbers[4..7].iter().product()].map(|n| n as usize)
}

pub(super) fn outputs(numbers: &[u64; 19]) -> [usize; 3] {
    [numbers[0], numbers[2], numbers[7..10].iter().product()].map(|n| n as usize)
}

/// Adds to each channel a number of its own: a bias.
pub(super) fn add_to_channels<A: Copy>(
    writer: &mut Writer<A>,
    sizes: [usize; 3],
    y: Argument<A>,
    bias: Argument<A>,
) {
    let numbers = channels(sizes).map(Argument::Number).into();
    let elements = sizes.into_iter().product();
    writer.each("elementwise/add_broadcast", elements, numbers, args![y, bias, y]);
}

/// The sum of each channel: the gradient of a bias.
pub(super) fn sum_of_channels<A: Copy>(
    writer: &mut Writer<A>,
    sizes: [usize; 3],
    dy: Argument<A>,
    dbias: Argument<A>,
) {
    simple::sum(writer, channels(sizes), Argument::Nothing, dy, dbias);
}

/// Images, channels and elements of a plane as the numbers of a
/// [`Broadcast`](crate::layers::Broadcast) of one number for each channel: no plane where it has
/// one element.
fn channels([images, channels, plane]: [usize; 3]) -> [u64; 12] {
    let [images, channels, plane] = [images, channels, plane].map(|n| n as u64);
    match plane {
        1 => [1, 1, 1, 1, images, channels, 0, 0, 0, 0, 0, 1],
        _ => [1, 1, 1, images, channels, plane, 0, 0, 0, 0, 1, 0],
    }
}
