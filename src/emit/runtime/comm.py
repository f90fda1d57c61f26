"""
Process groups of the mesh, and asynchronous collectives (a start and a wait). Ranks of a group are in the program's order;
where that differs from the numeric order, shards are permuted.
"""
from datetime import timedelta
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from . import parts as parts_of
from .dtypes import DTYPES
from .mesh import Mesh


def all_here(group=None) -> None:
    """A barrier. NCCL gets the device explicitly; otherwise it guesses, with a warning."""
    on = [torch.cuda.current_device()] if dist.get_backend(group) == "nccl" else None
    dist.barrier(group, device_ids=on)


class Group:
    """A process group from the point of view of this rank."""

    def __init__(self, label: str, members: List[int], rank: int, process_group):
        self.label = label
        self.members = members
        self.process_group = process_group
        self.index = members.index(rank)
        # Members by ascending rank.
        self.by_rank = sorted(range(len(members)), key=lambda i: members[i])
        # order[i]: position of member i's shard by ascending rank; None if it is always i.
        order = [self.by_rank.index(i) for i in range(len(members))]
        self.order = None if order == sorted(order) else order

    @property
    def size(self) -> int:
        return len(self.members)

    def in_member_order(self, parts: torch.Tensor) -> torch.Tensor:
        return parts if self.order is None else parts[self.order]

    def in_rank_order(self, parts: torch.Tensor) -> torch.Tensor:
        if self.order is None:
            return parts
        inverse = [self.order.index(i) for i in range(self.size)]
        return parts[inverse]


class Groups:
    """All ranks create all groups in the same order: a rank that skipped one would hang the others."""

    def __init__(self, mesh: Mesh, rank: int, specs: Sequence[Dict], backend: str, timeout: timedelta, made=None):
        self.made: Dict[Tuple[int, ...], object] = {} if made is None else made
        self.opened: set = set()
        self.backend = backend
        self.timeout = timeout
        self.of_rank: Dict[str, Group] = {}
        for spec in specs:
            for members in _all_members(mesh, spec):
                process_group = self._make(tuple(sorted(members)))
                if rank in members:
                    self.of_rank[spec["label"]] = Group(spec["label"], members, rank, process_group)

    def __getitem__(self, label: str) -> Group:
        return self.of_rank[label]

    def channels(self, mesh: Mesh, rank: int, pairs: Sequence[Tuple[int, int]]) -> Dict[Tuple[int, int], object]:
        """
        Process groups for sends and receives between pipeline coordinates. NCCL serializes the messages of a group, so each direction
        needs its own group; other backends use one group of all ranks.
        """
        found = {}
        for source, target in pairs:
            for other in range(mesh.world):
                if mesh.coordinates(other).get("pp", 0) != source:
                    continue
                ends = (other, mesh.peer(other, target))
                process_group = self._make((-1, *ends), ends) if self.backend == "nccl" else None
                if rank in ends:
                    found[(source, target)] = process_group
        return found

    def open(self, rank: int, device) -> None:
        """Connects each group now, in the same order on all ranks: NCCL would connect it at its first collective, within a step."""
        if self.backend != "nccl":
            return
        for key, process_group in self.made.items():
            members = key[1:] if key[0] < 0 else key
            if rank not in members or key in self.opened:
                continue
            self.opened.add(key)
            token = torch.zeros(1, device=device)
            if key[0] >= 0:
                dist.all_reduce(token, group=process_group)
                continue
            here, there = members if rank == members[0] else reversed(members)
            way = send if here == members[0] else receive
            way(token, there, process_group, "").wait()
        torch.cuda.synchronize(device)

    def _make(self, key: Tuple[int, ...], ranks: Optional[Tuple[int, ...]] = None):
        if len(key) == 1:
            return None
        if key not in self.made:
            self.made[key] = dist.new_group(list(ranks or key), timeout=self.timeout)
        return self.made[key]


def _all_members(mesh: Mesh, spec: Dict) -> Iterator[List[int]]:
    """All groups along these axes, each once."""
    stages = spec.get("stages")
    covered = set()
    for rank in range(mesh.world):
        if rank in covered or (stages is not None and mesh.coordinates(rank).get("pp", 0) not in stages):
            continue
        members = mesh.members(rank, spec["axes"], stages)
        covered.update(members)
        yield members


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


