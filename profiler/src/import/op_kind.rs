//! What an op computes, told from its name: one table for all recordings.

use schema::OpKind;

/// What a part of a name says, wherever in the name it stands. The first that is found decides.
const PARTS: &[(OpKind, &[&str])] = &[
    (OpKind::Attention, &["attention"]),
    (OpKind::Convolution, &["conv"]),
    (OpKind::Softmax, &["softmax"]),
    (OpKind::Loss, &["loss", "cross_entropy", "kl_div"]),
    (
        OpKind::Normalisation,
        &["batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"],
    ),
    (OpKind::Pooling, &["pool"]),
    // `droupout` is how PyTorch once spelled it.
    (OpKind::Dropout, &["dropout", "droupout", "masked_scale"]),
    (OpKind::Embedding, &["embedding"]),
    (OpKind::Movement, &["_pad", "pad_", "pixel_shuffle"]),
];

/// What a whole name says, once it is stripped of what [`stem`] leaves out.
const STEMS: &[(OpKind, &str)] = &[
    (OpKind::MatrixProduct, "mm bmm addmm baddbmm addbmm mv addmv matmul linear dot einsum"),
    (
        OpKind::Activation,
        "relu relu6 leaky_relu prelu rrelu gelu elu selu celu silu swish mish glu sigmoid \
         log_sigmoid hardsigmoid tanh hardtanh hardswish threshold softplus softshrink \
         hardshrink",
    ),
    (
        OpKind::Movement,
        "cat stack pad clone copy contiguous to gather scatter index_select index index_put \
         repeat roll flip",
    ),
    (
        OpKind::View,
        "view t as_strided split split_with_sizes chunk slice narrow select unbind expand \
         transpose permute flatten reshape unsafe_view squeeze unsqueeze unfold detach alias \
         diagonal",
    ),
    (
        OpKind::Elementwise,
        "add sub rsub mul div neg sum mean exp log sqrt rsqrt pow abs sign clamp where \
         masked_fill addcmul addcdiv reciprocal maximum minimum square sin cos erf lerp",
    ),
];

/// Views whose backward is none: it writes the gradient of a part into one of the whole.
const PARTIAL_VIEWS: &str =
    "as_strided split split_with_sizes chunk slice narrow select unbind unfold diagonal";

/// Whether a name is one of those that a text lists.
fn lists(names: &str, name: &str) -> bool {
    names.split(' ').any(|listed| listed == name)
}

/// The kind of the op with this name, as PyTorch names ops; a backward op has that of its forward
/// op.
pub(super) fn op_kind(name: &str) -> OpKind {
    let name = name.rsplit("::").next().unwrap_or(name).to_ascii_lowercase();
    let part = |(_, parts): &&(OpKind, &[&str])| parts.iter().any(|part| name.contains(part));
    if let Some((kind, _)) = PARTS.iter().find(part) {
        return *kind;
    }
    let (stem, backward) = stem(&name);
    if backward && lists(PARTIAL_VIEWS, stem) {
        return OpKind::Movement;
    }
    // Overloads have their argument types at the end: `sum_dim_intlist`.
    let first = stem.split('_').next().unwrap_or(stem);
    for candidate in [stem, first] {
        if let Some((kind, _)) = STEMS.iter().find(|(_, stems)| lists(stems, candidate)) {
            return *kind;
        }
    }
    OpKind::Other
}

/// The name without marks of privacy, of in-place writing, of the library and of the phase; and
/// whether it was a backward's.
fn stem(name: &str) -> (&str, bool) {
    let mut stem = name.trim_matches('_');
    for library in ["cudnn_", "native_", "miopen_", "mkldnn_", "thnn_", "fused_"] {
        stem = stem.strip_prefix(library).unwrap_or(stem);
    }
    stem = stem.strip_suffix("_forward").unwrap_or(stem);
    let suffixes = ["_backward_data", "_backward", "_ip_grad", "_param_grad"];
    match suffixes.iter().find_map(|suffix| stem.strip_suffix(suffix)) {
        Some(forward) => (forward.trim_matches('_'), true),
        None => (stem, false),
    }
}

#[cfg(test)]
mod tests {
    use super::op_kind;

    #[test]
    fn kinds_are_told_from_names() {
        let names = "cudnn_convolution cudnn_convolution_backward aten::_convolution_ip_grad \
                     conv_transpose2d mm addmm baddbmm linear aten::addmm_param_grad \
                     native_layer_norm_backward aten::batch_norm norm relu_ \
                     aten::relu__ip_grad threshold_backward tanh_backward \
                     _thnn_fused_lstm_cell max_pool2d_with_indices _fused_droupout_ \
                     _masked_scale _log_softmax_backward_data embedding \
                     embedding_dense_backward add aten::add__ip_grad sum_dim_IntList _cat \
                     constant_pad_nd clone slice_backward split_backward view t as_strided \
                     slice split expand flatten_ip_grad nll_loss2d_forward \
                     binary_cross_entropy_with_logits loss::loss \
                     scaled_dot_product_attention upsample_bilinear2d ones_like";
        let names = names.split(' ').chain(["", "_", "::"]);
        let table: Vec<String> =
            names.map(|name| format!("{name:<34}{:?}", op_kind(name))).collect();
        insta::assert_snapshot!(table.join("\n"));
    }
}
