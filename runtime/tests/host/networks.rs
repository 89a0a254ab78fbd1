//! Small networks in the shapes of well-known ones.

use networks::{NetworkOptions, Optimizer, network, network_from_toml};
use runtime::network::Network;

/// Convolutions, pooling, dropout before linear layers.
const ALEXNET: &str = include_str!("networks/alexnet.toml");

/// Pairs of convolutions, halved by pooling; one of them is given mostly zeros.
const VGG: &str = include_str!("networks/vgg.toml");

/// Sums of what blocks make and what they were given.
const RESNET: &str = include_str!("networks/resnet.toml");

/// Down and up again, with what was there on the way down.
const UNET: &str = include_str!("networks/unet.toml");

const TRANSFORMER: &str = include_str!("networks/transformer.toml");

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
