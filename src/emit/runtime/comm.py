"""
Process groups of the mesh, and asynchronous collectives (a start and a wait). Ranks of a group are in the program's order;
where that differs from the numeric order, shards are permuted.
"""
from datetime import timedelta
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .dtypes import DTYPES
from .mesh import Mesh
from .shards import pair_chunks, unpair_chunks


def barrier(group=None) -> None:
    """A barrier. NCCL gets the device explicitly; otherwise it guesses, with a warning."""
    on = [torch.cuda.current_device()] if dist.get_backend(group) == "nccl" else None
    dist.barrier(group, device_ids=on)


class Group:
    """A process group from the point of view of this rank."""

    def __init__(self, label: str, ranks: List[int], rank: int, process_group):
        self.label = label
        self.ranks = ranks
        self.process_group = process_group
        self.index = ranks.index(rank)
        # Group indices by ascending rank.
        self.by_rank = sorted(range(len(ranks)), key=lambda i: ranks[i])
        # order[i]: position of rank i's shard by ascending rank; None if it is always i.
        order = [self.by_rank.index(i) for i in range(len(ranks))]
        self.order = None if order == sorted(order) else order

    @property
    def size(self) -> int:
        return len(self.ranks)

    def to_group_order(self, shards: torch.Tensor) -> torch.Tensor:
        return shards if self.order is None else shards[self.order]

    def to_rank_order(self, shards: torch.Tensor) -> torch.Tensor:
        if self.order is None:
            return shards
        inverse = [self.order.index(i) for i in range(self.size)]
        return shards[inverse]


class Groups:
    """All ranks create all groups in the same order: a rank that skipped one would hang the others."""

    def __init__(self, mesh: Mesh, rank: int, specs: Sequence[Dict], backend: str, timeout: timedelta, process_groups=None):
        self.process_groups: Dict[Tuple[int, ...], object] = {} if process_groups is None else process_groups
        self.connected: set = set()
        self.backend = backend
        self.timeout = timeout
        self.by_label: Dict[str, Group] = {}
        for spec in specs:
            for ranks in _all_groups(mesh, spec):
                process_group = self._make(tuple(sorted(ranks)))
                if rank in ranks:
                    self.by_label[spec["label"]] = Group(spec["label"], ranks, rank, process_group)

    def __getitem__(self, label: str) -> Group:
        return self.by_label[label]

    def p2p_groups(self, mesh: Mesh, rank: int, pairs: Sequence[Tuple[int, int]]) -> Dict[Tuple[int, int], object]:
        """
        Process groups for sends and receives between pipeline coordinates. NCCL serializes the messages of a group, so each direction
        needs its own group; other backends use one group of all ranks.
        """
        groups = {}
        for source, target in pairs:
            for other in range(mesh.world):
                if mesh.coordinates(other).get("pp", 0) != source:
                    continue
                ends = (other, mesh.peer(other, target))
                process_group = self._make((-1, *ends), ends) if self.backend == "nccl" else None
                if rank in ends:
                    groups[(source, target)] = process_group
        return groups

    def connect(self, rank: int, device: torch.device) -> None:
        """Connects each group now, in the same order on all ranks: NCCL would connect it at its first collective, within a step."""
        if self.backend != "nccl":
            return
        for key, process_group in self.process_groups.items():
            ranks = key[1:] if key[0] < 0 else key
            if rank not in ranks or key in self.connected:
                continue
            self.connected.add(key)
            token = torch.zeros(1, device=device)
            if key[0] >= 0:
                dist.all_reduce(token, group=process_group)
                continue
            me, peer = ranks if rank == ranks[0] else reversed(ranks)
            p2p = send if me == ranks[0] else receive
            p2p(token, peer, process_group, "").wait()
        torch.cuda.synchronize(device)

    def _make(self, key: Tuple[int, ...], ranks: Optional[Tuple[int, ...]] = None):
        if len(key) == 1:
            return None
        if key not in self.process_groups:
            self.process_groups[key] = dist.new_group(list(ranks or key), timeout=self.timeout)
        return self.process_groups[key]


def _all_groups(mesh: Mesh, spec: Dict) -> Iterator[List[int]]:
    """All groups along these axes, each once."""
    stages = spec.get("stages")
    covered = set()
    for rank in range(mesh.world):
        if rank in covered or (stages is not None and mesh.coordinates(rank).get("pp", 0) not in stages):
            continue
        ranks = mesh.group_ranks(rank, spec["axes"], stages)
        covered.update(ranks)
        yield ranks


