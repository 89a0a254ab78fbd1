//! Functions of each element, reductions, and normalisations.

use schema::Dtype;

use super::Import;
use super::fold::broadcast;
use super::node::Node;
use super::operators::{Made, One, other};
use super::value::{Constant, Tensor, Value};
use crate::layer::{Compute, Fixed, Like, Other, Saves};

impl Import<'_> {
    /// A function of each element of all inputs, which repeat where they have fewer.
    pub(super) fn elementwise(&mut self, n: Node<'_>, saves: Saves, dtype: Option<Dtype>) -> Made {
        let (mut shapes, mut operands, mut parameter) = (Vec::new(), Vec::new(), None);
        let count = n.of.input.len();
        let mut constants = 0;
        for index in (0..count).filter(|index| n.has_input(*index)) {
            match self.input(n, index)?.clone() {
                Value::Constant(constant) => {
                    constants += 1;
                    // How far to go, or along which dimension, is no operand.
                    let is_figure = matches!(n.kind(), "CumSum" | "Trilu") && index > 0;
                    // Older files have a slope for each channel, whatever the rank.
                    let is_slope = n.kind() == "PRelu" && index > 0;
                    if !is_figure && !is_slope {
                        shapes.push(constant.dims.clone());
                    }
                    if constant.is_trained() && dtype.is_none() && !is_figure {
                        parameter = Some((index, constant));
                    }
                }
                Value::Layer(tensor) => {
                    shapes.push(tensor.shape.clone());
                    operands.push(tensor);
                }
                Value::List(_) => return Err(n.wrong("computes with a sequence: unroll it")),
            }
        }
        let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
        let Some(to) = broadcast(&shapes) else {
            return Err(n.wrong(format!("cannot combine the shapes {shapes:?}")));
        };
        let is_sum = matches!(n.kind(), "Add" | "Sub");
        if let ([x], Some((_, constant)), true) = (operands.as_slice(), &parameter, is_sum)
            && x.shape == to
            && x.lies_in_order()
        {
            let (x, count) = (self.ordered(n, x.clone())?, constant.count());
            let (id, axis) = (self.b.add_parameter(n.name(), x.id, count)?, x.axis);
            self.own(id, &[constant.origin.as_deref()]);
            return Ok(vec![Value::Layer(self.built(id, axis))]);
        }
        if let Some((index, _)) = parameter {
            operands.insert(index.min(operands.len()), self.tensor(n, index)?);
        }
        if operands.is_empty() {
            let float = dtype.is_none();
            return Ok(vec![Value::Constant(Constant {
                dims: to,
                data: None,
                float,
                origin: None,
            })]);
        }
        let rank = to.len();
        let axis = operands.iter().find_map(|x| x.axis_of(rank));
        let whole = operands.iter().position(|x| x.shape == to);
        let like = match whole {
            Some(whole) => Tensor { axis, ..operands[whole].clone() },
            None => Tensor::new(operands[0].id, to.clone(), axis),
        };
        let mut compute = Compute::Other(Other { like: Like::Elementwise, saves, dtype });
        let scales = matches!(n.kind(), "Mul" | "Div") && parameter_is_none(constants, &operands);
        if operands.len() == 1 && (is_sum || scales && n.has_layer_first(self)) && whole.is_some() {
            compute = Compute::Fixed(Fixed::Scale);
        }
        if let ([a, b], Some(first)) = (operands.as_slice(), whole) {
            let (a, b) = if first == 0 { (a, b) } else { (b, a) };
            let kind = match n.kind() {
                "Add" => Some(Compute::Add),
                "Mul" => Some(Compute::Multiply),
                _ => None,
            };
            let (own, beside) = (self.b.shape(a.id), self.b.shape(b.id));
            let fits = own.len() == beside.len()
                && own.iter().zip(beside).all(|(own, other)| own == other || *other == 1);
            let in_order = a.lies_in_order() && b.lies_in_order();
            let alike = in_order || (a.strides == b.strides && own == beside && a.is_dense());
            if let Some(kind) = kind.filter(|_| fits && alike && own.len() == rank) {
                return Ok(vec![Value::Layer(self.like(n, kind, &[a, b], &like)?)]);
            }
        }
        let operands: Vec<&Tensor> = operands.iter().collect();
        Ok(vec![Value::Layer(self.like(n, compute, &operands, &like)?)])
    }

    /// A reduction over some dimensions.
    pub(super) fn reduce(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let rank = x.rank();
        let arg = n.kind().starts_with("Arg");
        let axes = match arg {
            true => n.axis("axis", 0, rank).map(|axis| Some(vec![axis])),
            false => n.axes(self.integers(n, 1)?, rank),
        };
        let axes =
            axes.ok_or_else(|| n.wrong(format!("has axes out of range: {rank} are there")))?;
        if axes.as_ref().is_none_or(Vec::is_empty) && n.integer("noop_with_empty_axes", 0) == 1 {
            return Ok(x);
        }
        let axes = axes.filter(|axes| !axes.is_empty()).unwrap_or_else(|| (0..rank).collect());
        let keeps = n.integer("keepdims", 1) == 1;
        let whole: Vec<u64> =
            (0..rank).map(|index| if axes.contains(&index) { 1 } else { x.shape[index] }).collect();
        let kept: Vec<usize> = (0..rank).filter(|index| !axes.contains(index)).collect();
        let to = if keeps { whole.clone() } else { kept.iter().map(|i| x.shape[*i]).collect() };
        let axis = x.axis.filter(|axis| !axes.contains(&axis.dimension));
        let axis = axis.and_then(|axis| match keeps {
            true => Some(axis),
            false => Some(axis.moved(kept.iter().position(|other| *other == axis.dimension)?)),
        });
        let space: Vec<usize> = (2..rank).collect();
        if n.kind() == "ReduceMean" && rank > 2 && axes == space && x.lies_in_order() {
            let id = self.b.resized(n.name(), x.id, Compute::AdaptivePool, &vec![1; rank - 2])?;
            let pooled = self.built(id, x.axis);
            return self.view(n, pooled, to);
        }
        let saves = match n.kind() {
            "ReduceMean" | "ReduceSum" => Saves::Nothing,
            _ => Saves::Inputs,
        };
        let dtype = arg.then_some(Dtype::I64);
        let compute = Compute::Other(Other { like: Like::Reduction, saves, dtype });
        self.emit(n, compute, &[&x], to, axis)
    }

    pub(super) fn softmax(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let otherwise = if n.opset < 13 { 1 } else { -1 };
        let axis = n.axis("axis", otherwise, x.rank());
        let last = axis.is_some_and(|axis| axis + 1 == x.rank());
        if last && n.kind() == "Softmax" && x.lies_in_order() {
            return self.like(n, Compute::Softmax, &[&x], &x);
        }
        self.like(n, other(Like::Softmax, Saves::Output), &[&x], &x)
    }

    pub(super) fn layer_norm(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let axis = n.axis("axis", -1, x.rank());
        let scale = self.weights(n, 1)?;
        let shift = if n.has_input(2) { Some(self.weights(n, 2)?) } else { None };
        let last = axis.is_some_and(|axis| axis + 1 == x.rank());
        self.norm(n, x, last, [Some(scale), shift])
    }

    /// A normalisation that was written out.
    pub(super) fn found_norm(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let scale = if n.has_input(1) { Some(self.weights(n, 1)?) } else { None };
        let shift = if n.has_input(2) { Some(self.weights(n, 2)?) } else { None };
        let axes = n.axes(self.integers(n, 3)?, x.rank()).flatten();
        let last = axes.is_some_and(|axes| axes == [x.rank() - 1]);
        self.norm(n, x, last, [scale, shift])
    }

    /// A normalisation, of the last dimension or others, with what it has been given as parameters.
    fn norm(&mut self, n: Node<'_>, x: Tensor, last: bool, of: [Option<Constant>; 2]) -> One {
        let x = self.ordered(n, x)?;
        let (compute, shape) = match last {
            true => (Compute::RowNorm, x.shape.clone()),
            false => (other(Like::Normalisation, Saves::Inputs), x.shape.clone()),
        };
        let counts = of.each_ref().map(|of| of.as_ref().map_or(0, Constant::count));
        let parameters = [("weight", counts[0]), ("bias", counts[1])];
        let id = self.b.add(n.name(), compute, &[x.id], shape, &parameters)?;
        let origins = of.each_ref().map(|of| of.as_ref().and_then(|of| of.origin.as_deref()));
        self.own(id, &origins);
        Ok(self.built(id, x.axis))
    }

    /// Normalisations over other dimensions than the last.
    pub(super) fn other_norm(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let weights = |import: &mut Self, index| match n.has_input(index) {
            true => import.weights(n, index).map(Some),
            false => Ok(None),
        };
        let of = [weights(self, 1)?, weights(self, 2)?];
        self.norm(n, x, false, of)
    }
}

/// Whether all other operands are constants that nothing trains.
fn parameter_is_none(constants: usize, operands: &[Tensor]) -> bool {
    constants > 0 && operands.len() == 1
}

impl Node<'_> {
    /// Whether its first operand is an activation: a quotient of a constant is no scale.
    fn has_layer_first(&self, import: &Import<'_>) -> bool {
        self.kind() == "Mul" || import.constant(*self, 0).is_none()
    }
}
