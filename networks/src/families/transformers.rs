//! Transformers: BERT, GPT, OPT, Llama and what is built alike, and ViT; their sizes are data.

use schema::{Dtype, Extents, Lora};

use super::extent;
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{Compute, LORA, LayerId, Movement, Network, Product, Window};
use crate::options::{Activation, NetworkOptions, Optimizer};

/// What the blocks of a transformer have in common.
struct Blocks {
    width: u64,
    hidden: u64,
    heads: u64,
    /// Fewer than heads where several share their keys and values.
    key_heads: u64,
    /// Whether tokens see only what came before.
    causal: bool,
    /// Llama's kind: rotary positions, RMS norm, SwiGLU, no bias, no dropout.
    llama: bool,
    /// Whether normalisation comes after the sum (BERT) or before what is added.
    norm_last: bool,
    /// Whether parts of the activations are dropped.
    dropout: bool,
    /// Between the two layers of a block's network, but for Llama's kind.
    activation: Activation,
    /// Whether queries, keys and values of Llama's kind have a bias (Qwen).
    query_bias: bool,
    fused: bool,
    /// What attention makes is laid in another order before its last layer, which is a copy that backward reads.
    /// It is counted as one that stays in order: as large, and as slow.
    copies_mixed: bool,
    lora: Option<Lora>,
}

impl Blocks {
    fn norm(&self, b: &mut Builder, name: &str, x: LayerId) -> Built {
        b.row_norm(name, x, !self.llama)
    }

    /// A linear layer, and beside it what is trained in its stead where that is chosen.
    fn linear(&self, b: &mut Builder, name: &str, x: LayerId, to: u64) -> Built {
        let last = name.rsplit('.').next().unwrap_or(name);
        let bias = !self.llama || (self.query_bias && matches!(last, "q" | "k" | "v"));
        let whole = b.linear(name, x, to, bias)?;
        let is_target = |lora: &&Lora| lora.targets.iter().any(|target| target == last);
        let Some(lora) = self.lora.as_ref().filter(is_target) else { return Ok(whole) };
        let thin = b.linear(&format!("{name}{LORA}a"), x, lora.rank.into(), false)?;
        let wide = b.linear(&format!("{name}{LORA}b"), thin, to, false)?;
        b.sum(&format!("{name}{LORA}sum"), whole, wide)
    }

    fn drop(&self, b: &mut Builder, name: &str, x: LayerId) -> Built {
        if self.dropout { b.dropout(name, x, 10) } else { Ok(x) }
    }

    fn block(&self, b: &mut Builder, name: &str, x: LayerId) -> Built {
        let part = |part: &str| format!("{name}.{part}");
        let mut x = x;
        for (sub, is_attention) in [("attention", true), ("mlp", false)] {
            let norm = part(&format!("{sub}.norm"));
            let read = if self.norm_last { x } else { self.norm(b, &norm, x)? };
            let made = match is_attention {
                true => self.attention(b, &part(sub), read)?,
                false => self.mlp(b, &part(sub), read)?,
            };
            let made = self.drop(b, &part(&format!("{sub}.dropout")), made)?;
            x = b.sum(&part(&format!("{sub}.add")), made, x)?;
            if self.norm_last {
                x = self.norm(b, &norm, x)?;
            }
        }
        Ok(x)
    }

    fn attention(&self, b: &mut Builder, name: &str, x: LayerId) -> Built {
        let part = |part: &str| format!("{name}.{part}");
        let per_head = self.width / self.heads;
        let mut q = self.linear(b, &part("q"), x, self.width)?;
        let mut k = self.linear(b, &part("k"), x, per_head * self.key_heads)?;
        let v = self.linear(b, &part("v"), x, per_head * self.key_heads)?;
        if self.llama {
            q = b.rotary(&part("q.rotary"), q, per_head)?;
            k = b.rotary(&part("k.rotary"), k, per_head)?;
        }
        let mixed = if self.fused {
            b.attention(&part("attention"), [q, k, v], self.heads, per_head, self.causal)?
        } else {
            let shape = b.shape(q).to_vec();
            let scores = vec![shape[0], self.heads, shape[1], shape[1]];
            let of = Product::Scores { heads: self.heads, causal: self.causal };
            let mut scores = b.product(&part("scores"), [q, k], (per_head, of), scores)?;
            scores = b.same(&part("softmax"), scores, Compute::Softmax)?;
            scores = self.drop(b, &part("softmax.dropout"), scores)?;
            let mix = (shape[1], Product::Mix { width: per_head });
            b.product(&part("values"), [scores, v], mix, shape)?
        };
        let mixed = match self.copies_mixed {
            true => b.same(&part("transpose"), mixed, Compute::Movement(Movement::Copy))?,
            false => mixed,
        };
        self.linear(b, &part("out"), mixed, self.width)
    }

