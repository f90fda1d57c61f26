"""
torch.compile on the simulated GPU: what is compiled is given the CPU tensors within, which say of themselves that they are CUDA's, so that it
takes the lines that a GPU takes. A step that is being recorded is executed op by op instead, so that all of it is recorded.
"""
from typing import Callable

import torch
from torch.utils import _pytree as pytree

from . import device
from .device import OnGpu, on_device, on_host, outside, own

# How torch.compile is to compile, set by `start`.
chosen = {"backend": "aot_eager"}
real = torch.compile
count = {"calls": 0}


def compiled(function: Callable, *, dynamic=None, options=None, **_) -> Callable:
    more = {"options": options} if chosen["backend"] == "inductor" and options else {}
    made = real(function, backend=chosen["backend"], dynamic=dynamic, **more)

    def called(*args, **kwargs):
        if device.state.capturing is not None or device.inside():
            return function(*args, **kwargs)
        count["calls"] += 1
        flat, spec = pytree.tree_flatten((args, kwargs))
        flat = [_unlisted(x) for x in flat]
        operands = [x for x in flat if isinstance(x, OnGpu)]
        for x in operands:
            device._unused_elsewhere(x.inner, True)
        with outside():
            own.inside = True
            try:
                args, kwargs = pytree.tree_unflatten([on_host(x) for x in flat], spec)
                result = made(*args, **kwargs)
            finally:
                own.inside = False
        device.used([], [x.inner for x in operands])
        return pytree.tree_map(lambda x: _wrapped(x, operands), result)

    return called


def _unlisted(x):
    return x


def _wrapped(x, operands):
    """What is given back as it came is the same tensor."""
    if not isinstance(x, torch.Tensor):
        return x
    return next((each for each in operands if each.inner is x), None) if any(each.inner is x for each in operands) else on_device(x)


def _met(method: Callable) -> Callable:
    """What compiled code calls as it is: outside of it, and its results within."""

    def called(self, *args, **kwargs):
        if not device.inside():
            return method(self, *args, **kwargs)
        own.inside = False
        try:
            with device.Simulation():
                args, kwargs = pytree.tree_map(on_device, (args, kwargs))
                made = method(self, *args, **kwargs)
        finally:
            own.inside = True
        return pytree.tree_map(on_host, made)

    return called


def serve(context) -> None:
    """For the runtime's module `context`."""
    for name in context.NOT_COMPILED:
        setattr(context.Context, name, _met(getattr(context.Context, name)))


def start(backend: str) -> None:
    from torch._dynamo.variables import ConstantVariable, TensorVariable

    chosen["backend"] = backend
    torch.compile = compiled
    here = torch._C.TensorBase.is_cuda
    torch.Tensor.is_cuda = property(lambda x: device.inside() or here.__get__(x))
    TensorVariable.method_attr_is_cuda = lambda self, tx: ConstantVariable.create(True)
