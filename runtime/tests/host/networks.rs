//! Small networks in the shapes of well-known ones.

use networks::{NetworkOptions, Optimizer, network, network_from_toml};
use runtime::network::Network;

/// Convolutions, pooling, dropout before linear layers.
const ALEXNET: &str = r#"
input = [3, 24, 24]
layer = [
  { name = "conv1", kind = "convolution", channels = 8, kernel = 5, stride = 2, padding = 2 },
  { name = "relu1", kind = "relu" },
  { name = "conv2", kind = "convolution", channels = 16, kernel = 3, padding = 1 },
  { name = "relu2", kind = "relu" },
  { name = "pool", kind = "max-pool", kernel = 2 },
  { name = "flat", kind = "flatten" },
  { name = "drop", kind = "dropout" },
  { name = "fc1", kind = "linear", width = 12 },
  { name = "relu3", kind = "relu" },
  { name = "fc2", kind = "linear", width = 10 },
]
"#;

/// Pairs of convolutions, halved by pooling; one of them is given mostly zeros.
const VGG: &str = r#"
input = [3, 16, 16]
layer = [
  { name = "conv1", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "norm1", kind = "batch-norm" },
  { name = "relu1", kind = "relu" },
  { name = "drop", kind = "dropout" },
  { name = "conv2", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "relu2", kind = "relu" },
  { name = "pool1", kind = "max-pool", kernel = 2 },
  { name = "conv3", kind = "convolution", channels = 16, kernel = 3, padding = 1 },
  { name = "relu3", kind = "relu" },
  { name = "conv4", kind = "convolution", channels = 16, kernel = 3, padding = 1 },
  { name = "relu4", kind = "relu" },
  { name = "pool2", kind = "max-pool", kernel = 2 },
  { name = "flat", kind = "flatten" },
  { name = "fc1", kind = "linear", width = 24 },
  { name = "relu5", kind = "relu" },
  { name = "fc2", kind = "linear", width = 10 },
]
"#;

/// Sums of what blocks make and what they were given.
const RESNET: &str = r#"
input = [3, 12, 12]
layer = [
  { name = "stem", kind = "convolution", channels = 8, kernel = 3, padding = 1, bias = false },
  { name = "stem.norm", kind = "batch-norm" },
  { name = "stem.relu", kind = "relu" },
  { name = "a.conv1", kind = "convolution", channels = 8, kernel = 3, padding = 1, bias = false },
  { name = "a.norm1", kind = "batch-norm" },
  { name = "a.relu1", kind = "relu" },
  { name = "a.conv2", kind = "convolution", channels = 8, kernel = 3, padding = 1, bias = false },
  { name = "a.norm2", kind = "batch-norm" },
  { name = "a.add", kind = "add", inputs = ["a.norm2", "stem.relu"] },
  { name = "a.relu2", kind = "relu" },
  { name = "b.conv1", kind = "convolution", channels = 8, kernel = 3, padding = 1, bias = false },
  { name = "b.norm1", kind = "batch-norm" },
  { name = "b.relu1", kind = "relu" },
  { name = "b.conv2", kind = "convolution", channels = 8, kernel = 3, padding = 1, bias = false },
  { name = "b.norm2", kind = "batch-norm" },
  { name = "b.add", kind = "add", inputs = ["b.norm2", "a.relu2"] },
  { name = "b.relu2", kind = "relu" },
  { name = "mean", kind = "adaptive-pool", extent = 1 },
  { name = "flat", kind = "flatten" },
  { name = "fc", kind = "linear", width = 10 },
]
"#;