    fn mlp(&self, b: &mut Builder, name: &str, x: LayerId) -> Built {
        let part = |part: &str| format!("{name}.{part}");
        let mut y = self.linear(b, &part("up"), x, self.hidden)?;
        if self.llama {
            let gate = self.linear(b, &part("gate"), x, self.hidden)?;
            let gate = b.activation(&part("silu"), gate, Activation::Silu)?;
            y = b.multiply(&part("multiply"), gate, y)?;
        } else {
            y = b.activation(&part(self.activation.name()), y, self.activation)?;
        }
        self.linear(b, &part("down"), y, self.width)
    }
}

/// How a family is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// BERT, learning to fill in masked words.
    Bert,
    /// GPT-2 and GPT-3.
    Gpt,
    /// OPT: as GPT, with ReLU, and two positions that no token has.
    Opt,
    /// Llama and Mistral.
    Llama,
    /// Qwen 2 and 2.5: as Llama, with a bias for queries, keys and values.
    Qwen,
    /// ViT.
    Vit,
    /// ViT as torchvision has it, whose `MultiheadAttention` has tokens before samples.
    VitOfTorchvision,
}

impl Family {
    /// Options that its networks take.
    pub const fn takes(self) -> &'static [&'static str] {
        match self {
            Self::Vit | Self::VitOfTorchvision => &["image", "layers", "hidden", "heads", "lora"],
            Self::Bert | Self::Gpt | Self::Opt => {
                &["sequence", "layers", "hidden", "heads", "vocab", "lora"]
            }
            Self::Llama | Self::Qwen => {
                &["sequence", "layers", "hidden", "heads", "kv-heads", "vocab", "lora"]
            }
        }
    }

    fn lora_problem(self, lora: &Lora) -> Option<String> {
        let gated = matches!(self, Self::Llama | Self::Qwen);
        let known: &[&str] = match gated {
            true => &["q", "k", "v", "out", "up", "gate", "down"],
            false => &["q", "k", "v", "out", "up", "down"],
        };
        let unknown = lora.targets.iter().find(|target| !known.contains(&target.as_str()));
        match unknown {
            _ if lora.rank == 0 || lora.targets.is_empty() => {
                Some("has a rank of at least 1, and a layer that it is beside".into())
            }
            Some(other) => Some(format!("`{other}` is no layer: choose of {}", known.join(", "))),
            None => None,
        }
    }

    /// The network of a size.
    ///
    /// # Errors
    /// Where the options do not go with the size.
    pub fn build(
        self,
        name: &str,
        o: &NetworkOptions,
        size: &Size,
    ) -> Result<Network, NetworkError> {
        let size = size.with(name, &o.extents)?;
        if let Some(why) = o.lora.as_ref().and_then(|lora| self.lora_problem(lora)) {
            return Err(NetworkError::Option { network: name.to_string(), option: "lora", why });
        }
        match self {
            Self::Bert => bert(name, o, &size),
            Self::Gpt | Self::Opt => gpt(name, o, &size, self == Self::Opt),
            Self::Llama | Self::Qwen => llama(name, o, &size, self == Self::Qwen),
            Self::Vit => vit(name, o, &size, false),
            Self::VitOfTorchvision => vit(name, o, &size, true),
        }
    }
}

