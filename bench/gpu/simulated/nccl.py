"""
NCCL on simulated GPUs, over gloo. What a collective fills holds NaN until `wait`, and using it, or changing what was sent, is a race
until then. Tensors must be of the device, contiguous and of a type that NCCL knows. Every communicator keeps its order of operations:
NCCL runs them one after the other, so ranks whose orders differ would wait for each other forever (`differing_orders`).
"""
from contextlib import contextmanager
from typing import Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from . import device
from .device import OnGpu, Race, on_host, outside, place, state

KNOWN = {torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool}
HALVES = (torch.float16, torch.bfloat16)
gloo = dist  # as it was: its functions are replaced one by one
real: Dict[str, Callable] = {}
# What is started inside a coalescing manager, until it ends.
together: List[List] = []
# By members of a communicator: what was started on it, in order.
orders: Dict[tuple, List] = {}


class Work:
    def __init__(self, works, finish: Callable[[], None], operands):
        self.parts, self.finish, self.operands, self.done = works, finish, operands, False

    def wait(self) -> bool:
        if not self.done:
            self.done = True
            with device.lock, outside():
                for work in self.parts:
                    work.wait()
                self.finish()
            for x in self.operands:
                state.pending.pop(place(x), None)
        return True

    def is_completed(self) -> bool:
        return self.done


class Together:
    """As PyTorch's: one thing to wait for."""

    def __init__(self):
        self.works: List[Work] = []

    def wait(self) -> None:
        for work in self.works:
            work.wait()


def _checked(tensors) -> List[torch.Tensor]:
    for x in tensors:
        if not isinstance(x, OnGpu) and not device.inside():
            raise RuntimeError("No backend type associated with device type cpu: NCCL takes tensors of the device")
        if not x.is_contiguous():
            raise ValueError("Tensors must be contiguous")
        if x.dtype not in KNOWN:
            raise TypeError(f"Input tensor data type is not supported for NCCL process group: {x.dtype}")
    return [on_host(x) for x in tensors]


def _noted(kind: str, group, tensors: Sequence[torch.Tensor], more=()) -> None:
    members = tuple(dist.get_process_group_ranks(group)) if group is not None else ("world",)
    orders.setdefault(members, []).append((kind, [(tuple(x.shape), str(x.dtype)) for x in tensors], more))


def _begin(kind: str, group, reads, writes, start: Callable, in_place: bool = False):
    """`start` is given copies of both, and the work it returns is gloo's."""
    if together:
        together[-1].append((kind, group, reads, writes, start, in_place))
        return None
    if state.capturing is not None:
        raise RuntimeError("a collective in a recorded step")
    reads, writes = _checked(reads), _checked(writes)
    device.used(reads, writes)
    _noted(kind, group, reads)
    with outside():
        sent = [x.clone() for x in reads]
        got = sent if in_place else [torch.empty_like(x) for x in writes]
        work = start(got, sent)
        for x in writes:
            if not in_place:
                device._poison(x)

    def finish() -> None:
        for into, values in zip(writes, got):
            into.copy_(values)

    for x in reads:
        state.pending[place(x)] = (None, 0, False)
    for x in writes:
        state.pending[place(x)] = (None, 0, True)
    return Work(work if isinstance(work, list) else [work], finish, [*reads, *writes])


def _done(work: Optional[Work], async_op: bool):
    if work is not None and not async_op:
        work.wait()
        return None
    return work


def _sum(x: torch.Tensor, op, group):
    """NCCL adds half precision as it comes; here it is rounded once."""
    if x.dtype not in HALVES:
        return real["all_reduce"](x, op=op, group=group, async_op=True)
    wide = x.float()
    work = real["all_reduce"](wide, op=op, group=group, async_op=True)
    return _Then(work, lambda: x.copy_(wide))


class _Then:
    def __init__(self, work, after: Callable):
        self.work, self.after = work, after

    def wait(self) -> None:
        self.work.wait()
        self.after()


def all_reduce(x, op=dist.ReduceOp.SUM, group=None, async_op=False):
    start = lambda got, sent: _sum(sent[0], op, group)  # noqa: E731
    return _done(_begin(f"all_reduce {op}", group, [x], [x], start, in_place=True), async_op)


def all_gather_into_tensor(into, x, group=None, async_op=False):
    size = dist.get_world_size(group)
    if into.numel() != size * x.numel() or into.dtype != x.dtype:
        raise ValueError("output tensor size must be equal to world_size times input tensor size")

    def start(got, sent):
        return real["all_gather"](list(got[0].view(size, -1).unbind(0)), sent[0].view(-1), group=group, async_op=True)

    return _done(_begin("all_gather", group, [x], [into], start), async_op)


