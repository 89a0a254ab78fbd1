"""Makes ONNX models as people have them, and prints which of them tidegate imports.

    python networks/checks/onnx-corpus.py make FOLDER [NAME...]
    python networks/checks/onnx-corpus.py table FOLDER TIDEGATE [PAGE]
    python networks/checks/onnx-corpus.py tiny tests/onnx

`make` needs torch, torchvision, transformers, onnx and onnxscript. Each model is written by both of
PyTorch's exporters, with random weights, of which the file keeps the shapes alone. `table` needs Python
only: it plans an iteration of each file with the command TIDEGATE, and holds the in-core peak
against the built-in network's where there is one. Models are in two halves by a digest of their
names, so that one half can be kept from whoever works on the importer. With PAGE, the table takes the place of
the one in that page. `tiny` makes the files of the command's tests.
"""

import hashlib
import json
import re
import subprocess
import sys
import traceback
from pathlib import Path

BATCH = 2
VISION = """alexnet vgg11_bn vgg16 resnet18 resnet50 resnet101 resnext50_32x4d wide_resnet50_2 mobilenet_v2
mobilenet_v3_small mobilenet_v3_large densenet121 squeezenet1_1 googlenet inception_v3 shufflenet_v2_x1_0
mnasnet1_0 efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf convnext_tiny vit_b_16 vit_b_32
swin_t swin_v2_t maxvit_t""".split()
SEGMENTATION = """fcn_resnet50 deeplabv3_resnet50 deeplabv3_mobilenet_v3_large
lraspp_mobilenet_v3_large""".split()
BACKBONES = """fasterrcnn_resnet50_fpn fasterrcnn_mobilenet_v3_large_fpn retinanet_resnet50_fpn
fcos_resnet50_fpn ssd300_vgg16 ssdlite320_mobilenet_v3_large keypointrcnn_resnet50_fpn""".split()
DETECTORS = ["fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16"]
VIDEO = ["r3d_18", "mc3_18"]

SMALL = dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000)
LAYERS = dict(num_hidden_layers=2)
# Name, class, configuration, and how many tokens (0: images).
LANGUAGE = {
    "bert-base": ("BertForMaskedLM", dict(LAYERS, vocab_size=4000), 512),
    "bert-classes": ("BertForSequenceClassification", dict(SMALL, intermediate_size=512), 64),
    "bert-encoder": ("BertModel", dict(SMALL, intermediate_size=512), 64),
    "distilbert": ("DistilBertForMaskedLM", dict(dim=256, n_layers=2, n_heads=4, hidden_dim=512, vocab_size=1000), 64),
    "roberta": ("RobertaForMaskedLM", dict(SMALL, intermediate_size=512), 64),
    "electra": ("ElectraForPreTraining", dict(SMALL, intermediate_size=512, embedding_size=128), 64),
    "albert": ("AlbertForMaskedLM", dict(SMALL, intermediate_size=512, embedding_size=128), 64),
    "gpt2": ("GPT2LMHeadModel", dict(n_layer=2, vocab_size=4000), 1024),
    "gpt2-small": ("GPT2Model", dict(n_layer=2, n_embd=256, n_head=4, vocab_size=1000), 64),
    "gpt-neox": ("GPTNeoXForCausalLM", dict(SMALL, intermediate_size=512), 64),
    "opt-125m": ("OPTForCausalLM", dict(LAYERS, ffn_dim=3072, vocab_size=4000), 512),
    "llama3.2-1b": ("LlamaForCausalLM", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=2,
        num_attention_heads=32, num_key_value_heads=8, vocab_size=4000, tie_word_embeddings=True), 1024),
    "llama2-7b": ("LlamaForCausalLM", dict(hidden_size=1024, intermediate_size=2752, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=8, vocab_size=4000), 512),
    "mistral-7b": ("MistralForCausalLM", dict(hidden_size=1024, intermediate_size=3584, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2, vocab_size=4000), 512),
    "qwen2.5-0.5b": ("Qwen2ForCausalLM", dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=2,
        num_attention_heads=14, num_key_value_heads=2, vocab_size=4000, tie_word_embeddings=True), 512),
    "gemma": ("GemmaForCausalLM", dict(SMALL, intermediate_size=512, num_key_value_heads=1, head_dim=64), 64),
    "phi": ("PhiForCausalLM", dict(SMALL, intermediate_size=512), 64),
    "t5": ("T5ForConditionalGeneration", dict(d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4, vocab_size=1000), 64),
    "t5-encoder": ("T5EncoderModel", dict(d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4, vocab_size=1000), 64),
    "bart": ("BartForConditionalGeneration", dict(d_model=256, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=512, decoder_ffn_dim=512, vocab_size=1000), 64),
    "vit-b16-hf": ("ViTForImageClassification", dict(LAYERS, num_labels=1000), 0),
    "deit": ("DeiTForImageClassification", dict(SMALL, intermediate_size=512), 0),
    "beit": ("BeitForImageClassification", dict(SMALL, intermediate_size=512), 0),
    "dinov2": ("Dinov2ForImageClassification", dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4), 0),
    "clip-vision": ("CLIPVisionModel", dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512), 0),
    "segformer": ("SegformerForSemanticSegmentation", dict(), 0),
    "mobilevit": ("MobileViTForImageClassification", dict(), 0),
}

