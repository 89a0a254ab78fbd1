//! Writes what every layer computes, forward and backward, on random inputs, for a framework to
//! check: `cargo run --release -p tidegate-runtime --example export_gradients > gradients.json`,
//! then `python runtime/checks/gradients.py gradients.json`.

use runtime::layers::{
    Activation, Adam, Attention, AveragePool, BatchNorm, Broadcast, Convolution, Embedding,
    Function, Linear, MaxPool, Movement, Optimizer, Product, Rotary, RowNorm, Sgd, Shape,
    SigmoidCrossEntropy, SoftmaxCrossEntropy, Upsample, Window, cell_from_index, softmax,
    softmax_backward,
};
use runtime::network::Random;
use serde_json::{Map, Value, json};

/// One layer on one set of inputs.
struct Case {
    layer: &'static str,
    settings: Value,
    tensors: Map<String, Value>,
    random: Random,
}

impl Case {
    fn new(layer: &'static str, settings: Value, seed: u64) -> Self {
        Self { layer, settings, tensors: Map::new(), random: Random::new(seed) }
    }

    /// A random tensor, which the framework is given too.
    fn given(&mut self, name: &str, shape: &[usize]) -> Vec<f32> {
        let count = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|_| self.random.uniform(2.0)).collect();
        self.made(name, shape, &data);
        data
    }

    /// Random indices below `classes`.
    fn indices(&mut self, name: &str, count: usize, classes: u64) -> Vec<f32> {
        let indices: Vec<u32> = (0..count).map(|_| (self.random.next() % classes) as u32).collect();
        self.tensors.insert(name.into(), json!({ "shape": [count], "data": indices }));
        indices.into_iter().map(cell_from_index).collect()
    }

    /// A tensor that was computed.
    fn made(&mut self, name: &str, shape: &[usize], data: &[f32]) {
        assert_eq!(data.len(), shape.iter().product::<usize>(), "{} of {}", name, self.layer);
        self.tensors.insert(name.into(), json!({ "shape": shape, "data": data }));
    }

    fn done(self) -> Value {
        json!({ "layer": self.layer, "settings": self.settings, "tensors": self.tensors })
    }
}

fn blank(count: usize) -> Vec<f32> {
    vec![f32::NAN; count]
}

fn full(shape: Shape) -> [usize; 5] {
    let [d, h, w] = shape.space;
    [shape.n, shape.c, d, h, w]
}

fn window_json(window: Window) -> Value {
    let Window { kernel, stride, padding, ceil } = window;
    json!({ "kernel": kernel, "stride": stride, "padding": padding, "ceil": ceil })
}

fn convolution(x: Shape, channels: usize, window: Window, groups: usize, seed: u64) -> Value {
    let conv = Convolution::new(x, channels, window, groups).expect("the window fits");
    let mut settings = window_json(window);
    settings["groups"] = json!(groups);
    let mut case = Case::new("convolution", settings, seed);
    let [kd, kh, kw] = window.kernel;
    let weights = [channels, x.c / groups, kd, kh, kw];
    let (input, w) = (case.given("x", &full(x)), case.given("w", &weights));
    let bias = case.given("bias", &[channels]);
    let dy = case.given("dy", &full(conv.output()));
    let mut workspace = blank(conv.workspace_floats());
    let (mut y, mut dx) = (blank(dy.len()), blank(input.len()));
    let (mut dw, mut dbias) = (blank(w.len()), blank(channels));
    conv.forward((&input, &w, Some(&bias)), &mut y, &mut workspace);
    conv.backward_weights((&input, &dy), &mut dw, Some(&mut dbias), &mut workspace);
    conv.backward_input((&w, &dy), &mut dx, &mut workspace);
    case.made("y", &full(conv.output()), &y);
    case.made("dx", &full(x), &dx);
    case.made("dw", &weights, &dw);
    case.made("dbias", &[channels], &dbias);
    case.done()
}

