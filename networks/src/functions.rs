//! What a function of PyTorch's front end costs, forward and backward, told from its name and the shapes
//! of what it takes: the kernels that are really launched, with the bytes that they really move.

use schema::OpKind;

use super::aten::{Call, Operand};
use super::class::{Class, Pass};
use super::layer::elements;
use super::work::Work;

/// A function or a module's call, as a graph of a model has them.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// The name of the function, or of the module's class.
    pub name: String,
    /// The shapes of what it takes; a number has one of a single 1.
    pub inputs: Vec<Vec<u64>>,
    /// Whether each of them lies in memory in order.
    pub contiguous: Vec<bool>,
    /// The shape of what it makes.
    pub output: Vec<u64>,
    /// Bytes of an element.
    pub width: u64,
    /// Rows of the table of an embedding that takes no table.
    pub rows: u64,
    /// Whether a gradient goes through it.
    pub differentiable: bool,
}

/// What the passes of a function cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Passes {
    /// Forward.
    pub forward: Vec<Work>,
    /// Backward.
    pub backward: Vec<Work>,
    /// Adding the gradients of parameters to those that are there.
    pub accumulate: Vec<Work>,
}

/// What of a function PyTorch keeps for its backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// Nothing.
    Nothing,
    /// What it takes.
    Inputs,
    /// What it makes.
    Output,
    /// A byte an element.
    Mask,
}

impl Function {
    /// Bytes of what it makes.
    pub fn bytes(&self) -> u64 {
        elements(&self.output).saturating_mul(self.width)
    }

