//! Views, copies, and what puts tensors together or takes them apart.

use super::Import;
use super::fold::{broadcast, extents};
use super::node::{MANY_PARTS, Node, Slice};
use super::operators::{COPY, Made, One, other};
use super::value::{Axis, Constant, Tensor, Value};
use crate::layer::{Compute, Like, Saves, elements};

/// A view of a part, or of what is repeated.
const PART: Compute =
    Compute::Other(crate::layer::Other { like: Like::Part, saves: Saves::Nothing, dtype: None });

impl Import<'_> {
    /// The same elements in another shape; a copy where they do not lie so.
    pub(super) fn view(&mut self, n: Node<'_>, x: Tensor, to: Vec<u64>) -> One {
        if x.shape == to {
            return Ok(x);
        }
        let axis = x.axis.and_then(|axis| axis.follow(&x.shape, self.exported, &to));
        if let Some(strides) = x.strides_in(&to).filter(|_| !x.lies_in_order()) {
            let made = self.emit(n, other(Like::View, Saves::Nothing), &[&x], to, axis)?;
            return Ok(Tensor { strides, ..made });
        }
        let x = self.ordered(n, x)?;
        let id = self.b.view(n.name(), x.id, to)?;
        Ok(self.built(id, axis))
    }

    /// What a constant is in another shape, or a tensor.
    fn reshaped(&mut self, n: Node<'_>, to: Vec<u64>) -> Made {
        if let Value::Constant(constant) = self.input(n, 0)? {
            let constant = constant.clone();
            if elements(&to) != constant.count() {
                let why = format!("cannot make {to:?} of a constant of shape {:?}", constant.dims);
                return Err(n.wrong(why));
            }
            return Ok(vec![Value::Constant(Constant { dims: to, ..constant })]);
        }
        let x = self.tensor(n, 0)?;
        Ok(vec![Value::Layer(self.view(n, x, to)?)])
    }

    fn shape_of(&self, n: Node<'_>) -> Result<Vec<u64>, crate::error::NetworkError> {
        let shape = self.shape(self.input(n, 0)?);
        shape.ok_or_else(|| n.wrong("takes a sequence: unroll it"))
    }

    pub(super) fn reshape(&mut self, n: Node<'_>) -> Made {
        let from = self.shape_of(n)?;
        let to = match self.integers(n, 1)?.or_else(|| n.ints("shape")) {
            Some(to) => to,
            None => return Err(n.wrong("has no shape: it needs one")),
        };
        let to = n.reshaped(&from, &to);
        let to = to.ok_or_else(|| n.wrong(format!("cannot give {from:?} the shape asked for")))?;
        self.reshaped(n, to)
    }

    /// Flattening, a squeeze, or its opposite.
    pub(super) fn viewed(&mut self, n: Node<'_>) -> Made {
        let from = self.shape_of(n)?;
        let operand = match n.kind() {
            "Flatten" => None,
            _ => self.integers(n, 1)?,
        };
        let to = n.viewed(&from, operand);
        let to = to.ok_or_else(|| n.wrong(format!("names axes that a shape {from:?} has not")))?;
        self.reshaped(n, to)
    }

    pub(super) fn transpose(&mut self, n: Node<'_>) -> Made {
        let from = self.shape_of(n)?;
        let count = from.len();
        let order = n.order(count).ok_or_else(|| {
            n.wrong(format!("has a `perm` that does not order {count} dimensions"))
        })?;
        let turn = |of: &[u64]| order.iter().map(|dimension| of[*dimension]).collect();
        Ok(vec![match self.input(n, 0)?.clone() {
            Value::Layer(x) => Value::Layer(Tensor {
                shape: turn(&x.shape),
                strides: turn(&x.strides),
                axis: x.axis.and_then(|axis| {
                    let to = order.iter().position(|other| *other == axis.dimension);
                    to.map(|to| axis.moved(to))
                }),
                id: x.id,
            }),
            Value::Constant(constant) => {
                Value::Constant(Constant { dims: turn(&constant.dims), data: None, ..constant })
            }
            list @ Value::List(_) => list,
        }])
    }

    pub(super) fn expand(&mut self, n: Node<'_>) -> Made {
        let from = self.shape_of(n)?;
        self.integers(n, 1)?;
        let to = self.constant(n, 1).and_then(extents);
        let to = to.and_then(|to| broadcast(&[&from, &to]));
        let to = to.ok_or_else(|| n.wrong(format!("cannot repeat a shape {from:?} as asked")))?;
        match self.input(n, 0)? {
            Value::Constant(constant) if !constant.is_trained() || constant.dims == to => {
                let constant = Constant { dims: to, data: None, ..constant.clone() };
                return Ok(vec![Value::Constant(constant)]);
            }
            _ => {}
        }
        let x = self.tensor(n, 0)?;
        if x.shape == to {
            return Ok(vec![Value::Layer(x)]);
        }
        let more = to.len() - x.rank();
        let batch = self.exported;
        // What is repeated for each sample, such as a class token.
        let grown = more == 0 && x.shape.first() == Some(&1) || more > 0;
        let grown = grown && batch > 1 && to.first() == Some(&batch);
        let axis = x.axis_of(to.len()).or(grown.then_some(Axis::first_of(0)));
        let strides = (0..to.len())
            .map(|index| match index.checked_sub(more) {
                Some(own) if x.shape[own] == to[index] => x.strides[own],
                _ => 0,
            })
            .collect();
        let made = self.emit(n, PART, &[&x], to, axis)?;
        Ok(vec![Value::Layer(Tensor { strides, ..made })])
    }

    pub(super) fn concat(&mut self, n: Node<'_>) -> One {
        let mut parts = Vec::new();
        for index in 0..n.of.input.len() {
            let empty = matches!(self.constant(n, index), Some(of) if of.count() == 0);
            if !empty {
                let part = self.tensor(n, index)?;
                parts.push(part);
            }
        }
        self.join(n, parts, n.integer("axis", 1))
    }

    pub(super) fn join(&mut self, n: Node<'_>, parts: Vec<Tensor>, axis: i64) -> One {
        let mut ordered = Vec::with_capacity(parts.len());
        for part in parts {
            ordered.push(self.ordered(n, part)?);
        }
        let Some(first) = ordered.first() else { return Err(n.wrong("has no inputs")) };
        let along = super::node::dimension(axis, first.rank());
        let along = along.ok_or_else(|| n.wrong("has an axis out of range"))?;
        if let [one] = ordered.as_slice() {
            return Ok(one.clone());
        }
        let batch = ordered.iter().find_map(|part| part.axis);
        let mut shape = first.shape.clone();
        shape[along] = 0;
        for part in &ordered {
            let agrees = |(i, (a, b)): (usize, (&u64, &u64))| i == along || a == b;
            if part.rank() != shape.len() || !part.shape.iter().zip(&shape).enumerate().all(agrees)
            {
                let shapes: Vec<&[u64]> =
                    ordered.iter().map(|part| part.shape.as_slice()).collect();
                return Err(n.wrong(format!("cannot join the shapes {shapes:?}")));
            }
            shape[along] = shape[along].saturating_add(part.shape[along]);
        }
        let parts: Vec<&Tensor> = ordered.iter().collect();
        self.emit(n, Compute::Concat, &parts, shape, batch)
    }

    /// A view of a part of each dimension.
    fn part(&mut self, n: Node<'_>, x: &Tensor, slices: &[Slice]) -> One {
        let shape: Vec<u64> = slices.iter().map(|slice| slice.count).collect();
        if shape == x.shape && slices.iter().all(|slice| slice.step > 0) {
            return Ok(x.clone());
        }
        let axis = x.axis;
        if slices.iter().any(|slice| slice.step < 0) {
            return self.emit(n, COPY, &[x], shape, axis);
        }
        let steps = slices.iter().map(|slice| slice.step.unsigned_abs());
        let strides = x.strides.iter().zip(steps).map(|(stride, step)| stride.saturating_mul(step));
        let strides = strides.collect();
        let made = self.emit(n, PART, &[x], shape, axis)?;
        Ok(Tensor { strides, ..made })
    }

    /// A part, or nothing: what a rotation that covers all of a head leaves of it.
    pub(super) fn slice(&mut self, n: Node<'_>) -> Made {
        let x = self.tensor(n, 0)?;
        let mut operands = Vec::new();
        for index in 1..5 {
            operands.push(self.integers(n, index)?);
        }
        let slices = n.slices(&x.shape, &operands);
        let slices = slices.ok_or_else(|| n.wrong(format!("takes no part of {:?}", x.shape)))?;
        if slices.iter().any(|slice| slice.count == 0) {
            let shape = slices.iter().map(|slice| slice.count).collect();
            return Ok(vec![Value::Constant(Constant::of(shape, Vec::new(), true))]);
        }
        Ok(vec![Value::Layer(self.part(n, &x, &slices)?)])
    }

    /// One position of a dimension.
    pub(super) fn select(&mut self, n: Node<'_>, x: &Tensor, axis: usize, at: i64) -> One {
        let extent = x.shape[axis];
        let at = if at < 0 { at.saturating_add_unsigned(extent) } else { at };
        if u64::try_from(at).map_or(true, |at| at >= extent) {
            return Err(n.wrong(format!("takes position {at} of {extent}: there is none")));
        }
        let mut shape = x.shape.clone();
        let mut strides = x.strides.clone();
        shape.remove(axis);
        strides.remove(axis);
        let batch = x.axis.filter(|batch| batch.dimension != axis);
        let batch =
            batch.map(|batch| batch.moved(batch.dimension - usize::from(batch.dimension > axis)));
        let made = self.emit(n, PART, &[x], shape, batch)?;
        Ok(Tensor { strides, ..made })
    }

    pub(super) fn split(&mut self, n: Node<'_>) -> Made {
        let x = self.tensor(n, 0)?;
        let axis = n.axis("axis", 0, x.rank());
        let axis = axis.ok_or_else(|| n.wrong("has an axis out of range"))?;
        let extent = x.shape[axis];
        let sequence = n.kind() == "SplitToSequence";
        let too_many =
            || n.wrong(format!("splits into more than {MANY_PARTS} parts: split into fewer"));
        let operand = match (self.integers(n, 1)?, sequence) {
            (Some(each), true) if each.len() == 1 && each[0] > 0 => {
                let each = each[0].unsigned_abs();
                let count = extent.div_ceil(each);
                if count > MANY_PARTS {
                    return Err(too_many());
                }
                Some((0..count).map(|i| each.min(extent - i * each) as i64).collect())
            }
            (None, true) if extent <= MANY_PARTS => Some(vec![1; extent as usize]),
            (operand, _) => operand,
        };
        let parts = n.parts(extent, operand);
        let parts = parts.ok_or_else(|| n.wrong(format!("does not split {extent} as asked")))?;
        if parts.len() as u64 > MANY_PARTS {
            return Err(too_many());
        }
        let mut start = 0;
        let mut made = Vec::with_capacity(parts.len());
        for count in parts {
            let whole = |extent: &u64| Slice { start: 0, count: *extent, step: 1 };
            let mut slices: Vec<Slice> = x.shape.iter().map(whole).collect();
            slices[axis] = Slice { start, count, step: 1 };
            start += count;
            let part = self.part(n, &x, &slices)?;
            let single = sequence && n.integer("keepdims", 1) == 0 && !n.has_input(1);
            made.push(Value::Layer(match single {
                true => self.select(n, &part, axis, 0)?,
                false => part,
            }));
        }
        Ok(if sequence { vec![Value::List(made)] } else { made })
    }

    pub(super) fn tile(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let times = self.integers(n, 1)?.unwrap_or_default();
        if times.len() != x.rank() {
            return Err(n.wrong(format!("repeats {} dimensions of {:?}", times.len(), x.shape)));
        }
        let repeated = x.shape.iter().zip(&times);
        let to: Vec<u64> =
            repeated.map(|(extent, times)| extent.saturating_mul(times.unsigned_abs())).collect();
        self.emit(n, COPY, &[&x], to, x.axis)
    }

    /// Channels to positions, or back.
    pub(super) fn blocks(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let block = n.integer("blocksize", 1).unsigned_abs().max(1);
        let &[batch, channels, height, width] = x.shape.as_slice() else {
            return Err(n.wrong(format!("needs 4 dimensions, but reads {:?}", x.shape)));
        };
        let area = block.saturating_mul(block);
        let to = match n.kind() {
            "DepthToSpace" => vec![
                batch,
                channels / area,
                height.saturating_mul(block),
                width.saturating_mul(block),
            ],
            _ => vec![batch, channels.saturating_mul(area), height / block, width / block],
        };
        self.emit(n, COPY, &[&x], to, x.axis)
    }

    /// What may be in a sequence.
    fn single(&self, n: Node<'_>, index: usize) -> Result<Value, crate::error::NetworkError> {
        match self.input(n, index)? {
            Value::List(_) => Err(n.wrong("puts a sequence into a sequence: unroll it")),
            value => Ok(value.clone()),
        }
    }

    pub(super) fn sequence(&mut self, n: Node<'_>) -> Made {
        if n.kind() == "SequenceEmpty" {
            return Ok(vec![Value::List(vec![])]);
        }
        if n.kind() == "SequenceConstruct" {
            let mut all = Vec::new();
            for index in 0..n.of.input.len() {
                all.push(self.single(n, index)?);
            }
            return Ok(vec![Value::List(all)]);
        }
        let Value::List(mut list) = self.input(n, 0)?.clone() else {
            return Err(n.wrong("takes what is no sequence as one"));
        };
        let place = |at: Option<i64>, last: i64| {
            let count = list.len() as i64;
            let at = at.unwrap_or(last);
            usize::try_from(if at < 0 { at.saturating_add(count) } else { at }).ok()
        };
        match n.kind() {
            "SequenceAt" => {
                let at = place(self.integers(n, 1)?.and_then(|at| at.first().copied()), 0);
                let value = at.and_then(|at| list.get(at).cloned());
                value.map(|value| vec![value]).ok_or_else(|| n.wrong("takes what is not in it"))
            }
            "SequenceLength" => {
                let count = Constant::list([list.len() as u64]);
                Ok(vec![Value::Constant(Constant { dims: vec![], ..count })])
            }
            "SequenceErase" => {
                let at = place(self.integers(n, 1)?.and_then(|at| at.first().copied()), -1);
                let at = at.filter(|at| *at < list.len());
                list.remove(at.ok_or_else(|| n.wrong("erases what is not in it"))?);
                Ok(vec![Value::List(list)])
            }
            "SequenceInsert" => {
                let last = list.len() as i64;
                let at = place(self.integers(n, 2)?.and_then(|at| at.first().copied()), last);
                let at = at.filter(|at| *at <= list.len());
                let at = at.ok_or_else(|| n.wrong("puts something where no place is"))?;
                list.insert(at, self.single(n, 1)?);
                Ok(vec![Value::List(list)])
            }
            _ => {
                let mut parts = Vec::new();
                for value in list {
                    match value {
                        Value::Layer(tensor) => parts.push(tensor),
                        _ => return Err(n.wrong("joins constants: fold constants before export")),
                    }
                }
                let stacks = n.integer("new_axis", 0) == 1;
                let axis = n.integer("axis", 0);
                if stacks {
                    for part in &mut parts {
                        let rank = part.rank() + 1;
                        let at = super::node::dimension(axis, rank);
                        let at = at.ok_or_else(|| n.wrong("has an axis out of range"))?;
                        let mut to = part.shape.clone();
                        to.insert(at, 1);
                        *part = self.view(n, part.clone(), to)?;
                    }
                }
                self.join(n, parts, axis).map(|made| vec![Value::Layer(made)])
            }
        }
    }
}