fn max_pool(x: Shape, window: Window, seed: u64) -> Value {
    let pool = MaxPool::new(x, window).expect("the window fits");
    let mut case = Case::new("max-pool", window_json(window), seed);
    let input = case.given("x", &full(x));
    let dy = case.given("dy", &full(pool.output()));
    let (mut y, mut positions) = (blank(dy.len()), blank(dy.len()));
    let mut dx = blank(input.len());
    pool.forward(&input, &mut y, &mut positions);
    pool.backward(&positions, &dy, &mut dx);
    case.made("y", &full(pool.output()), &y);
    case.made("dx", &full(x), &dx);
    case.done()
}

fn average_pool(x: Shape, window: Option<Window>, to: [usize; 3], seed: u64) -> Value {
    let (layer, settings, pool) = match window {
        Some(window) => ("average-pool", window_json(window), AveragePool::new(x, window)),
        None => ("adaptive-pool", json!({ "space": to }), AveragePool::adaptive(x, to)),
    };
    let pool = pool.expect("the window fits");
    let mut case = Case::new(layer, settings, seed);
    let input = case.given("x", &full(x));
    let dy = case.given("dy", &full(pool.output()));
    let (mut y, mut dx) = (blank(dy.len()), blank(input.len()));
    pool.forward(&input, &mut y);
    pool.backward(&dy, &mut dx);
    case.made("y", &full(pool.output()), &y);
    case.made("dx", &full(x), &dx);
    case.done()
}

fn upsample(x: Shape, to: [usize; 3], seed: u64) -> Value {
    let upsample = Upsample::new(x, to).expect("a multiple");
    let mut case = Case::new("upsample", json!({ "space": to }), seed);
    let input = case.given("x", &full(x));
    let dy = case.given("dy", &full(upsample.output()));
    let (mut y, mut dx) = (blank(dy.len()), blank(input.len()));
    upsample.forward(&input, &mut y);
    upsample.backward(&dy, &mut dx);
    case.made("y", &full(upsample.output()), &y);
    case.made("dx", &full(x), &dx);
    case.done()
}

fn batch_norm(x: Shape, seed: u64) -> Value {
    let norm = BatchNorm::new(x);
    let mut case = Case::new("batch-norm", json!({}), seed);
    let (input, dy) = (case.given("x", &full(x)), case.given("dy", &full(x)));
    let (gamma, beta) = (case.given("gamma", &[x.c]), case.given("beta", &[x.c]));
    let (mut y, mut saved, mut dx) = (blank(dy.len()), blank(norm.saved_floats()), blank(dy.len()));
    let (mut dgamma, mut dbeta) = (blank(x.c), blank(x.c));
    norm.forward((&input, &gamma, &beta), &mut y, &mut saved);
    norm.backward((&input, &gamma, &saved, &dy), &mut dx, &mut dgamma, &mut dbeta);
    case.made("y", &full(x), &y);
    case.made("dx", &full(x), &dx);
    case.made("dgamma", &[x.c], &dgamma);
    case.made("dbeta", &[x.c], &dbeta);
    case.done()
}

fn row_norm(rows: usize, width: usize, centred: bool, seed: u64) -> Value {
    let norm = RowNorm { rows, width, centred };
    let layer = if centred { "layer-norm" } else { "rms-norm" };
    let mut case = Case::new(layer, json!({}), seed);
    let (x, dy) = (case.given("x", &[rows, width]), case.given("dy", &[rows, width]));
    let gamma = case.given("gamma", &[width]);
    let beta = centred.then(|| case.given("beta", &[width]));
    let (mut y, mut saved, mut dx) = (blank(dy.len()), blank(norm.saved_floats()), blank(dy.len()));
    let (mut dgamma, mut dbeta) = (blank(width), blank(width));
    norm.forward((&x, &gamma, beta.as_deref()), &mut y, &mut saved);
    let shift = centred.then_some(&mut dbeta[..]);
    norm.backward((&x, &gamma, &saved, &dy), &mut dx, &mut dgamma, shift);
    case.made("y", &[rows, width], &y);
    case.made("dx", &[rows, width], &dx);
    case.made("dgamma", &[width], &dgamma);
    if centred {
        case.made("dbeta", &[width], &dbeta);
    }
    case.done()
}

