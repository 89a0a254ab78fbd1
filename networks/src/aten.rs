//! What an op of PyTorch's costs, told from its name and the sizes of its operands.

use schema::OpKind;

use super::class::{Class, Pass};
use super::layer::elements;
use super::work::{ProductExtents, Units, Work};

/// A tensor that an op reads or makes. What is no tensor has no bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Its extents.
    pub shape: Vec<u64>,
    /// Bytes of an element; 0: it is no tensor.
    pub width: u64,
    /// What is no tensor but true.
    pub truth: bool,
}

impl Operand {
    /// A tensor.
    pub fn tensor(shape: &[u64], width: u64) -> Self {
        Self { shape: shape.to_vec(), width, truth: false }
    }

    /// All of a list of tensors, by the number of their elements.
    pub fn list(shapes: impl Iterator<Item = Vec<u64>>, width: u64) -> Self {
        let count = shapes.map(|shape| elements(&shape)).fold(0, u64::saturating_add);
        Self { shape: vec![count], width, truth: false }
    }

    fn count(&self) -> u64 {
        if self.width == 0 { 0 } else { elements(&self.shape) }
    }

    fn bytes(&self) -> u64 {
        self.count().saturating_mul(self.width)
    }

    /// Extents from one on, and whether there are any.
    fn extent(&self, index: usize) -> u64 {
        self.shape.get(index).copied().unwrap_or(1)
    }
}

/// An op as the dispatcher ran it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its name, such as `aten::mm`.
    pub name: String,
    /// Its arguments, in their order; a list of tensors is one that has all of their elements.
    pub inputs: Vec<Operand>,
    /// What it makes, in its order.
    pub outputs: Vec<Operand>,
    /// Whether matrix units may take 32-bit floats.
    pub tf32: bool,
}

/// Products of these sizes, of a class.
fn product(
    kind: OpKind,
    class: Class,
    [count, rows, columns, depth]: [u64; 4],
    call: &Call,
) -> Work {
    let width = call.width();
    let all = |factors: &[u64]| factors.iter().fold(1, |a: u64, b| a.saturating_mul(*b));
    let moved = all(&[rows, depth])
        .saturating_add(all(&[depth, columns]))
        .saturating_add(all(&[rows, columns]));
    let work =
        Work::new(kind, class, all(&[2, count, rows, columns, depth]), all(&[count, moved, width]));
    work.of_product(ProductExtents { count, rows, columns, depth }, call.units())
}

impl Call {
    fn input(&self, index: usize) -> &Operand {
        const NONE: &Operand = &Operand { shape: Vec::new(), width: 0, truth: false };
        self.inputs.get(index).unwrap_or(NONE)
    }

    /// Bytes of an element of the first tensor of numbers.
    fn width(&self) -> u64 {
        self.inputs.iter().map(|input| input.width).find(|width| *width > 0).unwrap_or(4)
    }

    fn units(&self) -> Units {
        match (self.width(), self.tf32) {
            (2, _) => Units::Half,
            (_, true) => Units::Tf32,
            _ => Units::Vectors,
        }
    }

    fn bytes(&self) -> u64 {
        let all = self.inputs.iter().chain(&self.outputs).map(Operand::bytes);
        all.fold(0, u64::saturating_add)
    }

    fn backward(&self) -> bool {
        self.name.contains("backward")
    }

