"""The context (`ctx`) that generated functions receive: mesh coordinates, collectives, the current step and microbatch."""
import math
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Sequence, Union

import torch

from . import comm, flat_buffers, moe_dispatch, offload, philox, rng, shards, varlen
from .mesh import Mesh
from .shards import Start


class Context:
    """One rank's view of the run."""

    def __init__(self, mesh: Mesh, rank: int, groups: comm.Groups, device: torch.device, dtypes: Dict, data, seed: int):
        self.mesh = mesh
        self.rank = rank
        self.groups = groups
        self.device = device
        self.dtypes = dtypes
        self.data = data
        self.seed = seed
        self.coordinates = mesh.coordinates(rank)
        self._offloader = offload.Offloader(device)
        # Changes with every call.
        self.step = 0
        # The step as a tensor, so that a CUDA graph can be replayed with another step.
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        # Per-step scalars: lr, and the gradient norm limit if spikes are skipped.
        self.step_scalars: Dict[str, float] = {}
        self.block = ""
        self.microbatch = 0
        # The parameters of the current call, and for one of them the global index of every local element.
        self.param_names: List[str] = []
        self.element_indices: Callable[[str], torch.Tensor]
        self._clip_coef = (None, None)
        # Loaded inputs by request, reused by a CUDA graph; None: load again in every step.
        self._loaded: Optional[Dict] = None
        self._prefetched: Dict = {}
        # Token counts per expert that `require_capacity` checks.
        self._expert_loads: List = []
        # Whether routing is recorded, and that of the step: layer, position in the global batch, selected experts.
        self.records_routing = False
        self.routing: List = []
        # For hang reports: what the host waits for, and what the GPU stream waits for last.
        self.waiting_for = ""
        self._waits: Deque = deque(maxlen=256)

    def coord(self, *axes: str, ring_step: int = 0) -> int:
        """The rank's coordinate along one axis, or along several flattened (major first), minus `ring_step`."""
        return (self.mesh.index(axes, self.coordinates) - ring_step) % self.mesh.size(axes)

    def flat_shard_size(self, elements: int, *axes: str) -> int:
        """Elements per shard (padded) of a flat tensor that is sharded over axes."""
        return flat_buffers.shard_size(elements, self.mesh.size(axes))

    def flat_shard_numel(self, elements: int, *axes: str) -> int:
        """Elements of the rank's shard without padding."""
        size = self.flat_shard_size(elements, *axes)
        return max(0, min(size, elements - self.coord(*axes) * size))

    def zigzag_start(self, size: int, major: Union[str, Sequence[str]], *minor: str, ring_step: int = 0) -> Start:
        """Start of the rank's two chunks, `size` tokens in total, of a sequence in zigzag sharding over the first axis or its factors."""
        axes = [major] if isinstance(major, str) else major
        ranks, shards_each = self.mesh.size(axes), self.mesh.size(minor)
        return shards.zigzag_start(self.coord(*axes, ring_step=ring_step), ranks, self.coord(*minor), shards_each, size)

    def zeros(
        self, sizes: Sequence[int], dtype: str, capacity: int = 0, space: str = "device", kind: str = "", name: str = "",
    ) -> offload.Storage:
        """A zeroed buffer with room for at least `capacity` elements. Parameters on the host are pinned, for copies to the GPU."""
        if space == "disk":
            return offload.DiskTensor(sizes, self.dtypes[dtype], name)
        elements = torch.Size(sizes).numel()
        pinned = space == "host" and kind == "parameters" and self.device.type == "cuda"
        device = self.device if space == "device" else "cpu"
        buffer = torch.zeros(max(capacity, elements), dtype=self.dtypes[dtype], device=device, pin_memory=pinned)
        return buffer[:elements].view(sizes)

    def load(self, name: str, starts: Sequence[Start] = (), sizes: Sequence[int] = (), dtype: str = "f32") -> Union[float, torch.Tensor]:
        """The rank's shard of one microbatch of a data input, or a per-step scalar."""
        request = (name, tuple(starts), tuple(sizes), dtype)
        if self._loaded is None:
            return self._fetch(*request)
        if request not in self._loaded:
            self._loaded[request] = self._fetch(*request)
        return self._loaded[request]

    def _fetch(self, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str):
        if name in self.step_scalars:
            # On a GPU a tensor, so that a CUDA graph can be replayed with a new value.
            return self.step_scalars[name] if self.device.type == "cpu" else torch.full((), self.step_scalars[name], dtype=torch.float64, device=self.device)
        return self._values(name, starts, sizes, dtype).to(device=self.device, non_blocking=True)

    def _values(self, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str) -> torch.Tensor:
        """Values of this step on the host, prefetched or not."""
        values = self._prefetched.pop((self.step, name, starts), None)
        return self._read(self.step, name, starts, sizes, dtype) if values is None else values

    def _read(self, step: int, name: str, starts: Sequence[int], sizes: Sequence[int], dtype: str) -> torch.Tensor:
        values = self.data.shard(step, name, starts, sizes).to(self.dtypes[dtype])
        # A copy from unpinned memory would wait for the GPU to finish the previous step.
        return values.pin_memory() if self.device.type == "cuda" else values

    def prefetch(self) -> None:
        """Prefetches the data of the next step while the GPU computes this one."""
        step = self.step + 1
        self._prefetched = {
            (step, name, starts): self._read(step, name, starts, sizes, dtype)
            for name, starts, sizes, dtype in self._loaded or {}
            if sizes and self.data.has(step)
        }

    def reuse_inputs(self) -> None:
        """From now on a load returns the same tensor in every step, which `start` fills."""
        self._loaded = {}

    def start(self, step: int, step_scalars: Dict[str, float]) -> None:
        self.step, self.step_scalars, self.routing = step, step_scalars, []
        self._step.fill_(step)
        for request, values in (self._loaded or {}).items():
            if request[0] in step_scalars:
                values.fill_(step_scalars[request[0]])
            else:
                values.copy_(self._values(*request), non_blocking=True)

    def dropout_mask(
        self, rate: float, key: str, starts: Sequence[Start], sizes: Sequence[int], full_sizes: Sequence[int],
        token_order: Optional[torch.Tensor] = None, permuted_dims: Sequence[int] = (), batch: int = 0,
    ) -> torch.Tensor:
        """
        The dropout mask, sampled by an element's index in the full tensor: every plan has the same. `starts` are those within a
        microbatch of `batch` sequences. The microbatch is added here, outside of compiled code: torch.compile would compile the
        function once per microbatch.
        """
        starts = (starts[0] + self.microbatch * batch, *starts[1:]) if batch else starts
        name = f"{self.block}.{key}" if self.block else key
        return rng.dropout_mask(rate, starts, sizes, full_sizes, self.seed, name, self._step, token_order, permuted_dims)

    def record_routing(self, expert_ids: torch.Tensor, batch: int, seq: Start) -> None:
        """Records the routing of a layer: sequences from `batch` on, tokens from `seq` on."""
        self.routing.append((self.block, batch, seq, expert_ids.to("cpu", torch.int32)))

    def rounding_bits(self, i: int) -> torch.Tensor:
        """16-bit samples for stochastic rounding of the i-th parameter that is updated, by the global index of each element."""
        name = self.param_names[i]
        return rng.rounding_bits(self.element_indices(name), self.seed, name, self._step)

    def initial_projection(self, sizes: Sequence[int], first: int) -> torch.Tensor:
        """PowerSGD: the random start of the projection, in [-1, 1], by global index from `first` on; the same in every step."""
        (name,) = self.param_names
        index = torch.arange(first, first + math.prod(sizes), device=self.device)
        return ((philox.rounding_bits(index, self.seed, f"basis.{name}").double() - 32767.5) / 32768).view(sizes)

    def should_apply(self, norm_squared: torch.Tensor, limit: float = math.inf) -> torch.Tensor:
        """Whether the optimizer applies the step: the gradient norm is finite and below the limit. Bitwise equal on all ranks."""
        return norm_squared < float(limit) ** 2

    def clip_coef(self, max_norm: float, norm_squared: torch.Tensor) -> torch.Tensor:
        """The gradient clipping factor for a maximum global norm of `max_norm`, computed once per step."""
        key = (self.step, id(norm_squared))
        if self._clip_coef[0] != key:
            self._clip_coef = (key, torch.clamp(max_norm / (torch.sqrt(norm_squared) + 1e-6), max=1.0))
        return self._clip_coef[1]

    def shard(self, x: torch.Tensor, *axes: str, dim: int, zigzag: int = 0) -> torch.Tensor:
        """A copy of the rank's shard of a full tensor, split along dim over axes; the first `zigzag` axes use zigzag sharding."""
        size = x.shape[dim] // self.mesh.size(axes)
        start = self.zigzag_start(size, axes[:zigzag], *axes[zigzag:]) if zigzag else self.coord(*axes) * size
        return shards.narrow(x, dim, start, size).clone(memory_format=torch.contiguous_format)

    def local_shard(self, x, *axes: str):
        """A view of the rank's shard in the flat buffer of a tensor that is sharded over axes; of each tensor, if x is a list."""
        if isinstance(x, list):
            return [self.local_shard(each, *axes) for each in x]
        return flat_buffers.local_shard(x, self.mesh.size(axes), self.coord(*axes))

    def flat_shard(self, x: torch.Tensor, *axes: str) -> torch.Tensor:
        """A copy of the rank's shard of a flattened tensor that is sharded over axes."""
        ranks = self.mesh.size(axes)
        flat = flat_buffers.flatten(x.clone(memory_format=torch.contiguous_format), ranks)
        flat[x.numel() :].zero_()
        return flat_buffers.shard(flat, ranks, self.coord(*axes)).clone()

    def reduce_scatter_flat(self, x: torch.Tensor, group: str) -> comm.Pending:
        """Reduce-scatter of a flattened tensor: the rank's shard of the sum, as a new tensor."""
        bucket, ranks = flat_buffers.reduce_scatter_([x.clone(memory_format=torch.contiguous_format)], self.groups[group]), self.groups[group]
        return comm.Pending(bucket, lambda: flat_buffers.local_shard(bucket.tensors[0], ranks.size, ranks.index).clone(), bucket.text)

    def all_gather_flat(self, x: torch.Tensor, group: str, sizes: Sequence[int]) -> comm.Pending:
        bucket = flat_buffers.all_gather([x], self.groups[group], [sizes])
        return comm.Pending(bucket, lambda: bucket.tensors[0], bucket.text)

    def all_reduce_bucket_(self, tensors: Sequence[torch.Tensor], group: str) -> flat_buffers.PendingBucket:
        return flat_buffers.all_reduce_(tensors, self.groups[group])

    def reduce_scatter_bucket_(self, tensors: Sequence[torch.Tensor], group: str) -> flat_buffers.PendingBucket:
        """Bucketed reduce-scatter, in place: the rank's shard of each tensor receives the sum."""
        return flat_buffers.reduce_scatter_(tensors, self.groups[group])

    def all_gather_bucket_(self, tensors: Sequence[torch.Tensor], group: str) -> flat_buffers.PendingBucket:
        """Bucketed all-gather, in place: the rank's shard of each tensor is valid; the others are received."""
        return flat_buffers.all_gather_(tensors, self.groups[group])

    def all_gather_bucket(self, tensors: Sequence[torch.Tensor], group: str, sizes: Sequence[Sequence[int]]) -> flat_buffers.PendingBucket:
        return flat_buffers.all_gather(tensors, self.groups[group], sizes)

    def all_to_all_bucket(self, tensors: Sequence[torch.Tensor], group: str) -> flat_buffers.PendingBucket:
        return flat_buffers.all_to_all(tensors, self.groups[group])

    def to_host(self, *args, **kwargs) -> offload.PendingCopy:
        return self._offloader.to_host(*args, **kwargs)

    def to_device(self, *args, **kwargs) -> offload.PendingCopy:
        return self._offloader.to_device(*args, **kwargs)

    def from_disk(self, *args, **kwargs) -> offload.PendingDiskCopy:
        return self._offloader.from_disk(*args, **kwargs)

    def to_disk(self, *args, **kwargs) -> offload.PendingDiskCopy:
        return self._offloader.to_disk(*args, **kwargs)

    def all_reduce(self, x: torch.Tensor, group: str, op: str = "sum") -> comm.Pending:
        return comm.all_reduce(x, self.groups[group], op)

    def all_reduce_max(self, scalars: Sequence[torch.Tensor], group: str) -> Sequence[comm.Pending]:
        """All-reduce (max) of several scalars in one collective."""
        return comm.all_reduce_max(scalars, self.groups[group])

    def all_reduce_(self, x: torch.Tensor, group: str, op: str = "sum") -> comm.Pending:
        """In place, where the operand is not read again."""
        return comm.all_reduce(x, self.groups[group], op, in_place=True)

    def all_gather(self, x: torch.Tensor, group: str, dim: int, zigzag: int = 0) -> comm.Pending:
        return comm.all_gather(x, self.groups[group], dim, zigzag)

    def reduce_scatter(self, x: torch.Tensor, group: str, dim: int, zigzag: int = 0) -> comm.Pending:
        return comm.reduce_scatter(x, self.groups[group], dim, zigzag)

    def all_to_all(self, x: torch.Tensor, group: str, split_dim: int, concat_dim: int) -> comm.Pending:
        """All-to-all: x is split along `split_dim`, shard i goes to rank i of the group, and received shards are concatenated along `concat_dim`."""
        return comm.all_to_all(x, self.groups[group], split_dim, concat_dim)

    def ring_shift(self, tensors: Sequence[torch.Tensor], group: str, by: int) -> Sequence[comm.Pending]:
        """A ring shift: each tensor from the rank `by` positions before this one."""
        return comm.ring_shift(tensors, self.groups[group], by)

    def check_capacity(self, counts: torch.Tensor, capacity: int, balanced: float) -> None:
        """Registers the tokens of the rank's experts and their capacity for `require_capacity`, which checks once per step."""
        self._expert_loads.append((counts.sum(), capacity, balanced, f"{self.block}, microbatch {self.microbatch}"))

    def require_capacity(self) -> None:
        """Stops all ranks if one of them exceeds its expert capacity."""
        loads, self._expert_loads = self._expert_loads, []
        excess = [tokens - capacity for tokens, capacity, _, _ in loads] or [torch.zeros((), dtype=torch.int64, device=self.device)]
        worst = torch.stack(excess).max()
        if self.mesh.world > 1:
            comm.dist.all_reduce(worst, comm.dist.ReduceOp.MAX)
        if worst.item() <= 0:
            return
        for tokens, capacity, balanced, where in loads:
            if tokens > capacity:
                factor = math.ceil(100 * tokens.item() / balanced) / 100
                what = f"the experts of this rank receive {tokens.item()} tokens, but their capacity is {capacity}; set `expertCapacity: {factor:g}`"
                raise RuntimeError(f"{where}: {what}")
        raise RuntimeError("another rank has more expert tokens than its capacity")

    def dispatch(
        self, x: torch.Tensor, expert_rows: torch.Tensor, group: str, capacity: int, per_expert: bool, max_tokens: int = 0,
    ) -> comm.Pending:
        """MoE dispatch: tokens go to the ranks of their experts; `max_tokens` is the maximum that one rank sends to another."""
        return moe_dispatch.dispatch(x, expert_rows, capacity, per_expert, max_tokens, self.groups[group])

    def combine(self, rows: torch.Tensor, expert_rows: torch.Tensor, group: str, per_expert: bool, max_tokens: int = 0) -> comm.Pending:
        return moe_dispatch.combine(rows, expert_rows, per_expert, max_tokens, self.groups[group])

    def wait(self, pending: comm.Pending) -> torch.Tensor:
        self.waiting_for = pending.text
        result = pending.wait()
        self.waiting_for = ""
        if self.device.type == "cuda":
            self._waits.append((pending.works(), pending.text))
        return result

    def first_pending(self) -> str:
        """The first collective that was waited for and has not completed."""
        pending = (text for works, text in list(self._waits) if not all(work.is_completed() for work in works))
        return self.waiting_for or next(pending, "")


# Methods that torch.compile does not trace.
NOT_COMPILED = [
    "load", "dropout_mask", "reduce_scatter_flat", "all_gather_flat", "all_reduce", "all_reduce_", "all_gather", "reduce_scatter", "all_to_all",
    "ring_shift", "dispatch", "combine", "check_capacity", "wait",
]


def disable_compile() -> None:
    """Excludes communication from torch.compile, which compiles what is between these calls."""
    varlen.disable_compile()
    for name in NOT_COMPILED:
        method = getattr(Context, name)
        if not hasattr(method, "__wrapped__"):
            setattr(Context, name, torch.compiler.disable(method))