fn activation(function: Activation, seed: u64) -> Value {
    let name = format!("{function:?}").to_lowercase();
    let mut case = Case::new("activation", json!({ "function": name }), seed);
    let (x, dy) = (case.given("x", &[400]), case.given("dy", &[400]));
    // Beyond six, and far enough to the left for the exponentials to matter.
    let x: Vec<f32> = x.iter().map(|x| 4.0 * x).collect();
    case.made("x", &[400], &x);
    let (mut y, mut dx) = (blank(400), blank(400));
    function.forward(Some(&x), &mut y);
    let saved = if function.backward_reads_output() { &y } else { &x };
    function.backward(saved, Some(&dy), &mut dx);
    case.made("y", &[400], &y);
    case.made("dx", &[400], &dx);
    case.done()
}

fn linear(rows: usize, inputs: usize, outputs: usize, seed: u64) -> Value {
    let linear = Linear { rows, inputs, outputs };
    let mut case = Case::new("linear", json!({}), seed);
    let (x, w) = (case.given("x", &[rows, inputs]), case.given("w", &[outputs, inputs]));
    let (bias, dy) = (case.given("bias", &[outputs]), case.given("dy", &[rows, outputs]));
    let (mut y, mut dx) = (blank(dy.len()), blank(x.len()));
    let (mut dw, mut dbias) = (blank(w.len()), blank(outputs));
    linear.forward(&x, &w, Some(&bias), &mut y);
    linear.backward_input((&w, &dy), &mut dx);
    linear.backward_weights((&x, &dy), &mut dw, Some(&mut dbias));
    case.made("y", &[rows, outputs], &y);
    case.made("dx", &[rows, inputs], &dx);
    case.made("dw", &[outputs, inputs], &dw);
    case.made("dbias", &[outputs], &dbias);
    case.done()
}

fn attention(lengths: [usize; 2], heads: [usize; 2], causal: bool, seed: u64) -> Value {
    let (batch, width) = (2, 8);
    let attention = Attention::new(batch, lengths, heads, width, causal).expect("heads divide");
    let settings = json!({ "heads": heads, "causal": causal });
    let mut case = Case::new("attention", settings, seed);
    let few = [batch, lengths[0], heads[0] * width];
    let many = [batch, lengths[1], heads[1] * width];
    let (q, dy) = (case.given("q", &few), case.given("dy", &few));
    let (k, v) = (case.given("k", &many), case.given("v", &many));
    let (mut y, mut saved) = (blank(q.len()), blank(attention.saved_floats()));
    let mut workspace = blank(attention.backward_workspace_floats());
    let scores = attention.workspace_floats();
    attention.forward((&q, &k, &v), &mut y, &mut saved, &mut workspace[..scores]);
    let (mut dq, mut dk, mut dv) = (blank(q.len()), blank(k.len()), blank(v.len()));
    let into = (&mut dq[..], &mut dk[..], &mut dv[..]);
    attention.backward((&q, &k, &v), (&y, &saved, &dy), into, &mut workspace);
    case.made("y", &few, &y);
    case.made("dq", &few, &dq);
    case.made("dk", &many, &dk);
    case.made("dv", &many, &dv);
    case.done()
}

/// Scores, softmax and the mixture as layers of their own.
fn unfused(heads: [usize; 2], causal: bool, seed: u64) -> Value {
    let (batch, width, lengths) = (2, 8, [7, 7]);
    let scores = Product::scores(batch, lengths, heads, width, causal).expect("heads divide");
    let mix = Product::mix(batch, lengths, heads, width).expect("heads divide");
    let mut case = Case::new("attention", json!({ "heads": heads, "causal": causal }), seed);
    let few = [batch, lengths[0], heads[0] * width];
    let many = [batch, lengths[1], heads[1] * width];
    let (q, dy) = (case.given("q", &few), case.given("dy", &few));
    let (k, v) = (case.given("k", &many), case.given("v", &many));
    let (mut weights, mut y) = (blank(scores.elements()[2]), blank(q.len()));
    scores.forward(&q, &k, &mut weights);
    softmax(lengths[1], None, &mut weights);
    mix.forward(&weights, &v, &mut y);
    let (mut dq, mut dk, mut dv) = (blank(q.len()), blank(k.len()), blank(v.len()));
    let mut slopes = blank(weights.len());
    mix.backward_right(&weights, &dy, &mut dv);
    mix.backward_left(&v, &dy, &mut slopes);
    softmax_backward(lengths[1], &weights, None, &mut slopes);
    scores.backward_left(&k, &slopes, &mut dq);
    scores.backward_right(&q, &slopes, &mut dk);
    case.made("y", &few, &y);
    case.made("dq", &few, &dq);
    case.made("dk", &many, &dk);
    case.made("dv", &many, &dv);
    case.done()
}

