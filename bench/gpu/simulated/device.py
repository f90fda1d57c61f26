"""
Tensors of a simulated GPU, its streams and its events.

The main stream executes at once. Other streams execute as late as they may: when an event is waited for. So what is read without a
wait is old, and besides it is an error: a race, found by comparing what each stream waited for with who wrote last. Fresh memory
holds NaN. A copy from memory that is not pinned, and an op over tensors of host and device, are errors.
"""
import ctypes
import hashlib
import os
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Callable, Dict, List, Optional

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")


class Race(RuntimeError):
    """Memory is used on one stream while another may still be at it, or before the host waited for it."""


class OnGpu(torch.Tensor):
    """A tensor of the device. `inner` has its numbers."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype, device=DEVICE
        )
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def tolist(self):
        return self.cpu().tolist()

    def is_pinned(self) -> bool:
        return False

    def record_stream(self, stream) -> None:
        stream.keeps.add(place(self.inner))

    def __repr__(self) -> str:
        return f"OnGpu({self.inner})"


class Simulation(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})


# Storages of pinned memory: kept, so that no other takes their place.
pinned: Dict[int, object] = {}
lock = threading.RLock()
state = SimpleNamespace(capturing=None, clock=0, written={}, read={}, pending={})
own = threading.local()


def place(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata


def on_host(x):
    """What a tensor of the device holds; anything else as it is."""
    return x.inner if isinstance(x, OnGpu) else x


def on_device(x):
    return OnGpu(x) if isinstance(x, torch.Tensor) and not isinstance(x, OnGpu) else x


# What needs the host to know numbers of the device.
ASKS = {"_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique2", "unique_consecutive", "equal", "is_nonzero"}
COPIES = {"copy_", "_to_copy"}
FRESH = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"}


def dispatch(func, args, kwargs):
    with lock:
        return _dispatch(func, args, kwargs)


def _dispatch(func, args, kwargs):
    namespace, name = func.namespace, func._schema.name.split("::")[1]
    if namespace == "lockstep":
        return _own_op(func, name, args, kwargs)
    if name == "to":  # beneath an op of our own it comes as it was called
        with Simulation():
            return func.decompose(*args, **kwargs)
    flat, spec = pytree.tree_flatten((args, kwargs))
    of_device = [x for x in flat if isinstance(x, OnGpu)]
    asked = kwargs.get("device")
    target = None if asked is None else torch.device(asked).type
    pins = kwargs.pop("pin_memory", None)
    if not of_device and target != "cuda":
        for x in flat:
            if isinstance(x, torch.Tensor):
                _settled(x)
        made = func(*args, **kwargs)
        if pins:
            pinned[place(made)] = made.untyped_storage()
        return made
    if name not in COPIES and not name.endswith("_like") and not name.startswith("new_"):
        _require_one_device(func, flat)
    if state.capturing is not None and (name in ASKS or target == "cpu" or (name == "copy_" and not isinstance(args[0], OnGpu))):
        raise RuntimeError(f"operation not permitted when stream is capturing: {func}")
    inner_args, inner_kwargs = pytree.tree_unflatten(
        [on_host(CPU if isinstance(x, torch.device) else x) for x in flat], spec
    )
    inner_kwargs.pop("pin_memory", None)
    if name == "copy_" or (name == "_to_copy" and target is not None):
        return _copy(func, name, target, args, inner_args, inner_kwargs)
    made = _execute(func, name, inner_args, inner_kwargs)
    if name in FRESH:
        _poison(made)
    return pytree.tree_map(lambda x: _again(x, args, inner_args), made)


def _again(x, args, inner_args):
    """In place: the operand itself, not another tensor with its numbers."""
    if not isinstance(x, torch.Tensor):
        return x
    return next((a for a, b in zip(args, inner_args) if b is x), None) if any(x is b for b in inner_args) else OnGpu(x)


def _own_op(func, name, args, kwargs):
    """The implementation is Python, which meets tensors of the device as a GPU's would; and what torch.compile is told must be so."""
    definition = torch._library.custom_ops.OPDEFS[f"lockstep::{name}"]
    with Simulation():  # a handler is called without it
        made = definition._init_fn(*args, **kwargs)
        told = made if definition._abstract_fn is None else definition._abstract_fn(*args, **kwargs)
    tensors = [[x for x in pytree.tree_leaves(side) if isinstance(x, torch.Tensor)] for side in (made, told)]
    for real, fake in zip(*tensors):
        seen, expected = [(x.shape, x.dtype, x.stride() if x.numel() else None, x.device) for x in (real, fake)]
        if seen != expected:
            raise RuntimeError(f"lockstep::{name} makes {seen}, and torch.compile is told {expected}")
    return made


def _require_one_device(func, flat) -> None:
    for x in flat:
        if isinstance(x, torch.Tensor) and not isinstance(x, OnGpu) and x.dim() > 0 and func._schema.name != "aten::index":
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu: {func}")


