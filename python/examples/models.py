"""Models to plan, in two sizes: `tiny` for a processor and a test, `full` for a GPU.

Each function gives `(module, inputs, loss)`: what is trained, what it is called with (a tuple, or a dict of
keywords), and what makes a number of its output. Weights are drawn, none are downloaded.
"""

import torch
from torch import nn
from torch.nn import functional as F


def _vision(module, device, batch, image, classes):
    """A classifier of images, with what it is trained on."""
    images = torch.randn(batch, 3, image, image, device=device)
    labels = torch.randint(0, classes, (batch,), device=device)
    return module.to(device).train(), (images,), lambda output: F.cross_entropy(output, labels)


def torchvision_model(name, batch, image=224, device="cpu"):
    """A classifier of torchvision's by its name, at full size."""
    import torchvision

    module = getattr(torchvision.models, name)(weights=None)
    return _vision(module, device, batch, image, 1000)


def resnet18(size="tiny", device="cpu", batch=None):
    from torchvision.models.resnet import BasicBlock, ResNet

    if size == "full":
        return torchvision_model("resnet18", batch or 128, device=device)
    module = ResNet(BasicBlock, [2, 2, 2, 2])
    # Without its last stage, whose parameters would outweigh all activations at this size.
    module.layer4, module.fc = nn.Identity(), nn.Linear(256, 10)
    return _vision(module, device, batch or 16, 64, 10)


def resnet50(size="tiny", device="cpu", batch=None):
    from torchvision.models.resnet import Bottleneck, ResNet

    if size == "full":
        return torchvision_model("resnet50", batch or 64, device=device)
    # Narrow inside its blocks, so that activations outweigh parameters as they do at full size.
    module = ResNet(Bottleneck, [3, 4, 6, 3], num_classes=10, width_per_group=16)
    return _vision(module, device, batch or 8, 64, 10)


def vit(size="tiny", device="cpu", batch=None):
    from torchvision.models import VisionTransformer

    if size == "full":
        return torchvision_model("vit_b_16", batch or 64, device=device)
    module = VisionTransformer(32, 4, 3, 4, 64, 256, dropout=0.1, num_classes=10)
    return _vision(module, device, batch or 8, 32, 10)


def language(config, model, batch, length, device="cpu"):
    """A language model of transformers', whose loss is in its output."""
    module = model(config)
    # Where this is not known, transformers warns inside of the loss, which breaks the graph in two.
    module.loss_type = module.loss_type or "ForCausalLM"
    tokens = torch.randint(0, config.vocab_size, (batch, length), device=device)
    return module.to(device).train(), {"input_ids": tokens, "labels": tokens}, lambda output: output.loss


def gpt2(size="tiny", device="cpu", batch=None):
    """With dropout: what is computed again must draw the same numbers again."""
    from transformers import GPT2Config, GPT2LMHeadModel

    if size == "full":
        return language(GPT2Config(use_cache=False), GPT2LMHeadModel, batch or 8, 1024, device)
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=4, n_head=4, use_cache=False)
    return language(config, GPT2LMHeadModel, batch or 8, 64, device)


def bert(size="tiny", device="cpu", batch=None):
    from transformers import BertConfig, BertForMaskedLM

    if size == "full":
        return language(BertConfig(), BertForMaskedLM, batch or 16, 512, device)
    config = BertConfig(
        vocab_size=512, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=256, max_position_embeddings=64,
    )  # fmt: skip
    return language(config, BertForMaskedLM, batch or 8, 64, device)


def llama(size="tiny", device="cpu", batch=None):
    """Rotary positions, heads that share keys and values, one table for both embeddings."""
    from transformers import LlamaConfig, LlamaForCausalLM

    if size == "full":
        config = LlamaConfig(
            vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12,
            num_attention_heads=16, num_key_value_heads=4, tie_word_embeddings=True, use_cache=False,
        )  # fmt: skip
        return language(config, LlamaForCausalLM, batch or 4, 2048, device)
    config = LlamaConfig(
        vocab_size=512, hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    # By itself transformers takes another way through attention where a model is compiled, with other bits.
    return language(config, LlamaForCausalLM, batch or 8, 64, device)


def _twice(inputs, outputs):
    """Two convolutions with normalisation."""
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Ronneberger et al. 2015, padded: every level's output is kept until the way up has reached it."""

    def __init__(self, width, levels, classes):
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, 2) for a in reversed(widths[:-1]))
        self.join = nn.ModuleList(_twice(2 * a, a) for a in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, reversed(kept[:-1])):
            x = join(torch.cat((beside, up(x)), 1))
        return self.head(x)


def unet(size="tiny", device="cpu", batch=None):
    width, levels, batch, image = (64, 5, batch or 8, 256) if size == "full" else (8, 4, batch or 4, 64)
    images = torch.randn(batch, 3, image, image, device=device)
    labels = torch.randint(0, 2, (batch, image, image), device=device)
    # Pixel by pixel: on CUDA the sum over images of two dimensions comes in an order that varies.
    loss = lambda output: F.cross_entropy(output.flatten(2).mT.flatten(0, 1), labels.flatten())  # noqa: E731
    return UNet(width, levels, 2).to(device).train(), (images,), loss


class WordModel(nn.Module):
    """Words through an LSTM to the next word."""

    def __init__(self, words, width, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.lstm(self.embed(tokens))[0])


def lstm(size="tiny", device="cpu", batch=None):
    words, width, layers, batch, length = (10000, 1024, 2, batch or 64, 128) if size == "full" else (256, 32, 2, batch or 16, 8)
    tokens = torch.randint(0, words, (batch, length), device=device)
    loss = lambda output: F.cross_entropy(output[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())  # noqa: E731
    return WordModel(words, width, layers).to(device).train(), (tokens,), loss


MODELS = {f.__name__: f for f in (resnet18, resnet50, gpt2, vit, bert, unet, llama, lstm)}


def call(module, inputs):
    """What the module gives for its inputs."""
    return module(**inputs) if isinstance(inputs, dict) else module(*inputs)
