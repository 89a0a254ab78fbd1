"""Checks models under plans, then trains them: what was predicted beside what was measured, and whether parameters are eager's.

    python python/examples/train_under_a_plan.py resnet50 gpt2 --budget 60% --budget 45%

For each model the table of `tidegate.torch.check`, and for each budget whether parameters after some steps of SGD are the same
to the bit. Ends with 1 if anything was trained without a plan.
"""

import argparse
import copy
import os
import sys
import warnings

# Read when cuBLAS begins; without it, products may differ from run to run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import models
import torch
from torch.utils._pytree import tree_map

import tidegate.torch as tt


def train(module, step, inputs, loss, start, steps, rate=1e-3):
    """Everything that training has left of the module, and its losses."""
    module.load_state_dict(start)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(models.call(step, inputs))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return copy.deepcopy(module.state_dict()), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=sorted(models.MODELS), metavar="MODEL", help=", ".join(sorted(models.MODELS)))
    parser.add_argument("--budget", action="append", help="of the in-core peak, or bytes (60%%; may be repeated)")
    parser.add_argument("--size", choices=["tiny", "full"], help="tiny on a CPU, full on a GPU unless said")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=10, help="[10]")
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning [1e-3]")
    parser.add_argument("--inner", default="eager", choices=["eager", "inductor"])
    parser.add_argument("--double", action="store_true", help="in 64 bits, where what fused kernels round otherwise does not grow to be seen")
    parser.add_argument("--allow")
    parser.add_argument("--evaluations", type=int, help="of plans, in a search")
    parser.add_argument("--machine", default="here")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling new memory is for who debugs, and would be timed.
    torch.utils.deterministic.fill_uninitialized_memory = False
    # Without it the compiler passes over recurrent layers.
    torch._dynamo.config.allow_rnn = True
    warnings.simplefilter("ignore")
    options = {"machine": given.machine, "inner": given.inner, "allow": given.allow, "evaluations": given.evaluations}
    planned = True
    for name in given.models:
        torch.manual_seed(0)
        module, inputs, loss = models.MODELS[name](given.size or ("full" if device == "cuda" else "tiny"), device, given.batch)
        if given.double:
            module = module.double()
            inputs = tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, inputs)
        start = copy.deepcopy(module.state_dict())
        budgets = given.budget or ["60%"]
        found = tt.check(module, inputs, budgets, loss=loss, **options)
        print(found)
        planned &= found.applied
        eager, losses = train(module, module, inputs, loss, start, given.steps, given.rate)
        for budget in budgets:
            torch._dynamo.reset()
            step = torch.compile(module, backend=tt.tidegate, options={**options, "budget": budget}, dynamic=False)
            mine, own = train(module, step, inputs, loss, start, given.steps, given.rate)
            same = all(torch.equal(mine[key], eager[key]) for key in eager)
            off = max(abs(a / b - 1) for a, b in zip(own, losses))
            print(f"{budget}: after {given.steps} steps, loss {own[-1]:.6f}, losses off {off:.1e} at most, parameters {'are' if same else 'ARE NOT'} eager's bits", flush=True)
    return 0 if planned else 1


if __name__ == "__main__":
    sys.exit(main())
