"""Recurrent layers in captured graphs as eager computes them, on the processor.

PyTorch captures an LSTM, a GRU or an RNN in a form of its own, written in Python: many ops, whose last bits are not those of
eager's LSTM, which is one kernel a layer, and which leave out the dropout between layers. What eager calls is captured instead.

Of eager's LSTM kernel, backward reads what forward noted for it, which forward leaves out where gradients are switched off, as they
are while a captured graph runs, and whose size no fake tensor has. So the kernel has a name of its own here, under which it
notes in any case, and its notes' size is that of a call.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator

import torch
from torch import fx
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .offload import LIBRARY
from .times import likeness, operands

_ATEN = torch.ops.aten
_LAYERS = [getattr(getattr(_ATEN, name), form) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")]
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_KERNEL = _ATEN.mkldnn_rnn_layer.default
_NOTES = 3


@contextlib.contextmanager
def as_eager(inputs: list) -> Iterator[None]:
    """Captures recurrent layers by eager's own calls where all inputs are on the processor; other devices' are not tested."""
    here = all(leaf.device.type == "cpu" for leaf in inputs if isinstance(leaf, torch.Tensor))
    forms = {layer: {key: layer.py_kernels.pop(key) for key in _KEYS if key in layer.py_kernels} for layer in _LAYERS if here}
    try:
        for layer in forms:
            layer._dispatch_cache.clear()
        yield
    finally:
        for layer, form in forms.items():
            layer.py_kernels.update(form)
            layer._dispatch_cache.clear()


def _layer(*given: object) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
        return _KERNEL(*given)


LIBRARY.define("lstm_layer" + str(_KERNEL._schema).split("mkldnn_rnn_layer", 1)[1])
LIBRARY.impl("lstm_layer", _layer, "CPU")
torch.library.register_fake("tidegate::lstm_layer", _KERNEL, lib=LIBRARY)


def notes(module: fx.GraphModule) -> None:
    """Lets all LSTM layers of a graph note what backward reads, and says how large that is."""
    sizes: dict[str, int] = {}
    for node in module.graph.find_nodes(op="call_function", target=_KERNEL):
        node.target = torch.ops.tidegate.lstm_layer.default
        like = likeness(node)
        if like not in sizes:
            with unset_fake_temporarily(), no_python_dispatcher(), torch.random.fork_rng([]):
                arguments, _ = operands(node)
                sizes[like] = node.target(*arguments)[_NOTES].numel()
        values = node.meta["val"]
        with values[0].fake_mode:
            noted = torch.empty(sizes[like], dtype=torch.uint8)
        node.meta["val"] = (*values[:_NOTES], noted)
        same = [part for part in node.users if part.target is operator.getitem and part.args[1] == _NOTES]
        for part in same:
            part.meta["val"] = noted
            same += [user for user in part.users if user.target is _ATEN.detach.default]