    /// The name without regard to how a module and a function write it.
    fn plain(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// Elements of the parameters that a module has and that are none of what it takes.
    pub fn parameters(&self) -> Vec<u64> {
        let last = |shape: Option<&Vec<u64>>| shape.and_then(|of| of.last()).copied().unwrap_or(1);
        let (depth, columns) = (last(self.inputs.first()), last(Some(&self.output)));
        match self.plain().as_str() {
            "linear" => vec![depth.saturating_mul(columns), columns],
            "layernorm" | "groupnorm" => vec![depth, depth],
            "embedding" if self.inputs.len() < 2 => vec![self.rows.saturating_mul(columns)],
            _ => vec![],
        }
    }

    /// What is kept for its backward pass.
    pub fn saves(&self) -> Saved {
        let tensors = self.inputs.iter().filter(|shape| **shape != [1]).count();
        match self.plain().as_str() {
            "softmax" | "log_softmax" | "tanh" | "sigmoid" => Saved::Output,
            "dropout" => Saved::Mask,
            "add" | "sub" | "iadd" | "neg" | "contiguous" | "reshape" | "clone" => Saved::Nothing,
            "mul" | "div" | "truediv" if tensors < 2 => Saved::Nothing,
            _ => Saved::Inputs,
        }
    }

    /// The kernels that it launches.
    pub fn passes(&self) -> Passes {
        let count = elements(&self.output);
        let inputs: Vec<&Vec<u64>> = self.inputs.iter().filter(|shape| **shape != [1]).collect();
        // What takes and makes numbers only is the host's.
        if inputs.is_empty() || self.output.is_empty() {
            return Passes::default();
        }
        let is_copied = |index: usize| self.contiguous.get(index) == Some(&false);
        // What is repeated along a dimension comes from the cache, unless it is too large for that.
        let whole = |shape: &&&Vec<u64>| {
            elements(shape) == count || elements(shape).saturating_mul(self.width) > CACHED
        };
        let two = inputs.iter().filter(whole).count() > 1;
        let [ew, back] = [Pass::Forward, Pass::Input].map(Class::Elementwise);
        let mut passes = match self.plain().as_str() {
            "linear" => {
                let depth = inputs[0].last().copied().unwrap_or(1);
                let columns = self.output.last().copied().unwrap_or(1);
                self.linear(count / columns.max(1), columns, depth)
            }
            "addmm" | "conv1d" if inputs.len() == 3 => {
                let [depth, columns] = [inputs[2][0], inputs[2].last().copied().unwrap_or(1)];
                self.linear(count / columns.max(1), columns, depth)
            }
            "matmul" | "bmm" | "baddbmm" if inputs.len() >= 2 && self.output.len() >= 2 => {
                self.products(inputs[inputs.len() - 2], is_copied)
            }
            "layernorm" | "layer_norm" | "rmsnorm" | "groupnorm" => {
                let norm = |pass, bytes| {
                    self.of(OpKind::Normalisation, Class::RowNorm(pass), count, bytes)
                };
                let parameters = inputs[0].last().copied().unwrap_or(0);
                Passes {
                    forward: norm(Pass::Forward, 2),
                    backward: norm(Pass::Input, 5),
                    accumulate: [self.added(parameters), self.added(parameters)].concat(),
                }
            }
            "embedding" => self.embedding(count, inputs.get(1).map(|table| elements(table))),
            "dropout" => {
                let of =
                    |pass, bytes| vec![Work::new(OpKind::Dropout, Class::Dropout(pass), 0, bytes)];
                let forward = of(Pass::Forward, count.saturating_mul(2 * self.width + 1));
                // The mask as numbers, its scale, and the product.
                let bytes = count.saturating_mul(6 * self.width + 1);
                let backward = of(Pass::Input, bytes);
                Passes { forward, backward, ..Passes::default() }
            }
            "softmax" | "log_softmax" => {
                let of = |pass, bytes| self.of(OpKind::Softmax, Class::Softmax(pass), count, bytes);
                self.both(of(Pass::Forward, 2), of(Pass::Input, 6))
            }
            name => {
                let each = |class, widths| self.of(OpKind::Elementwise, class, count, widths);
                match name {
                    "gelu" | "tanh" | "relu" | "silu" | "sigmoid" | "newgeluactivation"
                    | "geluactivation" => self.both(each(ew, 2), each(back, 3)),
                    "pow" => self.both(each(ew, 2), each(back, 7)),
                    "mul" if two => self.both(each(ew, 3), each(back, 6)),
                    "truediv" | "div" if two => self.both(each(ew, 3), each(back, 8)),
                    "mul" | "truediv" | "div" | "where" | "masked_fill" | "neg" => {
                        self.both(each(ew, 2), each(back, 2))
                    }
                    // Its gradient is handed on.
                    "add" | "sub" | "iadd" => self.both(each(ew, if two { 3 } else { 2 }), vec![]),
                    "max" | "min" | "maximum" | "minimum" => self.both(each(ew, 2), each(back, 10)),
                    "contiguous" | "reshape" | "clone" => {
                        let copy = self.of(OpKind::Movement, Class::Movement, count, 2);
                        self.both(
                            if is_copied(0) || name == "clone" { copy } else { vec![] },
                            vec![],
                        )
                    }
                    _ if !COPIES.split(' ').any(|copy| copy == name) => Passes::default(),
                    _ => self.both(each(ew, 2), each(back, 3)),
                }
            }
        };
        if !self.differentiable {
            (passes.backward, passes.accumulate) = (vec![], vec![]);
        }
        passes
    }

    fn both(&self, forward: Vec<Work>, backward: Vec<Work>) -> Passes {
        Passes { forward, backward, accumulate: vec![] }
    }

    /// Kernels that move so many elements for each of `count`.
    fn of(&self, kind: OpKind, class: Class, count: u64, elements: u64) -> Vec<Work> {
        let bytes = count.saturating_mul(elements).saturating_mul(self.width);
        vec![Work::new(kind, class, 0, bytes)]
    }

    /// The gradient of a parameter, added to what is there.
    fn added(&self, parameters: u64) -> Vec<Work> {
        let class = Class::Elementwise(Pass::Forward);
        self.of(OpKind::Elementwise, class, parameters, 3)
    }

    fn product(&self, count: u64, [rows, columns, depth]: [u64; 3]) -> Vec<Work> {
        let shapes = [[count, rows, depth], [count, depth, columns]];
        let call = Call {
            name: "aten::bmm".into(),
            inputs: shapes.iter().map(|shape| Operand::tensor(shape, self.width)).collect(),
            ..Call::default()
        };
        call.works().unwrap_or_default()
    }

    fn linear(&self, rows: u64, columns: u64, depth: u64) -> Passes {
        let forward = self.product(1, [rows, columns, depth]);
        let mut weights = self.product(1, [depth, columns, rows]);
        let bias = rows.saturating_mul(columns).saturating_mul(self.width);
        weights.iter_mut().for_each(|work| work.beside = bias);
        let backward = [self.product(1, [rows, depth, columns]), weights].concat();
        let accumulate = [self.added(depth.saturating_mul(columns)), self.added(columns)].concat();
        Passes { forward, backward, accumulate }
    }

    fn products(&self, left: &[u64], is_copied: impl Fn(usize) -> bool) -> Passes {
        let [rows, columns] =
            [self.output[self.output.len() - 2], self.output[self.output.len() - 1]];
        let depth = left.last().copied().unwrap_or(1);
        let count = elements(&self.output[..self.output.len() - 2]);
        let mut forward = self.product(count, [rows, columns, depth]);
        for (index, shape) in self.inputs.iter().enumerate() {
            // Samples and heads of a view are no one dimension.
            let several = shape.len() > 3 && shape[..2].iter().all(|extent| *extent > 1);
            if several && is_copied(index) {
                forward.extend(self.of(OpKind::Movement, Class::Movement, elements(shape), 2));
            }
        }
        let backward = [
            self.product(count, [rows, depth, columns]),
            self.product(count, [depth, columns, rows]),
        ];
        self.both(forward, backward.concat())
    }

    fn embedding(&self, count: u64, table: Option<u64>) -> Passes {
        let width = self.output.last().copied().unwrap_or(1);
        let table = table.unwrap_or(self.rows.saturating_mul(width));
        let of = |pass, bytes| vec![Work::new(OpKind::Embedding, Class::Embedding(pass), 0, bytes)];
        let looked_up = count.saturating_mul(2 * self.width);
        let bytes = looked_up.saturating_add(table.saturating_mul(self.width));
        Passes {
            forward: of(Pass::Forward, looked_up),
            backward: of(Pass::Parameters, bytes),
            accumulate: self.added(table),
        }
    }
}

/// Bytes that stay in a cache while they are used again.
const CACHED: u64 = 4 << 20;

/// Functions that read and write each element once and are not named above.
const COPIES: &str = "masked_fill_ lt gt eq ne bool long float cumsum ones zeros full_like exp sqrt rsqrt abs \
     cat stack roll triu tril sin cos clamp";
