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


class Moving(Pending):
    """Asynchronous copies. `tensors` are their results."""

    def __init__(self, event, tensors: List[torch.Tensor], held, text: str, on_host: bool):
        super().__init__(None, lambda: None, text, held)
        self.event, self.tensors, self.on_host = event, tensors, on_host

    def wait(self):
        """On the host, waits for the copies; on a GPU, only makes the stream wait."""
        if self.event is not None and self.on_host:
            self.event.synchronize()
        elif self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)
        self.held = None


class Threaded(Pending):
    """Disk transfers by a thread. Those that continue to a GPU return the event of the upload."""

    def __init__(self, future: Future, tensors: List, held, text: str):
        super().__init__(None, lambda: None, text, held)
        self.future, self.tensors = future, tensors

    def wait(self):
        event = self.future.result()
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        self.held = None


PAGE = 4096
# Bytes per read or write.
PIECE = 4 << 20


class DiskFailed(Exception):
    """A file that cannot be created, read or written. The message names the tensor and the error."""


class OnDisk:
    """A tensor in a file, initially zero. `what` names it in messages."""

    def __init__(self, sizes: Sequence[int], dtype: torch.dtype, what: str, file: "Optional[File]" = None):
        self.shape, self.dtype, self.what = torch.Size(sizes), dtype, what
        self.bytes = self.numel() * self.element_size()
        self.file = file or File(self.bytes, what)

    def numel(self) -> int:
        return self.shape.numel()

    def element_size(self) -> int:
        return torch.empty((), dtype=self.dtype).element_size()

    def first(self, elements: int) -> "OnDisk":
        """The first elements, flattened, in the same file."""
        return OnDisk([elements], self.dtype, self.what, self.file)

    def read(self, into: Optional[torch.Tensor] = None) -> torch.Tensor:
        values = torch.empty(self.shape, dtype=self.dtype) if into is None else into
        raw = values.view(-1).view(torch.uint8)
        for at, some, whole in self._pieces():
            pages, line = _pages()
            self._transfer(os.preadv, "read", pages[:whole], at)
            raw[at : at + some].copy_(line[:some])
        return values

    def write(self, values: torch.Tensor) -> None:
        raw = values.contiguous().view(-1).view(torch.uint8)
        for at, some, whole in self._pieces():
            pages, line = _pages()
            line[:some].copy_(raw[at : at + some])
            line[some:whole].zero_()
            self._transfer(os.pwritev, "written", pages[:whole], at)

    def _pieces(self) -> Iterator[Tuple[int, int, int]]:
        """Blocks: first element, bytes, and bytes rounded up to pages."""
        for at in range(0, self.bytes, PIECE):
            some = min(PIECE, self.bytes - at)
            yield at, some, -(-some // PAGE) * PAGE

    def _transfer(self, how: Callable, done: str, part: memoryview, at: int) -> None:
        moved = 0
        while moved < len(part):
            try:
                step = how(self.file.number, [part[moved:]], at + moved)
            except OSError as error:
                raise self._failed(done, error.strerror) from error
            if step == 0:
                raise self._failed(done, "the file ends too soon")
            moved += step

    def _failed(self, done: str, why: str) -> DiskFailed:
        return DiskFailed(f"offload: the file of {self.what} in {self.file.folder} could not be {done}: {why}")


class File:
    """An unnamed file of full pages, closed when it is garbage-collected."""

    def __init__(self, needed: int, what: str):
        self.number, path = tempfile.mkstemp(prefix=".lockstep-")
        self.folder = os.path.dirname(path)
        room = -(-max(1, needed) // PAGE) * PAGE
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.number, 0, room)
            else:
                os.ftruncate(self.number, room)
            self._bypass_cache(path)
        except OSError as error:
            told = f"there is no room for {room} bytes of {what} in {self.folder}: {error.strerror}"
            raise DiskFailed(f"offload: {told}; set TMPDIR to a folder on another disk") from error
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
        memory = mmap.mmap(-1, PIECE)
        _own.pages = (memoryview(memory), torch.frombuffer(memory, dtype=torch.uint8))
    return _own.pages


Held = Union[torch.Tensor, OnDisk]


def in_memory(held: Held) -> torch.Tensor:
    return held.read() if isinstance(held, OnDisk) else held


@contextmanager
def changing(held: Held) -> Iterator[torch.Tensor]:
    """The values, for in-place changes; a tensor on disk is written back at the end."""
    values = in_memory(held)
    yield values
    if isinstance(held, OnDisk):
        held.write(values)


class Mover:
    """The two copy streams of a device, and the two I/O threads of a disk."""

    def __init__(self, device):
        self.device = device
        self.streams: Dict[str, torch.cuda.Stream] = {}
        self.threads: Dict[str, ThreadPoolExecutor] = {}

    def from_disk(self, files: Sequence[OnDisk], to: str = "host") -> Threaded:
        """Reads into pinned memory, and uploads from there if the target is the device."""
        on_gpu = self.device.type == "cuda"
        got = [torch.empty(x.shape, dtype=x.dtype, pin_memory=on_gpu) for x in files]
        goes_on = on_gpu and to == "device"
        targets = [torch.empty_like(x, device=self.device) for x in got] if goes_on else got
        now = _now() if goes_on else None

        def work():
            for file, into in zip(files, got):
                file.read(into)
            return self._copy("up", targets, got, now) if goes_on else None

        return Threaded(self._thread("in").submit(work), targets, (files, got), "a copy from the disk")

    def to_disk(self, tensors: Sequence[torch.Tensor], into: Sequence[OnDisk] = ()) -> Threaded:
        """Writes to the given files, or to new ones."""
        files = list(into) or [OnDisk(x.shape, x.dtype, "activations") for x in tensors]
        sent, event = tensors, None
        if any(x.is_cuda for x in tensors):
            sent = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in tensors]
            event = self._copy("down", sent, tensors)

        def work() -> None:
            if event is not None:
                event.synchronize()
            for file, values in zip(files, sent):
                file.write(values)

        return Threaded(self._thread("out").submit(work), [] if into else files, (tensors, sent), "a copy to the disk")

    def _thread(self, way: str) -> ThreadPoolExecutor:
        if way not in self.threads:
            on_gpu = self.device.type == "cuda"
            begin = (torch.cuda.set_device, (self.device,)) if on_gpu else (None, ())
            self.threads[way] = ThreadPoolExecutor(1, f"disk-{way}", *begin)
        return self.threads[way]

    def to_host(self, tensors: Sequence, into: Sequence = ()) -> Moving:
        """Downloads to the given tensors, or to new ones. A Python number is passed through."""
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

    def _copy(self, way: str, targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], now=None):
        """`now`: the event after which the sources are valid; by default, all work so far."""
        if self.device.type != "cuda":
            for target, source in zip(targets, sources):
                target.copy_(source.view(target.shape))
            return None
        stream = self.streams.setdefault(way, torch.cuda.Stream(self.device))
        stream.wait_event(now or _now())
        with torch.cuda.stream(stream):
            for target, source in zip(targets, sources):
                target.copy_(source.view(target.shape), non_blocking=True)
                for tensor in (target, source):
                    if tensor.is_cuda:
                        tensor.record_stream(stream)
            event = torch.cuda.Event()
            event.record(stream)
        return event


def _now():
    event = torch.cuda.Event()
    event.record()
    return event