    /// What it costs; nothing where the name is not known, so that ops that it calls may tell.
    pub fn works(&self) -> Option<Vec<Work>> {
        let name = self.name.strip_prefix("aten::")?;
        let name = if name.ends_with("__") { name } else { name.trim_end_matches('_') };
        let pass = if self.backward() { Pass::Input } else { Pass::Forward };
        let memory = |kind, class, bytes| Some(vec![Work::new(kind, class, 0, bytes)]);
        // Of so many bytes for each element of what it is about.
        let count = self.input(0).count();
        let each = |kind, class, bytes: u64| memory(kind, class, count.saturating_mul(bytes));
        let channels = |widths| {
            let class = Class::batch_norm(self.width(), pass);
            each(OpKind::Normalisation, class, widths * self.width())
        };
        let width = self.width();
        match name {
            _ if VIEWS.split(' ').any(|view| view == name) => Some(vec![]),
            "conv1d"
            | "conv2d"
            | "conv3d"
            | "convolution"
            | "_convolution"
            | "thnn_conv2d"
            | "cudnn_convolution"
            | "cudnn_convolution_relu"
            | "miopen_convolution"
            | "_conv_depthwise2d" => {
                let output = self.outputs.first()?;
                let [input, weight] = [self.input(0), self.input(1)];
                self.convolution([input, weight, output], Pass::Forward).map(|work| vec![work])
            }
            "convolution_backward" | "cudnn_convolution_backward" | "_slow_conv2d_backward" => {
                let cudnn = name.starts_with("cudnn");
                let [input, output] = if cudnn { [0, 1] } else { [1, 0] };
                let of = [self.input(input), self.input(2), self.input(output)];
                let mut works = vec![self.convolution(of, Pass::Parameters)?];
                // The first layer's input needs no gradient.
                if self.outputs.first().is_none_or(|output| output.width > 0) && of[0].extent(1) > 3
                {
                    works.push(self.convolution(of, Pass::Input)?);
                }
                Some(works)
            }
            "mm" | "addmm" | "_addmm_activation" | "bmm" | "baddbmm" | "linear" => {
                self.matrices(name)
            }
            "cudnn_batch_norm"
            | "native_batch_norm"
            | "miopen_batch_norm"
            | "_batch_norm_with_update"
            | "batch_norm" => channels(3),
            "cudnn_batch_norm_backward"
            | "native_batch_norm_backward"
            | "batch_norm_backward"
            | "miopen_batch_norm_backward" => channels(5),
            "native_layer_norm" | "layer_norm" | "native_group_norm" | "_fused_rms_norm" => {
                each(OpKind::Normalisation, Class::RowNorm(pass), 2 * width)
            }
            "native_layer_norm_backward"
            | "native_group_norm_backward"
            | "_fused_rms_norm_backward" => {
                each(OpKind::Normalisation, Class::RowNorm(pass), 5 * width)
            }
            "_softmax" | "softmax" => each(OpKind::Softmax, Class::Softmax(pass), 2 * width),
            // Its rows are as long as a vocabulary and are read twice.
            "_log_softmax" | "log_softmax" => {
                each(OpKind::Softmax, Class::Softmax(pass), 3 * width)
            }
            // Gradient times output comes first, as a kernel of its own.
            "_softmax_backward_data" => each(OpKind::Softmax, Class::Softmax(pass), 6 * width),
            "_log_softmax_backward_data" => each(OpKind::Softmax, Class::Softmax(pass), 5 * width),
            "native_dropout" | "native_dropout_backward" | "_fused_dropout" => {
                each(OpKind::Dropout, Class::Dropout(pass), 2 * width + 1)
            }
            "embedding" => {
                let made = self.input(1).count().saturating_mul(self.input(0).extent(1));
                let bytes = made.saturating_mul(2 * width);
                memory(OpKind::Embedding, Class::Embedding(pass), bytes)
            }
            "embedding_dense_backward" => {
                let table = self.outputs.first().map_or(0, Operand::bytes);
                let bytes = count.saturating_mul(2 * width).saturating_add(table);
                memory(OpKind::Embedding, Class::Embedding(Pass::Parameters), bytes)
            }
            "max_pool2d_with_indices" | "max_pool2d" => {
                memory(OpKind::Pooling, Class::MaxPool(pass), self.bytes())
            }
            "max_pool2d_with_indices_backward" => {
                memory(OpKind::Pooling, Class::MaxPoolIndices, self.bytes())
            }
            "avg_pool2d" | "avg_pool2d_backward" => {
                memory(OpKind::Pooling, Class::AveragePool(pass), self.bytes())
            }
            "_adaptive_avg_pool2d" | "_adaptive_avg_pool2d_backward" => {
                memory(OpKind::Pooling, Class::AdaptivePool(pass), self.bytes())
            }
            "upsample_bilinear2d" | "upsample_bilinear2d_backward" => {
                memory(OpKind::Movement, Class::Upsample(pass), self.bytes())
            }
            "copy" | "cat" | "_cat" | "index" | "index_select" | "gather" => {
                memory(OpKind::Movement, Class::Movement, self.bytes())
            }
            "fill" | "zero" => memory(OpKind::Movement, Class::Movement, self.input(0).bytes()),
            _ if name.contains("_foreach_")
                || name.contains("_fused_adam")
                || name.contains("_fused_sgd") =>
            {
                let bytes = self.bytes().saturating_add(self.input(0).bytes());
                memory(OpKind::Optimizer, Class::Optimizer, bytes)
            }
            _ if name.contains("_attention") && name.starts_with('_') => self.attention(pass),
            _ => None,
        }
    }

