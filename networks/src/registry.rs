//! The networks that come with tidegate, by name.

use super::error::NetworkError;
use super::families::{self, Block, Data, TRANSFORMERS};
use super::info::NetworkInfo;
use super::layer::Network;
use super::options::NetworkOptions;
use crate::suggest::closest;

struct Entry {
    info: NetworkInfo,
    build: fn(&str, &NetworkOptions) -> Result<Network, NetworkError>,
    /// Which options it takes, beside those that all networks take.
    takes: &'static [&'static str],
}

const fn entry(
    name: &'static str,
    description: &'static str,
    takes: &'static [&'static str],
    build: fn(&str, &NetworkOptions) -> Result<Network, NetworkError>,
) -> Entry {
    Entry { info: NetworkInfo { name, description, size_of: None }, build, takes }
}

const IMAGES: &[&str] = &["activation", "image"];

/// By ascending name.
const ENTRIES: &[Entry] = &[
    entry("alexnet", "AlexNet, ImageNet", IMAGES, |n, o| families::alexnet(n, o, Data::ImageNet)),
    entry("alexnet-caffe", "AlexNet as Caffe has it, ImageNet", IMAGES, families::alexnet_caffe),
    entry("alexnet-cifar10", "AlexNet, CIFAR10", IMAGES, |n, o| {
        families::alexnet(n, o, Data::Cifar10)
    }),
    entry("densenet121", "DenseNet-121, ImageNet", IMAGES, families::densenet121),
    entry("efficientnet-b0", "EfficientNet-B0, ImageNet", IMAGES, families::efficientnet_b0),
    entry("inceptionv4", "Inception v4, ImageNet, 299 x 299", IMAGES, families::inception_v4),
    entry("mobilenet-v1", "MobileNet v1, ImageNet", IMAGES, |n, o| {
        families::mobilenet_v1(n, o, Data::ImageNet)
    }),
    entry("mobilenet-v1-cifar10", "MobileNet v1, CIFAR10", IMAGES, |n, o| {
        families::mobilenet_v1(n, o, Data::Cifar10)
    }),
    entry("mobilenet-v2", "MobileNet v2, ImageNet", IMAGES, families::mobilenet_v2),
    entry("plain20", "Plain20, ImageNet", IMAGES, |n, o| families::plain20(n, o, Data::ImageNet)),
    entry("plain20-cifar10", "Plain20, CIFAR10", IMAGES, |n, o| {
        families::plain20(n, o, Data::Cifar10)
    }),
    entry("resnet101", "ResNet-101, ImageNet", IMAGES, |n, o| {
        families::resnet(n, o, Data::ImageNet, [3, 4, 23, 3], Block::Bottleneck)
    }),
    entry("resnet18", "ResNet-18, ImageNet", IMAGES, |n, o| {
        families::resnet(n, o, Data::ImageNet, [2, 2, 2, 2], Block::Basic)
    }),
    entry("resnet18-cifar10", "ResNet-18, CIFAR10", IMAGES, |n, o| {
        families::resnet(n, o, Data::Cifar10, [2, 2, 2, 2], Block::Basic)
    }),
    entry("resnet32", "ResNet-32 for CIFAR10 (three stages of five blocks)", IMAGES, |n, o| {
        families::resnet_small(n, o, 5)
    }),
    entry("resnet50", "ResNet-50, ImageNet", IMAGES, |n, o| {
        families::resnet(n, o, Data::ImageNet, [3, 4, 6, 3], Block::Bottleneck)
    }),
    entry("resnet50-caffe", "ResNet-50 as Caffe has it, ImageNet", IMAGES, |n, o| {
        families::resnet(n, o, Data::ImageNet, [3, 4, 6, 3], Block::CaffeBottleneck)
    }),
    entry("resnet50-cifar10", "ResNet-50, CIFAR10", IMAGES, |n, o| {
        families::resnet(n, o, Data::Cifar10, [3, 4, 6, 3], Block::Bottleneck)
    }),
    entry(
        "resnext101-3d",
        "ResNeXt-101 with 3-D convolutions, videos of 64 frames of 112 x 112",
        &["activation", "image", "frames"],
        families::resnext101_3d,
    ),
    entry("squeezenet", "SqueezeNet 1.1, ImageNet", IMAGES, |n, o| {
        families::squeezenet(n, o, Data::ImageNet)
    }),
    entry("squeezenet-cifar10", "SqueezeNet 1.1, CIFAR10", IMAGES, |n, o| {
        families::squeezenet(n, o, Data::Cifar10)
    }),
    entry("unet", "U-Net with bilinear up-sampling, 512 x 512", IMAGES, families::unet),
    entry(
        "unet-milesial",
        "U-Net as PyTorch-UNet has it since 2019, 512 x 512",
        IMAGES,
        families::unet_milesial,
    ),
    entry("vgg16", "VGG16, ImageNet", IMAGES, |n, o| families::vgg16(n, o, Data::ImageNet)),
    entry("vgg16-cifar10", "VGG16, CIFAR10", IMAGES, |n, o| families::vgg16(n, o, Data::Cifar10)),
];

/// The networks that come with tidegate, by ascending name.
pub fn networks() -> impl Iterator<Item = NetworkInfo> {
    let transformers = TRANSFORMERS.iter().map(|one| one.info);
    let mut all: Vec<NetworkInfo> =
        ENTRIES.iter().map(|entry| entry.info).chain(transformers).collect();
    all.sort_by_key(|info| info.name);
    all.into_iter()
}

/// The network of a name, under some options.
///
/// # Errors
/// Where there is no such network, or it does not have an option that is chosen, or the options
/// make it larger than any machine or too small for its layers.
pub fn network(name: &str, options: &NetworkOptions) -> Result<Network, NetworkError> {
    if let Some(entry) = ENTRIES.iter().find(|entry| entry.info.name == name) {
        refuse_others(name, options, entry.takes)?;
        return (entry.build)(name, options);
    }
    if let Some(one) = TRANSFORMERS.iter().find(|one| one.info.name == name) {
        refuse_others(name, options, one.family.takes())?;
        return one.family.build(name, options, &one.size);
    }
    let known: Vec<String> = networks().map(|info| info.name.to_string()).collect();
    let (name, closest) = (name.to_string(), closest(name, &known));
    Err(NetworkError::Unknown { name, closest, known })
}

/// Refuses options that a network does not take.
pub(crate) fn refuse_others(
    name: &str,
    o: &NetworkOptions,
    takes: &[&str],
) -> Result<(), NetworkError> {
    let chosen = [
        ("activation", o.activation.is_some()),
        ("image", o.image.is_some()),
        ("frames", o.frames.is_some()),
        ("sequence", o.sequence.is_some()),
        ("layers", o.extents.layers.is_some()),
        ("hidden", o.extents.hidden.is_some()),
        ("heads", o.extents.heads.is_some()),
        ("kv-heads", o.extents.kv_heads.is_some()),
        ("vocab", o.extents.vocab.is_some()),
        ("lora", o.lora.is_some()),
        ("training-batch-norm", o.training_batch_norm),
    ];
    for (option, chosen) in chosen {
        if chosen && !takes.contains(&option) {
            let why = match takes {
                [] => "is no option of this network: leave it away".to_string(),
                takes => {
                    format!("is no option of this network, which takes {}", takes.join(", "))
                }
            };
            return Err(NetworkError::Option { network: name.to_string(), option, why });
        }
    }
    Ok(())
}