# The built-in network of a model, and the options that make it the same one.
TRANSFORMER = "--layers 2"
BUILT_IN = {
    "alexnet": ("alexnet", ""), "vgg16": ("vgg16", ""), "resnet18": ("resnet18", ""),
    "resnet50": ("resnet50", ""), "resnet101": ("resnet101", ""), "mobilenet_v2": ("mobilenet-v2", ""),
    "densenet121": ("densenet121", ""), "squeezenet1_1": ("squeezenet", ""),
    "efficientnet_b0": ("efficientnet-b0", ""), "vit_b_16": ("vit_b_16", ""), "vit_b_32": ("vit_b_32", ""),
    "bert-base": ("bert-base", "--layers 2 --vocab 4000 --sequence 512"),
    "gpt2": ("gpt2", "--layers 2 --vocab 4000 --sequence 1024"),
    "opt-125m": ("opt-125m", "--layers 2 --vocab 4000 --sequence 512"),
    "llama3.2-1b": ("llama3.2-1b", "--layers 2 --vocab 4000 --sequence 1024"),
    "llama2-7b": ("llama2-7b", "--layers 2 --hidden 1024 --heads 8 --kv-heads 8 --vocab 4000 --sequence 512"),
    "mistral-7b": ("mistral-7b", "--layers 2 --hidden 1024 --heads 8 --kv-heads 2 --vocab 4000 --sequence 512"),
    "qwen2.5-0.5b": ("qwen2.5-0.5b", "--layers 2 --vocab 4000 --sequence 512"),
    "vit-b16-hf": ("vit-b16", "--layers 2"),
}


def half(name):
    """0 for the half that is worked with, 1 for the one that is held back."""
    return hashlib.sha256(name.encode()).digest()[0] & 1


def names():
    families = [("", VISION), ("", SEGMENTATION), ("backbone-", BACKBONES), ("detector-", DETECTORS), ("", VIDEO)]
    return [prefix + name for prefix, family in families for name in family] + list(LANGUAGE)


