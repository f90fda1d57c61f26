"""
MoE all-to-all: dispatches tokens to the ranks of their experts, and combines the results. `expert_rows` has the row of each selected expert,
numbered through the buffers of all ranks of the group. With capacity for the worst case each pair of ranks exchanges blocks of a fixed
size, so the host never synchronizes. With less capacity most of a block would be padding, so the host reads the real sizes once per
layer.
"""
from typing import List, Optional, Tuple

import torch
import torch.distributed as dist

from . import moe
from .comm import Group, Pending, gloo_view, is_gloo

# Rows sent to and received from each rank, in group order; None: blocks of equal size.
Sizes = Optional[Tuple[List[int], List[int]]]


class DispatchMap:
    """The dispatch map of a layer: what is sent, in send order, and the rows that receive it, in receive order."""

    def __init__(self, expert_rows: torch.Tensor, capacity: int, max_tokens: int, group: Group):
        flat = expert_rows.flatten()
        count = flat.numel()
        rows, order = torch.sort(flat, stable=True)
        # Dropped tokens sort first.
        bounds = torch.searchsorted(rows, torch.arange(group.size + 1, dtype=flat.dtype, device=flat.device) * capacity)
        self.sizes: Sizes = None
        if max_tokens:
            at = bounds[:-1, None] + torch.arange(max_tokens, device=flat.device)
            is_used = (at < bounds[1:, None]).flatten()
            at = at.flatten().clamp(max=count - 1)
            # Padding of a block has index `count`, and is written to an extra row behind the last.
            self.assignments = torch.where(is_used, order[at], count)
            own_rows = torch.where(is_used, rows[at] % capacity, capacity)
        else:
            sent = bounds.diff()
            received = _exchange(sent, None, group).wait()
            sizes = torch.stack((sent, received)).tolist()
            self.sizes = (sizes[0], sizes[1])
            self.assignments, own_rows = (x[count - sum(sizes[0]) :] for x in (order, rows % capacity))
        self.rows = _exchange(own_rows, self.sizes, group).wait()
        send_index = torch.arange(len(self.assignments), device=flat.device)
        self.positions = torch.full((count + 1,), -1, device=flat.device).scatter(0, self.assignments, send_index)[:count].reshape(expert_rows.shape)


def _dispatch_map(expert_rows: torch.Tensor, capacity: int, max_tokens: int, group: Group) -> DispatchMap:
    """Computed by a layer's first exchange; the others, and the backward, find it on the tensor."""
    if not hasattr(expert_rows, "dispatch_map"):
        expert_rows.dispatch_map = DispatchMap(expert_rows, capacity, max_tokens, group)
    return expert_rows.dispatch_map


def dispatch(x: torch.Tensor, expert_rows: torch.Tensor, capacity: int, per_expert: bool, max_tokens: int, group: Group) -> Pending:
    """Sends each token to the rows of its experts, on any rank; unused rows are 0."""
    dispatch_map = _dispatch_map(expert_rows, capacity, max_tokens, group)
    tokens = x.flatten(0, 2) if per_expert else x.flatten(0, 1)
    index = dispatch_map.assignments.clamp(max=expert_rows.numel() - 1)
    exchange = _exchange(tokens[index if per_expert else index // expert_rows.shape[2]], dispatch_map.sizes, group)

    def place_rows() -> torch.Tensor:
        return x.new_zeros(capacity + 1, *tokens.shape[1:]).index_copy(0, dispatch_map.rows, exchange.wait())[:capacity]

    return Pending(None, place_rows, exchange.text)


def combine(rows: torch.Tensor, expert_rows: torch.Tensor, per_expert: bool, max_tokens: int, group: Group) -> Pending:
    """Sends the rows of the experts back to their tokens."""
    dispatch_map = _dispatch_map(expert_rows, rows.shape[0], max_tokens, group)
    exchange = _exchange(rows[dispatch_map.rows.clamp(max=rows.shape[0] - 1)], dispatch_map.sizes and dispatch_map.sizes[::-1], group)

    def combine_rows() -> torch.Tensor:
        received = exchange.wait()
        return moe.unpermute_tokens(received if len(received) else rows.new_zeros(1, *rows.shape[1:]), dispatch_map.positions, per_expert)

    return Pending(None, combine_rows, exchange.text)


def _exchange(x: torch.Tensor, sizes: Sizes, group: Group) -> Pending:
    """All-to-all with these numbers of rows per rank, in group order."""
    text = f"rows over {group.label} with ranks {group.ranks}"
    is_even = sizes is None
    sent, received = sizes or ([len(x) // group.size] * group.size,) * 2
    x = _permute_blocks(x, sent, group.by_rank)
    into = x.new_empty(sum(received), *x.shape[1:])
    if group.size == 1:
        return Pending(None, lambda: x, text)
    operands = (gloo_view(into), gloo_view(x)) if is_gloo(group) else (into, x)
    splits = () if is_even else ([received[i] for i in group.by_rank], [sent[i] for i in group.by_rank])
    work = dist.all_to_all_single(*operands, *splits, group=group.process_group, async_op=True)
    group_order = [group.by_rank.index(i) for i in range(group.size)]
    return Pending(work, lambda: _permute_blocks(into, [received[i] for i in group.by_rank], group_order), text, held=x)


def _permute_blocks(x: torch.Tensor, sizes: List[int], order: List[int]) -> torch.Tensor:
    """Permutes the blocks of x, which have these sizes."""
    if order == sorted(order):
        return x.contiguous()
    blocks = x.split(sizes)
    return torch.cat([blocks[i] for i in order])
