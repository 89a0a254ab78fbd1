//! Sizes of transformers, as their authors publish them.

use super::transformers::{Family, Size};
use crate::info::NetworkInfo;

/// A transformer that comes with tidegate.
pub struct Transformer {
    /// Its name, and what it is.
    pub info: NetworkInfo,
    /// How it is built.
    pub family: Family,
    /// How large.
    pub size: Size,
}

/// Of layers, width, hidden width, heads, heads of keys, words (of ViT: the side of a patch), tokens and the most of
/// them; whether tables are tied, and of which network it is another size.
const fn of(
    name: &'static str,
    description: &'static str,
    family: Family,
    [layers, width, hidden, heads, key_heads, words, usual, longest]: [u64; 8],
    tied: bool,
    size_of: Option<&'static str>,
) -> Transformer {
    let tokens = [usual, longest];
    let size = Size { layers, width, hidden, heads, key_heads, words, tokens, tied };
    Transformer { info: NetworkInfo { name, description, size_of }, family, size }
}

use Family::{Bert, Gpt, Llama, Opt, Qwen, Vit, VitOfTorchvision};

/// By ascending name.
#[rustfmt::skip]
pub const TRANSFORMERS: &[Transformer] = &[
    of("bert-base", "BERT-Base, masked words, 512 tokens", Bert, [12, 768, 3072, 12, 12, 30522, 512, 512], true, Some("bert-large")),
    of("bert-large", "BERT-Large, masked words, 512 tokens", Bert, [24, 1024, 4096, 16, 16, 30522, 512, 512], true, None),
    of("bert-tiny", "BERT-Tiny, masked words, 512 tokens", Bert, [2, 128, 512, 2, 2, 30522, 512, 512], true, None),
    of("gpt2", "GPT-2 (small), 1024 tokens", Gpt, [12, 768, 3072, 12, 12, 50257, 1024, 1024], true, Some("gpt2-xl")),
    of("gpt2-characters", "GPT-2 of six layers for characters, 256 tokens", Gpt, [6, 384, 1536, 6, 6, 65, 256, 256], true, None),
    of("gpt2-large", "GPT-2 Large, 1024 tokens", Gpt, [36, 1280, 5120, 20, 20, 50257, 1024, 1024], true, Some("gpt2-xl")),
    of("gpt2-medium", "GPT-2 Medium, 1024 tokens", Gpt, [24, 1024, 4096, 16, 16, 50257, 1024, 1024], true, Some("gpt2-xl")),
    of("gpt2-xl", "GPT-2 XL, 1024 tokens", Gpt, [48, 1600, 6400, 25, 25, 50257, 1024, 1024], true, None),
    of("gpt3-13b", "GPT-3 13B, 2048 tokens", Gpt, [40, 5120, 20480, 40, 40, 50257, 2048, 2048], true, Some("gpt2-xl")),
    of("gpt3-175b", "GPT-3 175B, 2048 tokens", Gpt, [96, 12288, 49152, 96, 96, 50257, 2048, 2048], true, Some("gpt2-xl")),
    of("gpt3-2.7b", "GPT-3 2.7B, 2048 tokens", Gpt, [32, 2560, 10240, 32, 32, 50257, 2048, 2048], true, Some("gpt2-xl")),
    of("gpt3-6.7b", "GPT-3 6.7B, 2048 tokens", Gpt, [32, 4096, 16384, 32, 32, 50257, 2048, 2048], true, Some("gpt2-xl")),
    of("gpt3-xl", "GPT-3 XL (1.3B), 2048 tokens", Gpt, [24, 2048, 8192, 16, 16, 50257, 2048, 2048], true, Some("gpt2-xl")),
    of("llama2-13b", "Llama 2 13B, 4096 tokens", Llama, [40, 5120, 13824, 40, 40, 32000, 4096, 4096], false, Some("llama3-8b")),
    of("llama2-70b", "Llama 2 70B, 4096 tokens", Llama, [80, 8192, 28672, 64, 8, 32000, 4096, 4096], false, Some("llama3-8b")),
    of("llama2-7b", "Llama 2 7B, 4096 tokens", Llama, [32, 4096, 11008, 32, 32, 32000, 4096, 4096], false, Some("llama3-8b")),
    of("llama3-70b", "Llama 3 70B, 8192 tokens", Llama, [80, 8192, 28672, 64, 8, 128256, 8192, 131072], false, Some("llama3-8b")),
    of("llama3-8b", "Llama 3 8B, 8192 tokens", Llama, [32, 4096, 14336, 32, 8, 128256, 8192, 131072], false, None),
    of("llama3.2-1b", "Llama 3.2 1B, 8192 tokens", Llama, [16, 2048, 8192, 32, 8, 128256, 8192, 131072], true, Some("llama3-8b")),
    of("llama3.2-3b", "Llama 3.2 3B, 8192 tokens", Llama, [28, 3072, 8192, 24, 8, 128256, 8192, 131072], true, Some("llama3-8b")),
    of("mistral-7b", "Mistral 7B (v0.1), 8192 tokens", Llama, [32, 4096, 14336, 32, 8, 32000, 8192, 32768], false, Some("llama3-8b")),
    of("opt-1.3b", "OPT 1.3B, 2048 tokens", Opt, [24, 2048, 8192, 32, 32, 50272, 2048, 2048], true, Some("gpt2-xl")),
    of("opt-125m", "OPT 125M, 2048 tokens", Opt, [12, 768, 3072, 12, 12, 50272, 2048, 2048], true, Some("gpt2-xl")),
    of("opt-13b", "OPT 13B, 2048 tokens", Opt, [40, 5120, 20480, 40, 40, 50272, 2048, 2048], true, Some("gpt2-xl")),
    of("opt-2.7b", "OPT 2.7B, 2048 tokens", Opt, [32, 2560, 10240, 32, 32, 50272, 2048, 2048], true, Some("gpt2-xl")),
    of("opt-6.7b", "OPT 6.7B, 2048 tokens", Opt, [32, 4096, 16384, 32, 32, 50272, 2048, 2048], true, Some("gpt2-xl")),
    of("qwen2.5-0.5b", "Qwen 2.5 0.5B, 4096 tokens", Qwen, [24, 896, 4864, 14, 2, 151936, 4096, 32768], true, Some("llama3-8b")),
    of("qwen2.5-1.5b", "Qwen 2.5 1.5B, 4096 tokens", Qwen, [28, 1536, 8960, 12, 2, 151936, 4096, 32768], true, Some("llama3-8b")),
    of("qwen2.5-14b", "Qwen 2.5 14B, 4096 tokens", Qwen, [48, 5120, 13824, 40, 8, 152064, 4096, 131072], false, Some("llama3-8b")),
    of("qwen2.5-3b", "Qwen 2.5 3B, 4096 tokens", Qwen, [36, 2048, 11008, 16, 2, 151936, 4096, 32768], true, Some("llama3-8b")),
    of("qwen2.5-7b", "Qwen 2.5 7B, 4096 tokens", Qwen, [28, 3584, 18944, 28, 4, 152064, 4096, 131072], false, Some("llama3-8b")),
    of("stories260k", "Llama of 260 thousand parameters that tells stories, 512 tokens", Llama, [5, 64, 172, 8, 4, 512, 512, 512], true, None),
    of("vit-b16", "ViT-B/16, 224 x 224", Vit, [12, 768, 3072, 12, 12, 16, 0, 0], false, Some("vit-l16")),
    of("vit-b32", "ViT-B/32, 224 x 224", Vit, [12, 768, 3072, 12, 12, 32, 0, 0], false, Some("vit-l16")),
    of("vit-h14", "ViT-H/14, 224 x 224", Vit, [32, 1280, 5120, 16, 16, 14, 0, 0], false, Some("vit-l16")),
    of("vit-l16", "ViT-L/16, 224 x 224", Vit, [24, 1024, 4096, 16, 16, 16, 0, 0], false, None),
    of("vit-s16", "ViT-S/16, 224 x 224", Vit, [12, 384, 1536, 6, 6, 16, 0, 0], false, Some("vit-l16")),
    of("vit-ti16", "ViT-Ti/16, 224 x 224", Vit, [12, 192, 768, 3, 3, 16, 0, 0], false, None),
    of("vit_b_16", "ViT-B/16 as torchvision has it, 224 x 224", VitOfTorchvision, [12, 768, 3072, 12, 12, 16, 0, 0], false, Some("vit-l16")),
    of("vit_b_32", "ViT-B/32 as torchvision has it, 224 x 224", VitOfTorchvision, [12, 768, 3072, 12, 12, 32, 0, 0], false, Some("vit-l16")),
    of("vit_h_14", "ViT-H/14 as torchvision has it, 224 x 224", VitOfTorchvision, [32, 1280, 5120, 16, 16, 14, 0, 0], false, Some("vit-l16")),
    of("vit_l_16", "ViT-L/16 as torchvision has it, 224 x 224", VitOfTorchvision, [24, 1024, 4096, 16, 16, 16, 0, 0], false, Some("vit-l16")),
];