def all_gather(parts, x, group=None, async_op=False):
    start = lambda got, sent: real["all_gather"](got, sent[0], group=group, async_op=True)  # noqa: E731
    return _done(_begin("all_gather", group, [x], list(parts), start), async_op)


def reduce_scatter_tensor(out, x, op=dist.ReduceOp.SUM, group=None, async_op=False):
    size, index = dist.get_world_size(group), dist.get_rank(group)
    if x.numel() != size * out.numel() or out.dtype != x.dtype:
        raise ValueError("input tensor must be the same size as output size times world size")

    def start(got, sent):
        work = _sum(sent[0], op, group)
        return _Then(work, lambda: got[0].view(-1).copy_(sent[0].view(size, -1)[index]))

    return _done(_begin(f"reduce_scatter {op}", group, [x], [out], start), async_op)


def all_to_all_single(into, x, into_sizes=None, sizes=None, group=None, async_op=False):
    def start(got, sent):
        given = (got[0], sent[0], into_sizes, sizes)
        return real["all_to_all_single"](*given, group=group, async_op=True)

    return _done(_begin("all_to_all", group, [x], [into], start), async_op)


def alone(*_, **__):
    raise RuntimeError("a message that is not in a batch: NCCL opens a communicator of its own for it within the step")


def batch_isend_irecv(messages):
    """A group: NCCL starts all of them together."""
    sends, receives = ([m for m in messages if m.op is how] for how in (dist.isend, dist.irecv))
    group = messages[0].group
    me = dist.get_rank()

    def start(got, sent):
        works = [real["isend"](x, m.peer, group=m.group) for x, m in zip(sent, sends)]
        return works + [real["irecv"](x, m.peer, group=m.group) for x, m in zip(got, receives)]

    ways = sorted([(me, m.peer, tuple(m.tensor.shape)) for m in sends] + [(m.peer, me, tuple(m.tensor.shape)) for m in receives])
    tensors, into = [m.tensor for m in sends], [m.tensor for m in receives]
    members = tuple(dist.get_process_group_ranks(group)) if group is not None else ("world",)
    orders.setdefault(members, []).append(("messages", ways, ()))
    noted = orders[members]
    count = len(noted)
    work = _begin("messages", group, tensors, into, start)
    del noted[count:]
    return [work]


class P2POp:
    def __init__(self, op, tensor, peer, group=None):
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group


@contextmanager
def coalescing_manager(group=None, device=None, async_ops=False):
    """All operations of one kind and type, started when it ends."""
    together.append([])
    manager = Together()
    yield manager
    begun = together.pop()
    if len({(kind, x.dtype) for kind, _, reads, _, _, _ in begun for x in reads}) > 1:
        raise RuntimeError("coalesced collectives must be of one kind and one type")
    manager.works = [_begin(*each) for each in begun]
    if not async_ops:
        manager.wait()


def barrier(group=None, device_ids=None, **more):
    if device_ids is None:
        raise RuntimeError("a barrier without device_ids: NCCL guesses the device")
    return real["barrier"](group)


def differing_orders() -> str:
    """Of all ranks together: a communicator on which they did not start the same, in the same order; "" if there is none. Forgets them."""
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, orders)
    orders.clear()
    for rank, mine in enumerate(every):
        for members, order in mine.items():
            for other in members if members != ("world",) else range(len(every)):
                if not _agree(every[other].get(members, []), order):
                    return f"ranks {rank} and {other} do not start the same on the communicator of {members}"
    return ""


def _agree(mine: List, others: List) -> bool:
    """Messages of two ranks are between them; of more, each has its own."""
    kinds = [[one if one[0] != "messages" else one[0] for one in order] for order in (mine, others)]
    if kinds[0] != kinds[1]:
        return False
    pairs = [(a[1], b[1]) for a, b in zip(mine, others) if a[0] == "messages"]
    ends = [{end for way in side for end in way[:2]} for pair in pairs for side in pair]
    return any(len(each) > 2 for each in ends) or all(a == b for a, b in pairs)


def start() -> None:
    replaced = dict(
        all_reduce=all_reduce, all_gather=all_gather, all_gather_into_tensor=all_gather_into_tensor, P2POp=P2POp,
        reduce_scatter_tensor=reduce_scatter_tensor, all_to_all_single=all_to_all_single, batch_isend_irecv=batch_isend_irecv,
        barrier=barrier, get_backend=lambda group=None: "nccl", _coalescing_manager=coalescing_manager,
    )
    for name, function in replaced.items():
        real[name] = getattr(dist, name)
        setattr(dist, name, function)
    for name in ("isend", "irecv"):
        real[name] = getattr(dist, name)
        # Each its own, because messages are told apart by them.
        setattr(dist, name, lambda *given, _name=name, **more: alone())
