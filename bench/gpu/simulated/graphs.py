"""
CUDA graphs of the simulated GPU. Recording executes nothing that lasts: what it changed is put back, and what it made holds NaN until a
replay. A replay executes the recorded kernels on the memory they were recorded on: whatever Python worked out in between is not there.
"""
from contextlib import contextmanager
from typing import Callable, Dict, List

import torch
from torch.utils import _pytree as pytree

from . import device
from .device import outside, place, state


class Graph:
    def __init__(self):
        self.kernels: List[Callable[[], None]] = []
        self.changed: Dict[int, tuple] = {}
        self.made: List[torch.Tensor] = []

    def op(self, func, args, kwargs, changes: bool):
        """One of PyTorch's ops: executed now for what it makes, then undone."""
        operands = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if changes:
            self.keep(operands)
        made = func(*args, **kwargs)
        fresh = [x for x in pytree.tree_leaves(made) if isinstance(x, torch.Tensor) and all(place(x) != place(y) for y in operands)]
        self.made += fresh

        def again() -> None:
            values = func(*args, **kwargs)
            pairs = zip(pytree.tree_leaves(made), pytree.tree_leaves(values))
            for into, value in pairs:
                if any(into is x for x in fresh):
                    into.copy_(value)

        if changes or fresh:
            self.kernels.append(again)
        return made

    def kernel(self, launch: Callable[[], None], operands: List[torch.Tensor]) -> None:
        """One of our own, which may change any of its operands."""
        self.keep(operands)
        self.kernels.append(launch)
        launch()

    def keep(self, operands) -> None:
        ours = {place(x) for x in self.made}
        for x in operands:
            if place(x) not in self.changed and place(x) not in ours:
                storage = x.untyped_storage()
                self.changed[place(x)] = storage, storage.clone()

    def undo(self) -> None:
        for storage, before in self.changed.values():
            storage.copy_(before)
        for x in self.made:
            device._poison(x)

    def replay(self) -> None:
        state.clock += 1
        with outside():
            for kernel in self.kernels:
                kernel()


@contextmanager
def recording(graph: Graph, capture_error_mode: str = "global", **_):
    state.capturing = graph
    try:
        yield
    finally:
        state.capturing = None
        with outside():
            graph.undo()


def start() -> None:
    torch.cuda.CUDAGraph, torch.cuda.graph = Graph, recording
