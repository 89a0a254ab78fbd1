//! Builds a network layer by layer; shapes are inferred and checked as it goes.

use schema::Dtype;

use super::error::{LayerProblem, NetworkError};
use super::layer::{
    Compute, Fixed, Layer, LayerId, Movement, Network, Parameter, Product, Window, elements,
};
use super::options::{Activation, NetworkOptions, Optimizer};

/// The result of adding a layer.
pub type Built = Result<LayerId, NetworkError>;

const LARGEST: u64 = 1 << 44;

/// Builds a network layer by layer. Each method adds a layer and gives its id; names are for
/// people and errors.
pub struct Builder {
    network: Network,
    activation: Activation,
}

impl Builder {
    /// A network without layers. `dtype` and `optimizer` hold where the options choose none.
    pub fn new(
        name: &str,
        options: &NetworkOptions,
        dtype: Dtype,
        optimizer: Optimizer,
    ) -> Result<Self, NetworkError> {
        let wrong = |option, why: &str| {
            let (network, why) = (name.to_string(), why.to_string());
            Err(NetworkError::Option { network, option, why })
        };
        if options.batch == 0 {
            return wrong("batch", "is 0: train on at least 1 sample");
        }
        let passes = options.accumulate;
        if passes == 0 || passes > 1024 || !options.batch.is_multiple_of(passes) {
            let why = "divides the batch into equal passes, at most 1024: choose a divisor";
            return wrong("accumulate", why);
        }
        if options.update_in_backward && passes > 1 {
            let why = "cannot be where a batch goes in several passes, whose gradients are added up \
                       first: leave one of the two";
            return wrong("update-in-backward", why);
        }
        if !(0.0..=1.0).contains(&options.progress) {
            return wrong("progress", "is a share of the training from 0 to 1");
        }
        let optimizer = options.optimizer.unwrap_or(optimizer);
        match (options.ranks, options.shard) {
            (0 | 65_537.., _) => return wrong("ranks", "must lie between 1 and 65536"),
            (1, Some(_)) => return wrong("shard", "is among several ranks: state how many"),
            (2.., _) if optimizer == Optimizer::None => {
                let why = "add up gradients for an optimizer: choose one";
                return wrong("ranks", why);
            }
            _ => {}
        }
        let dtype = options.dtype.unwrap_or(dtype);
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return wrong("dtype", "must be f32, f16 or bf16: networks train in these");
        }
        let network = Network {
            name: name.to_string(),
            batch: options.batch / passes,
            dtype,
            optimizer,
            options: options.clone(),
            layers: Vec::new(),
            parameters: Vec::new(),
            notes: Vec::new(),
            writes_gelu_out: false,
        };
        Ok(Self { network, activation: options.activation.unwrap_or(Activation::Relu) })
    }

    /// The shape of a layer's output, batch first.
    pub fn shape(&self, layer: LayerId) -> &[u64] {
        &self.network.layers[layer.0].shape
    }

    pub(crate) fn channels(&self, layer: LayerId) -> u64 {
        self.shape(layer).get(1).copied().unwrap_or(1)
    }

    /// The id of the layer of a name, the latest where several have it.
    pub fn find(&self, name: &str) -> Option<LayerId> {
        self.network.layers.iter().rposition(|layer| layer.name == name).map(LayerId)
    }

    pub(crate) fn problem(&self, layer: &str, why: LayerProblem) -> NetworkError {
        let (network, layer) = (self.network.name.clone(), layer.to_string());
        NetworkError::Layer { network, layer, why }
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        compute: Compute,
        inputs: &[LayerId],
        shape: Vec<u64>,
        parameters: &[(&str, u64)],
    ) -> Built {
        if shape.contains(&0) {
            return Err(self.problem(name, LayerProblem::Zero { what: "an extent of" }));
        }
        let large = |elements: u64| elements > LARGEST;
        if large(elements(&shape)) {
            return Err(self.problem(name, LayerProblem::TooLarge { what: "an output" }));
        }
        if parameters.iter().any(|(_, elements)| large(*elements)) {
            return Err(self.problem(name, LayerProblem::TooLarge { what: "a parameter" }));
        }
        let first = self.network.parameters.len();
        self.network.parameters.extend(parameters.iter().filter(|(_, n)| *n > 0).map(
            |(part, elements)| Parameter { name: format!("{name}.{part}"), elements: *elements },
        ));
        let parameters = (first..self.network.parameters.len()).collect();
        let (name, inputs) = (name.to_string(), inputs.to_vec());
        self.network.layers.push(Layer { name, compute, inputs, shape, parameters });
        Ok(LayerId(self.network.layers.len() - 1))
    }

    /// What the iteration is given, per sample.
    pub fn input(&mut self, name: &str, per_sample: &[u64]) -> Built {
        let shape = std::iter::once(self.network.batch.into()).chain(per_sample.iter().copied());
        self.add(name, Compute::Input, &[], shape.collect(), &[])
    }

    /// A parameter that is read as an activation is.
    pub(crate) fn parameter(&mut self, name: &str, shape: Vec<u64>) -> Built {
        let elements = elements(&shape);
        self.add(name, Compute::Parameter, &[], shape, &[("weight", elements)])
    }

    /// A convolution with `channels` outputs; of as many dimensions as the window.
    pub fn convolution(
        &mut self,
        name: &str,
        input: LayerId,
        channels: u64,
        window: Window,
        groups: u64,
        bias: bool,
    ) -> Built {
        let from = self.spatial(name, input, &window)?;
        for (count, what) in [(groups, "groups"), (channels, "output channels")] {
            if count == 0 {
                return Err(self.problem(name, LayerProblem::Zero { what }));
            }
        }
        if let Some(channels) = [from[1], channels].into_iter().find(|n| n % groups != 0) {
            return Err(self.problem(name, LayerProblem::Groups { groups, channels }));
        }
        let mut shape = vec![from[0], channels];
        shape.extend(self.slide(name, &from[2..], &window)?);
        let weight = elements(&[channels, from[1] / groups, window.volume()]);
        let bias = if bias { channels } else { 0 };
        let compute = Compute::Convolution { window, groups };
        self.add(name, compute, &[input], shape, &[("weight", weight), ("bias", bias)])
    }

    /// A transposed convolution with `channels` outputs, of which `extra` are appended in each dimension.
    pub(crate) fn deconvolution(
        &mut self,
        name: &str,
        x: LayerId,
        channels: u64,
        (window, extra): (Window, &[u64]),
        groups: u64,
        bias: bool,
    ) -> Built {
        let from = self.spatial(name, x, &window)?;
        if groups == 0 || from[1] % groups != 0 || !channels.is_multiple_of(groups) {
            let channels = channels.min(from[1]);
            return Err(self.problem(name, LayerProblem::Groups { groups, channels }));
        }
        let mut shape = vec![from[0], channels];
        for (index, extent) in from[2..].iter().enumerate() {
            let reach =
                window.kernel[index].saturating_sub(1).saturating_mul(window.dilation[index]);
            let whole = (extent - 1)
                .saturating_mul(window.stride[index])
                .saturating_add(reach)
                .saturating_add(1);
            let cut = window.padding[index].saturating_mul(2);
            shape.push(whole.saturating_add(extra[index]).saturating_sub(cut));
        }
        let weight = elements(&[from[1], channels / groups, window.volume()]);
        let bias = if bias { channels } else { 0 };
        let compute = Compute::Deconvolution { window, groups };
        self.add(name, compute, &[x], shape, &[("weight", weight), ("bias", bias)])
    }

    /// A square convolution without bias or groups: what stands before a normalisation.
    pub fn conv(&mut self, name: &str, x: LayerId, channels: u64, window: [u64; 3]) -> Built {
        let [kernel, stride, padding] = window;
        let window = Window::square(kernel, stride, padding);
        self.convolution(name, x, channels, window, 1, false)
    }

    /// The shape of an input that a window slides over.
    fn spatial(&self, name: &str, x: LayerId, window: &Window) -> Result<Vec<u64>, NetworkError> {
        let shape = self.shape(x);
        if shape.len() != window.kernel.len() + 2 {
            let expected = ["2", "3", "4", "5"].get(window.kernel.len()).unwrap_or(&"fewer");
            return Err(self.rank(name, x, expected));
        }
        Ok(shape.to_vec())
    }

    pub(crate) fn rank(&self, name: &str, x: LayerId, expected: &'static str) -> NetworkError {
        let input = self.network.layers[x.0].name.clone();
        let shape = self.shape(x).to_vec();
        self.problem(name, LayerProblem::Rank { expected, input, shape })
    }

    fn slide(&self, name: &str, from: &[u64], w: &Window) -> Result<Vec<u64>, NetworkError> {
        let mut to = Vec::new();
        for (dimension, &extent) in from.iter().enumerate() {
            let (window, stride) = (w.kernel[dimension], w.stride[dimension]);
            let reach = window.saturating_sub(1).saturating_mul(w.dilation[dimension]);
            let window = reach.saturating_add(u64::from(window > 0));
            let padding = w.padding[dimension];
            for (figure, what) in [(window, "a window of"), (stride, "a stride of")] {
                if figure == 0 {
                    return Err(self.problem(name, LayerProblem::Zero { what }));
                }
            }
            if padding > LARGEST {
                return Err(self.problem(name, LayerProblem::TooLarge { what: "padding" }));
            }
            let Some(room) = (extent + 2 * padding).checked_sub(window) else {
                let problem = LayerProblem::Window { window, extent, padding };
                return Err(self.problem(name, problem));
            };
            // A window that begins in the padding behind the end has nothing to look at.
            let beyond = w.ceil && room.div_ceil(stride) * stride >= extent + padding;
            let rounded_up = w.ceil && !beyond;
            to.push(1 + if rounded_up { room.div_ceil(stride) } else { room / stride });
        }
        Ok(to)
    }

    /// Products of the last dimension with a weight matrix.
    pub fn linear(&mut self, name: &str, x: LayerId, width: u64, bias: bool) -> Built {
        let mut shape = self.shape(x).to_vec();
        if shape.len() < 2 {
            return Err(self.rank(name, x, "2 or more"));
        }
        let inner = shape[shape.len() - 1];
        *shape.last_mut().expect("two dimensions or more") = width;
        let bias = if bias { width } else { 0 };
        let parameters = [("weight", inner.saturating_mul(width)), ("bias", bias)];
        self.add(name, Compute::Linear, &[x], shape, &parameters)
    }

    /// A linear layer with the weights of an embedding.
    pub fn tied_linear(&mut self, name: &str, x: LayerId, table: LayerId, bias: bool) -> Built {
        let table = self.network.layers[table.0].parameters[0];
        let weight = self.network.parameters[table].elements;
        let inner = self.shape(x).last().copied().unwrap_or(1);
        let layer = self.linear(name, x, weight / inner, bias)?;
        self.tie(layer, 0, table);
        Ok(layer)
    }

    /// Gives the layer that was added last another's parameter in the place of one of its own.
    pub(crate) fn tie(&mut self, layer: LayerId, slot: usize, with: usize) {
        let all = &mut self.network.layers[layer.0].parameters;
        let own = std::mem::replace(&mut all[slot], with);
        self.network.parameters.remove(own);
        all.iter_mut().filter(|other| **other > own).for_each(|other| *other -= 1);
    }

    pub(crate) fn elements_of(&self, parameter: usize) -> u64 {
        self.network.parameters[parameter].elements
    }

    /// Products of two activations over `inner`, such as attention scores.
    pub fn product(
        &mut self,
        name: &str,
        operands: [LayerId; 2],
        (inner, product): (u64, Product),
        shape: Vec<u64>,
    ) -> Built {
        self.add(name, Compute::MatrixProduct { inner, product }, &operands, shape, &[])
    }

    /// Batch normalisation, with scale and shift per channel.
    pub fn batch_norm(&mut self, name: &str, x: LayerId) -> Built {
        if self.shape(x).len() < 2 {
            return Err(self.rank(name, x, "2 or more"));
        }
        let channels = self.channels(x);
        let parameters = [("weight", channels), ("bias", channels)];
        self.add(name, Compute::BatchNorm, &[x], self.shape(x).to_vec(), &parameters)
    }

    /// Normalisation of the last dimension: layer norm, or RMS norm, which has no shift.
    pub fn row_norm(&mut self, name: &str, x: LayerId, shift: bool) -> Built {
        let width = self.shape(x).last().copied().unwrap_or(1);
        let parameters = [("weight", width), ("bias", if shift { width } else { 0 })];
        self.add(name, Compute::RowNorm, &[x], self.shape(x).to_vec(), &parameters)
    }

    /// The activation that the options choose, ReLU where they choose none.
    pub fn act(&mut self, name: &str, x: LayerId) -> Built {
        self.activation(name, x, self.activation)
    }

    /// This activation.
    pub fn activation(&mut self, name: &str, x: LayerId, activation: Activation) -> Built {
        self.same(name, x, Compute::Activation(activation))
    }

    /// A layer whose output is shaped as its input.
    pub fn same(&mut self, name: &str, x: LayerId, compute: Compute) -> Built {
        self.add(name, compute, &[x], self.shape(x).to_vec(), &[])
    }

    /// The sum with a parameter that is the same for each sample: a bias, positions.
    pub(crate) fn add_parameter(&mut self, name: &str, x: LayerId, trained: u64) -> Built {
        self.add(
            name,
            Compute::Fixed(Fixed::Sum),
            &[x],
            self.shape(x).to_vec(),
            &[("weight", trained)],
        )
    }

    /// Max pooling.
    pub fn max_pool(&mut self, name: &str, x: LayerId, window: Window) -> Built {
        let shape = self.pooled(name, x, &window)?;
        self.add(name, Compute::MaxPool(window), &[x], shape, &[])
    }

    /// Average pooling.
    pub fn average_pool(&mut self, name: &str, x: LayerId, window: Window) -> Built {
        let shape = self.pooled(name, x, &window)?;
        self.add(name, Compute::AveragePool(window), &[x], shape, &[])
    }

    fn pooled(&self, name: &str, x: LayerId, window: &Window) -> Result<Vec<u64>, NetworkError> {
        let from = self.spatial(name, x, window)?;
        let mut shape = from[..2].to_vec();
        shape.extend(self.slide(name, &from[2..], window)?);
        Ok(shape)
    }

    /// Average pooling to `extent` in each spatial dimension.
    pub fn adaptive_pool(&mut self, name: &str, x: LayerId, extent: u64) -> Built {
        let space = vec![extent; self.shape(x).len().saturating_sub(2)];
        self.resized(name, x, Compute::AdaptivePool, &space)
    }

    /// Dropout of so many elements in a hundred.
    pub fn dropout(&mut self, name: &str, x: LayerId, percent: u8) -> Built {
        let percent = percent.min(100);
        self.same(name, x, Compute::Dropout { percent })
    }

    /// The sum of two layers; the second may be 1 where the first is not.
    pub fn sum(&mut self, name: &str, left: LayerId, right: LayerId) -> Built {
        self.combine(name, Compute::Add, left, right)
    }

    /// The product, element by element, of two layers; the second may be 1 where the first is not.
    pub fn multiply(&mut self, name: &str, left: LayerId, right: LayerId) -> Built {
        self.combine(name, Compute::Multiply, left, right)
    }

    fn combine(&mut self, name: &str, compute: Compute, left: LayerId, right: LayerId) -> Built {
        let (a, b) = (self.shape(left), self.shape(right));
        let fits = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || *b == 1);
        if !fits {
            let (left, right) = (a.to_vec(), b.to_vec());
            return Err(self.problem(name, LayerProblem::Shapes { left, right }));
        }
        self.add(name, compute, &[left, right], a.to_vec(), &[])
    }

    /// The inputs, one after another, along the channels.
    pub fn concat(&mut self, name: &str, inputs: &[LayerId]) -> Built {
        self.concat_along(name, inputs, 1)
    }

    /// The inputs, one after another, along a dimension.
    pub fn concat_along(&mut self, name: &str, inputs: &[LayerId], axis: usize) -> Built {
        let Some(first) = inputs.first() else {
            return Err(self.problem(name, LayerProblem::Zero { what: "a number of inputs of" }));
        };
        let mut shape = self.shape(*first).to_vec();
        if axis >= shape.len() {
            return Err(self.rank(name, *first, "more"));
        }
        for other in &inputs[1..] {
            let other = self.shape(*other);
            let agree = |(i, (a, b)): (usize, (&u64, &u64))| i == axis || a == b;
            if other.len() != shape.len() || !shape.iter().zip(other).enumerate().all(agree) {
                let (left, right) = (shape, other.to_vec());
                return Err(self.problem(name, LayerProblem::Shapes { left, right }));
            }
            shape[axis] = shape[axis].saturating_add(other[axis]);
        }
        self.add(name, Compute::Concat, inputs, shape, &[])
    }

    /// Everything but the batch in one dimension.
    pub fn flatten(&mut self, name: &str, x: LayerId) -> Built {
        let shape = self.shape(x);
        let to = vec![shape[0], elements(&shape[1..])];
        self.view(name, x, to)
    }

    /// The same elements in another shape.
    pub fn view(&mut self, name: &str, x: LayerId, to: Vec<u64>) -> Built {
        let from = self.shape(x);
        if elements(from) != elements(&to) {
            let from = from.to_vec();
            return Err(self.problem(name, LayerProblem::Reshape { from, to }));
        }
        self.add(name, Compute::View, &[x], to, &[])
    }

    /// A copy in another order: the input's dimension `order[i]` becomes the output's `i`.
    pub fn reorder(&mut self, name: &str, x: LayerId, order: &[usize]) -> Built {
        let from = self.shape(x);
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted != (0..from.len()).collect::<Vec<_>>() {
            return Err(self.rank(name, x, "as many as the order names, each once"));
        }
        let to = order.iter().map(|axis| from[*axis]).collect();
        self.movement(name, x, Movement::Reorder(order.to_vec()), to)
    }

    /// Rotary positions of heads of `width`.
    pub fn rotary(&mut self, name: &str, x: LayerId, width: u64) -> Built {
        self.same(name, x, Compute::Fixed(Fixed::Rotary { width }))
    }

    /// A copy of all or some elements to another shape.
    pub fn movement(&mut self, name: &str, x: LayerId, movement: Movement, to: Vec<u64>) -> Built {
        self.add(name, Compute::Movement(movement), &[x], to, &[])
    }

    /// Bilinear up-sampling by a factor.
    pub fn upsample(&mut self, name: &str, x: LayerId, factor: u64) -> Built {
        let space = self.shape(x).iter().skip(2).map(|extent| extent.saturating_mul(factor));
        let space: Vec<u64> = space.collect();
        self.resized(name, x, Compute::Upsample, &space)
    }

    /// A layer that leaves these extents in space: [`Compute::Upsample`],
    /// [`Compute::AdaptivePool`].
    pub fn resized(&mut self, name: &str, x: LayerId, compute: Compute, space: &[u64]) -> Built {
        let shape = self.shape(x);
        if shape.len() < 3 || shape.len() - 2 != space.len() {
            return Err(self.rank(name, x, "3 or more"));
        }
        let shape = [&shape[..2], space].concat();
        self.add(name, compute, &[x], shape, &[])
    }

    /// Look-up of each token in a table of `rows` rows.
    pub fn embedding(&mut self, name: &str, tokens: LayerId, rows: u64, width: u64) -> Built {
        let mut shape = self.shape(tokens).to_vec();
        shape.push(width);
        let table = [("weight", rows.saturating_mul(width))];
        self.add(name, Compute::Embedding, &[tokens], shape, &table)
    }

    /// Attention of `heads` heads of `width` each, in one op.
    pub fn attention(
        &mut self,
        name: &str,
        [q, k, v]: [LayerId; 3],
        heads: u64,
        width: u64,
        causal: bool,
    ) -> Built {
        let shape = self.shape(q).to_vec();
        let keys = self.shape(k).get(1).copied().unwrap_or(1);
        let compute = Compute::Attention { heads, width, keys, causal };
        self.add(name, compute, &[q, k, v], shape, &[])
    }

    pub(crate) fn layer(&self, id: LayerId) -> &Layer {
        &self.network.layers[id.0]
    }

    /// Ends a network that was built for another batch: of each layer the dimension that grows with it
    /// does.
    pub(crate) fn scaled(
        mut self,
        axes: &[Option<usize>],
        from: u64,
    ) -> Result<Network, NetworkError> {
        let to = u64::from(self.network.batch);
        for (index, axis) in axes.iter().enumerate() {
            let layer = &mut self.network.layers[index];
            if let Some(extent) = axis.and_then(|axis| layer.shape.get_mut(axis)) {
                *extent = (extent.saturating_mul(to) / from.max(1)).max(1);
            }
            if elements(&layer.shape) > LARGEST {
                let name = layer.name.clone();
                return Err(self.problem(&name, LayerProblem::TooLarge { what: "an output" }));
            }
        }
        Ok(self.network)
    }

    /// Ends the network with a loss of the logits.
    pub fn finish(mut self, logits: LayerId) -> Result<Network, NetworkError> {
        self.same("loss", logits, Compute::Loss)?;
        Ok(self.network)
    }
}
