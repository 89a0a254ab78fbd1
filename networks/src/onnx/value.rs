//! What names of the graph stand for: tensors as they lie in memory, and constants.

use super::proto::Tensor as Stored;
use crate::layer::{LayerId, elements};

/// What a name of the graph stands for.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// The output of a layer, or a view of it that is no layer.
    Layer(Tensor),
    /// What is known without running anything.
    Constant(Constant),
    /// A sequence.
    List(Vec<Value>),
}

/// A layer's output, looked at in some order, as frameworks look at it: nothing moves before an op
/// wants its operand to lie in order.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub id: LayerId,
    pub shape: Vec<u64>,
    /// Elements from one position of a dimension to the next, 0 where it is repeated.
    pub strides: Vec<u64>,
    /// Where the batch is, if it has one.
    pub axis: Option<Axis>,
}

/// Where the batch is: the dimension that grows with it, and of that dimension's positions how many
/// lie outside of it, as where 197 positions and a batch of 2 became one dimension of 394.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub dimension: usize,
    pub outside: u64,
}

impl Axis {
    /// A dimension that begins with the batch.
    pub fn first_of(dimension: usize) -> Self {
        Self { dimension, outside: 1 }
    }

    /// The same in another place among the dimensions.
    pub fn moved(self, dimension: usize) -> Self {
        Self { dimension, ..self }
    }

    /// Where the batch is in another shape of the same elements.
    pub fn follow(self, from: &[u64], batch: u64, to: &[u64]) -> Option<Self> {
        let before = elements(&from[..self.dimension]).saturating_mul(self.outside);
        let places = (0..to.len()).filter_map(|dimension| {
            let start = elements(&to[..dimension]).max(1);
            let outside = before / start;
            let whole = before.is_multiple_of(start)
                && to[dimension].is_multiple_of(outside.saturating_mul(batch).max(1));
            let within = outside > 0 && (whole || outside < to[dimension]);
            within.then_some((Self { dimension, outside }, whole))
        });
        // A batch of one may be in several places: in a dimension of its own before all others, and in
        // features, which come last, after all others.
        let unlikely = |(place, whole): &(Self, bool)| {
            let Self { dimension, outside } = *place;
            let own = outside == 1 && to[dimension] == batch;
            let features = dimension > 0 && dimension + 1 == to.len();
            (!whole, !own, features, outside > 1)
        };
        places.min_by_key(unlikely).map(|(place, _)| place)
    }
}

/// The strides of a tensor that lies in order.
pub(super) fn in_order(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for index in (1..shape.len()).rev() {
        strides[index - 1] = u64::saturating_mul(strides[index], shape[index]);
    }
    strides
}

impl Tensor {
    pub fn new(id: LayerId, shape: Vec<u64>, axis: Option<Axis>) -> Self {
        let axis = axis.filter(|axis| axis.dimension < shape.len());
        Self { id, strides: in_order(&shape), shape, axis }
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Where the batch is where it is broadcast to as many dimensions.
    pub fn axis_of(&self, rank: usize) -> Option<Axis> {
        self.axis.map(|axis| axis.moved(axis.dimension + rank - self.rank()))
    }

    /// Whether a dimension has one position, however large the batch.
    fn is_single(&self, dimension: usize) -> bool {
        self.shape[dimension] == 1 && self.axis.is_none_or(|axis| axis.dimension != dimension)
    }

    pub fn lies_in_order(&self) -> bool {
        let strides = in_order(&self.shape);
        (0..self.rank()).all(|i| self.is_single(i) || self.strides[i] == strides[i])
    }

    /// Whether its elements are all of its memory, each once, in any order.
    pub fn is_dense(&self) -> bool {
        let many = (0..self.rank()).filter(|dimension| !self.is_single(*dimension));
        let mut all: Vec<(u64, u64)> = many.map(|i| (self.strides[i], self.shape[i])).collect();
        all.sort_unstable();
        let mut next = 1;
        all.iter().all(|(stride, extent)| {
            let fits = *stride == next;
            next = stride.saturating_mul(*extent);
            fits
        })
    }

    /// The order of its dimensions in memory, outermost first, where it is dense.
    pub fn memory_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.sort_by_key(|dimension| (std::cmp::Reverse(self.strides[*dimension]), *dimension));
        order
    }

