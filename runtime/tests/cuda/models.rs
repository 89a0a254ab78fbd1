//! Networks that have every layer that CUDA has.

use runtime::layers::{Activation, Adam, Optimizer, Sgd, Window};
use runtime::network::{Builder, Initial, Network, ResNet};

/// A residual network as it is trained. No plane is a single element: normalising two values
/// cancels nearly all of their gradients, of which roundings would then be a large part.
pub fn resnet() -> Network {
    let shape = ResNet { batch: 2, image: 64, width: 2, blocks: 1, classes: 3 };
    shape.build("resnet").unwrap()
}

/// Convolutions of every sort, pooling of every sort, and what joins and parts images.
pub fn images() -> Network {
    let mut net = Builder::new("images", 3);
    let x = net.input("input", &[3, 4, 13, 11], Initial::normalised());
    let window = Window::square(3, 2, 1);
    let grouped = net.convolution("grouped", &x, 6, (window, 2), true).unwrap();
    let x = net.activation("leaky", &grouped, Activation::LeakyRelu);
    let deep = net.convolution("depthwise", &x, 6, (Window::square(3, 1, 1), 6), false).unwrap();
    let deep = net.batch_norm("norm", &deep).unwrap();
    let wide = net.convolution("pointwise", &x, 20, (Window::square(1, 1, 0), 1), true).unwrap();
    let wide = net.activation("elu", &wide, Activation::Elu);
    let x = net.concat("concat", &[&deep, &wide], 1).unwrap();
    let x = net.activation("relu6", &x, Activation::Relu6);
    let ceil = Window { ceil: true, ..Window::square(3, 2, 0) };
    let largest = net.max_pool("largest", &x, ceil).unwrap();
    let mean = net.average_pool("mean", &x, ceil).unwrap();
    let x = net.add("add", &largest, &mean).unwrap();
    let gate = net.adaptive_pool("gate", &x, &[1, 1]).unwrap();
    let gate = net.activation("sigmoid", &gate, Activation::Sigmoid);
    let x = net.multiply("multiply", &x, &gate).unwrap();
    let lines = net.adaptive_pool("lines", &x, &[1, 3]).unwrap();
    let x = net.multiply("multiply.lines", &x, &lines).unwrap();
    let parts = net.adaptive_pool("parts", &x, &[2, 2]).unwrap();
    let short = net.subsample("short", &x, &[3, 30, 2, 2]).unwrap();
    let x = net.convolution("more", &parts, 30, (Window::square(3, 1, 1), 1), false).unwrap();
    let x = net.add("residual", &x, &short).unwrap();
    let x = net.upsample("up", &x, &[4, 6]).unwrap();
    let down = Window { kernel: [1, 2, 3], stride: [1, 2, 3], padding: [0; 3], ceil: false };
    let x = net.average_pool("down", &x, down).unwrap();
    let x = net.dropout("dropout", &x, 30);
    let x = net.view(&x, &[3, 120]).unwrap();
    let x = net.linear("logits", &x, 7, true).unwrap();
    net.segment(&x, Some(Optimizer::Sgd(Sgd { momentum: 0.0, ..Sgd::default() })))
}

/// Volumes.
pub fn volumes() -> Network {
    let mut net = Builder::new("volumes", 2);
    let x = net.input("input", &[2, 2, 5, 6, 7], Initial::normalised());
    let x = net.convolution("conv", &x, 3, (Window::cube(3, 2, 1), 1), true).unwrap();
    let x = net.activation("relu", &x, Activation::Relu);
    let x = net.max_pool("pool", &x, Window::cube(2, 1, 0)).unwrap();
    let x = net.upsample("up", &x, &[6, 2, 9]).unwrap();
    let x = net.adaptive_pool("mean", &x, &[1, 1, 1]).unwrap();
    let x = net.view(&x, &[2, 3]).unwrap();
    let x = net.linear("logits", &x, 4, false).unwrap();
    net.classify(&x, None)
}

/// Attention of both sorts, with heads that share keys, and what goes with it.
pub fn tokens() -> Network {
    let (batch, length, width, heads) = (2, 9, 24, 6);
    let mut net = Builder::new("tokens", batch);
    let tokens = net.input("tokens", &[batch, length], Initial::Classes(19));
    let (x, table) = net.embedding("embedding", &tokens, 19, width);
    let places = net.input("places", &[1, length], Initial::Positions(length));
    let (positions, _) = net.embedding("positions", &places, length, width);
    let x = net.add("positions.add", &x, &positions).unwrap();
    let normal = net.row_norm("norm1", &x, false);
    let q = net.linear("q", &normal, width, false).unwrap();
    let q = net.rotary("q.rotary", &q, width / heads).unwrap();
    let k = net.linear("k", &normal, width / 3, true).unwrap();
    let k = net.rotary("k.rotary", &k, width / heads).unwrap();
    let v = net.linear("v", &normal, width / 3, true).unwrap();
    let fused = net.attention("attention", [&q, &k, &v], heads, true).unwrap();
    let x = net.add("residual1", &x, &fused).unwrap();
    let normal = net.row_norm("norm2", &x, true);
    let q = net.linear("q2", &normal, width, false).unwrap();
    let k = net.linear("k2", &normal, width / 2, false).unwrap();
    let v = net.linear("v2", &normal, width / 2, false).unwrap();
    let scores = net.scores("scores", [&q, &k], heads, true).unwrap();
    let weights = net.softmax("softmax", &scores);
    let mixed = net.mix("mix", [&weights, &v], width / heads).unwrap();
    let mixed = net.activation("gelu", &mixed, Activation::Gelu);
    let x = net.add("residual2", &x, &mixed).unwrap();
    let turned = net.reorder("turned", &x, &[0, 2, 1]).unwrap();
    let squares = net.product("squares", &x, &turned).unwrap();
    let squares = net.activation("tanh", &squares, Activation::Tanh);
    let x = net.product("product", &squares, &x).unwrap();
    let x = net.activation("silu", &x, Activation::Silu);
    let x = net.first("first", &x).unwrap();
    let logits = net.tied_linear("logits", &x, table, true).unwrap();
    net.classify(&logits, Some(Optimizer::Adam(Adam::default())))
}

/// All of them.
pub fn all() -> [Network; 4] {
    [resnet(), images(), volumes(), tokens()]
}