def _poison(x) -> None:
    if x.is_floating_point() and x.element_size() > 1:
        x.fill_(float("nan"))


def _execute(func, name, args, kwargs):
    if func.is_view:
        return func(*args, **kwargs)
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    if current().queue is not None:
        raise Race(f"{func} on a stream that only copies")
    state.clock += 1
    changes = name.endswith("_") or "out" in kwargs or func._schema.is_mutable
    for x in tensors:
        _unused_elsewhere(x, changes)
        state.read[place(x)] = state.clock
    if changes and tensors:
        changed = kwargs["out"] if "out" in kwargs else _mutated(func, args, kwargs)
        for x in pytree.tree_leaves(changed):
            state.written[place(x)] = state.clock
    if state.capturing is not None:
        return state.capturing.op(func, args, kwargs, changes)
    made = func(*args, **kwargs)
    for x in pytree.tree_leaves(made):
        if isinstance(x, torch.Tensor) and not any(place(x) == place(t) for t in tensors):
            state.written[place(x)] = state.clock
    return made


def _mutated(func, args, kwargs):
    """The operands that an op changes, by its schema."""
    named = [(argument, value) for argument, value in zip(func._schema.arguments, args)]
    named += [(argument, kwargs[argument.name]) for argument in func._schema.arguments if argument.name in kwargs]
    found = [value for argument, value in named if argument.alias_info is not None and argument.alias_info.is_write]
    return [x for x in pytree.tree_leaves(found) if isinstance(x, torch.Tensor)]


def used(reads: List[torch.Tensor], writes: List[torch.Tensor]) -> None:
    """A kernel of the main stream, which is none of PyTorch's ops."""
    state.clock += 1
    for x in [*reads, *writes]:
        _unused_elsewhere(x, any(x is y for y in writes))
        state.read[place(x)] = state.clock
    for x in writes:
        state.written[place(x)] = state.clock


def _copy(func, name, target, args, inner_args, inner_kwargs):
    """Between host and device, or on it."""
    source = args[1] if name == "copy_" else args[0]
    goes_on = bool(inner_kwargs.get("non_blocking") or (name == "copy_" and len(inner_args) > 2 and inner_args[2]))
    to_device = isinstance(args[0], OnGpu) if name == "copy_" else target == "cuda"
    crosses = to_device != isinstance(source, OnGpu)
    host = on_host(args[0]) if crosses and name == "copy_" and not to_device else source if crosses else None
    if crosses and goes_on and host.dim() > 0 and host.numel() > 0 and not isinstance(host, OnGpu):
        if name == "_to_copy" and not to_device:
            raise Race("a copy to new memory of the host that is not waited for")
        if place(host) not in pinned:
            raise RuntimeError("a copy that is not waited for, from or to memory that is not pinned: the host would wait for the GPU")
    if state.capturing is not None and crosses and host.dim() > 0:
        raise RuntimeError("a recorded copy from the host: a replay would read whatever is there then")
    stream = current()
    if stream.queue is None:
        if crosses and isinstance(host, torch.Tensor) and not isinstance(host, OnGpu):
            _settled(host)
        made = _execute(func, name, inner_args, inner_kwargs)
        return args[0] if name == "copy_" else on_device(made) if to_device else made
    if name != "copy_":
        raise Race("memory is allocated on a stream that only copies")
    stream.enqueue(inner_args[0], inner_args[1])
    return args[0]


class Stream:
    """`queue` is what it has still to do; None: the main stream, which does everything at once."""

    def __init__(self, device=None, main: bool = False, **_):
        self.queue: Optional[List] = None if main else []
        self.done = 0  # how many of all that were ever queued
        self.known = 0  # up to where of the main stream it waited
        self.keeps: set = set()
        self.used: set = set()
        self.cuda_stream = 0

    def wait_event(self, event: "Event") -> None:
        event.happen() if self.queue is None else None
        if self.queue is not None:
            self.known = max(self.known, event.clock)

    def wait_stream(self, other: "Stream") -> None:
        self.wait_event(other.record_event())

    def record_event(self, event: "Optional[Event]" = None) -> "Event":
        event = event or Event()
        event.record(self)
        return event

    def enqueue(self, target: torch.Tensor, source: torch.Tensor) -> None:
        for x, seen in ((source, state.written), (target, state.written), (target, state.read)):
            if seen.get(place(x), 0) > self.known:
                raise Race("a copy on a stream that has not waited for what made its operand, or still reads its result")
        self.queue.append((target, source))
        at = self.done + len(self.queue)
        state.pending[place(target)] = (self, at, True)
        state.pending.setdefault(place(source), (self, at, False))
        self.used |= {place(x) for x in (target, source)}

    def run(self, until: int) -> None:
        while self.done < until:
            target, source = self.queue.pop(0)
            target.copy_(source)
            self.done += 1
        for key in [key for key, (stream, at, _) in state.pending.items() if stream is self and at <= self.done]:
            del state.pending[key]

    def synchronize(self) -> None:
        if self.queue is not None:
            self.run(self.done + len(self.queue))

    def query(self) -> bool:
        return not self.queue


