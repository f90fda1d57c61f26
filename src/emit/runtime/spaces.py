"""
Tensors that live on the host while the rest of the step is on a GPU. Each way has a stream of its own: copies down, copies up
and kernels run beside each other, from and to pinned memory. Where the device is the CPU itself a move is a copy.

Tensors that live on a disk are files, and a thread for each way reads and writes them, past the system's cache where the disk can do
that. The files lie where temporary ones do (TMPDIR), have room for all they will hold, and no name: they are gone when their process
is. A disk that fails ends the run with what it was about.
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
    """Copies from or to a disk, that a thread makes. Where they go on to a GPU it gives the event of their end."""

    def __init__(self, future: Future, tensors: List, held, text: str):
        super().__init__(None, lambda: None, text, held)
        self.future, self.tensors = future, tensors

    def wait(self):
        event = self.future.result()
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        self.held = None


PAGE = 4096
# Bytes that are read or written at once.
PIECE = 4 << 20


class DiskFailed(Exception):
    """A file that cannot be made, read or written. The message says which, and why."""


class OnDisk:
    """Numbers in a file, zeros at first. `what` is what messages call them."""

    def __init__(self, sizes: Sequence[int], dtype: torch.dtype, what: str, file: "Optional[File]" = None):
        self.shape, self.dtype, self.what = torch.Size(sizes), dtype, what
        self.bytes = self.numel() * self.element_size()
        self.file = file or File(self.bytes, what)

    def numel(self) -> int:
        return self.shape.numel()

    def element_size(self) -> int:
        return torch.empty((), dtype=self.dtype).element_size()

    def first(self, elements: int) -> "OnDisk":
        """The first of them, as a row, in the same file."""
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
        """Where each begins, its bytes, and those of its pages."""
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
    """Whole pages of a disk, without a name; closed when nobody has it any more."""

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
        """Where the disk, or the system, does not do that, the file stays as it is."""
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
    """Memory of the thread that begins on a page, as files past the cache ask for: to transfer, and to copy."""
    if not hasattr(_own, "pages"):
        memory = mmap.mmap(-1, PIECE)
        _own.pages = (memoryview(memory), torch.frombuffer(memory, dtype=torch.uint8))
    return _own.pages


Held = Union[torch.Tensor, OnDisk]


def in_memory(held: Held) -> torch.Tensor:
    return held.read() if isinstance(held, OnDisk) else held


@contextmanager
def changing(held: Held) -> Iterator[torch.Tensor]:
    """Its values, to be changed where they are; those of a disk are written when that is done."""
    values = in_memory(held)
    yield values
    if isinstance(held, OnDisk):
        held.write(values)


class Mover:
    """The two streams of a device, and the two threads of a disk."""

    def __init__(self, device):
        self.device = device
        self.streams: Dict[str, torch.cuda.Stream] = {}
        self.threads: Dict[str, ThreadPoolExecutor] = {}

    def from_disk(self, files: Sequence[OnDisk], to: str = "host") -> Threaded:
        """Through pinned memory, and on from there where the device is to have them."""
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
        """Into files that are there, or into new ones."""
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

    def _copy(self, way: str, targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], now=None):
        """`now`: what had been asked of the GPU when they were; else that is now."""
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
