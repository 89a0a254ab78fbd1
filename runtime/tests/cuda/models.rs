//! Networks that have every layer that CUDA has.

use networks::layer::{Compute, Movement, Product};
use networks::{Activation, Builder, Built, NetworkOptions, Optimizer, Window};
use runtime::network::Network;
use schema::Dtype;

/// A network of what `layers` add, the last of which are the logits.
pub fn built(
    name: &str,
    batch: u32,
    optimizer: Optimizer,
    layers: impl FnOnce(&mut Builder) -> Built,
) -> Network {
    let options = NetworkOptions { batch, ..NetworkOptions::default() };
    let mut net = Builder::new(name, &options, Dtype::F32, optimizer).unwrap();
    let logits = layers(&mut net).unwrap();
    Network::new(&net.finish(logits).unwrap(), None).unwrap()
}

/// The same elements as images of one channel, of which each has a loss of its own.
pub fn each(net: &mut Builder, x: networks::LayerId) -> Built {
    let shape = net.shape(x);
    let (batch, elements) = (shape[0], shape.iter().product::<u64>());
    net.view("each", x, vec![batch, 1, elements / batch, 1])
}

/// A residual network as it is trained. No plane is a single element: normalising two values
/// cancels nearly all of their gradients, of which roundings would then be a large part.
pub fn resnet() -> Network {
    built("resnet", 2, Optimizer::Momentum, |net| {
        let x = net.input("input", &[3, 64, 64])?;
        let x = net.conv("conv1", x, 2, [7, 2, 3])?;
        let x = net.batch_norm("bn1", x)?;
        let x = net.activation("relu", x, Activation::Relu)?;
        let mut x = net.max_pool("maxpool", x, Window::square(3, 2, 1))?;
        for stage in 0..4 {
            let part = |part: &str| format!("layer{stage}.{part}");
            let (channels, stride) = (2 << stage, if stage > 0 { 2 } else { 1 });
            let y = net.conv(&part("conv1"), x, channels, [3, stride, 1])?;
            let y = net.batch_norm(&part("bn1"), y)?;
            let y = net.activation(&part("relu1"), y, Activation::Relu)?;
            let y = net.conv(&part("conv2"), y, channels, [3, 1, 1])?;
            let y = net.batch_norm(&part("bn2"), y)?;
            if stage > 0 {
                x = net.conv(&part("downsample.0"), x, channels, [1, stride, 0])?;
                x = net.batch_norm(&part("downsample.1"), x)?;
            }
            x = net.sum(&part("add"), y, x)?;
            x = net.activation(&part("relu2"), x, Activation::Relu)?;
        }
        let x = net.adaptive_pool("avgpool", x, 1)?;
        let x = net.flatten("flat", x)?;
        net.linear("fc", x, 3, true)
    })
}

/// Convolutions of every sort, pooling of every sort, and what joins and parts images.
pub fn images() -> Network {
    built("images", 3, Optimizer::Sgd, |net| {
        let x = net.input("input", &[4, 13, 11])?;
        let grouped = net.convolution("grouped", x, 6, Window::square(3, 2, 1), 2, true)?;
        let x = net.activation("leaky", grouped, Activation::LeakyRelu)?;
        let deep = net.convolution("depthwise", x, 6, Window::square(3, 1, 1), 6, false)?;
        let deep = net.batch_norm("norm", deep)?;
        let wide = net.convolution("pointwise", x, 20, Window::square(1, 1, 0), 1, true)?;
        let wide = net.activation("elu", wide, Activation::Elu)?;
        let x = net.concat("concat", &[deep, wide])?;
        let x = net.activation("relu6", x, Activation::Relu6)?;
        let ceil = || Window { ceil: true, ..Window::square(3, 2, 0) };
        let largest = net.max_pool("largest", x, ceil())?;
        let mean = net.average_pool("mean", x, ceil())?;
        let x = net.sum("add", largest, mean)?;
        let gate = net.adaptive_pool("gate", x, 1)?;
        let gate = net.activation("sigmoid", gate, Activation::Sigmoid)?;
        let x = net.multiply("multiply", x, gate)?;
        let lines = net.resized("lines", x, Compute::AdaptivePool, &[1, 3])?;
        let x = net.multiply("multiply.lines", x, lines)?;
        let parts = net.adaptive_pool("parts", x, 2)?;
        let short = net.movement("short", x, Movement::Subsample, vec![3, 30, 2, 2])?;
        let x = net.conv("more", parts, 30, [3, 1, 1])?;
        let x = net.sum("residual", x, short)?;
        let x = net.resized("up", x, Compute::Upsample, &[4, 6])?;
        let (kernel, stride) = (vec![2, 3], vec![2, 3]);
        let down = Window { kernel, stride, ..Window::square(1, 1, 0) };
        let x = net.average_pool("down", x, down)?;
        let x = net.dropout("dropout", x, 30)?;
        let x = net.flatten("flat", x)?;
        let x = net.linear("logits", x, 7, true)?;
        each(net, x)
    })
}