def _split(x: torch.Tensor, dim: int, parts: int) -> torch.Tensor:
    """[parts, ...]: x split along dim."""
    return x.unflatten(dim, (parts, x.shape[dim] // parts)).movedim(dim, 0)


def _laid(parts: torch.Tensor, dim: int) -> torch.Tensor:
    """The inverse of `_split`: shards concatenated along dim."""
    return parts.movedim(0, dim).flatten(dim, dim + 1)


def _split_zigzag(x: torch.Tensor, dim: int, parts: int, minor: int) -> torch.Tensor:
    """[parts, ...]: x split along dim so that `minor` consecutive shards are an early and a late chunk (zigzag)."""
    pairs = parts_of.paired(_split(x, dim, 2 * parts // minor))
    ranks = pairs.movedim(1, dim + 1).flatten(dim + 1, dim + 2)
    return _split(ranks, dim + 1, minor).transpose(0, 1).flatten(0, 1)


def _laid_zigzag(parts: torch.Tensor, dim: int, minor: int) -> torch.Tensor:
    ranks = _laid(parts.unflatten(0, (-1, minor)).transpose(0, 1), dim + 1)
    pairs = ranks.unflatten(dim + 1, (2, ranks.shape[dim + 1] // 2)).movedim(dim + 1, 1)
    return _laid(parts_of.in_order(pairs), dim)


def all_reduce(x: torch.Tensor, group: Group, combine: str = "sum", in_place: bool = False) -> Pending:
    out = x if in_place else x.clone(memory_format=torch.contiguous_format)
    if not out.is_contiguous():
        out = out.contiguous()
    text = f"all-reduce over {group.label} with ranks {group.members}"
    if group.size == 1:
        return Pending(None, lambda: out, text)
    how = dist.ReduceOp.MAX if combine == "max" else dist.ReduceOp.SUM
    if is_gloo(group) and out.dtype in HALVES:
        wide = out.float()
        return Pending(dist.all_reduce(wide, how, group.process_group, async_op=True), lambda: out.copy_(wide), text)
    work = dist.all_reduce(out, op=how, group=group.process_group, async_op=True)
    return Pending(work, lambda: out, text)


def greatest(numbers: Sequence[torch.Tensor], group: Group) -> List[Pending]:
    all_numbers = torch.stack(list(numbers))
    one = all_reduce(all_numbers, group, "max", in_place=True)
    return [Pending(one.work, lambda i=i: numbers[i].copy_(all_numbers[i]), one.text) for i in range(len(numbers))]


# gloo reduces these in 16 bits, or in older releases not at all.
HALVES = (torch.bfloat16, torch.float16)


def is_gloo(group: Group) -> bool:
    return dist.get_backend(group.process_group) == "gloo"


def bits(x: torch.Tensor) -> torch.Tensor:
    """The same memory as another 2-byte type, for copies only: older releases of gloo do not support bf16."""
    return x.view(torch.float16) if x.dtype == torch.bfloat16 else x


# Types that no backend and few operations support.
CODES = tuple(DTYPES[name] for name in ("f8e4m3", "f8e5m2"))


def _as_bytes(move: Callable, x: torch.Tensor, *how) -> Pending:
    pending = move(x.view(torch.uint8), *how)
    return Pending(pending.work, lambda: pending.finish().view(x.dtype), pending.text, pending.held)


def all_gather(x: torch.Tensor, group: Group, dim: int, zigzag: int = 0) -> Pending:
    """`zigzag`: N consecutive ranks hold an early and a late chunk; 0: shards are contiguous."""
    if x.dtype in CODES:
        return _as_bytes(all_gather, x, group, dim, zigzag)
    text = f"all-gather over {group.label} with ranks {group.members}"
    if group.size == 1:
        return Pending(None, lambda: x, text)
    x = x.contiguous()
    parts = x.new_empty((group.size, *x.shape))
    if is_gloo(group):  # has no form for one tensor in older releases
        work = dist.all_gather(list(bits(parts).unbind(0)), bits(x), group=group.process_group, async_op=True)
    else:
        work = dist.all_gather_into_tensor(parts.flatten(0, 1), x, group=group.process_group, async_op=True)
    if zigzag:
        return Pending(work, lambda: _laid_zigzag(group.in_member_order(parts), dim, zigzag), text, held=x)
    return Pending(work, lambda: _laid(group.in_member_order(parts), dim), text, held=x)


def reduce_scatter(x: torch.Tensor, group: Group, dim: int, zigzag: int = 0) -> Pending:
    text = f"reduce-scatter over {group.label} with ranks {group.members}"
    if group.size == 1:
        return Pending(None, lambda: x, text)
    split = _split_zigzag(x, dim, group.size, zigzag) if zigzag else _split(x, dim, group.size)
    parts = group.in_rank_order(split).contiguous()
    if is_gloo(group):  # has none in older releases
        # A copy: for a batch of one the shards are x itself, which may be read later.
        parts = parts.clone() if parts.data_ptr() == x.data_ptr() else parts
        sums = all_reduce(parts, group, in_place=True)
        mine = sorted(group.members).index(group.members[group.index])
        return Pending(sums, lambda: parts[mine].clone(), text)
    out = torch.empty_like(parts[0])
    work = dist.reduce_scatter_tensor(out, parts.flatten(0, 1), group=group.process_group, async_op=True)
    return Pending(work, lambda: out, text, held=parts)


def all_to_all(x: torch.Tensor, group: Group, cut: int, lay: int) -> Pending:
    if x.dtype in CODES:
        return _as_bytes(all_to_all, x, group, cut, lay)
    text = f"all-to-all over {group.label} with ranks {group.members}"
    if group.size == 1:
        return Pending(None, lambda: x, text)
    parts = group.in_rank_order(_split(x, cut, group.size)).contiguous()
    got = torch.empty_like(parts)
    [into, of] = [bits(x) if is_gloo(group) else x for x in (got.flatten(0, 1), parts.flatten(0, 1))]
    work = dist.all_to_all_single(into, of, group=group.process_group, async_op=True)
    return Pending(work, lambda: _laid(group.in_member_order(got), lay), text, held=parts)


class _Together:
    """Point-to-point messages with one wait."""

    def __init__(self, works: List):
        self.works, self.left = works, works

    def wait(self) -> None:
        for work in self.left:
            work.wait()
        self.left = []


def shift(tensors: Sequence[torch.Tensor], group: Group, by: int) -> List[Pending]:
    """Rank i of the group receives from rank i - by: one send and one receive on the group's communicator."""
    text = f"shift by {by} over {group.label} with ranks {group.members}"
    if by % group.size == 0:
        return [Pending(None, lambda x=x: x.clone(), text) for x in tensors]
    given = [x.contiguous() for x in tensors]
    got = [torch.empty_like(x) for x in given]
    to, source = (group.members[(group.index + step) % group.size] for step in (by, -by))
    messages = [
        dist.P2POp(how, bits(x) if is_gloo(group) else x, peer, group.process_group)
        for ends in zip(given, got)
        for how, x, peer in zip((dist.isend, dist.irecv), ends, (to, source))
    ]
    together = _Together(dist.batch_isend_irecv(messages))
    return [Pending(together, lambda x=x: x, text, held=given) for x in got]


def send(tensor: torch.Tensor, peer: int, channel, text: str) -> Pending:
    tensor = tensor.contiguous()
    return Pending(_message(dist.isend, tensor, peer, channel), lambda: tensor, text, held=tensor)


def receive(tensor: torch.Tensor, peer: int, channel, text: str) -> Pending:
    return Pending(_message(dist.irecv, tensor, peer, channel), lambda: tensor, text, held=tensor)


def _message(how: Callable, tensor: torch.Tensor, peer: int, channel):
    """With NCCL as a batch of one, which uses the group's communicator; a single send would create another."""
    if channel is None:
        return how(tensor, peer)
    return _Together(dist.batch_isend_irecv([dist.P2POp(how, tensor, peer, channel)]))
