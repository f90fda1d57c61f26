"""
Offload to the host and to disk. Host: downloads, uploads and kernels overlap, on one CUDA stream each, with pinned memory. If the
device is the CPU, a transfer is a copy.

Disk (NVMe): tensors are files, read and written by one thread per direction, with O_DIRECT if the disk supports it. The files are
unnamed temporary ones (TMPDIR) of fixed size: they disappear with their process. A disk error ends the run with a message that names
the tensor.
"""
import mmap
import os
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from .comm import Pending


class PendingCopy(Pending):
    """Asynchronous copies. `tensors` are their results."""

    def __init__(self, event, tensors: List[torch.Tensor], storage, text: str, on_host: bool):
        super().__init__(None, lambda: None, text, storage)
        self.event, self.tensors, self.on_host = event, tensors, on_host

    def wait(self) -> None:
        """On the host, waits for the copies; on a GPU, only makes the stream wait."""
        if self.event is not None and self.on_host:
            self.event.synchronize()
        elif self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)
        self.held = None


class PendingDiskCopy(Pending):
    """Disk transfers by a thread. Those that continue to a GPU return the event of the upload."""

    def __init__(self, future: Future, tensors: List, storage, text: str):
        super().__init__(None, lambda: None, text, storage)
        self.future, self.tensors = future, tensors

    def wait(self) -> None:
        event = self.future.result()
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        self.held = None


PAGE = 4096
# Bytes per read or write.
BLOCK = 4 << 20


class DiskFailed(Exception):
    """A file that cannot be created, read or written. The message names the tensor and the error."""


