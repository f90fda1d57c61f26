"""
MoE all-to-all: dispatches tokens to the ranks of their experts, and combines the results. `to` has the row of each selected expert,
numbered through the buffers of all ranks of the group. With capacity for the worst case each pair of ranks exchanges blocks of a fixed
size, so the host never synchronizes. With less capacity most of a block would be padding, so the host reads the real sizes once per
layer.
"""
from typing import Callable, List, Optional, Tuple

import torch
import torch.distributed as dist

from . import experts
from .comm import Group, Pending, bits, is_gloo

# Rows sent to and received from each rank, in group order; None: blocks of equal size.
Sizes = Optional[Tuple[List[int], List[int]]]


class Routes:
    """The dispatch map of a layer: what is sent, in send order, and the rows that receive it, in receive order."""

    def __init__(self, to: torch.Tensor, room: int, block: int, group: Group):
        flat = to.flatten()
        count = flat.numel()
        rows, order = torch.sort(flat, stable=True)
        # Dropped tokens sort first.
        edges = torch.searchsorted(rows, torch.arange(group.size + 1, dtype=flat.dtype, device=flat.device) * room)
        self.sizes: Sizes = None
        if block:
            at = edges[:-1, None] + torch.arange(block, device=flat.device)
            there = (at < edges[1:, None]).flatten()
            at = at.flatten().clamp(max=count - 1)
            # Padding of a block has index `count`, and is written to an extra row behind the last.
            self.choices = torch.where(there, order[at], count)
            mine = torch.where(there, rows[at] % room, room)
        else:
            sent = edges.diff()
            got = _exchange(sent, None, group).wait()
            sizes = torch.stack((sent, got)).tolist()
            self.sizes = (sizes[0], sizes[1])
            self.choices, mine = (x[count - sum(sizes[0]) :] for x in (order, rows % room))
        self.rows = _exchange(mine, self.sizes, group).wait()
        sent_as = torch.arange(len(self.choices), device=flat.device)
        self.place = torch.full((count + 1,), -1, device=flat.device).scatter(0, self.choices, sent_as)[:count].reshape(to.shape)


def _routes(to: torch.Tensor, room: int, block: int, group: Group) -> Routes:
    """Computed by a layer's first exchange; the others, and the backward, find it on the tensor."""
    if not hasattr(to, "routes"):
        to.routes = Routes(to, room, block, group)
    return to.routes


def dispatch(x: torch.Tensor, to: torch.Tensor, room: int, apart: bool, block: int, group: Group) -> Pending:
    """Sends each token to the rows of its experts, on any rank; unused rows are 0."""
    routes = _routes(to, room, block, group)
    tokens = x.flatten(0, 2) if apart else x.flatten(0, 1)
    index = routes.choices.clamp(max=to.numel() - 1)
    coming = _exchange(tokens[index if apart else index // to.shape[2]], routes.sizes, group)

    def laid() -> torch.Tensor:
        return x.new_zeros(room + 1, *tokens.shape[1:]).index_copy(0, routes.rows, coming.wait())[:room]

    return Pending(None, laid, coming.text)


def combine(rows: torch.Tensor, to: torch.Tensor, apart: bool, block: int, group: Group) -> Pending:
    """Sends the rows of the experts back to their tokens."""
    routes = _routes(to, rows.shape[0], block, group)
    coming = _exchange(rows[routes.rows.clamp(max=rows.shape[0] - 1)], routes.sizes and routes.sizes[::-1], group)

    def summed() -> torch.Tensor:
        came = coming.wait()
        return experts.combined(came if len(came) else rows.new_zeros(1, *rows.shape[1:]), routes.place, apart)

    return Pending(None, summed, coming.text)


def _exchange(x: torch.Tensor, sizes: Sizes, group: Group) -> Pending:
    """All-to-all with these numbers of rows per rank, in group order."""
    text = f"rows over {group.label} with ranks {group.members}"
    even = sizes is None
    sent, got = sizes or ([len(x) // group.size] * group.size,) * 2
    x = _ordered(x, sent, group.by_rank)
    into = x.new_empty(sum(got), *x.shape[1:])
    if group.size == 1:
        return Pending(None, lambda: x, text)
    operands = (bits(into), bits(x)) if is_gloo(group) else (into, x)
    splits = () if even else ([got[i] for i in group.by_rank], [sent[i] for i in group.by_rank])
    work = dist.all_to_all_single(*operands, *splits, group=group.process_group, async_op=True)
    by_member = [group.by_rank.index(i) for i in range(group.size)]
    return Pending(work, lambda: _ordered(into, [got[i] for i in group.by_rank], by_member), text, held=x)


def _ordered(x: torch.Tensor, sizes: List[int], order: List[int]) -> torch.Tensor:
    """Permutes the blocks of x, which have these sizes."""
    if order == sorted(order):
        return x.contiguous()
    parts = x.split(sizes)
    return torch.cat([parts[i] for i in order])