/// Down and up again, with what was there on the way down.
const UNET: &str = r#"
input = [2, 16, 16]
layer = [
  { name = "down1", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "relu1", kind = "relu" },
  { name = "pool1", kind = "max-pool", kernel = 2 },
  { name = "down2", kind = "convolution", channels = 12, kernel = 3, padding = 1 },
  { name = "relu2", kind = "relu" },
  { name = "pool2", kind = "max-pool", kernel = 2 },
  { name = "bottom", kind = "convolution", channels = 16, kernel = 3, padding = 1 },
  { name = "relu3", kind = "relu" },
  { name = "up2", kind = "upsample", factor = 2 },
  { name = "join2", kind = "concat", inputs = ["up2", "relu2"] },
  { name = "conv4", kind = "convolution", channels = 8, kernel = 3, padding = 1 },
  { name = "relu4", kind = "relu" },
  { name = "up1", kind = "upsample", factor = 2 },
  { name = "join1", kind = "concat", inputs = ["up1", "relu1"] },
  { name = "conv5", kind = "convolution", channels = 6, kernel = 3, padding = 1 },
  { name = "relu5", kind = "relu" },
  { name = "mask", kind = "convolution", channels = 1, kernel = 1 },
]
"#;

const TRANSFORMER: &str = r#"
input = [12]
layer = [
  { name = "words", kind = "embedding", rows = 20, width = 16 },
  { name = "a.norm", kind = "layer-norm" },
  { name = "a.attention", kind = "attention", inputs = ["a.norm", "a.norm", "a.norm"], heads = 2, causal = true },
  { name = "a.add", kind = "add", inputs = ["a.attention", "words"] },
  { name = "a.norm2", kind = "layer-norm" },
  { name = "a.up", kind = "linear", width = 32 },
  { name = "a.gelu", kind = "gelu" },
  { name = "a.down", kind = "linear", width = 16 },
  { name = "a.add2", kind = "add", inputs = ["a.down", "a.add"] },
  { name = "b.norm", kind = "layer-norm" },
  { name = "b.attention", kind = "attention", inputs = ["b.norm", "b.norm", "b.norm"], heads = 2, causal = true },
  { name = "b.add", kind = "add", inputs = ["b.attention", "a.add2"] },
  { name = "b.silu", kind = "silu" },
  { name = "logits", kind = "linear", width = 20 },
]
"#;

fn from_text(name: &str, text: &str, options: &NetworkOptions) -> Network {
    let file = std::path::PathBuf::from(format!("{name}.toml"));
    let described = network_from_toml(text, &file, options);
    let described = described.unwrap_or_else(|error| panic!("{name}: {error}"));
    Network::new(&described, Some(1e-2)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// By name, one of each shape.
pub fn small(name: &str) -> Network {
    of(name, &training(16, Optimizer::Momentum))
}

fn training(batch: u32, optimizer: Optimizer) -> NetworkOptions {
    NetworkOptions { batch, optimizer: Some(optimizer), ..NetworkOptions::default() }
}

/// One that trains with Adam, for a single sample: its state is most of its memory.
pub fn with_adam(name: &str, update_in_backward: bool) -> Network {
    of(name, &NetworkOptions { update_in_backward, ..training(1, Optimizer::Adam) })
}

fn of(name: &str, options: &NetworkOptions) -> Network {
    let all = [
        ("alexnet", ALEXNET),
        ("vgg", VGG),
        ("resnet", RESNET),
        ("unet", UNET),
        ("transformer", TRANSFORMER),
    ];
    let (name, text) = all.into_iter().find(|(other, _)| *other == name).expect("a small network");
    from_text(name, text, options)
}

/// The U-Net whose iteration is for the gradients alone.
pub fn without_optimizer() -> Network {
    from_text("unet", UNET, &training(16, Optimizer::None))
}

/// A network that comes along, for so many images of so many rows and columns, or texts of so many
/// tokens.
pub fn published(name: &str, batch: u32, image: Option<u32>, sequence: Option<u32>) -> Network {
    let image = image.map(|side| [side; 2]);
    let options = NetworkOptions { batch, image, sequence, ..NetworkOptions::default() };
    let described = network(name, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    Network::new(&described, Some(1e-3)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
