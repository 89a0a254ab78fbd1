//! Transformers: BERT-Large, GPT-2 XL, Llama 3 8B and ViT-L/16.

use schema::Dtype;

use super::extent;
use crate::networks::builder::{Builder, Built};
use crate::networks::error::NetworkError;
use crate::networks::layer::{Compute, Fixed, LayerId, Movement, Network, Product, Window};
use crate::networks::options::{Activation, NetworkOptions, Optimizer};

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
            let rotary = Compute::Fixed(Fixed::Rotary { width: per_head });
            q = b.same(&part("q.rotary"), q, rotary.clone())?;
            k = b.same(&part("k.rotary"), k, rotary)?;
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

/// Tokens per sample; no more than the table of positions has.
fn length(name: &str, o: &NetworkOptions, usual: u64, longest: u64) -> Result<u64, NetworkError> {
    let length = o.sequence.map_or(usual, u64::from);
    if length > longest {
        let why = format!("is {length}, but the network has {longest} positions: use fewer");
        return Err(NetworkError::Option { network: name.to_string(), option: "sequence", why });
    }
    Ok(length)
}

/// BERT-Large, uncased (Devlin et al. 2019), learning to fill in masked words.
pub fn bert_large(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = length(name, o, 512, 512)?;
    let blocks = Blocks {
        width: 1024,
        hidden: 4096,
        heads: 16,
        key_heads: 16,
        causal: false,
        llama: false,
        norm_last: true,
        dropout: true,
        fused: o.fused_attention,
    };
    let tokens = b.input("tokens", &[length])?;
    let words = b.embedding("embeddings.word", tokens, 30_522, blocks.width)?;
    let positions = b.input("positions", &[length])?;
    let positions = b.embedding("embeddings.position", positions, 512, blocks.width)?;
    let kinds = b.input("token-types", &[length])?;
    let kinds = b.embedding("embeddings.token-type", kinds, 2, blocks.width)?;
    let mut x = b.sum("embeddings.add1", words, positions)?;
    x = b.sum("embeddings.add2", x, kinds)?;
    x = blocks.norm(&mut b, "embeddings.norm", x)?;
    x = b.dropout("embeddings.dropout", x, 10)?;
    for layer in 0..24 {
        x = blocks.block(&mut b, &format!("layer{layer}"), x)?;
    }
    x = b.linear("head.dense", x, blocks.width, true)?;
    x = b.activation("head.gelu", x, Activation::Gelu)?;
    x = blocks.norm(&mut b, "head.norm", x)?;
    x = b.tied_linear("head.decoder", x, words, true)?;
    b.finish(x)
}

/// GPT-2 XL (Radford et al. 2019).
pub fn gpt2_xl(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = length(name, o, 1024, 1024)?;
    let blocks = Blocks {
        width: 1600,
        hidden: 6400,
        heads: 25,
        key_heads: 25,
        causal: true,
        llama: false,
        norm_last: false,
        dropout: true,
        fused: o.fused_attention,
    };
    let tokens = b.input("tokens", &[length])?;
    let words = b.embedding("wte", tokens, 50_257, blocks.width)?;
    let positions = b.input("positions", &[length])?;
    let positions = b.embedding("wpe", positions, 1024, blocks.width)?;
    let mut x = b.sum("add", words, positions)?;
    x = b.dropout("dropout", x, 10)?;
    for layer in 0..48 {
        x = blocks.block(&mut b, &format!("h{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = b.tied_linear("lm_head", x, words, false)?;
    b.finish(x)
}

/// Llama 3 8B (*The Llama 3 Herd of Models*, 2024).
pub fn llama3_8b(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let length = length(name, o, 8192, 131_072)?;
    let blocks = Blocks {
        width: 4096,
        hidden: 14_336,
        heads: 32,
        key_heads: 8,
        causal: true,
        llama: true,
        norm_last: false,
        dropout: false,
        fused: o.fused_attention,
    };
    let tokens = b.input("tokens", &[length])?;
    let mut x = b.embedding("embed", tokens, 128_256, blocks.width)?;
    for layer in 0..32 {
        x = blocks.block(&mut b, &format!("layer{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = b.linear("lm_head", x, 128_256, false)?;
    b.finish(x)
}

/// ViT-L/16 (Dosovitskiy et al. 2021), on images of 224 x 224.
pub fn vit_l16(name: &str, o: &NetworkOptions) -> Result<Network, NetworkError> {
    let mut b = Builder::new(name, o, Dtype::Bf16, Optimizer::Adam)?;
    let [height, width] = extent(o, 224);
    if let Some(odd) = [height, width].into_iter().find(|extent| extent % 16 != 0) {
        let why = format!("has an extent of {odd}: patches are 16 wide, so use a multiple of 16");
        return Err(NetworkError::Option { network: name.to_string(), option: "image", why });
    }
    let blocks = Blocks {
        width: 1024,
        hidden: 4096,
        heads: 16,
        key_heads: 16,
        causal: false,
        llama: false,
        norm_last: false,
        dropout: false,
        fused: o.fused_attention,
    };
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
    for layer in 0..24 {
        x = blocks.block(&mut b, &format!("layer{layer}"), x)?;
    }
    x = blocks.norm(&mut b, "norm", x)?;
    x = b.movement("first", x, Movement::First, vec![batch, blocks.width])?;
    x = b.linear("head", x, 1000, true)?;
    b.finish(x)
}
