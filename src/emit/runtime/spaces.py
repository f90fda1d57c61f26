"""
Tensors that live on the host while the rest of the step is on a GPU. Each way has a stream of its own: copies down, copies up
and kernels run beside each other, from and to pinned memory. Where the device is the CPU itself a move is a copy.

Tensors that live on a disk are files mapped into memory, and a thread copies from and to them. The files lie where temporary ones do
(TMPDIR), have room for all they will hold, and no name: they are gone when their process is.
"""
import os
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, List, Optional, Sequence

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


class Threaded(Pending):
    """Copies from or to a disk, that a thread makes."""

    def __init__(self, future: Future, tensors: List[torch.Tensor], held, text: str):
        super().__init__(None, lambda: None, text, held)
        self.future, self.tensors = future, tensors

    def wait(self):
        self.future.result()
        self.held = None


PAGE = 4096


def on_disk(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """A line of zeros in a file of whole pages."""
    bytes_needed = -(-max(1, elements) * torch.empty((), dtype=dtype).element_size() // PAGE) * PAGE
    handle, path = tempfile.mkstemp(prefix=".lockstep-")
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, bytes_needed)
        else:
            os.ftruncate(handle, bytes_needed)
        return torch.from_file(path, shared=True, size=elements, dtype=dtype)
    except OSError as error:
        folder = os.path.dirname(path)
        raise RuntimeError(
            f"offload: there is no room for {bytes_needed} bytes in {folder}: {error.strerror}; let TMPDIR name a folder of another disk"
        ) from error
    finally:
        os.close(handle)
        os.unlink(path)


class Mover:
    """The two streams of a device, and the thread of a disk."""

    def __init__(self, device):
        self.device = device
        self.streams: Dict[str, torch.cuda.Stream] = {}
        self.thread: Optional[ThreadPoolExecutor] = None

    def from_disk(self, tensors: Sequence[torch.Tensor]) -> Threaded:
        pinned = self.device.type == "cuda"
        targets = [torch.empty(x.shape, dtype=x.dtype, pin_memory=pinned) for x in tensors]
        return Threaded(self._thread(targets, tensors), targets, (tensors, targets), "a copy from the disk")

    def to_disk(self, tensors: Sequence[torch.Tensor], into: Sequence[torch.Tensor]) -> Threaded:
        return Threaded(self._thread(into, tensors), [], (tensors, into), "a copy to the disk")

    def _thread(self, targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Future:
        if self.thread is None:
            self.thread = ThreadPoolExecutor(1, "disk")
        return self.thread.submit(_copy_all, targets, sources)

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


def _copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    for target, source in zip(targets, sources):
        target.copy_(source.view(target.shape))
