//! Networks as they are named on the command line: a bundled one or a file, and its options.

use std::path::PathBuf;

use clap::Args;
use experiments::option_text::{choice, float, image, lora};
use experiments::recipes::{modelled, recipe};
use networks::{Activation, Extents, Lora, NetworkOptions, Optimizer, Shard, Tf32};
use schema::{Dtype, Framework, Machine, Recipe, Trace};

use crate::exit::{Result, usage};

pub use experiments::sources::{is_network, must_be_network};

/// What a user chooses about a network. What is absent is as the network's authors have it.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Options of networks")]
pub struct NetworkArgs {
    /// Samples per iteration; a network needs it
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,

    /// Height and width of images, such as 224 or 224x160
    #[arg(long, value_name = "PIXELS", value_parser = image)]
    pub image: Option<[u32; 2]>,

    /// Frames of videos
    #[arg(long, value_name = "COUNT")]
    pub frames: Option<u32>,

    /// Tokens per sample
    #[arg(long, value_name = "COUNT")]
    pub sequence: Option<u32>,

    /// Activation of convolutional networks: relu, leaky-relu, ...
    #[arg(long, value_name = "NAME", value_parser = choice::<Activation>(
        "relu leaky-relu elu relu6 gelu silu sigmoid tanh"
    ))]
    pub activation: Option<Activation>,

    /// Element type: f32, f16 or bf16
    #[arg(long, value_name = "TYPE", value_parser = float())]
    pub dtype: Option<Dtype>,

    /// What of f32 a GPU may do in TF32: none, convolutions (as PyTorch by itself) or all
    #[arg(long, value_name = "WHAT", value_parser = choice::<Tf32>("none convolutions all"))]
    pub tf32: Option<Tf32>,

    /// Optimizer: none, sgd, momentum, adam (adamw keeps and updates as much) or adam-8bit
    #[arg(long, value_name = "NAME", value_parser = choice::<Optimizer>(
        "none sgd momentum adam adamw adam-8bit"
    ))]
    pub optimizer: Option<Optimizer>,

    /// Parameters of 16 bits have no copy of 32 bits, and the optimizer's state has 16
    #[arg(long)]
    pub no_master_weights: bool,

    /// Each layer's parameters are updated as soon as their gradients are there, so that no gradient
    /// outlives its layer's backward ops
    #[arg(long, conflicts_with = "accumulate")]
    pub update_in_backward: bool,

    /// ONNX: puts batch norms back that were folded into convolutions for inference
    #[arg(long)]
    pub training_batch_norm: bool,

    /// Passes that the batch goes in, one after another, whose gradients are added up
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub accumulate: Option<u32>,

    #[command(flatten)]
    pub ranks: RankArgs,

    /// Low-rank adaptation in place of training parameters: its rank, and the layers that it is
    /// beside, such as 16 (of q and v) or 16:q,k,v,out
    #[arg(long, value_name = "RANK[:LAYERS]", value_parser = lora)]
    pub lora: Option<Lora>,

    /// Blocks of a transformer
    #[arg(long, value_name = "COUNT")]
    pub layers: Option<u32>,

    /// Features of a transformer's tokens
    #[arg(long, value_name = "COUNT")]
    pub hidden: Option<u32>,

    /// Heads of a transformer's attention
    #[arg(long, value_name = "COUNT")]
    pub heads: Option<u32>,

    /// Heads of keys and values
    #[arg(long, value_name = "COUNT")]
    pub kv_heads: Option<u32>,

    /// Rows of a transformer's table of words
    #[arg(long, value_name = "COUNT")]
    pub vocab: Option<u32>,

    /// ReLU and additions write a tensor of their own, not over their input
    #[arg(long)]
    pub out_of_place: bool,

    /// Attention in three ops that keep the scores
    #[arg(long)]
    pub unfused_attention: bool,

    /// How far training has come, from 0 to 1, which the share of zeros depends on
    #[arg(long, value_name = "SHARE")]
    pub progress: Option<f64>,

    /// Whose ops a modelled iteration consists of: pytorch, caffe, chainer, or tidegate, whose plans `run` takes
    /// [default: pytorch]
    #[arg(long, value_name = "FRAMEWORK", value_parser = choice::<Framework>("pytorch caffe chainer tidegate"))]
    pub conventions: Option<Framework>,

    /// Efficiencies that `fit` wrote, for the op times [default: those that come with tidegate]
    #[arg(long, value_name = "FILE")]
    pub efficiencies: Option<PathBuf>,
}

