//! One node of an ONNX graph as a layer.

use std::collections::HashMap;
use std::path::Path;

use super::proto::{Attribute, Node};
use super::{Value, constant};
use crate::builder::Builder;
use crate::error::NetworkError;
use crate::layer::{Compute, Fixed, LayerId, Movement, Product, Window, elements};
use crate::options::Activation;

/// The operators that are imported.
const OPERATORS: &str = "Add, AveragePool, BatchNormalization, Clip, Concat, Constant, Conv, Div, \
    Dropout, Elu, Erf, Flatten, Gelu, Gemm, GlobalAveragePool, Identity, LayerNormalization, \
    LeakyRelu, MatMul, MaxPool, Mul, Relu, Reshape, Sigmoid, Softmax, Tanh, Transpose";

/// A node, and what is needed to import it.
pub(super) struct NodeImport<'a> {
    pub node: &'a Node,
    pub file: &'a Path,
    /// The batch that the file was exported with, where it states one.
    pub batch: Option<u64>,
}

type Values = HashMap<String, Value>;

impl NodeImport<'_> {
    fn wrong(&self, why: impl Into<String>) -> NetworkError {
        NetworkError::OnnxNode {
            file: self.file.to_path_buf(),
            node: self.name().to_string(),
            op: self.node.op_type.clone(),
            why: why.into(),
        }
    }

    fn name(&self) -> &str {
        match self.node.name.as_str() {
            "" => self.node.output.first().map_or("without a name", String::as_str),
            name => name,
        }
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    fn integer(&self, name: &str, otherwise: i64) -> i64 {
        self.attribute(name).and_then(|attribute| attribute.i).unwrap_or(otherwise)
    }

    fn input<'a>(&self, values: &'a Values, index: usize) -> Result<&'a Value, NetworkError> {
        let name = self.node.input.get(index).filter(|name| !name.is_empty());
        let Some(name) = name else {
            return Err(self.wrong(format!("has no input {index}: it needs one")));
        };
        let not_there = || self.wrong(format!("reads `{name}`, which nothing before it makes"));
        values.get(name).ok_or_else(not_there)
    }

    fn layer(&self, values: &Values, index: usize) -> Result<LayerId, NetworkError> {
        match self.input(values, index)? {
            Value::Layer(layer) => Ok(*layer),
            _ => Err(self
                .wrong(format!("has a constant as input {index}: fold constants before export"))),
        }
    }

    fn weights<'a>(&self, values: &'a Values, index: usize) -> Result<&'a [u64], NetworkError> {
        match self.input(values, index)? {
            Value::Constant(dims) => Ok(dims),
            _ => Err(self.wrong(format!(
                "has weights (input {index}) that are no initializer: make them one"
            ))),
        }
    }

    fn has_input(&self, index: usize) -> bool {
        self.node.input.get(index).is_some_and(|name| !name.is_empty())
    }

    /// What the node's first output stands for.
    pub fn value(&self, b: &mut Builder, values: &Values) -> Result<Value, NetworkError> {
        let name = self.name();
        match self.node.op_type.as_str() {
            "Constant" => {
                let tensor = self.attribute("value").and_then(|value| value.t.as_ref());
                let tensor = tensor.ok_or_else(|| self.wrong("has no tensor as its value"))?;
                return constant(tensor).map_err(|why| self.wrong(why));
            }
            "Identity" => return self.input(values, 0).cloned(),
            "Concat" => return self.concat(b, values),
            "Add" | "Mul" | "Div" => return self.arithmetic(b, values),
            _ => {}
        }
        let x = self.layer(values, 0);
        let activation = |activation| Compute::Activation(activation);
        let layer = match self.node.op_type.as_str() {
            "Conv" => self.convolution(b, values)?,
            "MaxPool" => b.max_pool(name, x?, self.pool_window()?)?,
            "AveragePool" => b.average_pool(name, x?, self.pool_window()?)?,
            "GlobalAveragePool" => b.adaptive_pool(name, x?, 1)?,
            "BatchNormalization" => b.batch_norm(name, x?)?,
            "LayerNormalization" => b.row_norm(name, x?, self.has_input(2))?,
            "Gemm" | "MatMul" => self.product(b, values)?,
            "Relu" => b.same(name, x?, activation(Activation::Relu))?,
            "LeakyRelu" => b.same(name, x?, activation(Activation::LeakyRelu))?,
            "Elu" => b.same(name, x?, activation(Activation::Elu))?,
            // Between two bounds, as ReLU6 is.
            "Clip" => b.same(name, x?, activation(Activation::Relu6))?,
            "Sigmoid" => b.same(name, x?, activation(Activation::Sigmoid))?,
            "Tanh" => b.same(name, x?, activation(Activation::Tanh))?,
            // The error function's backward reads its input, as GELU's does.
            "Gelu" | "Erf" => b.same(name, x?, activation(Activation::Gelu))?,
            "Softmax" => b.same(name, x?, Compute::Softmax)?,
            "Dropout" => b.dropout(name, x?, 50)?,
            "Flatten" if self.integer("axis", 1) == 1 => b.flatten(name, x?)?,
            "Flatten" => return Err(self.wrong("flattens from another axis than 1")),
            "Reshape" => self.reshape(b, x?, values)?,
            "Transpose" => self.transpose(b, x?)?,
            _ => {
                let remedy = "is of a kind that is not imported: rewrite the model with";
                return Err(self.wrong(format!("{remedy} {OPERATORS}")));
            }
        };
        Ok(Value::Layer(layer))
    }

    /// Extents from an attribute; `otherwise` where there is none.
    fn extents(&self, name: &str, otherwise: Vec<u64>) -> Result<Vec<u64>, NetworkError> {
        let Some(attribute) = self.attribute(name) else { return Ok(otherwise) };
        let extents: Result<Vec<u64>, _> =
            attribute.ints.iter().map(|extent| u64::try_from(*extent)).collect();
        let extents = extents.ok().filter(|extents| extents.len() == otherwise.len());
        extents.ok_or_else(|| {
            let count = otherwise.len();
            self.wrong(format!("has no {count} figures from 0 as `{name}`"))
        })
    }

    fn window(&self, kernel: Vec<u64>) -> Result<Window, NetworkError> {
        let count = kernel.len();
        let automatic = self.attribute("auto_pad").and_then(|pad| pad.s.as_deref());
        if automatic.is_some_and(|pad| pad != b"NOTSET" && pad != b"VALID") {
            return Err(self.wrong("pads automatically: export it with explicit `pads`"));
        }
        if self.extents("dilations", vec![1; count])?.iter().any(|dilation| *dilation != 1) {
            return Err(self.wrong("is dilated, which is not imported"));
        }
        let padding = self.extents("pads", vec![0; 2 * count])?;
        let (before, after) = padding.split_at(count);
        if before != after {
            return Err(self.wrong("pads one end more than the other, which is not imported"));
        }
        let padding = before.to_vec();
        let stride = self.extents("strides", vec![1; count])?;
        Ok(Window { kernel, stride, padding, ceil: self.integer("ceil_mode", 0) == 1 })
    }

    fn pool_window(&self) -> Result<Window, NetworkError> {
        let count = self.attribute("kernel_shape").map_or(0, |kernel| kernel.ints.len());
        if count == 0 {
            return Err(self.wrong("has no `kernel_shape`"));
        }
        self.window(self.extents("kernel_shape", vec![0; count])?)
    }

    fn convolution(&self, b: &mut Builder, values: &Values) -> Result<LayerId, NetworkError> {
        let x = self.layer(values, 0)?;
        let weights = self.weights(values, 1)?;
        let [channels, per_group, kernel @ ..] = weights else {
            return Err(self.wrong("has weights of fewer than 2 dimensions"));
        };
        let groups = u64::try_from(self.integer("group", 1)).unwrap_or(0);
        let (from, expected) = (b.channels(x), per_group.saturating_mul(groups));
        if from != expected {
            return Err(
                self.wrong(format!("has weights for {expected} channels, but reads {from}"))
            );
        }
        let window = self.window(kernel.to_vec())?;
        b.convolution(self.name(), x, *channels, window, groups, self.has_input(2))
    }

    fn product(&self, b: &mut Builder, values: &Values) -> Result<LayerId, NetworkError> {
        let x = self.layer(values, 0)?;
        let gemm = self.node.op_type == "Gemm";
        if gemm && self.integer("transA", 0) != 0 {
            return Err(self.wrong("transposes its first operand, which is not imported"));
        }
        let inner = b.shape(x).last().copied().unwrap_or(1);
        if let (Value::Layer(right), false) = (self.input(values, 1)?, gemm) {
            let mut shape = b.shape(x).to_vec();
            let right_shape = b.shape(*right);
            let (Some(last), [.., depth, width]) = (shape.last_mut(), right_shape) else {
                return Err(self.wrong("multiplies by an operand of fewer than 2 dimensions"));
            };
            if *depth != inner {
                return Err(self.wrong(format!("multiplies {inner} columns by {depth} rows")));
            }
            *last = *width;
            return b.product(self.name(), [x, *right], (inner, Product::Plain), shape);
        }
        let &[mut rows, mut columns] = self.weights(values, 1)? else {
            return Err(self.wrong("has weights that are no matrix"));
        };
        if gemm && self.integer("transB", 0) != 0 {
            std::mem::swap(&mut rows, &mut columns);
        }
        if rows != inner {
            return Err(self.wrong(format!("has weights for {rows} features, but reads {inner}")));
        }
        b.linear(self.name(), x, columns, gemm && self.has_input(2))
    }

    fn reshape(
        &self,
        b: &mut Builder,
        x: LayerId,
        values: &Values,
    ) -> Result<LayerId, NetworkError> {
        let Value::Integers(to) = self.input(values, 1)? else {
            return Err(self.wrong("takes a shape that is computed: export it with fixed shapes"));
        };
        let from = b.shape(x);
        let mut shape = Vec::new();
        for (index, &extent) in to.iter().enumerate() {
            shape.push(match (extent, from.get(index)) {
                (0, Some(same)) => *same,
                (-1, _) => 0,
                // The batch that the model was exported with.
                (first, Some(batch)) if index == 0 && u64::try_from(first).ok() == self.batch => {
                    *batch
                }
                (extent, _) => u64::try_from(extent)
                    .map_err(|_| self.wrong(format!("reshapes to an extent of {extent}")))?,
            });
        }
        if let Some(open) = to.iter().position(|extent| *extent == -1) {
            let known: Vec<u64> = shape.iter().copied().filter(|extent| *extent > 0).collect();
            shape[open] = elements(from) / elements(&known).max(1);
        }
        b.view(self.name(), x, shape)
    }

    fn transpose(&self, b: &mut Builder, x: LayerId) -> Result<LayerId, NetworkError> {
        let from = b.shape(x);
        let order = match self.attribute("perm") {
            Some(order) => order.ints.clone(),
            None => (0..from.len() as i64).rev().collect(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted != (0..from.len() as i64).collect::<Vec<_>>() {
            let count = from.len();
            return Err(self.wrong(format!("has a `perm` that does not order {count} dimensions")));
        }
        let order: Vec<usize> = order.iter().map(|dimension| *dimension as usize).collect();
        let to = order.iter().map(|dimension| from[*dimension]).collect();
        b.movement(self.name(), x, Movement::Reorder(order), to)
    }

    fn concat(&self, b: &mut Builder, values: &Values) -> Result<Value, NetworkError> {
        let mut inputs = Vec::new();
        for index in 0..self.node.input.len() {
            inputs.push(self.layer(values, index)?);
        }
        let Some(first) = inputs.first() else { return Err(self.wrong("has no inputs")) };
        let rank = b.shape(*first).len() as i64;
        let axis = self.integer("axis", 1);
        let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
        let axis = usize::try_from(axis).map_err(|_| self.wrong("has an axis out of range"))?;
        b.concat_along(self.name(), &inputs, axis).map(Value::Layer)
    }

    /// Of two layers, or of one and a constant.
    fn arithmetic(&self, b: &mut Builder, values: &Values) -> Result<Value, NetworkError> {
        let (left, right) = (self.input(values, 0)?, self.input(values, 1)?);
        let name = self.name();
        let is_sum = self.node.op_type == "Add";
        let layer = match (left, right) {
            (Value::Layer(left), Value::Layer(right)) => {
                let (mut left, mut right) = (*left, *right);
                if elements(b.shape(left)) < elements(b.shape(right)) {
                    std::mem::swap(&mut left, &mut right);
                }
                if is_sum { b.sum(name, left, right) } else { b.multiply(name, left, right) }
            }
            (Value::Layer(x), Value::Constant(dims)) | (Value::Constant(dims), Value::Layer(x)) => {
                match elements(dims) {
                    1 => b.same(name, *x, Compute::Fixed(Fixed::Scale)),
                    trained if is_sum => b.add_parameter(name, *x, trained),
                    _ => {
                        let remedy = "fold it into the layer before it";
                        return Err(self.wrong(format!("scales by a constant {dims:?}: {remedy}")));
                    }
                }
            }
            _ => return Err(self.wrong("computes with constants: fold constants before export")),
        };
        layer.map(Value::Layer)
    }
}
