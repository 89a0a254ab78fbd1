//! What slides a window, or changes extents in space.

use super::Import;
use super::node::{Node, Sliding};
use super::operators::{COPY, Made, One, other};
use super::value::{Tensor, Value};
use crate::layer::{Compute, Like, Saves, Window};

/// What exporters write where they have put a batch norm's figures into a convolution.
const FOLDED: &str = "has a batch norm folded into its weights, as for inference; training keeps one: \
                      --training-batch-norm puts it back, or export the model in training mode";

impl Import<'_> {
    /// An input with more zeros at one end, as frameworks copy it before a window slides over it.
    fn padded(&mut self, n: Node<'_>, x: Tensor, pads: &[[u64; 2]]) -> One {
        let x = self.ordered(n, x)?;
        let mut to = x.shape.clone();
        let first = to.len() - pads.len();
        for (extent, [before, behind]) in to[first..].iter_mut().zip(pads) {
            *extent = extent.saturating_add(*before).saturating_add(*behind);
        }
        self.emit(n, COPY, &[&x], to, x.axis)
    }

    fn slid(
        &mut self,
        n: Node<'_>,
        kernel: Option<&[u64]>,
    ) -> Result<(Tensor, Window), crate::error::NetworkError> {
        let x = self.tensor(n, 0)?;
        let x = self.ordered(n, x)?;
        let Sliding { window, uneven } = n.sliding(&x.shape, kernel)?;
        let x = match uneven {
            Some(pads) => self.padded(n, x, &pads)?,
            None => x,
        };
        Ok((x, window))
    }

    pub(super) fn convolution(&mut self, n: Node<'_>) -> One {
        let weights = self.weights(n, 1)?;
        let [channels, per_group, kernel @ ..] = weights.dims.as_slice() else {
            return Err(n.wrong("has weights of fewer than 2 dimensions"));
        };
        let bias = if n.has_input(2) { Some(self.weights(n, 2)?) } else { None };
        let (x, window) = self.slid(n, Some(kernel))?;
        let groups = u64::try_from(n.integer("group", 1));
        let groups = groups.map_err(|_| n.wrong("has a negative number of groups"))?;
        let channels_in = per_group.saturating_mul(groups);
        if x.shape[1] != channels_in {
            let why = format!("has weights for {channels_in} channels, but reads {}", x.shape[1]);
            return Err(n.wrong(why));
        }
        let folded = bias.is_some() && has_folded_norm(n);
        let again = folded && self.options.training_batch_norm;
        if folded && !again {
            self.note(n, FOLDED);
        }
        let has_bias = bias.is_some() && !again;
        let id = self.b.convolution(n.name(), x.id, *channels, window, groups, has_bias)?;
        let bias = bias.and_then(|bias| bias.origin);
        let bias = bias.as_deref().filter(|_| has_bias);
        self.own(id, &[weights.origin.as_deref(), bias]);
        let made = self.built(id, x.axis);
        if again {
            self.note(n, "has had a batch norm folded into its weights, which is put back");
            let id = self.b.batch_norm(&format!("{}.norm", n.name()), made.id)?;
            return Ok(self.built(id, made.axis));
        }
        Ok(made)
    }

    pub(super) fn batch_norm(&mut self, n: Node<'_>, x: Tensor) -> One {
        let scale = self.weights(n, 1)?.origin;
        let shift = self.weights(n, 2)?.origin;
        let id = self.b.batch_norm(n.name(), x.id)?;
        self.own(id, &[scale.as_deref(), shift.as_deref()]);
        Ok(self.built(id, x.axis))
    }

    pub(super) fn deconvolution(&mut self, n: Node<'_>) -> One {
        let weights = self.weights(n, 1)?;
        let [_, per_group, kernel @ ..] = weights.dims.as_slice() else {
            return Err(n.wrong("has weights of fewer than 2 dimensions"));
        };
        let x = self.tensor(n, 0)?;
        let x = self.ordered(n, x)?;
        let Sliding { mut window, uneven } = n.sliding(&x.shape, Some(kernel))?;
        let groups = n.integer("group", 1).unsigned_abs().max(1);
        let count = kernel.len();
        let mut extra: Vec<u64> = match n.ints("output_padding") {
            Some(extra) if extra.len() == count => extra.iter().map(|e| e.unsigned_abs()).collect(),
            _ => vec![0; count],
        };
        if let Some(pads) = uneven {
            // What is cut off one end only is less to be appended at the other.
            for (index, [before, behind]) in pads.into_iter().enumerate() {
                let most = before.max(behind);
                window.padding[index] = most;
                extra[index] = extra[index].saturating_add(most - before.min(behind));
            }
        }
        let channels = per_group.saturating_mul(groups);
        let bias = n.has_input(2);
        let id = self.b.deconvolution(n.name(), x.id, channels, (window, &extra), groups, bias)?;
        self.own(id, &[weights.origin.as_deref()]);
        Ok(self.built(id, x.axis))
    }

    pub(super) fn pool(&mut self, n: Node<'_>) -> Made {
        let (x, window) = self.slid(n, None)?;
        let id = match n.kind() {
            "MaxPool" => self.b.max_pool(n.name(), x.id, window)?,
            _ => self.b.average_pool(n.name(), x.id, window)?,
        };
        let made = self.built(id, x.axis);
        let mut all = vec![Value::Layer(made.clone())];
        if n.of.output.len() > 1 {
            // The positions of the maxima, which somebody reads.
            let positions = crate::layer::Other {
                like: Like::Reduction,
                saves: Saves::Nothing,
                dtype: Some(schema::Dtype::I64),
            };
            let compute = Compute::Other(positions);
            all.push(Value::Layer(self.emit(n, compute, &[&x], made.shape, x.axis)?));
        }
        Ok(all)
    }

    /// Pooling over all positions.
    pub(super) fn global(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let x = self.ordered(n, x)?;
        let space = vec![1; x.rank().saturating_sub(2)];
        let compute = match n.kind() {
            "GlobalAveragePool" => Compute::AdaptivePool,
            _ => other(Like::Reduction, Saves::Inputs),
        };
        let id = self.b.resized(n.name(), x.id, compute, &space)?;
        Ok(self.built(id, x.axis))
    }

    pub(super) fn resize(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let x = self.ordered(n, x)?;
        let (scales, sizes) = if n.kind() == "Upsample" || n.opset < 11 { (1, 9) } else { (2, 3) };
        let axes = n.axes(None, x.rank()).flatten().unwrap_or_else(|| (0..x.rank()).collect());
        let figures = |index| {
            let data = self.constant(n, index).and_then(|constant| constant.data.clone());
            data.filter(|data| !data.is_empty())
        };
        let sizes = figures(sizes);
        let scales = figures(scales).or_else(|| n.floats("scales"));
        let mut to = x.shape.clone();
        let figures = sizes.as_ref().or(scales.as_ref()).filter(|all| all.len() == axes.len());
        let figures = figures.ok_or_else(|| {
            n.wrong(
                "takes scales or sizes that are computed from data: export it with fixed shapes",
            )
        })?;
        for (axis, figure) in axes.iter().zip(figures) {
            let extent = if sizes.is_some() { *figure } else { x.shape[*axis] as f64 * figure };
            to[*axis] = extent.floor().max(0.0) as u64;
        }
        let linear = n.text("mode") == "linear" && x.rank() > 2 && to[..2] == x.shape[..2];
        let compute = if linear { Compute::Upsample } else { COPY };
        self.emit(n, compute, &[&x], to, x.axis)
    }

    pub(super) fn pad(&mut self, n: Node<'_>) -> One {
        let x = self.tensor(n, 0)?;
        let pads = match self.integers(n, 1)? {
            Some(pads) => Some(pads),
            None => n.ints("pads").or_else(|| n.ints("paddings")),
        };
        let axes = n.axes(self.integers(n, 3)?, x.rank()).flatten();
        let axes = axes.unwrap_or_else(|| (0..x.rank()).collect());
        let pads = pads.filter(|pads| pads.len() == 2 * axes.len());
        let pads = pads.ok_or_else(|| n.wrong("has not two pads for each dimension"))?;
        let mut to = x.shape.clone();
        for (index, axis) in axes.iter().enumerate() {
            let more = pads[index].saturating_add(pads[axes.len() + index]);
            to[*axis] = to[*axis].saturating_add_signed(more);
        }
        if to == x.shape {
            return Ok(x);
        }
        let axis = x.axis;
        self.emit(n, COPY, &[&x], to, axis)
    }
}

/// Whether an exporter has put a batch norm's figures into a convolution's: it says so, or has given the
/// weights a number in the place of their name.
fn has_folded_norm(n: Node<'_>) -> bool {
    let says = |text: &str| text.contains("FuseBatchNorm") || text.contains("batch_norm");
    let numbered = |name: &String| name.starts_with("onnx::Conv_");
    n.of.metadata.iter().any(|entry| says(&entry.value)) || n.of.input.iter().skip(1).any(numbered)
}
