"""
Flat buffers: tensors flattened and split into equal shards, one per rank of the group, with zero padding behind the last element (as
FSDP's FlatParameter). Bucketed collectives over many tensors at once, in place, in buffers with capacity for all shards.
"""
from typing import Callable, List, Sequence

import torch
import torch.distributed as dist

from .comm import HALVES, Group, Pending, bits, is_gloo


class Flight(Pending):
    """A bucketed collective in flight. `tensors` receive the results and are valid after the wait."""

    def __init__(self, works: List, tensors: List[torch.Tensor], text: str, finish: Sequence[Callable[[], object]] = ()):
        super().__init__(None, lambda: None, text)
        self.started, self.tensors, self.steps = works, tensors, finish

    def works(self) -> List:
        return [work for one in self.started for work in getattr(one, "works", [one])]

    def wait(self):
        for work in self.started:
            work.wait()
        for step in self.steps:
            step()
        return self.tensors[0]


def part_size(elements: int, parts: int) -> int:
    return -(-elements // parts)


def room_for(sizes: Sequence[int], parts: int) -> int:
    """Elements of all shards of a tensor together, with padding."""
    return part_size(torch.Size(sizes).numel(), parts) * parts


def with_room(sizes: Sequence[int], parts: int, like: torch.Tensor) -> torch.Tensor:
    """A tensor of zeros with capacity for all padded shards."""
    return like.new_zeros(room_for(sizes, parts))[: torch.Size(sizes).numel()].view(sizes)


def padded(x: torch.Tensor, room: int) -> torch.Tensor:
    """x itself if its memory is its own and has capacity for `room` elements, else a copy that has."""
    if room <= x.numel() or (x.storage_offset() == 0 and _elements_from(x) == room):
        return x
    return x.new_zeros(room)[: x.numel()].view(x.shape).copy_(x)


def line(x: torch.Tensor, parts: int) -> torch.Tensor:
    """x as a flat buffer with all padded shards: its own memory, or a copy if that lacks the capacity."""
    room = room_for(x.shape, parts)
    x = x.contiguous()
    if room > x.numel() and _elements_from(x) < room:
        x = padded(x, room)
    return x.as_strided((room,), (1,), x.storage_offset())


def _elements_from(x: torch.Tensor) -> int:
    storage = x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()
    return storage.nbytes() // x.element_size() - x.storage_offset()


def part(of: torch.Tensor, parts: int, index: int) -> torch.Tensor:
    """Shard `index` of a flat buffer: a view."""
    size = of.numel() // parts
    return of.narrow(0, index * size, size)


def own(x: torch.Tensor, parts: int, index: int) -> torch.Tensor:
    """The rank's own shard within a tensor that has capacity for all of them: a view."""
    whole = line(x, parts)
    if whole.data_ptr() != x.data_ptr():
        raise RuntimeError(f"a tensor of {tuple(x.shape)} has no room for {parts} parts")
    return part(whole, parts, index)


def _whole(wide: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    return wide[: torch.Size(sizes).numel()].view(sizes)


def _all(group: Group, start: Callable, operands: Sequence) -> List:
    """Starts one collective per operand; with NCCL those of one dtype are coalesced."""
    together = not is_gloo(group) and len(operands) > 1 and hasattr(dist, "_coalescing_manager")
    if not together:
        return [start(*each) for each in operands]
    device, all_works = operands[0][0].device, []
    for dtype in dict.fromkeys(x.dtype for x, *_ in operands):
        with dist._coalescing_manager(group=group.process_group, device=device, async_ops=True) as works:
            for each in operands:
                if each[0].dtype == dtype:
                    start(*each)
        all_works.append(works)
    return all_works


def _sums(group: Group, tensors: Sequence[torch.Tensor]):
    """All-reduce in place: work handles, and the steps that follow them."""
    narrow = is_gloo(group)
    wide = [x.float() if narrow and x.dtype in HALVES else x for x in tensors]

    def start(x):
        return dist.all_reduce(x, group=group.process_group, async_op=True)

    back = [(x, y) for x, y in zip(tensors, wide) if x is not y]
    return _all(group, start, [(x,) for x in wide]), [lambda x=x, y=y: x.copy_(y) for x, y in back]


def sum_(tensors: Sequence[torch.Tensor], group: Group) -> Flight:
    """All-reduce of a bucket, in place."""
    dense = [x.contiguous() for x in tensors]
    works, finish = _sums(group, dense)
    return Flight(works, dense, f"all-reduce of {len(dense)} tensors over {group.label} with ranks {group.members}", finish)


def scatter_(tensors: Sequence[torch.Tensor], group: Group) -> Flight:
    """Reduce-scatter of a bucket, in place: each rank receives its own shard of every sum."""
    lines = [line(x, group.size) for x in tensors]
    for x, wide in zip(tensors, lines):
        wide[x.numel() :].zero_()
    text = f"reduce-scatter of {len(lines)} tensors over {group.label} with ranks {group.members}"
    wholes = [_whole(wide, x.shape) for x, wide in zip(tensors, lines)]
    # Older releases of gloo have none, and other backends order shards by rank.
    if is_gloo(group) or group.order is not None:
        works, finish = _sums(group, lines)
        return Flight(works, wholes, text, finish)

    def start(mine, wide):
        return dist.reduce_scatter_tensor(mine, wide, group=group.process_group, async_op=True)

    operands = [(part(wide, group.size, group.index), wide) for wide in lines]
    return Flight(_all(group, start, operands), wholes, text)


def gather_(tensors: Sequence[torch.Tensor], group: Group) -> Flight:
    """All-gather of a bucket, in place: the rank's own shards are valid before."""
    lines = [line(x, group.size) for x in tensors]
    text = f"all-gather of {len(lines)} tensors over {group.label} with ranks {group.members}"
    wholes = [_whole(wide, x.shape) for x, wide in zip(tensors, lines)]
    mine = [part(wide, group.size, group.index) for wide in lines]
    if is_gloo(group) or group.order is not None:
        return _gathered_apart(mine, lines, group, wholes, text)

    def start(wide, own_part):
        return dist.all_gather_into_tensor(wide, own_part, group=group.process_group, async_op=True)

    return Flight(_all(group, start, list(zip(lines, mine))), wholes, text)


def _gathered_apart(mine, lines, group: Group, wholes, text: str) -> Flight:
    """Into a separate buffer, from which shards are permuted into group order."""
    got = [wide.new_empty((group.size, own_part.numel())) for wide, own_part in zip(lines, mine)]

    def start(parts, own_part):
        sent = own_part.clone()
        return dist.all_gather(list(bits(parts).unbind(0)), bits(sent), group=group.process_group, async_op=True)

    works = [start(parts, own_part) for parts, own_part in zip(got, mine)]
    finish = [
        lambda wide=wide, parts=parts: wide.view_as(parts).copy_(group.in_member_order(parts))
        for wide, parts in zip(lines, got)
    ]
    return Flight(works, wholes, text, finish)


def gather(parts: Sequence[torch.Tensor], group: Group, sizes: Sequence[Sequence[int]]) -> Flight:
    """All-gather of a bucket into new tensors of these sizes."""
    wholes = [with_room(shape, group.size, x) for shape, x in zip(sizes, parts)]
    for whole, x in zip(wholes, parts):
        own(whole, group.size, group.index).copy_(x)
    return gather_(wholes, group)


def exchange(tensors: Sequence[torch.Tensor], group: Group) -> Flight:
    """All-to-all of flat buffers: shard i goes to rank i of the group; received shards are concatenated in group order."""
    sent = [group.in_rank_order(x.reshape(group.size, -1)).contiguous() for x in tensors]
    got = [torch.empty_like(x) for x in sent]
    into = got if group.order is None else [torch.empty_like(x) for x in sent]
    narrow = bits if is_gloo(group) else lambda x: x

    def start(to, of):
        return dist.all_to_all_single(narrow(to), narrow(of), group=group.process_group, async_op=True)

    finish = [lambda a=a, b=b: a.copy_(group.in_member_order(b)) for a, b in zip(into, got) if a is not b]
    text = f"all-to-all of {len(sent)} tensors over {group.label} with ranks {group.members}"
    flight = Flight(_all(group, start, list(zip(got, sent))), into, text, finish)
    flight.held = sent
    return flight