    /// What an op costs that calls no other and whose name is not known: it reads its operands and
    /// writes its results.
    pub fn elementwise(&self) -> Vec<Work> {
        let pass = if self.backward() { Pass::Input } else { Pass::Forward };
        let in_place = self.name.ends_with('_') && self.outputs.iter().all(|o| o.bytes() == 0);
        let again = if in_place { self.input(0).bytes() } else { 0 };
        let bytes = self.bytes().saturating_add(again);
        match bytes {
            0 => vec![],
            bytes => vec![Work::new(OpKind::Elementwise, Class::Elementwise(pass), 0, bytes)],
        }
    }

    fn convolution(&self, [input, weight, output]: [&Operand; 3], pass: Pass) -> Option<Work> {
        if [input, weight, output].iter().any(|of| of.shape.len() < 3) {
            return None;
        }
        let per_group = weight.extent(1).max(1);
        let groups = (input.extent(1) / per_group).max(1);
        let window = elements(&weight.shape[2..]);
        let square = weight.shape[2..] == [3, 3] && input.shape[2..] == output.shape[2..];
        let class = Class::of_convolution(groups, per_group, window, square, pass);
        let columns = weight.extent(0) / groups;
        let positions = |of: &Operand| of.extent(0).saturating_mul(elements(&of.shape[2..]));
        let extents = match pass {
            Pass::Forward => [groups, positions(output), columns, per_group.saturating_mul(window)],
            Pass::Parameters => {
                [groups, per_group.saturating_mul(window), columns, positions(output)]
            }
            Pass::Input => [groups, positions(input), per_group, columns.saturating_mul(window)],
        };
        let bytes = input.bytes().saturating_add(weight.bytes()).saturating_add(output.bytes());
        // A gradient of the input has as many terms as the output has elements, whatever the step.
        let flops =
            [2, output.count(), per_group, window].iter().fold(1, |a: u64, b| a.saturating_mul(*b));
        let work = product(OpKind::Convolution, class, extents, self);
        Some(Work { flops, bytes, ..work }.in_tiles(&output.shape[2..]))
    }

    fn matrices(&self, name: &str) -> Option<Vec<Work>> {
        let first = usize::from(name.contains("add"));
        let [left, right] = [self.input(first), self.input(first + 1)];
        let depth = *left.shape.last()?;
        let columns = if name == "linear" { right.extent(0) } else { *right.shape.last()? };
        let count = if name.ends_with("bmm") { left.extent(0).max(1) } else { 1 };
        let rows = left.count() / depth.saturating_mul(count).max(1);
        let extents = [count, rows, columns, depth];
        Some(vec![product(OpKind::MatrixProduct, Class::Matrix, extents, self)])
    }

    fn attention(&self, pass: Pass) -> Option<Vec<Work>> {
        let first = usize::from(self.backward());
        let [queries, keys] = [self.input(first), self.input(first + 1)];
        let shape = <[u64; 4]>::try_from(queries.shape.as_slice()).ok()?;
        // The front end's come heads first, the kernels' after the positions.
        let heads_first = self.name.contains("scaled_dot_product") || self.name.contains("cudnn");
        let [samples, heads, length, width] = match (heads_first, shape) {
            (true, shape) => shape,
            (false, [samples, length, heads, width]) => [samples, heads, length, width],
        };
        let others = keys.extent(if heads_first { 2 } else { 1 });
        // After the probability of dropout; what comes before it is another mask, or a sum.
        let causal = match (self.name.contains("flash"), self.backward()) {
            (true, false) => 4,
            (false, false) => 6,
            (true, true) => 11,
            (false, true) => 13,
        };
        let half = if self.input(causal).truth { 2 } else { 1 };
        let products = if self.backward() { 5 } else { 2 };
        let factors = [2 * products, samples, heads, length, others, width];
        let flops = factors.iter().fold(1, |a: u64, b| a.saturating_mul(*b)) / half;
        let work = Work::new(OpKind::Attention, Class::Attention(pass), flops, self.bytes());
        // Of 32 bits it is done without matrix units.
        let units = if self.width() == 2 { Units::Half } else { Units::Vectors };
        Some(vec![Work { units, ..work }])
    }
}

/// Ops that move nothing, by their names without what says that they are in place.
const VIEWS: &str = "view as_strided expand t transpose permute detach empty empty_strided empty_like \
     new_empty alias select slice unsqueeze squeeze _unsafe_view resize set unbind split \
     chunk narrow expand_as view_as _reshape_alias result_type item _local_scalar_dense \
     is_nonzero scalar_tensor lift_fresh unfold _has_compatible_shallow_copy_type \
     new_empty_strided size dim";
