"""Llama of 7 billion parameters, captured on `meta` and planned for machines that are not here.

    python capture_llama.py h100-sxm rtx-4090 --batch 4 --budget 60% --budget 45%
"""

import argparse
import resource
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import tidegate
import tidegate.torch as tt


def captured(arguments, machine):
    """The trace of an iteration, and what capturing it took."""
    wall, processor = time.perf_counter(), time.process_time()
    config = LlamaConfig(num_hidden_layers=arguments.layers, use_cache=False, dtype=torch.bfloat16)
    with torch.device("meta"):
        module = LlamaForCausalLM(config).to(torch.bfloat16).train()
        words = torch.zeros(arguments.batch, arguments.words, dtype=torch.int64)
    # Where this is not known, transformers warns inside of the loss, which breaks the graph in two.
    module.loss_type = "ForCausalLM"
    trace = tt.trace(module, {"input_ids": words, "labels": words}, lambda output: output.loss, machine=machine).trace
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{machine}: {sum(parameter.numel() for parameter in module.parameters()):,} parameters in bf16, {arguments.batch} times {arguments.words} words; "
          f"captured in {time.perf_counter() - wall:.0f} s ({time.process_time() - processor:.0f} s of the processor) and {held / 1e9:.1f} GB; "
          f"{len(trace.ops):,} ops, {trace.in_core_peak_bytes / 1e9:.1f} GB in core")  # fmt: skip
    return trace


def main():
    """Prints a line for each capture and each plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="+", metavar="MACHINE", help="a name of `tidegate list machines`")
    parser.add_argument("--budget", action="append", help="a share or a size, several times [all that the machine has]")
    parser.add_argument("--layers", type=int, default=32, help="[32]")
    parser.add_argument("--batch", type=int, default=4, help="[4]")
    parser.add_argument("--words", type=int, default=2048, help="[2048]")
    arguments = parser.parse_args()
    for machine in arguments.machines:
        trace = captured(arguments, machine)
        for budget in arguments.budget or [None]:
            try:
                plan = tidegate.plan(trace, tidegate.Machine.load(machine), budget=budget)
            except tidegate.PlanError as error:
                print(f"  {budget or 'all'}: {error}")
                continue
            print(f"  {budget or 'all'}: peak {plan.peak_bytes / 1e9:.2f} of {plan.budget_bytes / 1e9:.2f} GB, {plan.predicted_ns / 1e9:.2f} s, "
                  f"{plan.slowdown:.3f} of in core, {plan.host_arena_bytes / 1e9:.1f} GB of the host")  # fmt: skip


if __name__ == "__main__":
    main()