    /// The strides of the same memory in another shape, where there are such.
    pub fn strides_in(&self, to: &[u64]) -> Option<Vec<u64>> {
        let mut strides = vec![0; to.len()];
        let (mut view, mut run, mut inner, mut apart) = (to.len(), 1_u64, None, false);
        for dimension in (0..self.rank()).rev() {
            run = run.saturating_mul(self.shape[dimension]);
            if !self.is_single(dimension) {
                inner = inner.or(Some(self.strides[dimension]));
                apart = self.shape[dimension] == 1;
            }
            // A run of dimensions that lie one in the other ends here.
            let ends = match dimension.checked_sub(1) {
                None => true,
                Some(before) if self.is_single(before) => false,
                Some(before) => {
                    inner.is_some_and(|inner| self.strides[before] != run.saturating_mul(inner))
                }
            };
            if !ends {
                continue;
            }
            let mut stride = inner.unwrap_or(1);
            let mut left = run;
            // A batch of one is one of many: it needs a dimension of its own.
            apart &= run == 1;
            while left > 1 || apart {
                let extent = *to[..view].last()?;
                if extent == 0 || left % extent != 0 {
                    return None;
                }
                apart = false;
                view -= 1;
                strides[view] = stride;
                stride = stride.saturating_mul(extent);
                left /= extent;
            }
            (run, inner) = (1, None);
        }
        to[..view].iter().all(|extent| *extent == 1).then_some(strides)
    }
}

/// What is known without running anything: an initializer, or what follows from shapes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Constant {
    pub dims: Vec<u64>,
    /// Its elements, where they are few.
    pub data: Option<Vec<f64>>,
    pub float: bool,
    /// The initializer whose elements it has, in some shape.
    pub origin: Option<String>,
}

/// As many elements are looked at: shapes have few.
const FEW: u64 = 4096;

impl Constant {
    pub fn of(dims: Vec<u64>, data: Vec<f64>, float: bool) -> Self {
        Self { dims, data: Some(data), float, origin: None }
    }

    pub fn list(data: impl IntoIterator<Item = u64>) -> Self {
        let data: Vec<f64> = data.into_iter().map(|figure| figure as f64).collect();
        Self::of(vec![data.len() as u64], data, false)
    }

    pub fn count(&self) -> u64 {
        elements(&self.dims)
    }

    /// Its elements as integers.
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.data.as_ref().map(|data| data.iter().map(|figure| *figure as i64).collect())
    }

    /// Whether it is trained: an initializer of several numbers.
    pub fn is_trained(&self) -> bool {
        self.float && self.origin.is_some() && self.count() > 1
    }

    /// Reads a tensor of the file.
    pub fn read(stored: &Stored, origin: Option<&str>) -> Result<Self, String> {
        let dims: Result<Vec<u64>, _> =
            stored.dims.iter().map(|extent| u64::try_from(*extent)).collect();
        let dims = dims.map_err(|_| format!("`{}` has a negative extent", stored.name))?;
        let kind = stored.data_type.unwrap_or(1);
        let float = matches!(kind, 1 | 10 | 11 | 16);
        let count = elements(&dims);
        let data = if count <= FEW { figures(stored, kind, count as usize) } else { None };
        let origin = origin.map(str::to_string);
        Ok(Self { dims, data, float, origin })
    }

    pub fn is_few(count: u64) -> bool {
        count <= FEW
    }
}

/// The elements of a tensor of the file, where it has as many.
fn figures(stored: &Stored, kind: i32, count: usize) -> Option<Vec<f64>> {
    fn cells<const N: usize>(raw: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        raw.as_chunks().0.iter().map(|cell| read(*cell)).collect()
    }
    let data: Vec<f64> = match (stored.raw_data.as_deref(), kind) {
        (Some(raw), 1) => cells(raw, |cell| f32::from_le_bytes(cell).into()),
        (Some(raw), 11) => cells(raw, f64::from_le_bytes),
        (Some(raw), 6) => cells(raw, |cell| i32::from_le_bytes(cell).into()),
        (Some(raw), 7) => cells(raw, |cell| i64::from_le_bytes(cell) as f64),
        (Some(raw), 2 | 9) => raw.iter().map(|byte| f64::from(*byte)).collect(),
        (Some(raw), 3) => raw.iter().map(|byte| f64::from(byte.cast_signed())).collect(),
        (None, 1) => stored.float_data.iter().map(|figure| f64::from(*figure)).collect(),
        (None, 7) => stored.int64_data.iter().map(|figure| *figure as f64).collect(),
        (None, 2 | 3 | 6 | 9) => {
            stored.int32_data.iter().map(|figure| f64::from(*figure)).collect()
        }
        _ => return None,
    };
    (data.len() == count).then_some(data)
}
