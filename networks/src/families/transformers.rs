//! Transformers: BERT, GPT-2, Llama 3 and ViT, each in its large size and in one that trains on a
//! laptop.

use schema::Dtype;

use super::extent;
use crate::builder::{Builder, Built};
use crate::error::NetworkError;
use crate::layer::{Compute, LayerId, Movement, Network, Product, Window};
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
    fused: bool,
}

impl Blocks {
    fn norm(&self, b: &mut Builder, name: &str, x: LayerId) -> Built {
        b.row_norm(name, x, !self.llama)
    }

    fn linear(&self, b: &mut Builder, name: &str, x: LayerId, to: u64) -> Built {
        b.linear(name, x, to, !self.llama)
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
            y = b.activation(&part("gelu"), y, Activation::Gelu)?;
        }
        self.linear(b, &part("down"), y, self.width)
    }
}

/// What the sizes of a family differ in.
pub struct Size {
    layers: u64,
    width: u64,
    hidden: u64,
    heads: u64,
    key_heads: u64,
    /// Rows of the table of words.
    words: u64,
    /// Tokens per sample, and the most that there may be.
    tokens: [u64; 2],
    /// Whether the last layer has the table's weights.
    tied: bool,
}

/// Large, uncased.
pub const BERT_LARGE: Size = Size {
    layers: 24,
    width: 1024,
    hidden: 4096,
    heads: 16,
    key_heads: 16,
    words: 30_522,
    tokens: [512, 512],
    tied: true,
};

/// The smallest of those that Turc et al. (2019, *Well-Read Students Learn Better*) published.
pub const BERT_TINY: Size =
    Size { layers: 2, width: 128, hidden: 512, heads: 2, key_heads: 2, ..BERT_LARGE };

/// XL.
pub const GPT2_XL: Size = Size {
    layers: 48,
    width: 1600,
    hidden: 6400,
    heads: 25,
    key_heads: 25,
    words: 50_257,
    tokens: [1024, 1024],
    tied: true,
};

/// For characters, with the extents of nanoGPT's example (Karpathy 2022).
pub const GPT2_CHARACTERS: Size = Size {
    layers: 6,
    width: 384,
    hidden: 1536,
    heads: 6,
    key_heads: 6,
    words: 65,
    tokens: [256, 256],
    tied: true,
};

/// Llama 3 8B.
pub const LLAMA3_8B: Size = Size {
    layers: 32,
    width: 4096,
    hidden: 14_336,
    heads: 32,
    key_heads: 8,
    words: 128_256,
    tokens: [8192, 131_072],
    tied: false,
};

/// The smallest of llama2.c (Karpathy 2023), which tells stories.
pub const STORIES_260K: Size = Size {
    layers: 5,
    width: 64,
    hidden: 172,
    heads: 8,
    key_heads: 4,
    words: 512,
    tokens: [512, 512],
    tied: true,
};

/// Large, patches of 16 x 16.
pub const VIT_L16: Size = Size {
    layers: 24,
    width: 1024,
    hidden: 4096,
    heads: 16,
    key_heads: 16,
    words: 0,
    tokens: [0, 0],
    tied: false,
};

/// Tiny (Touvron et al. 2021, *Training data-efficient image transformers*), patches of 16 x 16.
pub const VIT_TI16: Size =
    Size { layers: 12, width: 192, hidden: 768, heads: 3, key_heads: 3, ..VIT_L16 };

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
            fused: o.fused_attention,
        }
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
pub fn bert(name: &str, o: &NetworkOptions, size: &Size) -> Result<Network, NetworkError> {
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

/// GPT-2 (Radford et al. 2019).
pub fn gpt2(name: &str, o: &NetworkOptions, size: &Size) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = size.length(name, o)?;
    let blocks = Blocks { causal: true, dropout: true, ..size.blocks(o) };
    let tokens = b.input("tokens", &[length])?;
    let words = b.embedding("wte", tokens, size.words, blocks.width)?;
    let positions = b.input("positions", &[length])?;
    let positions = b.embedding("wpe", positions, size.tokens[1], blocks.width)?;
    let mut x = b.sum("add", words, positions)?;
    x = b.dropout("dropout", x, 10)?;
    for layer in 0..size.layers {
        x = blocks.block(&mut b, &format!("h{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = b.tied_linear("lm_head", x, words, false)?;
    b.finish(x)
}

/// Llama 3 (*The Llama 3 Herd of Models*, 2024) and what is built alike.
pub fn llama(name: &str, o: &NetworkOptions, size: &Size) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = size.length(name, o)?;
    let blocks = Blocks { causal: true, llama: true, ..size.blocks(o) };
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
pub fn vit(name: &str, o: &NetworkOptions, size: &Size) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let [height, width] = extent(o, 224);
    if let Some(odd) = [height, width].into_iter().find(|extent| extent % 16 != 0) {
        let why = format!("has an extent of {odd}: patches are 16 wide, so use a multiple of 16");
        return Err(NetworkError::Option { network: name.to_string(), option: "image", why });
    }
    let blocks = size.blocks(o);
    let image = b.input("images", &[3, height, width])?;
    let patch = Window::square(16, 16, 0);
    let patches = b.convolution("patches", image, blocks.width, patch, 1, true)?;
    let (batch, count) = (u64::from(o.batch), (height / 16) * (width / 16));
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