class Pending:
    """A collective in flight: `wait` returns its result. `held` keeps its operands alive until then."""

    def __init__(self, work, finish: Callable[[], torch.Tensor], text: str, held=None):
        self.work = work
        self.finish = finish
        self.text = text
        self.held = held

    def wait(self) -> torch.Tensor:
        if self.work is not None:
            self.work.wait()
        return self.finish()

    def works(self) -> List:
        """Work handles that report completion: with NCCL `wait` only blocks the stream."""
        return [] if self.work is None else getattr(self.work, "works", [self.work])


def _split(x: torch.Tensor, dim: int, shards: int) -> torch.Tensor:
    """[shards, ...]: x split along dim."""
    return x.unflatten(dim, (shards, x.shape[dim] // shards)).movedim(dim, 0)


def _concat(shards: torch.Tensor, dim: int) -> torch.Tensor:
    """The inverse of `_split`: shards concatenated along dim."""
    return shards.movedim(0, dim).flatten(dim, dim + 1)


def _split_zigzag(x: torch.Tensor, dim: int, shards: int, minor: int) -> torch.Tensor:
    """[shards, ...]: x split along dim so that `minor` consecutive shards are an early and a late chunk (zigzag)."""
    pairs = pair_chunks(_split(x, dim, 2 * shards // minor))
    ranks = pairs.movedim(1, dim + 1).flatten(dim + 1, dim + 2)
    return _split(ranks, dim + 1, minor).transpose(0, 1).flatten(0, 1)


def _concat_zigzag(shards: torch.Tensor, dim: int, minor: int) -> torch.Tensor:
    ranks = _concat(shards.unflatten(0, (-1, minor)).transpose(0, 1), dim + 1)
    pairs = ranks.unflatten(dim + 1, (2, ranks.shape[dim + 1] // 2)).movedim(dim + 1, 1)
    return _concat(unpair_chunks(pairs), dim)


def all_reduce(x: torch.Tensor, group: Group, op: str = "sum", in_place: bool = False) -> Pending:
    out = x if in_place else x.clone(memory_format=torch.contiguous_format)
    if not out.is_contiguous():
        out = out.contiguous()
    text = f"all-reduce over {group.label} with ranks {group.ranks}"
    if group.size == 1:
        return Pending(None, lambda: out, text)
    reduce_op = dist.ReduceOp.MAX if op == "max" else dist.ReduceOp.SUM
    if is_gloo(group) and out.dtype in HALF_DTYPES:
        full = out.float()
        return Pending(dist.all_reduce(full, reduce_op, group.process_group, async_op=True), lambda: out.copy_(full), text)
    work = dist.all_reduce(out, op=reduce_op, group=group.process_group, async_op=True)
    return Pending(work, lambda: out, text)


def all_reduce_max(scalars: Sequence[torch.Tensor], group: Group) -> List[Pending]:
    """One all-reduce (max) of several scalars, in place."""
    stacked = torch.stack(list(scalars))
    pending = all_reduce(stacked, group, "max", in_place=True)
    return [Pending(pending.work, lambda i=i: scalars[i].copy_(stacked[i]), pending.text) for i in range(len(scalars))]


# gloo reduces these in 16 bits, or in older releases not at all.
HALF_DTYPES = (torch.bfloat16, torch.float16)


def is_gloo(group: Group) -> bool:
    return dist.get_backend(group.process_group) == "gloo"


def gloo_view(x: torch.Tensor) -> torch.Tensor:
    """The same memory as another 2-byte type, for copies only: older releases of gloo do not support bf16."""
    return x.view(torch.float16) if x.dtype == torch.bfloat16 else x


# Types that no backend and few operations support.
FP8_DTYPES = tuple(DTYPES[name] for name in ("f8e4m3", "f8e5m2"))


def _as_bytes(collective: Callable, x: torch.Tensor, *args) -> Pending:
    pending = collective(x.view(torch.uint8), *args)
    return Pending(pending.work, lambda: pending.finish().view(x.dtype), pending.text, pending.held)


def all_gather(x: torch.Tensor, group: Group, dim: int, zigzag: int = 0) -> Pending:
    """`zigzag`: N consecutive ranks hold an early and a late chunk; 0: shards are contiguous."""
    if x.dtype in FP8_DTYPES:
        return _as_bytes(all_gather, x, group, dim, zigzag)
    text = f"all-gather over {group.label} with ranks {group.ranks}"
    if group.size == 1:
        return Pending(None, lambda: x, text)
    x = x.contiguous()
    shards = x.new_empty((group.size, *x.shape))
    if is_gloo(group):  # has no form for one tensor in older releases
        work = dist.all_gather(list(gloo_view(shards).unbind(0)), gloo_view(x), group=group.process_group, async_op=True)
    else:
        work = dist.all_gather_into_tensor(shards.flatten(0, 1), x, group=group.process_group, async_op=True)
    if zigzag:
        return Pending(work, lambda: _concat_zigzag(group.to_group_order(shards), dim, zigzag), text, held=x)
    return Pending(work, lambda: _concat(group.to_group_order(shards), dim), text, held=x)


def reduce_scatter(x: torch.Tensor, group: Group, dim: int, zigzag: int = 0) -> Pending:
    text = f"reduce-scatter over {group.label} with ranks {group.ranks}"
    if group.size == 1:
        return Pending(None, lambda: x, text)
    split = _split_zigzag(x, dim, group.size, zigzag) if zigzag else _split(x, dim, group.size)
    shards = group.to_rank_order(split).contiguous()
    if is_gloo(group):  # has none in older releases
        # A copy: for a batch of one the shards are x itself, which may be read later.
        shards = shards.clone() if shards.data_ptr() == x.data_ptr() else shards
        sums = all_reduce(shards, group, in_place=True)
        own = sorted(group.ranks).index(group.ranks[group.index])
        return Pending(sums, lambda: shards[own].clone(), text)
    out = torch.empty_like(shards[0])
    work = dist.reduce_scatter_tensor(out, shards.flatten(0, 1), group=group.process_group, async_op=True)
    return Pending(work, lambda: out, text, held=shards)


def all_to_all(x: torch.Tensor, group: Group, split_dim: int, concat_dim: int) -> Pending:
    if x.dtype in FP8_DTYPES:
        return _as_bytes(all_to_all, x, group, split_dim, concat_dim)
    text = f"all-to-all over {group.label} with ranks {group.ranks}"
    if group.size == 1:
        return Pending(None, lambda: x, text)
    shards = group.to_rank_order(_split(x, split_dim, group.size)).contiguous()
    received = torch.empty_like(shards)
    [out, sent] = [gloo_view(x) if is_gloo(group) else x for x in (received.flatten(0, 1), shards.flatten(0, 1))]
    work = dist.all_to_all_single(out, sent, group=group.process_group, async_op=True)
    return Pending(work, lambda: _concat(group.to_group_order(received), concat_dim), text, held=shards)


class _P2PWork:
    """Point-to-point messages with one wait."""

    def __init__(self, works: List):
        self.works, self.unfinished = works, works

    def wait(self) -> None:
        for work in self.unfinished:
            work.wait()
        self.unfinished = []


def ring_shift(tensors: Sequence[torch.Tensor], group: Group, by: int) -> List[Pending]:
    """Rank i of the group receives from rank i - by: one send and one receive on the group's communicator."""
    text = f"shift by {by} over {group.label} with ranks {group.ranks}"
    if by % group.size == 0:
        return [Pending(None, lambda x=x: x.clone(), text) for x in tensors]
    inputs = [x.contiguous() for x in tensors]
    received = [torch.empty_like(x) for x in inputs]
    target, source = (group.ranks[(group.index + step) % group.size] for step in (by, -by))
    ops = [
        dist.P2POp(op, gloo_view(x) if is_gloo(group) else x, peer, group.process_group)
        for pair in zip(inputs, received)
        for op, x, peer in zip((dist.isend, dist.irecv), pair, (target, source))
    ]
    work = _P2PWork(dist.batch_isend_irecv(ops))
    return [Pending(work, lambda x=x: x, text, held=inputs) for x in received]


def send(tensor: torch.Tensor, peer: int, process_group, text: str) -> Pending:
    tensor = tensor.contiguous()
    return Pending(_p2p(dist.isend, tensor, peer, process_group), lambda: tensor, text, held=tensor)


def receive(tensor: torch.Tensor, peer: int, process_group, text: str) -> Pending:
    return Pending(_p2p(dist.irecv, tensor, peer, process_group), lambda: tensor, text, held=tensor)


def _p2p(op: Callable, tensor: torch.Tensor, peer: int, process_group):
    """With NCCL as a batch of one, which uses the group's communicator; a single send would create another."""
    if process_group is None:
        return op(tensor, peer)
    return _P2PWork(dist.batch_isend_irecv([dist.P2POp(op, tensor, peer, process_group)]))