/// Several ranks that train a network together.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct RankArgs {
    /// Ranks that train together, each on a batch of its own, over a network (--net-link)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Option<u32>,

    /// What each rank has only its share of: zero1 (optimizer state), zero2 (gradients too) or zero3
    /// (parameters too)
    #[arg(long, value_name = "STAGE", requires = "ranks", value_parser = choice::<Shard>(
        "zero1 zero2 zero3"
    ))]
    pub shard: Option<Shard>,

    /// The network between ranks: nvlink2, nvlink3, nvlink4, infiniband-hdr, infiniband-ndr, ethernet-100g, or
    /// what a rank sends in a second, such as 25GB/s: as `titan-v+net-25GB/s`
    #[arg(long, value_name = "NETWORK")]
    pub net_link: Option<String>,
}

impl NetworkArgs {
    pub fn options(&self, batch: u32) -> NetworkOptions {
        let defaults = NetworkOptions::default();
        NetworkOptions {
            batch,
            image: self.image,
            frames: self.frames,
            sequence: self.sequence,
            activation: self.activation,
            dtype: self.dtype,
            tf32: self.tf32.unwrap_or_default(),
            optimizer: self.optimizer,
            in_place: !self.out_of_place,
            pool_indices: defaults.pool_indices,
            fused_attention: !self.unfused_attention,
            progress: self.progress.unwrap_or(defaults.progress),
            accumulate: self.accumulate.unwrap_or(defaults.accumulate),
            master_weights: !self.no_master_weights,
            update_in_backward: self.update_in_backward,
            training_batch_norm: self.training_batch_norm,
            extents: Extents {
                layers: self.layers,
                hidden: self.hidden,
                heads: self.heads,
                kv_heads: self.kv_heads,
                vocab: self.vocab,
            },
            lora: self.lora.clone(),
            ranks: self.ranks.ranks.unwrap_or(defaults.ranks),
            shard: self.ranks.shard,
        }
    }

    /// The recipe of a network that runs here, named with these options and with a batch.
    pub fn recipe_to_run(&self, name: &str) -> Result<Recipe> {
        must_be_network(name)?;
        let Some(batch) = self.batch else {
            return Err(usage(format!("{name}: state its batch, such as `--batch 16`")));
        };
        if self.conventions.is_some_and(|by| by != Framework::Tidegate) {
            return Err(usage("--conventions: what runs here has tidegate's: leave it away"));
        }
        Ok(recipe(name, Framework::Tidegate, self.options(batch))?)
    }

    /// The recipe of a network that is named with these options, and with a batch.
    pub fn recipe(&self, name: &str) -> Result<Recipe> {
        let Some(batch) = self.batch else {
            return Err(usage(format!(
                "{name} is a network: state its batch, such as `--batch 64`"
            )));
        };
        Ok(recipe(name, self.conventions.unwrap_or_default(), self.options(batch))?)
    }

    /// The same network's trace.
    pub fn modelled_trace(&self, name: &str, machine: &Machine) -> Result<Trace> {
        Ok(modelled(&self.recipe(name)?, machine, self.efficiencies.as_deref())?)
    }

    /// Refuses options for what is no network.
    pub fn none_for(&self, name: &str) -> Result {
        if *self == Self::default() {
            return Ok(());
        }
        let message = "is a recorded trace, which has one batch and no options";
        Err(usage(format!("`{name}` {message}: name a network (see `list networks`)")))
    }
}
