"""Records training steps of PyTorch on the GPU at hand, for `tidegate import` and for tests.

    python3 recordings/record.py FOLDER [--seconds N] [--only NAME,...] [--list]

For each network: times of steps, peaks that the allocator counted, and of one and the same step a trace of the
profiler, an execution trace and the allocator's history. `summary.json` is written anew after each.
"""

import argparse
import gzip
import json
import os
import pickle
import platform
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "examples"))
import models  # noqa: E402

CUDA = "cuda"
BF16 = torch.bfloat16


def bert_large():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    return models.language(config, BertForMaskedLM, 8, 512, CUDA)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=8, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=32000,
    )  # fmt: skip
    return models.language(config, LlamaForCausalLM, 1, 2048, CUDA)


def vision(name, batch):
    return lambda: models.torchvision_model(name, batch, device=CUDA)


# In order of worth: name, what makes the model, arithmetic below 32 bits, whether products may use TF32.
RUNS = [
    ("resnet50-b32-f32", vision("resnet50", 32), None, False),
    ("gpt2-b4-s1024-bf16", lambda: models.gpt2("full", CUDA, 4), BF16, True),
    ("bert-large-b8-s512-f32", bert_large, None, False),
    ("resnet50-b64-bf16", vision("resnet50", 64), BF16, True),
    ("llama-1b8l-b1-s2048-bf16", llama, BF16, True),
    ("vit_b_16-b32-tf32", vision("vit_b_16", 32), None, True),
    ("resnet50-b64-tf32", vision("resnet50", 64), None, True),
    ("resnet50-b64-f32", vision("resnet50", 64), None, False),
    ("unet-b8-f32", lambda: models.unet("full", CUDA, 8), None, False),
    ("gpt2-b4-s1024-f32", lambda: models.gpt2("full", CUDA, 4), None, False),
    ("bert-base-b8-s512-bf16", lambda: models.bert("full", CUDA, 8), BF16, True),
    ("vgg16-b32-f32", vision("vgg16", 32), None, False),
    ("mobilenet_v2-b64-f32", vision("mobilenet_v2", 64), None, False),
    ("resnet18-b64-f32", vision("resnet18", 64), None, False),
    ("densenet121-b32-f32", vision("densenet121", 32), None, False),
]


def driver(field):
    """What the driver's tool says of the first GPU; nothing where it is absent."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def memory_of_context():
    """What the driver counts as used before anything, and what contexts and libraries add; bytes.

    `outside` is what is used beyond what the allocator has reserved: kernels that were loaded, handles, stacks.
    """
    before = driver("memory.used")
    stages = []

    def stage(name, work=None):
        result = work() if work else None
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        reserved = torch.cuda.memory_reserved()
        stages.append({
            "after": name, "driver_used": total - free, "allocated": torch.cuda.memory_allocated(),
            "reserved": reserved, "outside": total - free - reserved, "nvidia_smi_mib": driver("memory.used"),
        })  # fmt: skip
        return result

    stage("context")
    x = stage("first tensor", lambda: torch.zeros(256, 256, device=CUDA))
    stage("first elementwise kernel", lambda: x + 1)
    for dtype in (torch.float32, torch.bfloat16):
        stage(f"first product, {dtype}", lambda: x.to(dtype) @ x.to(dtype))
    for dtype in (torch.float32, torch.bfloat16):
        image = torch.randn(8, 64, 56, 56, device=CUDA, dtype=dtype, requires_grad=True)
        weight = torch.randn(64, 64, 3, 3, device=CUDA, dtype=dtype, requires_grad=True)
        output = stage(f"first convolution, {dtype}", lambda: torch.conv2d(image, weight, padding=1))
        stage(f"its backward, {dtype}", lambda: output.sum().backward())
    return {"nvidia_smi_mib_before": before, "stages": stages}


def machine():
    """The GPU, the host and the versions of everything that has a part in the figures."""
    import torchvision
    import transformers

    gpu = torch.cuda.get_device_properties(0)
    return {
        "device": gpu.name, "memory": gpu.total_memory, "multiprocessors": gpu.multi_processor_count,
        "capability": [gpu.major, gpu.minor], "driver": driver("driver_version"),
        "clocks_max_mhz": driver("clocks.max.sm"), "power_limit_w": driver("power.limit"),
        "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
        "torchvision": torchvision.__version__, "transformers": transformers.__version__,
        "python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count(),
        "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        "module_loading": os.environ.get("CUDA_MODULE_LOADING", "LAZY"),
    }  # fmt: skip


def written(path):
    """Packs a file in place of itself, and says how large it is then."""
    packed = path.with_name(path.name + ".gz")
    with open(path, "rb") as plain, gzip.open(packed, "wb", 9) as out:
        shutil.copyfileobj(plain, out)
    path.unlink()
    return packed.stat().st_size


def times(step, count):
    """Median milliseconds of forward, backward and optimizer over steps in sequence, and all the steps'."""
    steps = []
    for _ in range(count):
        steps.append([torch.cuda.Event(enable_timing=True) for _ in range(4)])
        step(lambda index, marks=steps[-1]: marks[index].record())
    torch.cuda.synchronize()
    part = lambda a, b: [marks[a].elapsed_time(marks[b]) for marks in steps]  # noqa: E731
    parts = {"step": (0, 3), "forward": (0, 1), "backward": (1, 2), "optimizer": (2, 3)}
    figures = {f"{name}_ms": statistics.median(part(*ends)) for name, ends in parts.items()}
    return figures | {"steps_ms": part(0, 3)}


