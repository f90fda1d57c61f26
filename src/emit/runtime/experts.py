"""
Mixture of experts: top-k routing, dispatch and combine. The last dim of scores is the experts; that of routing decisions the selected
ones, best first, -1 if the token was dropped. Dispatched rows are sorted by expert, and no op reads the padding behind the last. All
shapes are static (capacity), so the GPU never waits for the host.
"""
from typing import Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

from . import grouped
from .optimizer import wide

# Keeps the normalization from dividing by 0.
TINY = 1e-20


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x)


def sigmoid_grad(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return dy * y * (1 - y)


def scores(logits: torch.Tensor, by: str) -> torch.Tensor:
    return torch.softmax(wide(logits), -1) if by == "softmax" else torch.sigmoid(wide(logits))


def scores_grad(dscores: torch.Tensor, scores: torch.Tensor, by: str) -> torch.Tensor:
    if by == "sigmoid":
        return dscores * scores * (1 - scores)
    return scores * (dscores - (scores * dscores).sum(-1, keepdim=True))


def _highest(values: torch.Tensor, count: int) -> torch.Tensor:
    """Ties go to the lower index: torch.topk guarantees no order."""
    return torch.sort(values, dim=-1, descending=True, stable=True).indices[..., :count]


def top_k(scores: torch.Tensor, chosen: int, bias: Optional[torch.Tensor] = None, groups: Optional[Tuple[int, int]] = None):
    rated = scores if bias is None else scores + bias
    if groups is not None:
        many, few = groups
        apart = rated.unflatten(-1, (many, -1))
        best = torch.sort(apart, dim=-1, descending=True).values[..., : chosen // few].sum(-1)
        is_open = torch.zeros_like(best, dtype=torch.bool).scatter(-1, _highest(best, few), True)
        rated = apart.masked_fill(~is_open.unsqueeze(-1), -torch.inf).flatten(-2)
    return _highest(rated, chosen)


def _picked(scores: torch.Tensor, choice: torch.Tensor, normalise: bool):
    picked = scores.gather(-1, choice.clamp(min=0)) * (choice >= 0)
    return picked, picked.sum(-1, keepdim=True) + TINY if normalise else torch.ones_like(picked[..., :1])


def chosen(scores: torch.Tensor, choice: torch.Tensor, normalise: bool, scale: float) -> torch.Tensor:
    picked, total = _picked(scores, choice, normalise)
    return picked / total * scale


def chosen_grad(dweight, scores, choice, normalise: bool, scale: float) -> torch.Tensor:
    picked, total = _picked(scores, choice, normalise)
    slopes = dweight * scale
    shared = (picked / total * slopes).sum(-1, keepdim=True) if normalise else 0
    slopes = (slopes - shared) / total * (choice >= 0)
    return torch.zeros_like(scores).scatter_add(-1, choice.clamp(min=0), slopes)


def _taken(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Gathers tokens by index in each sequence: [batch seq any]."""
    return x.gather(1, tokens.unsqueeze(-1).expand(x.shape))


def _rounded(scores: torch.Tensor) -> torch.Tensor:
    """Non-negative scores rounded to 16 bits, half up, as integers in the same order: nearly equal tokens become ties."""
    whole, dropped = (torch.int64, 37) if scores.dtype == torch.float64 else (torch.int32, 8)
    return (scores.view(whole) + (1 << (dropped - 1))) >> dropped


def assign(scores, choice, room: int, tokens: int, by: str, order: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Expert capacity (GShard, Lepikhin et al., 2021): -1 for tokens beyond it, per group of `tokens`; `order`: token at each slot."""
    if order is not None:
        order = order.long()
        scores, choice = (_taken(x, torch.argsort(order, dim=1)) for x in (scores, choice))
        return _taken(assign(scores, choice, room, tokens, by), order)
    runs = choice.reshape(-1, tokens, choice.shape[-1])
    wishes = (runs.transpose(1, 2) if by == "choice" else runs).flatten(1)
    if by == "probability":
        rated = scores.gather(-1, choice.clamp(min=0)).reshape(runs.shape).flatten(1)
        turn = torch.sort(_rounded(wide(rated)), dim=-1, descending=True, stable=True).indices
        wishes = wishes.gather(1, turn)
    mine = F.one_hot(wishes.clamp(min=0), scores.shape[-1]) * (wishes >= 0).unsqueeze(-1)
    before = (mine.cumsum(1) * mine).sum(-1) - 1
    kept = torch.where(before < room, wishes, -1)
    if by == "probability":
        kept = torch.empty_like(kept).scatter(1, turn, kept)
    kept = kept.unflatten(1, (-1, tokens)).transpose(1, 2) if by == "choice" else kept
    return kept.reshape(choice.shape)


def rows_of(choice: torch.Tensor, experts: int, own: int, first: int, room: int):
    """
    (to, from, counts): the row of each selected expert, the source of each local row, and tokens per local expert. Rows are numbered
    through all expert-parallel ranks; tokens beyond a rank's buffer get none, and `here.guard` fails the step.
    """
    flat = choice.flatten()
    sorted_experts, order = torch.sort(torch.where(flat < 0, experts, flat), stable=True)
    edges = torch.searchsorted(sorted_experts, torch.arange(experts + 1, dtype=flat.dtype, device=flat.device))
    # Sorted by expert: where each rank's section begins, and each element's index in it.
    begins = edges[:-1:own]
    rank = sorted_experts // own
    row = torch.arange(flat.numel(), device=flat.device) - begins[rank.clamp(max=len(begins) - 1)]
    lands = torch.where((sorted_experts < experts) & (row < room), rank * room + row, -1)
    to = torch.empty_like(flat).scatter(0, order, lands.to(flat.dtype))
    counts = edges.diff()[first : first + own]
    own_rows = torch.arange(room, device=flat.device)
    at = (edges[first] + own_rows).clamp(max=flat.numel() - 1)
    source = torch.where(own_rows < counts.sum(), order[at], -1)
    return to.reshape(choice.shape), source, counts


def dispatch(x: torch.Tensor, source: torch.Tensor, chosen: int, apart: bool) -> torch.Tensor:
    """Permutes tokens to the rows of their experts; `apart`: x already has one row per selected expert."""
    rows = x.flatten(0, 2) if apart else x.flatten(0, 1)
    index = (source if apart else source // chosen).clamp(min=0)
    return _where(source >= 0, rows[index])


def combined(rows: torch.Tensor, to: torch.Tensor, apart: bool) -> torch.Tensor:
    """Combine: the row of each selected expert, 0 if it was dropped; summed over the experts in order, unless `apart`."""
    found = _where(to >= 0, rows[to.clamp(min=0)])
    if apart:
        return found
    total = found[:, :, 0]
    for choice in range(1, to.shape[2]):
        total = total + found[:, :, choice]
    return total


def _where(there: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """0 elsewhere, even if x is NaN there."""
    return torch.where(there.reshape(*there.shape, *[1] * (x.dim() - there.dim())), x, x.new_zeros(()))


def expert_contract(rows, counts, w, transposed: bool = False) -> torch.Tensor:
    return grouped.contract(rows, counts, w, transposed)


def expert_weight_grad(rows, drows, counts) -> torch.Tensor:
    return grouped.weight_grad(rows, drows, counts)


def weighted_swiglu(gate, up, weight) -> torch.Tensor:
    return (F.silu(wide(gate)) * wide(up) * wide(weight).unsqueeze(-1)).to(gate.dtype)


def weighted_swiglu_grad(dy, gate, up, weight):
    dy, gate, up, weight, dtype = wide(dy), wide(gate), wide(up), wide(weight).unsqueeze(-1), gate.dtype
    s = torch.sigmoid(gate)
    silu = gate * s
    dgate = dy * weight * up * (s + silu * (1 - s))
    return dgate.to(dtype), (dy * weight * silu).to(dtype), (dy * silu * up).sum(-1)


def count_choices(choice: torch.Tensor, candidates: int, dtype: torch.dtype) -> torch.Tensor:
    found = choice.unsqueeze(-1) == torch.arange(candidates, device=choice.device)
    return found.sum(tuple(range(choice.dim()))).to(dtype)


def count_top(scores: torch.Tensor, chosen: int, summed: Sequence[int]) -> torch.Tensor:
    best = torch.zeros_like(scores).scatter(-1, _highest(scores, chosen), 1.0)
    return best.sum(tuple(summed))


def _shares(scores: torch.Tensor, shares: bool):
    return scores.sum(-1, keepdim=True) if shares else torch.ones_like(scores[..., :1])


def balance_loss(scores, counts, by: float, shares: bool) -> torch.Tensor:
    return by * (scores / _shares(scores, shares) * counts).sum()


def balance_loss_grad(scores, counts, scale=1, *, by: float, shares: bool) -> torch.Tensor:
    total = _shares(scores, shares)
    mean = (scores / total * counts).sum(-1, keepdim=True) if shares else 0
    return by * (counts - mean) / total * scale


def z_loss(logits, by: float) -> torch.Tensor:
    return by * torch.logsumexp(wide(logits), -1).square().sum()


def z_loss_grad(logits, scale=1, *, by: float) -> torch.Tensor:
    full = wide(logits)
    return (2 * by * torch.logsumexp(full, -1, keepdim=True) * torch.softmax(full, -1) * scale).to(logits.dtype)


def balance_(bias, counts, verdict, rate: float, mean: float) -> torch.Tensor:
    return bias.copy_(torch.where(verdict, bias + rate * torch.sign(mean - counts), bias))