fn embedding(seed: u64) -> Value {
    let embedding = Embedding { rows: 9, width: 5 };
    let mut case = Case::new("embedding", json!({}), seed);
    let (tokens, table) = (case.indices("tokens", 12, 9), case.given("table", &[9, 5]));
    let dy = case.given("dy", &[12, 5]);
    let (mut y, mut dtable) = (blank(60), blank(45));
    embedding.forward(&tokens, &table, &mut y).expect("tokens are rows");
    embedding.backward(&tokens, &dy, &mut dtable).expect("tokens are rows");
    case.made("y", &[12, 5], &y);
    case.made("dtable", &[9, 5], &dtable);
    case.done()
}

fn rotary(seed: u64) -> Value {
    let rotary = Rotary::new(6, 16, 8).expect("heads divide");
    let mut case = Case::new("rotary", json!({ "width": 8 }), seed);
    let (x, dy) = (case.given("x", &[2, 6, 16]), case.given("dy", &[2, 6, 16]));
    let (mut y, mut dx) = (blank(x.len()), blank(x.len()));
    rotary.forward(Some(&x), &mut y);
    rotary.backward(Some(&dy), &mut dx);
    case.made("y", &[2, 6, 16], &y);
    case.made("dx", &[2, 6, 16], &dx);
    case.done()
}

fn multiply(left: &[usize], right: &[usize], seed: u64) -> Value {
    let broadcast = Broadcast::new(left, right).expect("shapes go together");
    let mut case = Case::new("multiply", json!({}), seed);
    let (a, b, dy) = (case.given("a", left), case.given("b", right), case.given("dy", left));
    let (mut y, mut da, mut db) = (blank(a.len()), blank(a.len()), blank(b.len()));
    broadcast.multiply(Some(&a), &b, &mut y);
    broadcast.multiply(Some(&dy), &b, &mut da);
    broadcast.sum_of_products(&a, &dy, &mut db);
    case.made("y", left, &y);
    case.made("da", left, &da);
    case.made("db", right, &db);
    case.done()
}

fn reorder(shape: &[usize], order: &[usize], seed: u64) -> Value {
    let movement = Movement::reorder(shape, order).expect("an order");
    let to: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
    let mut case = Case::new("reorder", json!({ "order": order }), seed);
    let (x, dy) = (case.given("x", shape), case.given("dy", &to));
    let (mut y, mut dx) = (blank(x.len()), blank(x.len()));
    movement.forward(&x, &mut y);
    movement.backward(&dy, &mut dx);
    case.made("y", &to, &y);
    case.made("dx", shape, &dx);
    case.done()
}

fn losses(seed: u64) -> [Value; 2] {
    let mut case = Case::new("softmax-cross-entropy", json!({}), seed);
    let (logits, labels) = (case.given("x", &[6, 10]), case.indices("labels", 6, 10));
    let (mut loss, mut probabilities, mut dx) = ([f32::NAN], blank(60), blank(60));
    let softmax = SoftmaxCrossEntropy { classes: 10 };
    softmax.forward(&logits, &labels, &mut loss, &mut probabilities).expect("labels are classes");
    softmax.backward(&probabilities, &labels, &mut dx).expect("labels are classes");
    case.made("y", &[], &loss);
    case.made("dx", &[6, 10], &dx);

    let mut binary = Case::new("sigmoid-cross-entropy", json!({}), seed ^ 1);
    let (logits, labels) = (binary.given("x", &[60]), binary.indices("labels", 60, 2));
    let sigmoid = SigmoidCrossEntropy;
    sigmoid.forward(&logits, &labels, &mut loss, &mut probabilities).expect("labels are 0 or 1");
    sigmoid.backward(&probabilities, &labels, &mut dx).expect("labels are 0 or 1");
    binary.made("y", &[], &loss);
    binary.made("dx", &[60], &dx);
    [case.done(), binary.done()]
}