class Event:
    def __init__(self, **_):
        self.stream, self.at, self.clock = None, 0, 0

    def record(self, stream: Optional[Stream] = None) -> None:
        self.stream = stream or current()
        if self.stream.queue is None:
            self.clock = state.clock
            return
        self.at, self.clock = self.stream.done + len(self.stream.queue), self.stream.known
        hosts = set(pinned)
        lost = self.stream.used - self.stream.keeps - hosts
        self.stream.used, self.stream.keeps = set(), set()
        if lost:
            raise Race("memory of the device is used on another stream than its own without record_stream: it could be given away")

    def happen(self) -> None:
        if self.stream is not None and self.stream.queue is not None:
            with lock, outside():
                self.stream.run(self.at)

    def synchronize(self) -> None:
        self.happen()

    def wait(self, stream: Optional[Stream] = None) -> None:
        (stream or current()).wait_event(self)

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: "Event") -> float:
        return 1.0


@contextmanager
def outside():
    """What happens in here happens on the CPU, and nobody looks."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


MAIN = Stream(main=True)


def current(*_) -> Stream:
    return getattr(own, "stream", MAIN)


@contextmanager
def on_stream(stream: Stream):
    before = current()
    own.stream = stream
    yield
    own.stream = before


def _unused_elsewhere(x: torch.Tensor, changes: bool) -> None:
    """An op of the main stream, on memory that another stream may be at."""
    if place(x) in state.pending:
        _, _, writes = state.pending[place(x)]
        if writes or changes:
            raise Race("memory is used while a copy on another stream may be at it: its event was not waited for")


def _settled(x: torch.Tensor) -> None:
    """An op of the host, on memory that a copy is filling."""
    if state.pending and place(x) in state.pending and state.pending[place(x)][2]:
        raise Race("the host reads what is still being copied to it: its event was not waited for")


def synchronize(*_) -> None:
    for stream in {id(stream): stream for stream, _, _ in list(state.pending.values()) if stream is not None}.values():
        with lock, outside():
            stream.synchronize()


def start() -> None:
    """From now on there is a GPU."""
    ctypes.CDLL(_guard())
    torch.cuda._lazy_init = lambda: None
    properties = SimpleNamespace(multi_processor_count=4, total_memory=1 << 34, uuid="simulated", name="simulated GPU")
    stats = {"num_alloc_retries": 0}
    replaced: Dict[str, Callable] = dict(
        is_available=lambda: not inside(), is_initialized=lambda: not inside(), current_device=lambda: 0, set_device=lambda device: None,
        device_count=lambda: 1, synchronize=synchronize, empty_cache=lambda: None, get_device_capability=lambda device=None: (9, 0),
        get_device_properties=lambda device=None: properties, get_device_name=lambda device=None: properties.name,
        mem_get_info=lambda device=None: (1 << 34, 1 << 34), memory_reserved=lambda device=None: 0, utilization=lambda device=None: 0,
        max_memory_allocated=lambda device=None: 0, memory_stats=lambda device=None: stats, _sleep=lambda cycles: None,
        Stream=Stream, Event=Event, current_stream=current, stream=on_stream,
    )
    for name, function in replaced.items():
        setattr(torch.cuda, name, function)
    torch.Tensor.pin_memory = _pin
    torch.Generator = Generator
    tensor = torch.tensor
    torch.tensor = lambda data, dtype=None, device=None, **more: _tensor(tensor, data, dtype, device, **more)
    Simulation().__enter__()


class Generator(torch.Generator):
    """Of the device, but the CPU draws."""

    def __new__(cls, device=None):
        return super().__new__(cls, CPU)


def _pin(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(x, pin_memory=True)
    return made.copy_(x)


def _tensor(tensor: Callable, data, dtype, device, **more) -> torch.Tensor:
    made = tensor(data, dtype=dtype, **more)
    return made if device is None or torch.device(device).type == "cpu" else made.to(DEVICE)


def _guard() -> str:
    """guard.cpp, compiled once for a release of PyTorch."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.cpp")
    with open(source, "rb") as file:
        made_of = hashlib.sha256(file.read() + torch.__version__.encode()).hexdigest()[:16]
    path = os.path.join(tempfile.gettempdir(), f"lockstep-guard-{os.getuid()}-{made_of}.so")
    if not os.path.exists(path):
        home = os.path.dirname(torch.__file__)
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "guard.so")
            flags = ["-std=c++20", "-shared", "-fPIC", f"-I{home}/include", f"-L{home}/lib", "-lc10"]
            subprocess.run([os.environ.get("CXX", "g++"), source, "-o", out, *flags], check=True)
            os.replace(out, path) if os.stat(folder).st_dev == os.stat(os.path.dirname(path)).st_dev else None
    return path


def inside() -> bool:
    """In compiled code, where tensors of the device are bare."""
    return getattr(own, "inside", False)