pub fn volumes() -> Network {
    built("volumes", 2, Optimizer::None, |net| {
        let x = net.input("input", &[2, 5, 6, 7])?;
        let x = net.convolution("conv", x, 3, Window::cube(3, 3, 2, 1), 1, true)?;
        let x = net.activation("relu", x, Activation::Relu)?;
        let x = net.max_pool("pool", x, Window::cube(3, 2, 1, 0))?;
        let x = net.resized("up", x, Compute::Upsample, &[6, 2, 9])?;
        let x = net.adaptive_pool("mean", x, 1)?;
        let x = net.flatten("flat", x)?;
        net.linear("logits", x, 4, false)
    })
}

/// Attention of both sorts, with heads that share keys, and what goes with it.
pub fn tokens() -> Network {
    let (batch, length, width, heads) = (2, 9, 24, 6);
    built("tokens", batch, Optimizer::Adam, |net| {
        let tokens = net.input("tokens", &[length])?;
        let table = net.embedding("embedding", tokens, 19, width)?;
        let places = net.input("positions", &[length])?;
        let positions = net.embedding("places", places, length, width)?;
        let x = net.sum("positions.add", table, positions)?;
        // What is the same for all samples.
        let first = net.reorder("samples.last", x, &[1, 2, 0])?;
        let first = net.movement("sample", first, Movement::Subsample, vec![length, width, 1])?;
        let first = net.reorder("sample.first", first, &[2, 0, 1])?;
        let x = net.sum("sample.add", x, first)?;
        let normal = net.row_norm("norm1", x, false)?;
        let q = net.linear("q", normal, width, false)?;
        let q = net.rotary("q.rotary", q, width / heads)?;
        let k = net.linear("k", normal, width / 3, true)?;
        let k = net.rotary("k.rotary", k, width / heads)?;
        let v = net.linear("v", normal, width / 3, true)?;
        let fused = net.attention("attention", [q, k, v], heads, width / heads, true)?;
        let x = net.sum("residual1", x, fused)?;
        let normal = net.row_norm("norm2", x, true)?;
        let q = net.linear("q2", normal, width, false)?;
        let k = net.linear("k2", normal, width / 2, false)?;
        let v = net.linear("v2", normal, width / 2, false)?;
        let shape = |extents: &[u64]| [&[u64::from(batch)], extents].concat();
        let scores = (width / heads, Product::Scores { heads, causal: true });
        let scores = net.product("scores", [q, k], scores, shape(&[heads, length, length]))?;
        let weights = net.same("softmax", scores, Compute::Softmax)?;
        let mix = (length, Product::Mix { width: width / heads });
        let mixed = net.product("mix", [weights, v], mix, shape(&[length, width]))?;
        let mixed = net.activation("gelu", mixed, Activation::Gelu)?;
        let x = net.sum("residual2", x, mixed)?;
        let turned = net.reorder("turned", x, &[0, 2, 1])?;
        let plain = |inner| (inner, Product::Plain);
        let squares =
            net.product("squares", [x, turned], plain(width), shape(&[length, length]))?;
        let squares = net.activation("tanh", squares, Activation::Tanh)?;
        let x = net.product("product", [squares, x], plain(length), shape(&[length, width]))?;
        let x = net.activation("silu", x, Activation::Silu)?;
        let x = net.movement("first", x, Movement::First, shape(&[width]))?;
        net.tied_linear("logits", x, table, true)
    })
}

pub fn all() -> [Network; 4] {
    [resnet(), images(), volumes(), tokens()]
}