def model_of(name):
    """The model, what it takes, and the names of that."""
    import torch
    import torchvision
    import transformers

    class Plain(torch.nn.Module):
        def __init__(self, inner, keys):
            super().__init__()
            self.inner, self.keys = inner, keys

        def forward(self, *inputs):
            made = self.inner(**dict(zip(self.keys, inputs)))
            return made[0] if isinstance(made, (tuple, list)) else next(iter(made.values()))

    class Tensors(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            made = self.inner(x)
            made = list(made.values()) if isinstance(made, dict) else made
            return tuple(made) if isinstance(made, (list, tuple)) else made

    if name in LANGUAGE:
        kind, settings, tokens = LANGUAGE[name]
        model = getattr(transformers, kind)
        settings = dict(settings)
        if tokens and model.config_class.model_type not in ("t5", "bart"):
            settings.setdefault("use_cache", False)
        model = model(model.config_class(**settings))
        model.config.use_cache, model.config.return_dict = False, True
        if not tokens:
            return Plain(model, ["pixel_values"]), (torch.randn(BATCH, 3, *[model.config.image_size if isinstance(getattr(model.config, "image_size", None), int) else 224] * 2),), ["pixel_values"]
        ids = torch.zeros(BATCH, tokens, dtype=torch.int64)
        keys, given = ["input_ids"], [ids]
        if kind.endswith(("CausalLM", "LMHeadModel")):
            keys, given = ["input_ids", "attention_mask"], [ids, torch.ones_like(ids)]
        if kind in ("T5ForConditionalGeneration", "BartForConditionalGeneration"):
            keys, given = ["input_ids", "decoder_input_ids"], [ids, ids]
        return Plain(model, keys), tuple(given), keys
    if name.startswith("backbone-"):
        model = torchvision.models.detection.__dict__[name[9:]](weights=None, weights_backbone=None).backbone
        return Tensors(model), (torch.randn(BATCH, 3, 320, 320),), ["images"]
    if name.startswith("detector-"):
        model = torchvision.models.detection.__dict__[name[9:]](weights=None, weights_backbone=None)

        class Lists(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model

            def forward(self, x):
                found = self.inner([x[0]])[0]
                return found["boxes"], found["scores"]

        return Lists(), (torch.randn(1, 3, 320, 320),), ["images"]
    if name in SEGMENTATION:
        model = torchvision.models.segmentation.__dict__[name](weights=None, weights_backbone=None)
        return Tensors(model), (torch.randn(BATCH, 3, 224, 224),), ["images"]
    if name in VIDEO:
        model = torchvision.models.video.__dict__[name](weights=None)
        return model, (torch.randn(BATCH, 3, 8, 112, 112),), ["images"]
    settings = dict(init_weights=False) if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.__dict__[name](weights=None, **settings)
    side = 299 if name == "inception_v3" else 224
    return model, (torch.randn(BATCH, 3, side, side),), ["images"]


def strip(model):
    """Leaves of large tensors the shapes alone."""
    def small(tensor):
        count = 1
        for extent in tensor.dims:
            count *= extent
        if count > 64 and tuple(tensor.dims) not in kept:
            for field in ("raw_data", "float_data", "external_data", "data_location"):
                tensor.ClearField(field)

    def graph(of):
        for tensor in of.initializer:
            small(tensor)
        for node in of.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    small(attribute.t)
                if attribute.HasField("g"):
                    graph(attribute.g)
        del of.value_info[:]

    # A table that is there twice, once turned, is one parameter; only its elements say so.
    tables = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    tables = {tuple(tensor.dims) for tensor in model.graph.initializer if tensor.name in tables}
    pairs = tables & {tuple(reversed(tensor.dims)) for tensor in model.graph.initializer}
    kept = {dims for dims in pairs if len(dims) == 2} | {dims[::-1] for dims in pairs if len(dims) == 2}
    graph(model.graph)


def make(folder, chosen):
    import io
    import warnings

    import onnx
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    # The older exporter does not know the op that this way ends in.
    torch.backends.mha.set_fastpath_enabled(False)
    chosen = chosen or names()
    # As inference wants them; as training does, where there is a built-in network to hold them against; and
    # with an open batch.
    kinds = [("script", "eval"), ("dynamo", "eval"), ("script", "train"), ("dynamo", "train"),
             ("script-batch", "eval"), ("dynamo-batch", "eval")]
    for exporter, mode in kinds:
        for name in chosen:
            if mode == "train" and name not in BUILT_IN:
                continue
            path = folder / f"{name}.{exporter}.{mode}.onnx"
            failed = path.with_suffix(".failed")
            if path.exists() or failed.exists():
                continue
            try:
                torch.manual_seed(0)
                model, given, keys = model_of(name)
                model.train(mode == "train")
                # Figures that no exporter takes for equal, or for zeros that it may leave out.
                for tensor in list(model.parameters()) + list(model.buffers()):
                    if tensor.is_floating_point() and tensor.numel() > 1:
                        tensor.data.uniform_(0.01, 0.02)
                with torch.no_grad():
                    if exporter.startswith("script"):
                        training = torch.onnx.TrainingMode
                        buffer = io.BytesIO()
                        axes = {key: {0: "batch"} for key in keys} if "batch" in exporter else None
                        torch.onnx.export(model, given, buffer, dynamo=False, input_names=keys, dynamic_axes=axes,
                                          training=training.TRAINING if mode == "train" else training.EVAL,
                                          do_constant_folding=mode == "eval")
                        proto = onnx.load_from_string(buffer.getvalue())
                    else:
                        shapes = None
                        if "batch" in exporter:
                            batch = {0: torch.export.Dim("batch", min=2, max=64)}
                            starred = type(model).__name__ == "Plain"
                            shapes = (tuple(batch for _ in given),) if starred else tuple(batch for _ in given)
                        program = torch.onnx.export(model, given, dynamo=True, input_names=keys, dynamic_shapes=shapes, verbose=False)
                        proto = program.model_proto
                strip(proto)
                path.write_bytes(proto.SerializeToString())
                print(f"{path.name}: {path.stat().st_size} bytes", flush=True)
            except Exception as error:
                failed.write_text(traceback.format_exc())
                print(f"{path.name}: not exported: {str(error).splitlines()[:1]}", flush=True)


def tiny(folder):
    """A convolution whose batch norm is folded by the older exporter, and a block of a transformer by the newer."""
    import io

    import onnx
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(32)
            self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (y.reshape(*x.shape[:2], 4, 8).transpose(1, 2) for y in (q, k, v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(torch.nn.functional.gelu(y.transpose(1, 2).reshape(x.shape)))

    layer = torch.nn
    folded = layer.Sequential(layer.Conv2d(3, 8, 3), layer.BatchNorm2d(8), layer.Hardswish(), layer.AdaptiveAvgPool2d(1),
                              layer.Flatten(), layer.Linear(8, 10)).eval()
    buffer = io.BytesIO()
    torch.onnx.export(folded, (torch.randn(1, 3, 16, 16),), buffer, dynamo=False, input_names=["images"])
    protos = {"folded": onnx.load_from_string(buffer.getvalue())}
    open_shape = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("sequence", min=2, max=64)}
    program = torch.onnx.export(Block().eval(), (torch.randn(2, 6, 32),), dynamo=True, input_names=["x"],
                                dynamic_shapes=(open_shape,), verbose=False)
    protos["block"] = program.model_proto
    for name, proto in protos.items():
        for node in proto.graph.node:
            del node.metadata_props[:]
        strip(proto)
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString())


BATCH_HERE, MACHINE = 16, "a100-sxm-80gb"


def peak_of(tidegate, network, options):
    """The in-core peak in bytes, or what is wrong."""
    command = f"{tidegate} plan {network} --batch {BATCH_HERE} -m {MACHINE} --method in-core --format json {options}"
    made = subprocess.run(command.split(), capture_output=True, text=True)
    if made.returncode != 0:
        return None, made.stderr.strip().splitlines()[0] if made.stderr.strip() else "no message"
    return json.loads(made.stdout)["in_core"]["peak_bytes"], None


def table(folder, tidegate):
    """Of each half and way to export: how many files import, and how far in-core peaks are off."""
    same = "--dtype f32 --optimizer adam"
    builtin, rows, problems, off = {}, {}, [], []
    for name, (network, options) in BUILT_IN.items():
        builtin[name] = peak_of(tidegate, network, f"{options} {same}")[0]
    for path in sorted(folder.glob("*.onnx")):
        name, exporter, mode = path.name[:-5].rsplit(".", 2)
        kind = "language" if name in LANGUAGE else "vision"
        row = rows.setdefault((half(name), kind, exporter, mode), [0, 0, []])
        row[0] += 1
        normed = "--training-batch-norm" if name not in LANGUAGE else ""
        peak, problem = peak_of(tidegate, path, f"{same} {normed}")
        if problem:
            problems.append((path.name, problem))
            continue
        row[1] += 1
        if builtin.get(name):
            error = 100 * (peak / builtin[name] - 1)
            row[2].append(abs(error))
            off.append((half(name), path.name, error))
    text = ["| half | kind | exporter | mode | files | import | beside a built-in network | peak off at most |",
            "|---|---|---|---|---|---|---|---|"]
    for (number, kind, exporter, mode), (files, read, errors) in sorted(rows.items()):
        worst = f"{max(errors):.2f} %" if errors else ""
        which = ["worked with", "held back"][number]
        text.append(f"| {which} | {kind} | {exporter} | {mode} | {files} | {read} | {len(errors)} | {worst} |")
    for number in (0, 1):
        mine = [row for key, row in rows.items() if key[0] == number]
        files, read = sum(row[0] for row in mine), sum(row[1] for row in mine)
        errors = [error for row in mine for error in row[2]]
        within = sum(error <= 3 for error in errors)
        text.append(f"| {['worked with', 'held back'][number]} | all | | | {files} | {read} | {len(errors)} | {within} within 3 % |")
    text += [""] + [f"- `{name}`: {error:+.2f} %" for _, name, error in off if abs(error) > 3]
    text += [f"- `{name}`: {problem}" for name, problem in problems]
    return "\n".join(text).replace(str(folder) + "/", "")


def main():
    command, folder, *rest = sys.argv[1:]
    folder = Path(folder)
    if command == "make":
        make(folder, rest)
    elif command == "tiny":
        tiny(folder)
    else:
        text = table(folder, rest[0])
        print(text)
        for page in map(Path, rest[1:]):
            marks = r"(<!-- corpus -->\n).*?(<!-- end of corpus -->)"
            filled = lambda found: found[1] + text + "\n" + found[2]
            page.write_text(re.sub(marks, filled, page.read_text(), flags=re.S))


if __name__ == "__main__":
    main()
