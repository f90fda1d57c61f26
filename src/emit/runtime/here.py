"""A rank as emitted functions see it: where it stands on the mesh, whom it meets, the step and microbatch it is at."""
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
        # What changes with every call.
        self.step = 0
        # The same where it is computed with, so that a recorded step can be told another.
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        # Numbers that the step is told: lr, and where spikes are skipped the limit.
        self.told: Dict[str, float] = {}
        self.block = ""
        self.microbatch = 0
        # The parameters that a call serves, and the index of every element that the rank has of one.
        self.whose: List[str] = []
        self.elements: Callable[[str], torch.Tensor]
        self._clip = (None, None)
        # What was loaded, by what was asked for; None: every step loads anew.
        self._loaded: Optional[Dict] = None
        self._ahead: Dict = {}
        # What `require_room` will look at.
        self._guards: List = []
        # Whether choices of experts are kept, and those of the step: the layer, where they lie in the global batch, and what was chosen.
        self.records = False
        self.chosen: List = []
        # For whoever asks why it takes so long: what the host waits for, and what the GPU was told to wait for last.
        self.waiting_for = ""
        self._waited: Deque = deque(maxlen=256)

    def at(self, *axes: str, turn: int = 0) -> int:
        """The rank's place along one axis, or along several read as one (major first); or that of the rank `turn` before."""
        return (self.mesh.index(axes, self.coordinates) - turn) % self.mesh.size(axes)

    def part_of(self, elements: int, *axes: str) -> int:
        """Elements of a part of so many, cut along axes."""
        return lines.part_size(elements, self.mesh.size(axes))

    def count_of(self, elements: int, *axes: str) -> int:
        """How many of the rank's part are there, and no padding."""
        part = self.part_of(elements, *axes)
        return max(0, min(part, elements - self.at(*axes) * part))

    def zigzag(self, size: int, major: Union[str, Sequence[str]], *minor: str, turn: int = 0) -> Start:
        """Where the rank's part, of `size` elements, lies in a sequence that is split in zigzag over the first axis, or its factors."""
        axes = [major] if isinstance(major, str) else major
        ranks, parts_each = self.mesh.size(axes), self.mesh.size(minor)
        return parts.zigzag(self.at(*axes, turn=turn), ranks, self.at(*minor), parts_each, size)

    def zeros(self, sizes: Sequence[int], dtype: str, room: int = 0, space: str = "device", kind: str = "", name: str = "") -> spaces.Held:
        """`room` is how many elements its memory holds, where that is more; of what lives on the host, parameters go up."""
        if space == "disk":
            return spaces.OnDisk(sizes, self.dtypes[dtype], name)
        elements = torch.Size(sizes).numel()
        pinned = space == "host" and kind == "parameters" and self.device.type == "cuda"
        device = self.device if space == "device" else "cpu"
        line = torch.zeros(max(room, elements), dtype=self.dtypes[dtype], device=device, pin_memory=pinned)
        return line[:elements].view(sizes)

    def load(self, name: str, starts: Sequence[Start] = (), sizes: Sequence[int] = (), dtype: str = "f32"):
        """The rank's part of one microbatch of a data input; or a number of the step."""
        asked = (name, tuple(starts), tuple(sizes), dtype)
        if self._loaded is None:
            return self._fetch(*asked)
        if asked not in self._loaded:
            self._loaded[asked] = self._fetch(*asked)
        return self._loaded[asked]

    def _fetch(self, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str):
        if name in self.told:
            # On a GPU a tensor, so that a recorded step can be told a new one.
            return self.told[name] if self.device.type == "cpu" else torch.full((), self.told[name], dtype=torch.float64, device=self.device)
        return self._values(name, starts, sizes, dtype).to(device=self.device, non_blocking=True)

    def _values(self, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str) -> torch.Tensor:
        """Of this step, on the host; read ahead or not."""
        values = self._ahead.pop((self.step, name, starts), None)
        return self._read(self.step, name, starts, sizes, dtype) if values is None else values

    def _read(self, step: int, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str) -> torch.Tensor:
        values = self.data.part(step, name, starts, sizes).to(self.dtypes[dtype])
        # From other memory than pinned the copy would wait for the GPU to finish the step before.
        return values.pin_memory() if self.device.type == "cuda" else values

    def read_ahead(self) -> None:
        """The data of the next step, while the GPU is at this one."""
        step = self.step + 1
        self._ahead = {
            (step, name, starts): self._read(step, name, starts, sizes, dtype)
            for name, starts, sizes, dtype in self._loaded or {}
            if sizes and self.data.has(step)
        }

    def keep_loaded(self) -> None:
        """From now on the same load is the same tensor in every step; `start` fills it."""
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
        """What tokens chose in a layer: sequences from `batch` on, and of each those from `seq` on."""
        self.chosen.append((self.block, batch, seq, choice.to("cpu", torch.int32)))

    def draws(self, i: int) -> torch.Tensor:
        """Of the parameters that are being updated, for the elements of number i: numbers of 16 bits by their index in the whole."""
        name = self.whose[i]
        return drawing.draws(self.elements(name), self.seed, name, self._step)

    def start_of_basis(self, sizes: Sequence[int], first: int) -> torch.Tensor:
        """Columns of chance for the parameter whose gradient is summed, by their index from `first` on: in [-1, 1], the same in every step."""
        (name,) = self.whose
        index = torch.arange(first, first + math.prod(sizes), device=self.device)
        return ((counter.draws(index, self.seed, f"basis.{name}").double() - 32767.5) / 32768).view(sizes)

    def verdict(self, norm_squared: torch.Tensor, limit: float = math.inf) -> torch.Tensor:
        """Whether the step is taken; all ranks have the same bits of the norm. What is not a number is below nothing."""
        return norm_squared < float(limit) ** 2

    def clip(self, most: float, norm_squared: torch.Tensor) -> torch.Tensor:
        """What gradients are multiplied by so that their norm is at most `most`: once a step, the same for all."""
        key = (self.step, id(norm_squared))
        if self._clip[0] != key:
            self._clip = (key, torch.clamp(most / (torch.sqrt(norm_squared) + 1e-6), max=1.0))
        return self._clip[1]

    def part(self, x: torch.Tensor, *axes: str, dim: int, zigzag: int = 0) -> torch.Tensor:
        """Of a whole tensor the part this rank holds when it is split along dim over axes, the first few in zigzag: a copy."""
        size = x.shape[dim] // self.mesh.size(axes)
        start = self.zigzag(size, axes[:zigzag], *axes[zigzag:]) if zigzag else self.at(*axes) * size
        return parts.narrow(x, dim, start, size).clone(memory_format=torch.contiguous_format)

    def own(self, x, *axes: str):
        """The rank's own part of a tensor that lies in parts over axes, where it lies; of each, if x is a list."""
        if isinstance(x, list):
            return [self.own(each, *axes) for each in x]
        return lines.own(x, self.mesh.size(axes), self.at(*axes))

    def part_of_line(self, x: torch.Tensor, *axes: str) -> torch.Tensor:
        """A copy of the part of a tensor that the rank holds when its elements are cut over axes in one row."""
        parts = self.mesh.size(axes)
        wide = lines.line(x.clone(memory_format=torch.contiguous_format), parts)
        wide[x.numel() :].zero_()
        return lines.part(wide, parts, self.at(*axes)).clone()

    def scatter_line(self, x: torch.Tensor, group: str) -> comm.Pending:
        """The rank's own part of the sum, as a tensor of its own."""
        flight, own = lines.scatter_([x.clone(memory_format=torch.contiguous_format)], self.groups[group]), self.groups[group]
        return comm.Pending(flight, lambda: lines.own(flight.tensors[0], own.size, own.index).clone(), flight.text)

    def gather_line(self, x: torch.Tensor, group: str, sizes: Sequence[int]) -> comm.Pending:
        flight = lines.gather([x], self.groups[group], [sizes])
        return comm.Pending(flight, lambda: flight.tensors[0], flight.text)

    def sum_all_(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        return lines.sum_(tensors, self.groups[group])

    def scatter_all_(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        """Into each tensor's own part of itself."""
        return lines.scatter_(tensors, self.groups[group])

    def gather_all_(self, tensors: Sequence[torch.Tensor], group: str) -> lines.Flight:
        """Into the tensors themselves, of which the own part is true."""
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
        """Of each number the greatest that a member has, all of them in one message."""
        return comm.greatest(numbers, self.groups[group])

    def all_reduce_(self, x: torch.Tensor, group: str, combine: str = "sum") -> comm.Pending:
        """Into x itself, which nobody reads any more."""
        return comm.all_reduce(x, self.groups[group], combine, in_place=True)

    def all_gather(self, x: torch.Tensor, group: str, dim: int, zigzag: int = 0) -> comm.Pending:
        return comm.all_gather(x, self.groups[group], dim, zigzag)

    def reduce_scatter(self, x: torch.Tensor, group: str, dim: int, zigzag: int = 0) -> comm.Pending:
        return comm.reduce_scatter(x, self.groups[group], dim, zigzag)

    def all_to_all(self, x: torch.Tensor, group: str, cut: int, lay: int) -> comm.Pending:
        """x is cut along `cut`, part i goes to member i; what arrives is laid side by side along `lay`."""
        return comm.all_to_all(x, self.groups[group], cut, lay)

    def shift(self, tensors: Sequence[torch.Tensor], group: str, by: int) -> Sequence[comm.Pending]:
        """Of each tensor, what the member `by` before this one has."""
        return comm.shift(tensors, self.groups[group], by)

    def guard(self, counts: torch.Tensor, room: int, even: float) -> None:
        """Own experts have so many rows, and must not have more than there is room for: `require_room` looks, once a step."""
        self._guards.append((counts.sum(), room, even, f"{self.block}, microbatch {self.microbatch}"))

    def require_room(self) -> None:
        """Stops all ranks where one of them has more rows than room."""
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
                what = f"the experts of this rank receive {needed.item()} tokens, but their capacity is {room}; set `rows: {factor:g}`"
                raise RuntimeError(f"{place}: {what}")
        raise RuntimeError("another rank has more expert tokens than its capacity")

    def dispatch(self, x: torch.Tensor, to: torch.Tensor, group: str, rows: int, apart: bool, block: int = 0) -> comm.Pending:
        """Rows of choices to the ranks that hold their experts; `block` is how many one rank may have for another, if all fit."""
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
        """What has not happened yet of all that was waited for, the first of it."""
        late = (text for works, text in list(self._waited) if not all(work.is_completed() for work in works))
        return self.waiting_for or next(late, "")


COMMUNICATES = ["load", "kept", "scatter_line", "gather_line", "all_reduce", "all_reduce_", "all_gather", "reduce_scatter", "all_to_all", "shift", "dispatch", "combine", "guard", "wait"]


def keep_out_of_compiled_code() -> None:
    """torch.compile compiles what is between these and calls them as they are."""
    documents.keep_out_of_compiled_code()
    for name in COMMUNICATES:
        method = getattr(Here, name)
        if not hasattr(method, "__wrapped__"):
            setattr(Here, name, torch.compiler.disable(method))
