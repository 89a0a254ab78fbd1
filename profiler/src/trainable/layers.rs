//! One layer after another.

use networks as described;
use networks::layer::{Compute, Fixed, Layer, Movement, Product};
use runtime::layers::{Activation, SPACE, Window};
use runtime::network::{Initial, Value};

use super::{Converter, NotTrainable};

/// What a network calls the input that counts its tokens.
const POSITIONS: &str = "positions";

impl Converter<'_> {
    /// Adds a layer and gives its output.
    pub(super) fn layer(&mut self, layer: &Layer) -> Result<Value, NotTrainable> {
        let name = &layer.name[..];
        if layer.compute == Compute::Input {
            return self.given(layer);
        }
        let x = &self.input(layer, 0)?;
        let to = self.extents(layer, &layer.shape)?;
        let last = to.last().copied().unwrap_or(1);
        let added = layer.parameters.len() == 2;
        let built = match &layer.compute {
            Compute::Input | Compute::View => Ok(x.clone()),
            Compute::Convolution { window, groups } => {
                let window = (self.window(layer, window)?, *groups as usize);
                self.builder.convolution(name, x, to[1], window, added)
            }
            Compute::Linear => {
                let table = layer.parameters.first().and_then(|first| self.tables.get(first));
                match table {
                    Some(table) => self.builder.tied_linear(name, x, *table, added),
                    None => self.builder.linear(name, x, last, added),
                }
            }
            Compute::MatrixProduct { product, .. } => {
                let other = &self.input(layer, 1)?;
                match *product {
                    Product::Plain => self.builder.product(name, x, other),
                    Product::Scores { heads, causal } => {
                        self.builder.scores(name, [x, other], heads as usize, causal)
                    }
                    Product::Mix { width } => self.builder.mix(name, [x, other], width as usize),
                }
            }
            Compute::BatchNorm => self.builder.batch_norm(name, x),
            Compute::RowNorm => Ok(self.builder.row_norm(name, x, added)),
            Compute::Activation(function) => {
                Ok(self.builder.activation(name, x, activation(*function)))
            }
            Compute::MaxPool(window) => {
                let window = self.window(layer, window)?;
                self.builder.max_pool(name, x, window)
            }
            Compute::AveragePool(window) => {
                let window = self.window(layer, window)?;
                self.builder.average_pool(name, x, window)
            }
            Compute::AdaptivePool => self.builder.adaptive_pool(name, x, &to[2..]),
            Compute::Upsample => self.builder.upsample(name, x, &to[2..]),
            Compute::Dropout { percent } => Ok(self.builder.dropout(name, x, *percent)),
            Compute::Add => self.builder.add(name, x, &self.input(layer, 1)?),
            Compute::Multiply => self.builder.multiply(name, x, &self.input(layer, 1)?),
            Compute::Concat => {
                let inputs: Result<Vec<Value>, _> =
                    (0..layer.inputs.len()).map(|index| self.input(layer, index)).collect();
                let inputs = inputs?;
                let inputs: Vec<&Value> = inputs.iter().collect();
                let differs = x.shape.iter().zip(&to).position(|(from, to)| from != to);
                self.builder.concat(name, &inputs, differs.unwrap_or(0))
            }
            Compute::Softmax => Ok(self.builder.softmax(name, x)),
            Compute::Attention { heads, causal, .. } => {
                let (k, v) = (&self.input(layer, 1)?, &self.input(layer, 2)?);
                self.builder.attention(name, [x, k, v], *heads as usize, *causal)
            }
            Compute::Embedding => return Ok(self.embedding(layer, x, last)),
            Compute::Movement(Movement::Reorder(order)) => self.builder.reorder(name, x, order),
            Compute::Movement(Movement::Copy) => Ok(x.clone()),
            Compute::Movement(Movement::First) => self.builder.first(name, x),
            Compute::Movement(Movement::Subsample) => self.builder.subsample(name, x, &to),
            Compute::Fixed(Fixed::Rotary { width }) => {
                self.builder.rotary(name, x, *width as usize)
            }
            Compute::Fixed(Fixed::Scale | Fixed::Sum) => {
                let why = "the import keeps the size of constants, not their values: \
                           write the network as TOML";
                return Err(self.unknown(layer, why));
            }
            Compute::Loss => return Err(self.unknown(layer, "a loss must be the last layer")),
        };
        built.map_err(|source| self.misfit(layer, source))
    }

    fn embedding(&mut self, layer: &Layer, tokens: &Value, width: usize) -> Value {
        let table = layer.parameters.first().copied();
        let rows = table.map_or(1, |table| self.rows(table, width));
        let (value, tensor) = self.builder.embedding(&layer.name, tokens, rows, width);
        self.tables.extend(table.map(|table| (table, tensor)));
        value
    }

    fn rows(&self, table: usize, width: usize) -> usize {
        self.network.parameters()[table].elements as usize / width.max(1)
    }

    /// What the iteration is given: tokens where a table is looked up with them, else numbers.
    fn given(&mut self, layer: &Layer) -> Result<Value, NotTrainable> {
        let shape = self.extents(layer, &layer.shape)?;
        let id = self.values.len();
        let reader = self.network.graph().iter().find(|other| {
            let reads = other.inputs.iter().any(|input| input.index() == id);
            reads && other.compute == Compute::Embedding
        });
        let table = reader.and_then(|reader| {
            let width = reader.shape.last().copied()? as usize;
            Some(self.rows(*reader.parameters.first()?, width))
        });
        let initial = match table {
            Some(_) if layer.name == POSITIONS => Initial::Positions(shape[1..].iter().product()),
            Some(rows) => Initial::Classes(rows),
            None => Initial::normalised(),
        };
        Ok(self.builder.input(&layer.name, &shape, initial))
    }

    /// A window of up to three dimensions.
    fn window(&self, layer: &Layer, window: &described::Window) -> Result<Window, NotTrainable> {
        let Some(front) = SPACE.checked_sub(window.kernel.len()) else {
            return Err(self.unknown(layer, "its window has more than three dimensions"));
        };
        let figures = |figures: &[u64], idle: usize| {
            let mut all = [idle; SPACE];
            all[front..].iter_mut().zip(figures).for_each(|(to, from)| *to = *from as usize);
            all
        };
        Ok(Window {
            kernel: figures(&window.kernel, 1),
            stride: figures(&window.stride, 1),
            padding: figures(&window.padding, 0),
            ceil: window.ceil,
        })
    }
}

fn activation(function: described::Activation) -> Activation {
    match function {
        described::Activation::Relu => Activation::Relu,
        described::Activation::LeakyRelu => Activation::LeakyRelu,
        described::Activation::Elu => Activation::Elu,
        described::Activation::Relu6 => Activation::Relu6,
        described::Activation::Gelu => Activation::Gelu,
        described::Activation::Silu => Activation::Silu,
        described::Activation::Sigmoid => Activation::Sigmoid,
        described::Activation::Tanh => Activation::Tanh,
    }
}