def traces(step, folder, name):
    """One step as profiler, execution trace and allocator saw it; sizes of the packed files.

    A profile before it is thrown away: the first one pays for starting the profiler.
    """
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities):
        step()
        torch.cuda.synchronize()
    paths = {kind: folder / f"{name}.{kind}" for kind in ("kineto.json", "et.json", "snapshot.pickle", "ops.json")}
    # The whole step and nothing else lies between the marks, and the file is written once, after its end.
    observer = ExecutionTraceObserver().register_callback(str(paths["et.json"]))
    torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python", context=None)
    try:
        with profile(
            activities=activities, record_shapes=True, profile_memory=True, with_flops=True,
            execution_trace_observer=observer,
        ) as profiled:  # fmt: skip
            with record_function("ProfilerStep#1"):
                step()
                torch.cuda.synchronize()
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    profiled.export_chrome_trace(str(paths["kineto.json"]))
    paths["snapshot.pickle"].write_bytes(pickle.dumps(snapshot))
    table = [
        {"op": row.key, "shapes": row.input_shapes, "count": row.count, "flops": row.flops,
         "kernels_us": row.self_device_time_total}
        for row in profiled.key_averages(group_by_input_shape=True)
        if row.self_device_time_total > 0 and row.device_type == torch.autograd.DeviceType.CPU
    ]  # fmt: skip
    paths["ops.json"].write_text(json.dumps(table))
    events = json.loads(paths["kineto.json"].read_text())["traceEvents"]
    kernels = [event["dur"] for event in events if event.get("cat") == "kernel"]
    nodes = len(json.loads(paths["et.json"].read_text())["nodes"])
    figures = {"kernels": len(kernels), "kernels_ms": sum(kernels) / 1e3, "et_nodes": nodes}
    return figures | {kind: written(path) for kind, path in paths.items()}


def record(folder, name, make, amp, tf32):
    """Everything about one network."""
    torch.manual_seed(0)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    module, inputs, loss = make()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)

    def step(mark=lambda index: None):
        optimizer.zero_grad(set_to_none=True)
        mark(0)
        with torch.autocast(CUDA, dtype=amp, enabled=amp is not None):
            value = loss(models.call(module, inputs))
        mark(1)
        value.backward()
        mark(2)
        optimizer.step()
        mark(3)

    for _ in range(4):
        step()
    result = {"name": name, "amp": str(amp), "tf32": tf32, "parameters": sum(p.numel() for p in module.parameters())}
    result |= times(step, 9)
    free, total = torch.cuda.mem_get_info()
    result |= {
        "peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved(),
        "reserved": torch.cuda.memory_reserved(), "driver_used": total - free,
    }  # fmt: skip
    return result | traces(step, folder, name)


def ops(deadline):
    """Milliseconds of single products, convolutions and copies, each run alone."""

    def alone(run, count=20):
        for _ in range(3):
            run()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / count

    rows = []
    arithmetic = [("float32", False), ("float32", True), ("bfloat16", True), ("float16", True)]
    for name, tf32 in arithmetic:
        if time.monotonic() > deadline:
            return rows
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        drawn = lambda *shape, name=name: torch.randn(*shape, device=CUDA, dtype=getattr(torch, name))  # noqa: E731
        said = {"dtype": name, "tf32": tf32}
        for k in (128, 256, 512, 1024, 2048, 4096, 8192):
            a, b = drawn(k, k), drawn(k, k)
            rows.append({"op": "matmul", **said, "size": k, "ms": alone(lambda a=a, b=b: a @ b)})
        for c, side, k in ((64, 56, 3), (128, 28, 3), (256, 14, 3), (512, 7, 3), (256, 56, 1), (1024, 14, 1)):
            x, w = drawn(32, c, side, side), drawn(c, c, k, k)
            ms = alone(lambda x=x, w=w, k=k: torch.conv2d(x, w, padding=k // 2))
            rows.append({"op": "conv", **said, "size": [32, c, side, k], "ms": ms})
    for mib in (1, 4, 16, 64, 256, 1024):
        x = torch.randn(mib << 18, device=CUDA)
        y = torch.empty_like(x)
        rows.append({"op": "relu", "mib": mib, "ms": alone(lambda: torch.relu(x))})
        rows.append({"op": "copy", "mib": mib, "ms": alone(lambda: y.copy_(x))})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where files are written")
    parser.add_argument("--seconds", type=float, default=600, help="start no further network after these")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of networks, with commas between")
    parser.add_argument("--list", action="store_true", help="print the networks' names and record nothing")
    options = parser.parse_args()
    chosen = [run for run in RUNS if not options.only or run[0] in options.only]
    if options.list or not chosen:
        names = "\n".join(name for name, *_ in RUNS)
        sys.exit(print(names) if options.list else f"none of {options.only} is there; the networks are\n{names}")
    if not torch.cuda.is_available():
        sys.exit("no CUDA device is at hand, and these are recordings of one")
    options.folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.seconds
    summary = {"outside": memory_of_context()} | machine() | {"runs": []}

    def save():
        (options.folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")

    save()
    for name, *how in chosen:
        if time.monotonic() > deadline:
            summary["runs"].append({"name": name, "error": "no time was left"})
            continue
        try:
            result = record(options.folder, name, *how)
        except Exception as error:  # One network that fails must not cost the others.
            traceback.print_exc()
            result = {"name": name, "error": repr(error)}
        summary["runs"].append(result)
        print(json.dumps(result), flush=True)
        save()
    if not options.only:
        summary["ops"] = ops(deadline + 20)
    save()


if __name__ == "__main__":
    main()
