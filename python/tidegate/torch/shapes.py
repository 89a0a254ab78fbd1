"""A plan is for one shape: where Dynamo takes a size or stride that changed for a variable one, it captures the graph once more, with its sizes."""

from __future__ import annotations

import torch
from torch import fx
from torch._dynamo import config, exc

from . import settings


class _Anew(exc.UnspecializeRestartAnalysis, exc.TensorifyScalarRestartAnalysis):
    """What Dynamo begins anew for, wherever it is raised."""


def fix(module: fx.GraphModule) -> None:
    """Has Dynamo begin anew with the sizes that are there, if it was not asked for variable ones."""
    given = [node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder")]
    leaves = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]
    # A view's memory has the size of what it is a view of.
    memory = [leaf.untyped_storage().nbytes() for leaf in leaves]
    sizes = [*memory, *(size for leaf in leaves for size in (*leaf.shape, *leaf.stride(), leaf.storage_offset()))]
    varying = any(isinstance(size, torch.SymInt) for size in sizes)
    if not varying or not config.automatic_dynamic_shapes or not config.assume_static_by_default:
        return
    settings.until_compiled("automatic_dynamic_shapes", False)
    raise _Anew(restart_reason="tidegate plans for one shape")