/// What the sizes of a family differ in.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Blocks.
    pub layers: u64,
    /// Features of a token.
    pub width: u64,
    /// Features between the two layers of a block's network.
    pub hidden: u64,
    /// Heads of attention.
    pub heads: u64,
    /// Heads of keys and values.
    pub key_heads: u64,
    /// Rows of the table of words; of ViT, pixels of a patch's side.
    pub words: u64,
    /// Tokens per sample, and the most that there may be.
    pub tokens: [u64; 2],
    /// Whether the last layer has the table's weights.
    pub tied: bool,
}

impl Size {
    /// Blocks as most have them; the families say what is otherwise.
    fn blocks(&self, o: &NetworkOptions) -> Blocks {
        Blocks {
            width: self.width,
            hidden: self.hidden,
            heads: self.heads,
            key_heads: self.key_heads,
            causal: false,
            llama: false,
            norm_last: false,
            dropout: false,
            activation: Activation::Gelu,
            query_bias: false,
            fused: o.fused_attention,
            copies_mixed: false,
            lora: o.lora.clone(),
        }
    }

    /// The size with other extents.
    fn with(&self, name: &str, other: &Extents) -> Result<Self, NetworkError> {
        let wrong = |option, why: String| {
            Err(NetworkError::Option { network: name.to_string(), option, why })
        };
        let mut size = *self;
        let set = |to: &mut u64, from: Option<u32>| {
            from.into_iter().for_each(|from| *to = from.into());
        };
        set(&mut size.layers, other.layers);
        set(&mut size.width, other.hidden);
        set(&mut size.words, other.vocab);
        // Heads keep their width, and groups of heads their number, where nothing else is said.
        size.hidden =
            (u128::from(self.hidden) * u128::from(size.width) / u128::from(self.width)) as u64;
        size.heads = (self.heads * size.width / self.width).max(1);
        set(&mut size.heads, other.heads);
        size.key_heads = match self.key_heads == self.heads {
            true => size.heads,
            false => self.key_heads.min(size.heads),
        };
        set(&mut size.key_heads, other.kv_heads);
        if [size.layers, size.words, size.heads, size.key_heads].contains(&0) {
            return wrong("extents", "are at least 1 each".into());
        }
        if !size.width.is_multiple_of(2 * size.heads) {
            let why = format!(
                "of {} does not go into {} heads of an even width: state --heads too",
                size.width, size.heads
            );
            return wrong("hidden", why);
        }
        if !size.heads.is_multiple_of(size.key_heads) {
            let why = format!("of {} do not divide {} heads", size.key_heads, size.heads);
            return wrong("kv-heads", why);
        }
        Ok(size)
    }

    /// Tokens per sample; no more than the table of positions has.
    fn length(&self, name: &str, o: &NetworkOptions) -> Result<u64, NetworkError> {
        let [usual, longest] = self.tokens;
        let length = o.sequence.map_or(usual, u64::from);
        if length > longest {
            let why = format!("is {length}, but the network has {longest} positions: use fewer");
            let network = name.to_string();
            return Err(NetworkError::Option { network, option: "sequence", why });
        }
        Ok(length)
    }
}

/// BERT (Devlin et al. 2019), learning to fill in masked words.
fn bert(name: &str, o: &NetworkOptions, size: &Size) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = size.length(name, o)?;
    let blocks = Blocks { norm_last: true, dropout: true, ..size.blocks(o) };
    let tokens = b.input("tokens", &[length])?;
    let words = b.embedding("embeddings.word", tokens, size.words, blocks.width)?;
    let positions = b.input("positions", &[length])?;
    let rows = size.tokens[1];
    let positions = b.embedding("embeddings.position", positions, rows, blocks.width)?;
    let kinds = b.input("token-types", &[length])?;
    let kinds = b.embedding("embeddings.token-type", kinds, 2, blocks.width)?;
    let mut x = b.sum("embeddings.add1", words, positions)?;
    x = b.sum("embeddings.add2", x, kinds)?;
    x = blocks.norm(&mut b, "embeddings.norm", x)?;
    x = b.dropout("embeddings.dropout", x, 10)?;
    for layer in 0..size.layers {
        x = blocks.block(&mut b, &format!("layer{layer}"), x)?;
    }
    x = b.linear("head.dense", x, blocks.width, true)?;
    x = b.activation("head.gelu", x, Activation::Gelu)?;
    x = blocks.norm(&mut b, "head.norm", x)?;
    x = b.tied_linear("head.decoder", x, words, true)?;
    b.finish(x)
}

