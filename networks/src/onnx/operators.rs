//! Which layers an operator becomes, and what all of them need.

use schema::{Activation, Dtype};

use super::Import;
use super::node::Node;
use super::patterns::FOUND;
use super::value::{Axis, Constant, Tensor, Value};
use crate::error::NetworkError;
use crate::layer::{Compute, Fixed, LayerId, Like, Movement, Other, Saves, elements};

pub(super) type Made = Result<Vec<Value>, NetworkError>;
pub(super) type One = Result<Tensor, NetworkError>;

/// An op that is known by what it moves and keeps.
pub(super) fn other(like: Like, saves: Saves) -> Compute {
    Compute::Other(Other { like, saves, dtype: None })
}

/// A copy of some elements in any order.
pub(super) const COPY: Compute =
    Compute::Other(Other { like: Like::Copy, saves: Saves::Nothing, dtype: None });

impl Import<'_> {
    /// What a node makes, in the order of its outputs.
    pub(super) fn operator(&mut self, n: Node<'_>) -> Made {
        let act = Compute::Activation;
        let one = |made: One| made.map(|tensor| vec![Value::Layer(tensor)]);
        if n.of.domain == FOUND {
            return one(self.found(n));
        }
        let numbers = |saves| (saves, None);
        let truths = (Saves::Nothing, Some(Dtype::U8));
        let (saves, dtype) = match n.kind() {
            "Add" | "Sub" | "Sum" | "Mean" | "Neg" | "Ceil" | "Floor" | "Round" | "Sign"
            | "CumSum" | "Trilu" | "Bernoulli" | "Shrink" => numbers(Saves::Nothing),
            "Mul" | "Div" | "Pow" | "Max" | "Min" | "Abs" | "Cos" | "Sin" | "Tan" | "Acos"
            | "Asin" | "Atan" | "Cosh" | "Sinh" | "Acosh" | "Asinh" | "Atanh" | "Log"
            | "Softplus" | "Softsign" | "HardSwish" | "HardSigmoid" | "Mish" | "Selu" | "Celu"
            | "ThresholdedRelu" | "PRelu" | "Mod" | "BitShift" | "Swish" | "Det" => {
                numbers(Saves::Inputs)
            }
            "Exp" | "Sqrt" | "Reciprocal" => numbers(Saves::Output),
            "Where" => numbers(Saves::First),
            "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or"
            | "Xor" | "Not" | "IsNaN" | "IsInf" => truths,
            "Cast" => return self.cast(n),
            "Identity" | "CastLike" => return Ok(vec![self.input(n, 0)?.clone()]),
            "Constant" => return self.constant_node(n).map(|made| vec![Value::Constant(made)]),
            "ConstantOfShape" | "RandomNormal" | "RandomUniform" | "RandomNormalLike"
            | "RandomUniformLike" | "Range" | "EyeLike" => return self.generated(n),
            "If" => return self.branch(n),
            "Relu" => return one(self.unary(n, act(Activation::Relu))),
            "LeakyRelu" => return one(self.unary(n, act(Activation::LeakyRelu))),
            "Elu" => return one(self.unary(n, act(Activation::Elu))),
            // Between two bounds, as ReLU6 is.
            "Clip" => return one(self.unary(n, act(Activation::Relu6))),
            "Sigmoid" => return one(self.unary(n, act(Activation::Sigmoid))),
            "Tanh" => return one(self.unary(n, act(Activation::Tanh))),
            // The error function's backward reads its input, as GELU's does.
            "Gelu" | "Erf" | "FastGelu" | "QuickGelu" => {
                return one(self.unary(n, act(Activation::Gelu)));
            }
            "Dropout" => {
                let ratio = self.constant(n, 1).and_then(|ratio| ratio.data.clone());
                let ratio = ratio.and_then(|ratio| ratio.first().copied()).or(n.float("ratio"));
                let ratio = ratio.unwrap_or(0.5);
                if ratio <= 0.0 {
                    // PyTorch hands back its input.
                    return Ok(vec![self.input(n, 0)?.clone()]);
                }
                let percent = (100.0 * ratio).min(100.0).round() as u8;
                return one(self.unary(n, Compute::Dropout { percent }));
            }
            "Conv" => return one(self.convolution(n)),
            "ConvTranspose" => return one(self.deconvolution(n)),
            "MaxPool" | "AveragePool" | "LpPool" => return self.pool(n),
            "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => return one(self.global(n)),
            "Resize" | "Upsample" => return one(self.resize(n)),
            "Pad" => return one(self.pad(n)),
            "BatchNormalization" => {
                let x = self.tensor(n, 0)?;
                let x = self.ordered(n, x)?;
                return one(self.batch_norm(n, x));
            }
            "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
                return one(self.layer_norm(n));
            }
            "InstanceNormalization"
            | "GroupNormalization"
            | "LpNormalization"
            | "MeanVarianceNormalization"
            | "LRN" => return one(self.other_norm(n)),
            "Softmax" | "LogSoftmax" | "Hardmax" => return one(self.softmax(n)),
            "MatMul" => return one(self.matmul(n)),
            "Gemm" => return one(self.gemm(n)),
            "Einsum" => return one(self.einsum(n)),
            "Attention" | "MultiHeadAttention" | "GroupQueryAttention" => {
                return one(self.attention_node(n));
            }
            "RotaryEmbedding" => {
                let x = self.tensor(n, 0)?;
                let width = x.shape.last().copied().unwrap_or(1);
                return one(self.unary(n, Compute::Fixed(Fixed::Rotary { width })));
            }
            "Reshape" => return self.reshape(n),
            "Flatten" | "Squeeze" | "Unsqueeze" => return self.viewed(n),
            "Transpose" => return self.transpose(n),
            "Expand" => return self.expand(n),
            "Concat" => return one(self.concat(n)),
            "Slice" => return self.slice(n),
            "Split" | "SplitToSequence" => return self.split(n),
            "Tile" => return one(self.tile(n)),
            "DepthToSpace" | "SpaceToDepth" => return one(self.blocks(n)),
            "SequenceConstruct" | "SequenceAt" | "SequenceInsert" | "SequenceErase"
            | "SequenceLength" | "ConcatFromSequence" | "SequenceEmpty" => return self.sequence(n),
            "Gather" => return one(self.gather(n)),
            kind if kind.starts_with("Reduce") => return one(self.reduce(n)),
            "ArgMax" | "ArgMin" => return one(self.reduce(n)),
            _ => return self.selection(n),
        };
        self.elementwise(n, saves, dtype)
    }

    /// A function that was written out in several nodes.
    fn found(&mut self, n: Node<'_>) -> One {
        let act = Compute::Activation;
        match n.kind() {
            "FusedAttention" => self.fused_attention(n),
            "LayerNorm" | "RmsNorm" => self.found_norm(n),
            "Linear" => {
                let x = self.tensor(n, 0)?;
                self.linear(n, x, 0)
            }
            "Gelu" => self.unary(n, act(Activation::Gelu)),
            // The form with the hyperbolic tangent is written out where models do so themselves.
            "GeluInSteps" => {
                self.in_steps = true;
                self.unary(n, act(Activation::Gelu))
            }
            "Silu" => self.unary(n, act(Activation::Silu)),
            "Rotary" => {
                let x = self.tensor(n, 0)?;
                let width = x.shape.last().copied().unwrap_or(1);
                self.like(n, Compute::Fixed(Fixed::Rotary { width }), &[&x], &x)
            }
            _ => self.unary(n, other(Like::Elementwise, Saves::Inputs)),
        }
    }

    pub fn input(&self, n: Node<'_>, index: usize) -> Result<&Value, NetworkError> {
        let name = n.of.input.get(index).filter(|name| !name.is_empty());
        let Some(name) = name else {
            return Err(n.wrong(format!("has no input {index}: it needs one")));
        };
        let not_there = || n.wrong(format!("reads `{name}`, which nothing before it makes"));
        self.values.get(name).ok_or_else(not_there)
    }

    /// An input that is known.
    pub fn constant(&self, n: Node<'_>, index: usize) -> Option<&Constant> {
        match self.values.get(n.of.input.get(index)?) {
            Some(Value::Constant(constant)) => Some(constant),
            _ => None,
        }
    }

    /// The integers of an input, nothing where there is no such input.
    pub fn integers(&self, n: Node<'_>, index: usize) -> Result<Option<Vec<i64>>, NetworkError> {
        if !n.has_input(index) {
            return Ok(None);
        }
        let known = self.constant(n, index).and_then(Constant::integers);
        known.map(Some).ok_or_else(|| {
            n.wrong(format!(
                "takes figures (input {index}) that are computed from data: export it with fixed shapes"
            ))
        })
    }

    /// The extents that an initializer or what it is computed from has.
    pub fn weights(&mut self, n: Node<'_>, index: usize) -> Result<Constant, NetworkError> {
        match self.input(n, index)? {
            Value::Constant(constant) => Ok(constant.clone()),
            Value::Layer(tensor) if self.facts[tensor.id.0].axis.is_none() => {
                let constant = Constant { dims: tensor.shape.clone(), ..Constant::default() };
                self.note(n, "computes its weights: they are taken for a parameter");
                Ok(Constant { float: true, ..constant })
            }
            _ => Err(n.wrong(format!(
                "has weights (input {index}) that are no initializer: make them one"
            ))),
        }
    }

    /// An input as an activation.
    pub fn tensor(&mut self, n: Node<'_>, index: usize) -> One {
        let constant = match self.input(n, index)? {
            Value::Layer(tensor) => return Ok(tensor.clone()),
            Value::List(_) => {
                return Err(n.wrong(format!("takes a sequence as input {index}: unroll it")));
            }
            Value::Constant(constant) => constant.clone(),
        };
        let name = &n.of.input[index];
        if let Some(given) = self.given.get(name) {
            return Ok(given.clone());
        }
        let dims = constant.dims.clone();
        let id = match constant.is_trained() {
            true => {
                let id = self.b.parameter(name, dims.clone())?;
                self.own(id, &[constant.origin.as_deref()]);
                id
            }
            false => {
                let id = self.b.add(name, Compute::Input, &[], dims.clone(), &[])?;
                self.take_note(id, None);
                id
            }
        };
        let tensor = Tensor::new(id, dims, None);
        self.given.insert(name.clone(), tensor.clone());
        Ok(tensor)
    }

    /// Lets a layer that was just added share the parameters of others with the same initializers.
    pub fn own(&mut self, id: LayerId, origins: &[Option<&str>]) {
        for (slot, origin) in origins.iter().enumerate() {
            let own = self.b.layer(id).parameters.get(slot).copied();
            let (Some(own), Some(origin)) = (own, origin) else { continue };
            match self.shared.get(*origin) {
                Some(with) if self.b.elements_of(*with) == self.b.elements_of(own) => {
                    self.b.tie(id, slot, *with);
                }
                _ => {
                    self.shared.insert((*origin).to_string(), own);
                }
            }
        }
        self.take_note(id, None);
    }

    /// Adds a layer that reads these, whose output lies in order.
    pub fn emit(
        &mut self,
        n: Node<'_>,
        compute: Compute,
        from: &[&Tensor],
        shape: Vec<u64>,
        axis: Option<Axis>,
    ) -> One {
        let inputs: Vec<LayerId> = from.iter().map(|tensor| tensor.id).collect();
        let id = self.b.add(n.name(), compute, &inputs, shape.clone(), &[])?;
        self.take_note(id, axis);
        Ok(Tensor::new(id, shape, axis))
    }

    /// A layer of the builder's, whose output has an extent that grows with the batch.
    pub fn built(&mut self, id: LayerId, axis: Option<Axis>) -> Tensor {
        self.take_note(id, axis);
        Tensor::new(id, self.b.shape(id).to_vec(), axis)
    }

    /// Adds a layer whose output lies as `like` does, where that has its elements once.
    pub fn like(&mut self, n: Node<'_>, compute: Compute, from: &[&Tensor], like: &Tensor) -> One {
        let order = match like.is_dense() {
            true => like.memory_order(),
            false => (0..like.rank()).collect(),
        };
        let shape = order.iter().map(|dimension| like.shape[*dimension]).collect();
        let place = |dimension: usize| order.iter().position(|other| *other == dimension);
        let axis = like.axis.and_then(|axis| Some(axis.moved(place(axis.dimension)?)));
        let made = self.emit(n, compute, from, shape, axis)?;
        let strides = (0..like.rank())
            .map(|dimension| place(dimension).map_or(1, |place| made.strides[place]))
            .collect();
        Ok(Tensor { shape: like.shape.clone(), strides, axis: like.axis, id: made.id })
    }

    /// A function of each element of the first input.
    pub fn unary(&mut self, n: Node<'_>, compute: Compute) -> One {
        let x = self.tensor(n, 0)?;
        self.like(n, compute, &[&x], &x)
    }

    /// The tensor as it lies in order; a copy where it does not.
    pub fn ordered(&mut self, n: Node<'_>, x: Tensor) -> One {
        if x.lies_in_order() {
            if self.b.shape(x.id) == x.shape {
                return Ok(x);
            }
            let id = self.b.view(n.name(), x.id, x.shape)?;
            return Ok(self.built(id, x.axis));
        }
        let order = x.memory_order();
        let in_memory: Vec<u64> = order.iter().map(|dimension| x.shape[*dimension]).collect();
        let turned = x.is_dense() && self.b.shape(x.id) == in_memory;
        let place = |dimension| order.iter().position(|other| *other == dimension).unwrap_or(0);
        let compute = match turned {
            true => Compute::Movement(Movement::Reorder((0..x.rank()).map(place).collect())),
            false => COPY,
        };
        self.emit(n, compute, &[&x], x.shape.clone(), x.axis)
    }

    fn constant_node(&self, n: Node<'_>) -> Result<Constant, NetworkError> {
        let list = |data: Vec<f64>, float| Constant::of(vec![data.len() as u64], data, float);
        let scalar = |figure: f64, float| Constant::of(vec![], vec![figure], float);
        if let Some(tensor) = n.tensor("value") {
            // Exporters write parameters as initializers, and masks and anchors like this.
            return Constant::read(tensor, None).map_err(|why| n.wrong(why));
        }
        if let Some(ints) = n.ints("value_ints") {
            return Ok(list(ints.into_iter().map(|int| int as f64).collect(), false));
        }
        if let Some(floats) = n.floats("value_floats") {
            return Ok(list(floats, true));
        }
        if let Some(float) = n.float("value_float") {
            return Ok(scalar(float, true));
        }
        if n.of.attribute.iter().any(|attribute| attribute.name == "value_int") {
            return Ok(scalar(n.integer("value_int", 0) as f64, false));
        }
        Err(n.wrong("has no tensor as its value"))
    }

    /// Constants of more elements than are looked at, and random numbers.
    fn generated(&mut self, n: Node<'_>) -> Made {
        let like = n.kind().ends_with("Like");
        let dims = match n.kind() {
            _ if like => {
                let of = self.input(n, 0)?.clone();
                self.shape(&of).unwrap_or_default()
            }
            "ConstantOfShape" => match self.integers(n, 0)? {
                Some(dims) => dims.iter().map(|extent| extent.unsigned_abs()).collect(),
                None => vec![],
            },
            "Range" => {
                let figure = |index| self.constant(n, index)?.data.as_ref()?.first().copied();
                let count = match [figure(0), figure(1), figure(2)] {
                    [Some(start), Some(limit), Some(step)] => ((limit - start) / step).ceil(),
                    _ => {
                        let why = "counts to a figure that is computed from data: export it with \
                                   fixed shapes";
                        return Err(n.wrong(why));
                    }
                };
                vec![count.max(1.0) as u64]
            }
            _ => n.ints("shape").unwrap_or_default().iter().map(|e| e.unsigned_abs()).collect(),
        };
        // Weights that are made up when the model is loaded are weights.
        let whole = elements(&dims) > 1 && matches!(n.kind(), "ConstantOfShape");
        let float = n.tensor("value").is_none_or(|value| value.data_type == Some(1));
        let origin = n.of.output.first().filter(|_| whole).cloned();
        Ok(vec![Value::Constant(Constant { dims, data: None, float, origin })])
    }

    /// The branch that is taken.
    fn branch(&mut self, n: Node<'_>) -> Made {
        let condition = self.constant(n, 0).and_then(|c| c.data.as_ref()?.first().copied());
        let name = match condition {
            Some(0.0) => "else_branch",
            Some(_) => "then_branch",
            None => {
                self.note(n, "decides by data: its else-branch is taken");
                "else_branch"
            }
        };
        let graph = n.graph(name).ok_or_else(|| n.wrong(format!("has no `{name}`")))?;
        for tensor in &graph.initializer {
            let constant =
                Constant::read(tensor, Some(&tensor.name)).map_err(|why| n.wrong(why))?;
            self.values.insert(tensor.name.clone(), Value::Constant(constant));
        }
        let outputs: Vec<String> = graph.output.iter().map(|one| one.name.clone()).collect();
        self.walk(&graph.node, &outputs)?;
        let value = |name: &String| {
            let missing = || n.wrong(format!("gives `{name}`, which its branch does not make"));
            self.values.get(name).cloned().ok_or_else(missing)
        };
        outputs.iter().map(value).collect()
    }

    fn cast(&mut self, n: Node<'_>) -> Made {
        let to = n.integer("to", 1);
        let value = self.input(n, 0)?.clone();
        let float = matches!(to, 1 | 10 | 11 | 16);
        let tensor = match value {
            Value::Constant(constant) => {
                return Ok(vec![Value::Constant(Constant { float, ..constant })]);
            }
            Value::List(_) => return Err(n.wrong("casts a sequence: unroll it")),
            Value::Layer(tensor) => tensor,
        };
        // From one type of numbers to another everything is of the network's type.
        if float && self.facts[tensor.id.0].trained {
            return Ok(vec![Value::Layer(tensor)]);
        }
        let dtype = match to {
            _ if float => None,
            9 | 2 | 3 => Some(Dtype::U8),
            6 | 12 => Some(Dtype::I32),
            _ => Some(Dtype::I64),
        };
        let other = Other { like: Like::Elementwise, saves: Saves::Nothing, dtype };
        Ok(vec![Value::Layer(self.like(n, Compute::Other(other), &[&tensor], &tensor)?)])
    }
}
