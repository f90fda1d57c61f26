"""
Rows to the ranks that hold their experts, and back. `to` has the row of each choice, counted through the rows of the first
member of the group, then those of the second. Where a rank has room for all rows that could come, every two ranks exchange
as many as it could ever be: sizes are known beforehand, and the host never asks. Where there is less room most of that would be
empty, and the host asks once for all moves of a layer.
"""
from typing import Callable, List, Optional, Tuple

import torch
import torch.distributed as dist

from . import experts
from .comm import Group, Pending, bits, is_gloo

# Rows to each member and from each, in the order of members; None: blocks of one size.
Sizes = Optional[Tuple[List[int], List[int]]]


class Routes:
    """Which choices go where, in the order they are sent, and which rows come, in the order they arrive."""

    def __init__(self, to: torch.Tensor, room: int, block: int, group: Group):
        flat = to.flatten()
        count = flat.numel()
        rows, order = torch.sort(flat, stable=True)
        # Choices without a row are the first.
        edges = torch.searchsorted(rows, torch.arange(group.size + 1, dtype=flat.dtype, device=flat.device) * room)
        self.sizes: Sizes = None
        if block:
            at = edges[:-1, None] + torch.arange(block, device=flat.device)
            there = (at < edges[1:, None]).flatten()
            at = at.flatten().clamp(max=count - 1)
            # What fills a block stands for the choice, and goes to the row, behind the last.
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
    """Worked out by the first move of a layer; the others, also those of backward, find them with the tensor."""
    if not hasattr(to, "routes"):
        to.routes = Routes(to, room, block, group)
    return to.routes


def dispatch(x: torch.Tensor, to: torch.Tensor, room: int, apart: bool, block: int, group: Group) -> Pending:
    """Every choice to the row of its expert, wherever that is; what comes is 0 where no choice has a row."""
    routes = _routes(to, room, block, group)
    tokens = x.flatten(0, 2) if apart else x.flatten(0, 1)
    index = routes.choices.clamp(max=to.numel() - 1)
    coming = _exchange(tokens[index if apart else index // to.shape[2]], routes.sizes, group)

    def laid() -> torch.Tensor:
        return x.new_zeros(room + 1, *tokens.shape[1:]).index_copy(0, routes.rows, coming.wait())[:room]

    return Pending(None, laid, coming.text)


def combine(rows: torch.Tensor, to: torch.Tensor, apart: bool, block: int, group: Group) -> Pending:
    """The row of every choice back to its token."""
    routes = _routes(to, rows.shape[0], block, group)
    coming = _exchange(rows[routes.rows.clamp(max=rows.shape[0] - 1)], routes.sizes and routes.sizes[::-1], group)

    def summed() -> torch.Tensor:
        came = coming.wait()
        return experts.combined(came if len(came) else rows.new_zeros(1, *rows.shape[1:]), routes.place, apart)

    return Pending(None, summed, coming.text)


def _exchange(x: torch.Tensor, sizes: Sizes, group: Group) -> Pending:
    """So many rows of x to each member, in the order of members, and so many from each."""
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
    """The parts of x, of such sizes, in another order."""
    if order == sorted(order):
        return x.contiguous()
    parts = x.split(sizes)
    return torch.cat([parts[i] for i in order])
