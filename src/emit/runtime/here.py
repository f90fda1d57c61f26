"""The context that generated functions receive as `here`: mesh coordinates, collectives, the current step and microbatch."""
import math
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Sequence, Union

import torch

from . import comm, counter, documents, drawing, lines, parts, routes, spaces
from .mesh import Mesh
from .parts import Start


class Here:
    def __init__(self, mesh: Mesh, rank: int, groups: comm.Groups, device, dtypes: Dict, data, seed: int):
        self.mesh = mesh
        self.rank = rank
        self.groups = groups
        self.device = device
        self.dtypes = dtypes
        self.data = data
        self.seed = seed
        self.coordinates = mesh.coordinates(rank)
        self._mover = spaces.Mover(device)
        # Changes with every call.
        self.step = 0
        # The step as a tensor, so that a CUDA graph can be replayed with another step.
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        # Per-step scalars: lr, and the gradient norm limit if spikes are skipped.
        self.told: Dict[str, float] = {}
        self.block = ""
        self.microbatch = 0
        # The parameters of the current call, and for one of them the global index of every local element.
        self.whose: List[str] = []
        self.elements: Callable[[str], torch.Tensor]
        self._clip = (None, None)
        # Loaded inputs by request, reused by a CUDA graph; None: load again in every step.
        self._loaded: Optional[Dict] = None
        self._ahead: Dict = {}
        # Token counts per expert that `require_room` checks.
        self._guards: List = []
        # Whether routing is recorded, and that of the step: layer, position in the global batch, selected experts.
        self.records = False
        self.chosen: List = []
        # For hang reports: what the host waits for, and what the GPU stream waits for last.
        self.waiting_for = ""
        self._waited: Deque = deque(maxlen=256)

    def at(self, *axes: str, turn: int = 0) -> int:
        """The rank's coordinate along one axis, or along several flattened (major first), minus `turn` ring steps."""
        return (self.mesh.index(axes, self.coordinates) - turn) % self.mesh.size(axes)

    def part_of(self, elements: int, *axes: str) -> int:
        """Elements per shard (padded) of a flat tensor that is sharded over axes."""
        return lines.part_size(elements, self.mesh.size(axes))

    def count_of(self, elements: int, *axes: str) -> int:
        """Elements of the rank's shard without padding."""
        part = self.part_of(elements, *axes)
        return max(0, min(part, elements - self.at(*axes) * part))

    def zigzag(self, size: int, major: Union[str, Sequence[str]], *minor: str, turn: int = 0) -> Start:
        """Start of the rank's two chunks, `size` tokens together, in a sequence sharded in zigzag over the first axis or its factors."""
        axes = [major] if isinstance(major, str) else major
        ranks, parts_each = self.mesh.size(axes), self.mesh.size(minor)
        return parts.zigzag(self.at(*axes, turn=turn), ranks, self.at(*minor), parts_each, size)

    def zeros(self, sizes: Sequence[int], dtype: str, room: int = 0, space: str = "device", kind: str = "", name: str = "") -> spaces.Held:
        """A zeroed buffer with capacity for at least `room` elements. Parameters on the host are pinned, for copies to the GPU."""
        if space == "disk":
            return spaces.OnDisk(sizes, self.dtypes[dtype], name)
        elements = torch.Size(sizes).numel()
        pinned = space == "host" and kind == "parameters" and self.device.type == "cuda"
        device = self.device if space == "device" else "cpu"
        line = torch.zeros(max(room, elements), dtype=self.dtypes[dtype], device=device, pin_memory=pinned)
        return line[:elements].view(sizes)

    def load(self, name: str, starts: Sequence[Start] = (), sizes: Sequence[int] = (), dtype: str = "f32"):
        """The rank's shard of one microbatch of a data input, or a per-step scalar."""
        asked = (name, tuple(starts), tuple(sizes), dtype)
        if self._loaded is None:
            return self._fetch(*asked)
        if asked not in self._loaded:
            self._loaded[asked] = self._fetch(*asked)
        return self._loaded[asked]

    def _fetch(self, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str):
        if name in self.told:
            # On a GPU a tensor, so that a CUDA graph can be replayed with a new value.
            return self.told[name] if self.device.type == "cpu" else torch.full((), self.told[name], dtype=torch.float64, device=self.device)
        return self._values(name, starts, sizes, dtype).to(device=self.device, non_blocking=True)

    def _values(self, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str) -> torch.Tensor:
        """Values of this step on the host, prefetched or not."""
        values = self._ahead.pop((self.step, name, starts), None)
        return self._read(self.step, name, starts, sizes, dtype) if values is None else values

    def _read(self, step: int, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str) -> torch.Tensor:
        values = self.data.part(step, name, starts, sizes).to(self.dtypes[dtype])
        # A copy from unpinned memory would wait for the GPU to finish the previous step.
        return values.pin_memory() if self.device.type == "cuda" else values

    def read_ahead(self) -> None:
        """Prefetches the data of the next step while the GPU computes this one."""
        step = self.step + 1
        self._ahead = {
            (step, name, starts): self._read(step, name, starts, sizes, dtype)
            for name, starts, sizes, dtype in self._loaded or {}
            if sizes and self.data.has(step)
        }

    def keep_loaded(self) -> None:
        """From now on a load returns the same tensor in every step, which `start` fills."""
        self._loaded = {}

    def start(self, step: int, told: Dict[str, float]) -> None:
        self.step, self.told, self.chosen = step, told, []
        self._step.fill_(step)
        for asked, values in (self._loaded or {}).items():
            if asked[0] in told:
                values.fill_(told[asked[0]])
            else:
                values.copy_(self._values(*asked), non_blocking=True)

    def kept(
        self, rate: float, key: str, starts: Sequence[Start], sizes: Sequence[int], wholes: Sequence[int], order=None,
        along: Sequence[int] = (), batch: int = 0,
    ) -> torch.Tensor:
        """
        The dropout mask, sampled by an element's index in the full tensor: every plan has the same. `starts` are those within a
        microbatch of `batch` sequences. The microbatch is added here, outside of compiled code: torch.compile would compile the
        function once per microbatch.
        """
        starts = (starts[0] + self.microbatch * batch, *starts[1:]) if batch else starts
        name = f"{self.block}.{key}" if self.block else key
        return drawing.kept(rate, starts, sizes, wholes, self.seed, name, self._step, order, along)

    def chose(self, choice: torch.Tensor, batch: int, seq: Start) -> None:
        """Records the routing of a layer: sequences from `batch` on, tokens from `seq` on."""
        self.chosen.append((self.block, batch, seq, choice.to("cpu", torch.int32)))

    def draws(self, i: int) -> torch.Tensor:
        """16-bit samples for stochastic rounding of the i-th parameter that is updated, by the global index of each element."""
        name = self.whose[i]
        return drawing.draws(self.elements(name), self.seed, name, self._step)

    def start_of_basis(self, sizes: Sequence[int], first: int) -> torch.Tensor:
        """PowerSGD: the random start of the projection, in [-1, 1], by global index from `first` on; the same in every step."""
        (name,) = self.whose
        index = torch.arange(first, first + math.prod(sizes), device=self.device)
        return ((counter.draws(index, self.seed, f"basis.{name}").double() - 32767.5) / 32768).view(sizes)

    def verdict(self, norm_squared: torch.Tensor, limit: float = math.inf) -> torch.Tensor:
        """Whether the optimizer applies the step: the gradient norm is finite and below the limit. Bitwise equal on all ranks."""
        return norm_squared < float(limit) ** 2

    def clip(self, most: float, norm_squared: torch.Tensor) -> torch.Tensor:
        """The gradient clipping factor for a maximum global norm of `most`, computed once per step."""
        key = (self.step, id(norm_squared))
        if self._clip[0] != key:
            self._clip = (key, torch.clamp(most / (torch.sqrt(norm_squared) + 1e-6), max=1.0))
        return self._clip[1]

    def part(self, x: torch.Tensor, *axes: str, dim: int, zigzag: int = 0) -> torch.Tensor:
        """A copy of this rank's shard of a full tensor that is sharded along dim over axes, the first `zigzag` of them in zigzag."""
        size = x.shape[dim] // self.mesh.size(axes)
        start = self.zigzag(size, axes[:zigzag], *axes[zigzag:]) if zigzag else self.at(*axes) * size
        return parts.narrow(x, dim, start, size).clone(memory_format=torch.contiguous_format)

    def own(self, x, *axes: str):
        """A view of the rank's own shard within a tensor that is sharded over axes; of each tensor, if x is a list."""
        if isinstance(x, list):
            return [self.own(each, *axes) for each in x]
        return lines.own(x, self.mesh.size(axes), self.at(*axes))

    def part_of_line(self, x: torch.Tensor, *axes: str) -> torch.Tensor:
        """A copy of the rank's shard of a flattened tensor that is sharded over axes."""
        parts = self.mesh.size(axes)
        wide = lines.line(x.clone(memory_format=torch.contiguous_format), parts)
        wide[x.numel() :].zero_()
        return lines.part(wide, parts, self.at(*axes)).clone()

    def scatter_line(self, x: torch.Tensor, group: str) -> comm.Pending:
        """Reduce-scatter of a flattened tensor: the rank's shard of the sum, as a new tensor."""
        flight, own = lines.scatter_([x.clone(memory_format=torch.contiguous_format)], self.groups[group]), self.groups[group]
        return comm.Pending(flight, lambda: lines.own(flight.tensors[0], own.size, own.index).clone(), flight.text)

    def gather_line(self, x: torch.Tensor, group: str, sizes: Sequence[int]) -> comm.Pending:
        flight = lines.gather([x], self.groups[group], [sizes])
        return comm.Pending(flight, lambda: flight.tensors[0], flight.text)

    def sum_all_(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        return lines.sum_(tensors, self.groups[group])

    def scatter_all_(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        """Bucketed reduce-scatter, in place: each tensor's own shard receives the sum."""
        return lines.scatter_(tensors, self.groups[group])

    def gather_all_(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        """Bucketed all-gather, in place: each tensor holds a valid own shard and receives the others."""
        return lines.gather_(tensors, self.groups[group])

    def gather_all(self, parts: Sequence[torch.Tensor], group: str, sizes: Sequence[Sequence[int]]) -> lines.Flight:
        return lines.gather(parts, self.groups[group], sizes)

    def exchange_all(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        return lines.exchange(tensors, self.groups[group])

    def to_host(self, *given, **asked) -> spaces.Moving:
        return self._mover.to_host(*given, **asked)

    def to_device(self, *given, **asked) -> spaces.Moving:
        return self._mover.to_device(*given, **asked)

    def from_disk(self, *given, **asked) -> spaces.Threaded:
        return self._mover.from_disk(*given, **asked)

    def to_disk(self, *given, **asked) -> spaces.Threaded:
        return self._mover.to_disk(*given, **asked)

    def all_reduce(self, x: torch.Tensor, group: str, combine: str = "sum") -> comm.Pending:
        return comm.all_reduce(x, self.groups[group], combine)

    def greatest(self, numbers: Sequence[torch.Tensor], group: str) -> Sequence[comm.Pending]:
        """All-reduce (max) of several scalars in one collective."""
        return comm.greatest(numbers, self.groups[group])

    def all_reduce_(self, x: torch.Tensor, group: str, combine: str = "sum") -> comm.Pending:
        """In place, where the operand is not read again."""
        return comm.all_reduce(x, self.groups[group], combine, in_place=True)

    def all_gather(self, x: torch.Tensor, group: str, dim: int, zigzag: int = 0) -> comm.Pending:
        return comm.all_gather(x, self.groups[group], dim, zigzag)

    def reduce_scatter(self, x: torch.Tensor, group: str, dim: int, zigzag: int = 0) -> comm.Pending:
        return comm.reduce_scatter(x, self.groups[group], dim, zigzag)

    def all_to_all(self, x: torch.Tensor, group: str, cut: int, lay: int) -> comm.Pending:
        """All-to-all: x is split along `cut`, shard i goes to rank i of the group, and what arrives is concatenated along `lay`."""
        return comm.all_to_all(x, self.groups[group], cut, lay)

    def shift(self, tensors: Sequence[torch.Tensor], group: str, by: int) -> Sequence[comm.Pending]:
        """A ring shift: each tensor from the rank `by` positions before this one."""
        return comm.shift(tensors, self.groups[group], by)

    def guard(self, counts: torch.Tensor, room: int, even: float) -> None:
        """Registers the tokens of the rank's experts and their capacity for `require_room`, which checks once per step."""
        self._guards.append((counts.sum(), room, even, f"{self.block}, microbatch {self.microbatch}"))

    def require_room(self) -> None:
        """Stops all ranks if one of them exceeds its expert capacity."""
        guards, self._guards = self._guards, []
        over = [needed - room for needed, room, _, _ in guards] or [torch.zeros((), dtype=torch.int64, device=self.device)]
        worst = torch.stack(over).max()
        if self.mesh.world > 1:
            comm.dist.all_reduce(worst, comm.dist.ReduceOp.MAX)
        if worst.item() <= 0:
            return
        for needed, room, even, place in guards:
            if needed > room:
                factor = math.ceil(100 * needed.item() / even) / 100
                what = f"the experts of this rank receive {needed.item()} tokens, but their capacity is {room}; set `expertCapacity: {factor:g}`"
                raise RuntimeError(f"{place}: {what}")
        raise RuntimeError("another rank has more expert tokens than its capacity")

    def dispatch(self, x: torch.Tensor, to: torch.Tensor, group: str, rows: int, apart: bool, block: int = 0) -> comm.Pending:
        """MoE dispatch: tokens go to the ranks of their experts; `block` is the most that one rank may send to another."""
        return routes.dispatch(x, to, rows, apart, block, self.groups[group])

    def combine(self, rows: torch.Tensor, to: torch.Tensor, group: str, apart: bool, block: int = 0) -> comm.Pending:
        return routes.combine(rows, to, apart, block, self.groups[group])

    def wait(self, pending: comm.Pending) -> torch.Tensor:
        self.waiting_for = pending.text
        result = pending.wait()
        self.waiting_for = ""
        if self.device.type == "cuda":
            self._waited.append((pending.works(), pending.text))
        return result

    def awaited(self) -> str:
        """The first collective that was waited for and has not completed."""
        late = (text for works, text in list(self._waited) if not all(work.is_completed() for work in works))
        return self.waiting_for or next(late, "")


COMMUNICATES = ["load", "kept", "scatter_line", "gather_line", "all_reduce", "all_reduce_", "all_gather", "reduce_scatter", "all_to_all", "shift", "dispatch", "combine", "guard", "wait"]


def keep_out_of_compiled_code() -> None:
    """Excludes communication from torch.compile, which compiles what is between these calls."""
    documents.keep_out_of_compiled_code()
    for name in COMMUNICATES:
        method = getattr(Here, name)
        if not hasattr(method, "__wrapped__"):
            setattr(Here, name, torch.compiler.disable(method))
