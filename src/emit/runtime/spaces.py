"""
Tensors that live on the host while the rest of the step is on a GPU. Each way has a stream of its own: copies down, copies up
and kernels run beside each other, from and to pinned memory. Where the device is the CPU itself a move is a copy.
"""
from typing import Dict, List, Sequence

import torch

from .comm import Pending


class Moving(Pending):
    """Copies under way. `tensors` are those that were made for them."""

    def __init__(self, event, tensors: List[torch.Tensor], held, text: str, on_host: bool):
        super().__init__(None, lambda: None, text, held)
        self.event, self.tensors, self.on_host = event, tensors, on_host

    def wait(self):
        """What the host goes on with must be there; a GPU is told to wait."""
        if self.event is not None and self.on_host:
            self.event.synchronize()
        elif self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)
        self.held = None


class Mover:
    """The two streams of a device."""

    def __init__(self, device):
        self.device = device
        self.streams: Dict[str, torch.cuda.Stream] = {}

    def to_host(self, tensors: Sequence, into: Sequence = ()) -> Moving:
        """Into tensors that are there, or into new ones. A number is where it is needed already."""
        made = [x for x in tensors if not isinstance(x, torch.Tensor)]
        given = [x for x in tensors if isinstance(x, torch.Tensor)]
        pinned = self.device.type == "cuda"
        targets = list(into) or [torch.empty(x.shape, dtype=x.dtype, pin_memory=pinned) for x in given]
        event = self._copy("down", targets, given)
        return Moving(event, [] if into else made + targets, (given, targets), "a copy to the host", True)

    def to_device(self, tensors: Sequence[torch.Tensor], into: Sequence[torch.Tensor] = ()) -> Moving:
        targets = list(into) or [torch.empty(x.shape, dtype=x.dtype, device=self.device) for x in tensors]
        event = self._copy("up", targets, tensors)
        return Moving(event, [] if into else targets, (tensors, targets), "a copy to the device", False)

    def _copy(self, way: str, targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]):
        if self.device.type != "cuda":
            for target, source in zip(targets, sources):
                target.copy_(source.view(target.shape))
            return None
        stream = self.streams.setdefault(way, torch.cuda.Stream(self.device))
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for target, source in zip(targets, sources):
                target.copy_(source.view(target.shape), non_blocking=True)
                for tensor in (target, source):
                    if tensor.is_cuda:
                        tensor.record_stream(stream)
            event = torch.cuda.Event()
            event.record(stream)
        return event
