"""
Flat buffers: tensors flattened and split into equal shards, one per rank of the group, with zero padding behind the last element (as
FSDP's FlatParameter). Bucketed collectives over many tensors at once, in place, in buffers with capacity for all shards.
"""
from typing import Callable, List, Sequence

import torch
import torch.distributed as dist

from .comm import HALF_DTYPES, Group, Pending, gloo_view, is_gloo


class PendingBucket(Pending):
    """A bucketed collective in flight. `tensors` receive the results and are valid after the wait."""

    def __init__(self, works: List, tensors: List[torch.Tensor], text: str, finish: Sequence[Callable[[], object]] = ()):
        super().__init__(None, lambda: None, text)
        self.started, self.tensors, self.steps = works, tensors, finish

    def works(self) -> List:
        return [work for work in self.started for work in getattr(work, "works", [work])]

    def wait(self) -> torch.Tensor:
        for work in self.started:
            work.wait()
        for step in self.steps:
            step()
        return self.tensors[0]


def shard_size(elements: int, ranks: int) -> int:
    return -(-elements // ranks)


def padded_numel(sizes: Sequence[int], ranks: int) -> int:
    """Elements of all shards of a tensor together, with padding."""
    return shard_size(torch.Size(sizes).numel(), ranks) * ranks


def padded_zeros(sizes: Sequence[int], ranks: int, like: torch.Tensor) -> torch.Tensor:
    """A tensor of zeros with capacity for all padded shards."""
    return like.new_zeros(padded_numel(sizes, ranks))[: torch.Size(sizes).numel()].view(sizes)


def padded(x: torch.Tensor, capacity: int) -> torch.Tensor:
    """x itself if its memory is its own and has room for `capacity` elements, else a copy that has."""
    if capacity <= x.numel() or (x.storage_offset() == 0 and _elements_from(x) == capacity):
        return x
    return x.new_zeros(capacity)[: x.numel()].view(x.shape).copy_(x)


def flatten(x: torch.Tensor, ranks: int) -> torch.Tensor:
    """x as a flat buffer with all padded shards: its own memory, or a copy if that lacks the capacity."""
    capacity = padded_numel(x.shape, ranks)
    x = x.contiguous()
    if capacity > x.numel() and _elements_from(x) < capacity:
        x = padded(x, capacity)
    return x.as_strided((capacity,), (1,), x.storage_offset())


def _elements_from(x: torch.Tensor) -> int:
    storage = x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()
    return storage.nbytes() // x.element_size() - x.storage_offset()


def shard(flat: torch.Tensor, ranks: int, index: int) -> torch.Tensor:
    """Shard `index` of a flat buffer: a view."""
    size = flat.numel() // ranks
    return flat.narrow(0, index * size, size)


def local_shard(x: torch.Tensor, ranks: int, index: int) -> torch.Tensor:
    """The rank's shard of a tensor whose buffer has capacity for all shards: a view."""
    flat = flatten(x, ranks)
    if flat.data_ptr() != x.data_ptr():
        raise RuntimeError(f"the buffer of a tensor of shape {tuple(x.shape)} is too small for {ranks} padded shards")
    return shard(flat, ranks, index)


def _view(flat: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    return flat[: torch.Size(sizes).numel()].view(sizes)


def _start_all(group: Group, start: Callable, operands: Sequence) -> List:
    """Starts one collective per operand; with NCCL those of one dtype are coalesced."""
    coalesced = not is_gloo(group) and len(operands) > 1 and hasattr(dist, "_coalescing_manager")
    if not coalesced:
        return [start(*each) for each in operands]
    device, all_works = operands[0][0].device, []
    for dtype in dict.fromkeys(x.dtype for x, *_ in operands):
        with dist._coalescing_manager(group=group.process_group, device=device, async_ops=True) as works:
            for each in operands:
                if each[0].dtype == dtype:
                    start(*each)
        all_works.append(works)
    return all_works


def _start_all_reduce(group: Group, tensors: Sequence[torch.Tensor]):
    """All-reduce in place: work handles, and the steps that follow them."""
    upcasts = is_gloo(group)
    operands = [x.float() if upcasts and x.dtype in HALF_DTYPES else x for x in tensors]

    def start(x):
        return dist.all_reduce(x, group=group.process_group, async_op=True)

    back = [(x, y) for x, y in zip(tensors, operands) if x is not y]
    return _start_all(group, start, [(x,) for x in operands]), [lambda x=x, y=y: x.copy_(y) for x, y in back]


def all_reduce_(tensors: Sequence[torch.Tensor], group: Group) -> PendingBucket:
    """All-reduce of a bucket, in place."""
    operands = [x.contiguous() for x in tensors]
    works, finish = _start_all_reduce(group, operands)
    return PendingBucket(works, operands, f"all-reduce of {len(operands)} tensors over {group.label} with ranks {group.ranks}", finish)


def reduce_scatter_(tensors: Sequence[torch.Tensor], group: Group) -> PendingBucket:
    """Reduce-scatter of a bucket, in place: each rank receives its own shard of every sum."""
    flats = [flatten(x, group.size) for x in tensors]
    for x, flat in zip(tensors, flats):
        flat[x.numel() :].zero_()
    text = f"reduce-scatter of {len(flats)} tensors over {group.label} with ranks {group.ranks}"
    results = [_view(flat, x.shape) for x, flat in zip(tensors, flats)]
    # Older releases of gloo have none, and other backends order shards by rank.
    if is_gloo(group) or group.order is not None:
        works, finish = _start_all_reduce(group, flats)
        return PendingBucket(works, results, text, finish)

    def start(own_shard, flat):
        return dist.reduce_scatter_tensor(own_shard, flat, group=group.process_group, async_op=True)

    operands = [(shard(flat, group.size, group.index), flat) for flat in flats]
    return PendingBucket(_start_all(group, start, operands), results, text)


def all_gather_(tensors: Sequence[torch.Tensor], group: Group) -> PendingBucket:
    """All-gather of a bucket, in place: the rank's own shards are valid before the call."""
    flats = [flatten(x, group.size) for x in tensors]
    text = f"all-gather of {len(flats)} tensors over {group.label} with ranks {group.ranks}"
    results = [_view(flat, x.shape) for x, flat in zip(tensors, flats)]
    own_shards = [shard(flat, group.size, group.index) for flat in flats]
    if is_gloo(group) or group.order is not None:
        return _all_gather_reordered(own_shards, flats, group, results, text)

    def start(flat, own_shard):
        return dist.all_gather_into_tensor(flat, own_shard, group=group.process_group, async_op=True)

    return PendingBucket(_start_all(group, start, list(zip(flats, own_shards))), results, text)


def _all_gather_reordered(own_shards, flats, group: Group, results, text: str) -> PendingBucket:
    """Into a separate buffer, from which shards are permuted into group order."""
    received = [flat.new_empty((group.size, own_shard.numel())) for flat, own_shard in zip(flats, own_shards)]

    def start(shards, own_shard):
        sent = own_shard.clone()
        return dist.all_gather(list(gloo_view(shards).unbind(0)), gloo_view(sent), group=group.process_group, async_op=True)

    works = [start(shards, own_shard) for shards, own_shard in zip(received, own_shards)]
    finish = [
        lambda flat=flat, shards=shards: flat.view_as(shards).copy_(group.to_group_order(shards))
        for flat, shards in zip(flats, received)
    ]
    return PendingBucket(works, results, text, finish)


def all_gather(shards: Sequence[torch.Tensor], group: Group, sizes: Sequence[Sequence[int]]) -> PendingBucket:
    """All-gather of a bucket into new tensors of these sizes."""
    results = [padded_zeros(shape, group.size, x) for shape, x in zip(sizes, shards)]
    for result, x in zip(results, shards):
        local_shard(result, group.size, group.index).copy_(x)
    return all_gather_(results, group)


def all_to_all(tensors: Sequence[torch.Tensor], group: Group) -> PendingBucket:
    """All-to-all of flat buffers: shard i goes to rank i of the group; received shards are concatenated in group order."""
    sent = [group.to_rank_order(x.reshape(group.size, -1)).contiguous() for x in tensors]
    received = [torch.empty_like(x) for x in sent]
    results = received if group.order is None else [torch.empty_like(x) for x in sent]
    view = gloo_view if is_gloo(group) else lambda x: x

    def start(out, x):
        return dist.all_to_all_single(view(out), view(x), group=group.process_group, async_op=True)

    finish = [lambda a=a, b=b: a.copy_(group.to_group_order(b)) for a, b in zip(results, received) if a is not b]
    text = f"all-to-all of {len(sent)} tensors over {group.label} with ranks {group.ranks}"
    bucket = PendingBucket(_start_all(group, start, list(zip(received, sent))), results, text, finish)
    bucket.held = sent
    return bucket
