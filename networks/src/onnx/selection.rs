//! What takes elements by their positions, what finds positions, and what is not known.

use schema::Dtype;

use super::Import;
use super::node::Node;
use super::operators::{COPY, Made, One, other};
use super::value::{Axis, Tensor, Value};
use crate::layer::{Compute, Like, Other, Saves, elements};

/// Positions, which nothing has a gradient for.
const POSITIONS: Compute =
    Compute::Other(Other { like: Like::Reduction, saves: Saves::Nothing, dtype: Some(Dtype::I64) });

impl Import<'_> {
    pub(super) fn gather(&mut self, n: Node<'_>) -> One {
        let shape = self.shape(self.input(n, 0)?);
        let shape = shape.ok_or_else(|| n.wrong("takes rows of a sequence: unroll it"))?;
        let axis = n.axis("axis", 0, shape.len());
        let axis = axis.ok_or_else(|| n.wrong("has an axis out of range"))?;
        let table = self.constant(n, 0).filter(|table| table.is_trained()).cloned();
        let one = self.constant(n, 1).filter(|at| at.dims.is_empty()).and_then(|c| c.integers());
        if let Some(&[at]) = one.as_deref() {
            let x = self.tensor(n, 0)?;
            return self.select(n, &x, axis, at);
        }
        if let (Some(table), 0, &[rows, width]) = (table, axis, shape.as_slice()) {
            let tokens = self.tensor(n, 1)?;
            let tokens = self.ordered(n, tokens)?;
            let id = self.b.embedding(n.name(), tokens.id, rows, width)?;
            self.own(id, &[table.origin.as_deref()]);
            return Ok(self.built(id, tokens.axis));
        }
        let x = self.tensor(n, 0)?;
        let (indices, at) = match self.input(n, 1)? {
            Value::Constant(constant) => (None, constant.dims.clone()),
            _ => {
                let at = self.tensor(n, 1)?;
                (Some(at.clone()), at.shape)
            }
        };
        let to = [&x.shape[..axis], &at, &x.shape[axis + 1..]].concat();
        let batch = match x.axis {
            Some(own) if own.dimension < axis => Some(own),
            Some(own) if own.dimension > axis => Some(own.moved(own.dimension + at.len() - 1)),
            _ => {
                let own = indices.as_ref().and_then(|at| at.axis);
                own.map(|own| own.moved(own.dimension + axis))
            }
        };
        match indices {
            Some(at) => self.emit(n, other(Like::Copy, Saves::Last), &[&x, &at], to, batch),
            None => self.emit(n, COPY, &[&x], to, batch),
        }
    }

    /// Ops of detection and the like; and what is not known.
    pub(super) fn selection(&mut self, n: Node<'_>) -> Made {
        let made = match n.kind() {
            "GatherElements" => {
                let (x, at) = (self.tensor(n, 0)?, self.tensor(n, 1)?);
                let (to, axis) = (at.shape.clone(), at.axis.or(x.axis));
                self.emit(n, other(Like::Copy, Saves::Last), &[&x, &at], to, axis)?
            }
            "GatherND" => {
                let (x, at) = (self.tensor(n, 0)?, self.tensor(n, 1)?);
                let depth = at.shape.last().copied().unwrap_or(1) as usize;
                let first = n.integer("batch_dims", 0).unsigned_abs() as usize;
                let rest = x.shape.get(first.saturating_add(depth)..);
                let rest = rest.ok_or_else(|| n.wrong("takes elements of too few dimensions"))?;
                let to = [&at.shape[..at.rank().saturating_sub(1)], rest].concat();
                self.emit(n, other(Like::Copy, Saves::Last), &[&x, &at], to, at.axis)?
            }
            "ScatterND" | "ScatterElements" | "Scatter" => {
                let (x, updates) = (self.tensor(n, 0)?, self.tensor(n, 2)?);
                let (to, axis) = (x.shape.clone(), x.axis.or(updates.axis));
                self.emit(n, COPY, &[&x, &updates], to, axis)?
            }
            "OneHot" => {
                let at = self.tensor(n, 0)?;
                let depth = self.integers(n, 1)?.and_then(|depth| depth.first().copied());
                let mut to = at.shape.clone();
                to.push(depth.unwrap_or(1).unsigned_abs());
                self.emit(n, other(Like::Elementwise, Saves::Nothing), &[&at], to, at.axis)?
            }
            "TopK" => return self.top(n),
            "NonZero" => {
                let x = self.tensor(n, 0)?;
                self.note(n, "finds as many positions as data has: all are taken to be found");
                let to = vec![x.rank() as u64, elements(&x.shape)];
                self.emit(n, POSITIONS, &[&x], to, x.axis.map(|_| Axis::first_of(1)))?
            }
            "NonMaxSuppression" => {
                let (boxes, scores) = (self.tensor(n, 0)?, self.tensor(n, 1)?);
                let most = self.constant(n, 2).and_then(|most| most.integers()?.first().copied());
                let extent = |x: &Tensor, index: usize| x.shape.get(index).copied().unwrap_or(1);
                let each = extent(&boxes, 1).min(most.unwrap_or(i64::MAX).unsigned_abs());
                let rows = [extent(&scores, 0), extent(&scores, 1), each];
                self.note(n, "keeps as many boxes as data has: all that it may keep are counted");
                let to = vec![elements(&rows).max(1), 3];
                let axis = boxes.axis.map(|_| Axis::first_of(0));
                self.emit(n, POSITIONS, &[&boxes, &scores], to, axis)?
            }
            "RoiAlign" | "MaxRoiPool" => {
                let (x, boxes) = (self.tensor(n, 0)?, self.tensor(n, 1)?);
                let mut to = vec![boxes.shape.first().copied().unwrap_or(1)];
                to.extend(x.shape.get(1));
                match n.ints("pooled_shape") {
                    Some(shape) => to.extend(shape.iter().map(|extent| extent.unsigned_abs())),
                    None => to.extend(
                        ["output_height", "output_width"].map(|of| n.integer(of, 1).unsigned_abs()),
                    ),
                }
                self.emit(n, other(Like::Copy, Saves::Last), &[&x, &boxes], to, boxes.axis)?
            }
            "GridSample" => {
                let (x, grid) = (self.tensor(n, 0)?, self.tensor(n, 1)?);
                let space = grid.shape.get(1..grid.rank().saturating_sub(1)).unwrap_or_default();
                let to = [x.shape.get(..2).unwrap_or(&x.shape), space].concat();
                self.emit(n, other(Like::Copy, Saves::Inputs), &[&x, &grid], to, x.axis)?
            }
            _ => return self.unknown(n),
        };
        Ok(vec![Value::Layer(made)])
    }

    fn top(&mut self, n: Node<'_>) -> Made {
        let x = self.tensor(n, 0)?;
        let axis = n.axis("axis", -1, x.rank());
        let axis = axis.ok_or_else(|| n.wrong("has an axis out of range"))?;
        let count = self.constant(n, 1).and_then(|count| count.integers()?.first().copied());
        let count = count.unwrap_or(n.integer("k", i64::MAX)).unsigned_abs();
        let mut to = x.shape.clone();
        to[axis] = to[axis].min(count);
        let at = self.emit(n, POSITIONS, &[&x], to.clone(), x.axis)?;
        let taken = self.emit(n, other(Like::Copy, Saves::Last), &[&x, &at], to, x.axis)?;
        Ok(vec![Value::Layer(taken), Value::Layer(at)])
    }

    /// An op that is not known, where the file states that its output has the shape of an input.
    fn unknown(&mut self, n: Node<'_>) -> Made {
        let stated = n.of.output.first().and_then(|output| self.stated.get(output)).cloned();
        let mut inputs = Vec::new();
        for index in (0..n.of.input.len()).filter(|index| n.has_input(*index)) {
            if let Value::Layer(tensor) = self.input(n, index)? {
                inputs.push(tensor.clone());
            }
        }
        let alike = |x: &&Tensor| {
            stated.as_ref().is_some_and(|stated| {
                stated.len() == x.rank()
                    && stated.iter().zip(&x.shape).all(|(a, b)| a.is_none_or(|a| a == *b))
            })
        };
        let Some(like) = inputs.iter().find(alike).cloned().filter(|_| n.of.output.len() == 1)
        else {
            let kind = n.kind();
            let why = match stated {
                None => format!(
                    "is of a kind that is not known, and the file states no shape for what it makes: run \
                     onnx.shape_inference.infer_shapes on it, so that an op on each element can be \
                     taken for one, or export the model without `{kind}`"
                ),
                Some(_) => format!(
                    "is of a kind that is not known, and no op on each element: export the model \
                     without `{kind}`, such as by writing it out in operators of ONNX"
                ),
            };
            return Err(n.wrong(why));
        };
        self.note(n, format!("({}) is not known: it is taken for an op on each element", n.kind()));
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let made = self.like(n, other(Like::Elementwise, Saves::Inputs), &inputs, &like)?;
        Ok(vec![Value::Layer(made)])
    }
}