class DiskTensor:
    """A tensor in a file, initially zero. `name` is for messages."""

    def __init__(self, sizes: Sequence[int], dtype: torch.dtype, name: str, file: "Optional[File]" = None):
        self.shape, self.dtype, self.name = torch.Size(sizes), dtype, name
        self.bytes = self.numel() * self.element_size()
        self.file = file or File(self.bytes, name)

    def numel(self) -> int:
        return self.shape.numel()

    def element_size(self) -> int:
        return torch.empty((), dtype=self.dtype).element_size()

    def first(self, elements: int) -> "OnDisk":
        """The first elements, flattened, in the same file."""
        return DiskTensor([elements], self.dtype, self.name, self.file)

    def read(self, into: Optional[torch.Tensor] = None) -> torch.Tensor:
        values = torch.empty(self.shape, dtype=self.dtype) if into is None else into
        raw = values.view(-1).view(torch.uint8)
        for at, some, whole in self._blocks():
            pages, line = _pages()
            self._transfer(os.preadv, "read", pages[:whole], at)
            raw[at : at + some].copy_(line[:some])
        return values

    def write(self, values: torch.Tensor) -> None:
        raw = values.contiguous().view(-1).view(torch.uint8)
        for at, some, whole in self._blocks():
            pages, line = _pages()
            line[:some].copy_(raw[at : at + some])
            line[some:whole].zero_()
            self._transfer(os.pwritev, "written", pages[:whole], at)

    def _blocks(self) -> Iterator[Tuple[int, int, int]]:
        """Blocks: first element, bytes, and bytes rounded up to pages."""
        for at in range(0, self.bytes, BLOCK):
            some = min(BLOCK, self.bytes - at)
            yield at, some, -(-some // PAGE) * PAGE

    def _transfer(self, transfer: Callable, done: str, part: memoryview, at: int) -> None:
        moved = 0
        while moved < len(part):
            try:
                step = transfer(self.file.number, [part[moved:]], at + moved)
            except OSError as error:
                raise self._failed(done, error.strerror) from error
            if step == 0:
                raise self._failed(done, "the file ends too soon")
            moved += step

    def _failed(self, done: str, why: str) -> DiskFailed:
        return DiskFailed(f"offload: the file of {self.name} in {self.file.folder} could not be {done}: {why}")


class File:
    """An unnamed file of full pages, closed when it is garbage-collected."""

    def __init__(self, needed: int, name: str):
        self.number, path = tempfile.mkstemp(prefix=".lockstep-")
        self.folder = os.path.dirname(path)
        rounded = -(-max(1, needed) // PAGE) * PAGE
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.number, 0, rounded)
            else:
                os.ftruncate(self.number, rounded)
            self._bypass_cache(path)
        except OSError as error:
            message = f"there is no room for {rounded} bytes of {name} in {self.folder}: {error.strerror}"
            raise DiskFailed(f"offload: {message}; set TMPDIR to a folder on another disk") from error
        finally:
            os.unlink(path)

    def _bypass_cache(self, path: str) -> None:
        """Without support from the disk or the system, the file stays cached."""
        try:
            number = os.open(path, os.O_RDWR | getattr(os, "O_DIRECT", 0))
        except OSError:
            return
        try:
            os.preadv(number, [_pages()[0][:PAGE]], 0)
            self.number, number = number, self.number
        except OSError:
            pass
        os.close(number)

    def __del__(self) -> None:
        os.close(self.number)


_own = threading.local()


def _pages() -> Tuple[memoryview, torch.Tensor]:
    """The thread's page-aligned buffer, as O_DIRECT requires: as bytes, and as a tensor."""
    if not hasattr(_own, "pages"):
        memory = mmap.mmap(-1, BLOCK)
        _own.pages = (memoryview(memory), torch.frombuffer(memory, dtype=torch.uint8))
    return _own.pages


Storage = Union[torch.Tensor, DiskTensor]


def materialize(storage: Storage) -> torch.Tensor:
    return storage.read() if isinstance(storage, DiskTensor) else storage


@contextmanager
def writable(storage: Storage) -> Iterator[torch.Tensor]:
    """The values, for in-place changes; a tensor on disk is written back at the end."""
    values = materialize(storage)
    yield values
    if isinstance(storage, DiskTensor):
        storage.write(values)


class Offloader:
    """The two copy streams of a device, and the two I/O threads of a disk."""

    def __init__(self, device: torch.device):
        self.device = device
        self.streams: Dict[str, torch.cuda.Stream] = {}
        self.threads: Dict[str, ThreadPoolExecutor] = {}

    def from_disk(self, files: Sequence[DiskTensor], to: str = "host") -> PendingDiskCopy:
        """Reads into pinned memory, and uploads from there if the target is the device."""
        on_gpu = self.device.type == "cuda"
        staging = [torch.empty(x.shape, dtype=x.dtype, pin_memory=on_gpu) for x in files]
        uploads = on_gpu and to == "device"
        targets = [torch.empty_like(x, device=self.device) for x in staging] if uploads else staging
        ready = _record_event() if uploads else None

        def work():
            for file, into in zip(files, staging):
                file.read(into)
            return self._copy("up", targets, staging, ready) if uploads else None

        return PendingDiskCopy(self._thread("in").submit(work), targets, (files, staging), "a copy from the disk")

    def to_disk(self, tensors: Sequence[torch.Tensor], into: Sequence[DiskTensor] = ()) -> PendingDiskCopy:
        """Writes to the given files, or to new ones."""
        files = list(into) or [DiskTensor(x.shape, x.dtype, "activations") for x in tensors]
        staging, event = tensors, None
        if any(x.is_cuda for x in tensors):
            staging = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in tensors]
            event = self._copy("down", staging, tensors)

        def work() -> None:
            if event is not None:
                event.synchronize()
            for file, values in zip(files, staging):
                file.write(values)

        return PendingDiskCopy(self._thread("out").submit(work), [] if into else files, (tensors, staging), "a copy to the disk")

    def _thread(self, direction: str) -> ThreadPoolExecutor:
        if direction not in self.threads:
            on_gpu = self.device.type == "cuda"
            begin = (torch.cuda.set_device, (self.device,)) if on_gpu else (None, ())
            self.threads[direction] = ThreadPoolExecutor(1, f"disk-{direction}", *begin)
        return self.threads[direction]

    def to_host(self, tensors: Sequence, into: Sequence = ()) -> PendingCopy:
        """Downloads to the given tensors, or to new ones. A Python number is passed through."""
        made = [x for x in tensors if not isinstance(x, torch.Tensor)]
        given = [x for x in tensors if isinstance(x, torch.Tensor)]
        pinned = self.device.type == "cuda"
        targets = list(into) or [torch.empty(x.shape, dtype=x.dtype, pin_memory=pinned) for x in given]
        event = self._copy("down", targets, given)
        return PendingCopy(event, [] if into else made + targets, (given, targets), "a copy to the host", True)

    def to_device(self, tensors: Sequence[torch.Tensor], into: Sequence[torch.Tensor] = ()) -> PendingCopy:
        targets = list(into) or [torch.empty(x.shape, dtype=x.dtype, device=self.device) for x in tensors]
        event = self._copy("up", targets, tensors)
        return PendingCopy(event, [] if into else targets, (tensors, targets), "a copy to the device", False)

    def _copy(self, direction: str, targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], ready=None):
        """`ready`: the event after which the sources are valid; by default, all work so far."""
        if self.device.type != "cuda":
            for target, source in zip(targets, sources):
                target.copy_(source.view(target.shape))
            return None
        stream = self.streams.setdefault(direction, torch.cuda.Stream(self.device))
        stream.wait_event(ready or _record_event())
        with torch.cuda.stream(stream):
            for target, source in zip(targets, sources):
                target.copy_(source.view(target.shape), non_blocking=True)
                for tensor in (target, source):
                    if tensor.is_cuda:
                        tensor.record_stream(stream)
            event = torch.cuda.Event()
            event.record(stream)
        return event


def _record_event():
    event = torch.cuda.Event()
    event.record()
    return event