/// GPT-2 (Radford et al. 2019) and GPT-3 (Brown et al. 2020), whose sparse attention is taken for dense; or OPT
/// (Zhang et al. 2022).
fn gpt(name: &str, o: &NetworkOptions, size: &Size, opt: bool) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = size.length(name, o)?;
    let activation = if opt { Activation::Relu } else { Activation::Gelu };
    let blocks = Blocks { causal: true, dropout: true, activation, ..size.blocks(o) };
    let tokens = b.input("tokens", &[length])?;
    let words = b.embedding("wte", tokens, size.words, blocks.width)?;
    let positions = b.input("positions", &[length])?;
    let rows = size.tokens[1] + if opt { 2 } else { 0 };
    let positions = b.embedding("wpe", positions, rows, blocks.width)?;
    let mut x = b.sum("add", words, positions)?;
    if !opt {
        x = b.dropout("dropout", x, 10)?;
    }
    for layer in 0..size.layers {
        x = blocks.block(&mut b, &format!("h{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = b.tied_linear("lm_head", x, words, false)?;
    b.finish(x).map(|network| Network { writes_gelu_out: !opt, ..network })
}

/// Llama (*The Llama 3 Herd of Models*, 2024) and what is built alike; Qwen has a bias in attention.
fn llama(
    name: &str,
    o: &NetworkOptions,
    size: &Size,
    query_bias: bool,
) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = size.length(name, o)?;
    let blocks = Blocks { causal: true, llama: true, query_bias, ..size.blocks(o) };
    let tokens = b.input("tokens", &[length])?;
    let words = b.embedding("embed", tokens, size.words, blocks.width)?;
    let mut x = words;
    for layer in 0..size.layers {
        x = blocks.block(&mut b, &format!("layer{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = match size.tied {
        true => b.tied_linear("lm_head", x, words, false)?,
        false => b.linear("lm_head", x, size.words, false)?,
    };
    b.finish(x)
}

/// ViT (Dosovitskiy et al. 2021), on images of 224 x 224 where the options name none.
fn vit(
    name: &str,
    o: &NetworkOptions,
    size: &Size,
    copies_mixed: bool,
) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let [height, width] = extent(o, 224);
    let side = size.words;
    if let Some(odd) = [height, width].into_iter().find(|extent| extent % side != 0) {
        let why =
            format!("has an extent of {odd}: patches are {side} wide, so use a multiple of {side}");
        return Err(NetworkError::Option { network: name.to_string(), option: "image", why });
    }
    let blocks = Blocks { copies_mixed, ..size.blocks(o) };
    let image = b.input("images", &[3, height, width])?;
    let patch = Window::square(side, side, 0);
    let patches = b.convolution("patches", image, blocks.width, patch, 1, true)?;
    let (batch, count) = (u64::from(o.batch), (height / side) * (width / side));
    let channels_last = Movement::Reorder(vec![0, 2, 3, 1]);
    let to = vec![batch, count, blocks.width];
    let patches = b.movement("patches.transpose", patches, channels_last, to)?;
    let class = b.input("class", &[1])?;
    let class = b.embedding("class-token", class, 1, blocks.width)?;
    let mut x = b.concat_along("concat", &[class, patches], 1)?;
    let positions = b.input("positions", &[count + 1])?;
    let positions = b.embedding("position", positions, count + 1, blocks.width)?;
    x = b.sum("add", x, positions)?;
    for layer in 0..size.layers {
        x = blocks.block(&mut b, &format!("layer{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = b.movement("first", x, Movement::First, vec![batch, blocks.width])?;
    x = b.linear("head", x, 1000, true)?;
    b.finish(x)
}