/// Three steps.
fn optimizer(name: &'static str, optimizer: Optimizer, settings: Value, seed: u64) -> Value {
    let mut case = Case::new(name, settings, seed);
    let mut parameter = case.given("p", &[20]);
    let gradients = case.given("g", &[3, 20]);
    let mut state = vec![0.0; optimizer.state_floats(20)];
    for gradient in gradients.chunks(20) {
        optimizer.update(gradient, &mut parameter, &mut state);
    }
    case.made("y", &[20], &parameter);
    case.done()
}

fn main() {
    let image = |c, h, w| Shape::image(2, c, h, w);
    let volume = Shape { n: 2, c: 4, space: [4, 6, 5] };
    let square = Window::square;
    let ceil = |window| Window { ceil: true, ..window };
    let row = Window { kernel: [1, 1, 7], padding: [0, 0, 3], ..square(1, 1, 0) };
    let uneven = Window { kernel: [3, 5, 3], stride: [1, 2, 2], padding: [1, 2, 0], ceil: false };
    let mut cases = vec![
        convolution(image(3, 9, 8), 5, square(3, 1, 1), 1, 1),
        convolution(image(4, 11, 11), 6, square(5, 3, 2), 2, 2),
        convolution(image(6, 8, 8), 6, square(3, 2, 1), 6, 3),
        convolution(image(5, 4, 9), 4, row, 1, 4),
        convolution(image(8, 5, 5), 7, square(1, 1, 0), 1, 5),
        convolution(volume, 6, uneven, 2, 6),
        convolution(volume, 4, Window::cube(3, 2, 1), 4, 7),
        max_pool(image(3, 9, 9), square(3, 2, 1), 8),
        max_pool(image(3, 8, 8), ceil(square(3, 2, 0)), 9),
        max_pool(volume, Window::cube(3, 2, 1), 10),
        average_pool(image(3, 9, 9), Some(square(3, 1, 1)), [0; 3], 11),
        average_pool(volume, Some(ceil(Window::cube(2, 2, 0))), [0; 3], 12),
        average_pool(image(3, 13, 11), None, [1, 6, 4], 13),
        average_pool(volume, None, [1, 1, 1], 14),
        upsample(image(3, 4, 5), [1, 8, 15], 15),
        upsample(volume, [8, 6, 10], 16),
        batch_norm(image(5, 6, 7), 17),
        row_norm(12, 33, true, 18),
        row_norm(12, 33, false, 19),
        linear(7, 19, 11, 20),
        attention([7, 7], [4, 4], false, 21),
        attention([7, 7], [4, 2], true, 22),
        attention([5, 9], [2, 1], true, 23),
        unfused([4, 2], true, 24),
        unfused([3, 3], false, 25),
        embedding(26),
        rotary(27),
        multiply(&[2, 3, 4, 5], &[2, 3, 1, 1], 28),
        multiply(&[2, 3, 4], &[1, 3, 4], 29),
        reorder(&[2, 3, 4, 5], &[0, 2, 3, 1], 30),
    ];
    cases.extend(Activation::ALL.into_iter().zip(40..).map(|(f, seed)| activation(f, seed)));
    cases.extend(losses(60));
    let sgd = Sgd { weight_decay: 0.0, ..Sgd::default() };
    let rate = json!({ "rate": 0.01, "mass": 0.9 });
    cases.push(optimizer("momentum", Optimizer::Sgd(sgd), rate, 70));
    cases.push(optimizer("adam", Optimizer::Adam(Adam::default()), json!({}), 71));
    println!("{}", Value::Array(cases));
}
