"""Everything that is measured of plans in PyTorch on a GPU, in order of worth, within a time.

    python python/examples/gpu.py FOLDER [--minutes N] [--only STEP,...] [--list]

Each step has a process of its own, so that one that fails costs no other, and leaves STEP.json with what it found,
STEP.txt with its tables and STEP.log with what was printed meanwhile; `summary.json` says how each ended.
"""

import argparse
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import models  # noqa: E402
import torch  # noqa: E402

# A test sets the processor here.
DEVICE = "cuda"


def same_each_time():
    """Takes kernels whose bits are the same each time; with `warn_only` attention would take one whose bits are not."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.manual_seed(0)


def checked(name, size="full", budgets=("60%", "45%", "80%"), batch=None, **options):
    """`check` of one of the models."""
    from tidegate.torch.check import check

    same_each_time()
    module, inputs, loss = models.MODELS[name](size, DEVICE, batch)
    found = check(module, inputs, budgets, loss=loss, **{"seconds": 35, **options})
    return found.to_dict(), any(row.step_s for row in found.rows)


def beside(name, seconds, inner="eager"):
    """`rivals` of one of the models, with the kernels that PyTorch takes by itself."""
    from tidegate.torch.rivals import rivals

    torch.manual_seed(0)
    module, inputs, loss = models.MODELS[name]("full", DEVICE)
    found = rivals(module, inputs, loss, ["60%"], inner, shares=[0.5], seconds=seconds)
    return found.to_dict(), any(row.step_s for row in found.rows if row.name.startswith("tidegate"))


def beyond(name, batch, share, steps=6):
    """Trains what does not fit: the process gets a share of what eager takes, eager fails there, a plan does not."""
    from tidegate.torch.check import planned
    from tidegate.torch.measure import Subject, failure

    same_each_time()
    module, inputs, loss = models.MODELS[name]("full", DEVICE, batch)
    subject = Subject(module, inputs, loss)
    total = torch.cuda.get_device_properties(0).total_memory
    eager = subject.peak(subject.forward)
    torch.cuda.empty_cache()
    limit = int(share * eager)
    # What outlives a step is there before it; the rest of the limit is for what the step allocates.
    torch.cuda.set_per_process_memory_fraction(limit / total)
    said = {"model": name, "batch": batch, "eager_peak_bytes": eager, "limit_bytes": limit, "eager": "it fits"}
    try:
        subject.step(subject.forward)
    except torch.OutOfMemoryError as error:
        said["eager"] = failure(error)
    module.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    # A tenth for what the allocator cannot use between blocks; plain SGD keeps nothing.
    budget = said["budget_bytes"] = int(0.9 * limit)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    run, _ = planned(subject, {"budget": budget})
    said["losses"] = []
    for _ in range(steps):
        start = time.perf_counter()
        value = subject.step(run)
        optimizer.step()
        subject.synchronize()
        said["losses"].append((value.item(), time.perf_counter() - start))
    said["peak_bytes"], said["reserved_bytes"] = subject.peak(run), torch.cuda.max_memory_reserved()
    return said, True


def shown(found):
    """What a step found, as tables."""
    from tidegate.torch.check import Check
    from tidegate.torch.measure import duration, size
    from tidegate.torch.rivals import Rivals

    if "losses" not in found:
        return str((Check if "unplanned" in found else Rivals).from_dict(found))
    lines = [
        f"{found['model']}, batch {found['batch']}: eager takes {size(found['eager_peak_bytes'])}",
        f"with {size(found['limit_bytes'])} in all: {found['eager']} in eager",
        f"by a plan for {size(found['budget_bytes'])}: it fits, peak {size(found['peak_bytes'])}, reserved {size(found['reserved_bytes'])}",
        *(f"step {index}: loss {loss:.4f}, {duration(seconds)}" for index, (loss, seconds) in enumerate(found["losses"])),
    ]
    return "\n".join(lines)


# In order of worth: name, seconds it may take, what it does.
STEPS = [
    ("smoke-unet", 60, lambda: checked("unet", "tiny", ["60%"], rounds=2, steps=3)),
    ("smoke-gpt2", 60, lambda: checked("gpt2", "tiny", ["60%"], rounds=2, steps=3)),
    ("unet", 70, lambda: checked("unet")),
    ("beyond-gpt2", 120, lambda: beyond("gpt2", 16, 0.5)),
    ("gpt2", 90, lambda: checked("gpt2", seconds=55)),
    ("resnet50", 70, lambda: checked("resnet50", batch=128)),
    ("vit", 70, lambda: checked("vit")),
    ("llama", 90, lambda: checked("llama", seconds=55)),
    ("rivals-gpt2", 170, lambda: beside("gpt2", 120)),
    ("rivals-resnet50", 120, lambda: beside("resnet50", 80)),
    ("inductor-resnet50", 130, lambda: checked("resnet50", batch=128, inner="inductor", seconds=90)),
    ("bert", 70, lambda: checked("bert")),
    ("rivals-inductor-gpt2", 170, lambda: beside("gpt2", 120, "inductor")),
    ("lstm", 70, lambda: checked("lstm")),
]
# So many seconds before its end a step is interrupted, to measure and write what it has until then.
LAST = 20


def interrupted(*_):
    raise TimeoutError("no time was left")


def child(folder, name, work, limit):
    """Runs a step with everything that it prints in its log; exit code 1 where it raised, 2 where nothing was planned."""
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(2)
    signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, max(1, limit - LAST))
    try:
        found, planned = work()
    except Exception:  # Said in the log; the parent goes on.
        (folder / f"{name}.txt").write_text(traceback.format_exc())
        traceback.print_exc()
        os._exit(1)
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / f"{name}.txt").write_text(shown(found) + "\n")
    os._exit(0 if planned else 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where everything is written")
    parser.add_argument("--minutes", type=float, default=9, help="no step runs on after these [9]")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of steps, with commas between")
    parser.add_argument("--show", type=Path, metavar="STEP.json", help="print the tables of what a step has left, and do nothing")
    parser.add_argument("--list", action="store_true", help="print the steps' names and do nothing")
    given = parser.parse_args()
    if given.list:
        return print("\n".join(name for name, *_ in STEPS))
    if given.show:
        return print(shown(json.loads(given.show.read_text())))
    if given.folder is None:
        parser.error("say which folder everything is written to")
    # Once, before processes are made; nothing here touches the GPU yet.
    import tidegate.torch  # noqa: F401
    import torchvision  # noqa: F401
    from transformers import BertForMaskedLM, GPT2LMHeadModel, LlamaForCausalLM  # noqa: F401

    given.folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    summary = []
    fork = multiprocessing.get_context("fork")
    for name, limit, work in STEPS:
        if given.only and name not in given.only:
            continue
        left = end - time.monotonic()
        start = time.monotonic()
        how = "no time was left"
        if left > 10:
            limit = min(limit, left)
            process = fork.Process(target=child, args=(given.folder, name, work, limit))
            process.start()
            process.join(limit)
            how = {0: "ok", 1: "failed", 2: "trained under no plan", None: f"stopped after {limit:.0f} s"}.get(
                process.exitcode, f"died with {process.exitcode}"
            )
            if process.is_alive():
                process.kill()
                process.join()
        summary.append({"step": name, "how": how, "seconds": round(time.monotonic() - start, 1)})
        (given.folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        text = given.folder / f"{name}.txt"
        print(f"## {name}: {how}, {summary[-1]['seconds']} s\n{text.read_text() if text.exists() else ''}", flush=True)
    return 0 if all(step["how"] == "ok" for step in summary) else 1


if __name__ == "__main__":
    sys.exit(main())
