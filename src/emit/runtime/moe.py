"""
Mixture of experts: top-k routing, dispatch and combine. The last dim of scores is the experts; that of routing decisions the selected
ones, best first, -1 if the token was dropped. Dispatched rows are sorted by expert, and no op reads the padding behind the last. All
shapes are static (capacity), so the GPU never waits for the host.
"""
from typing import Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F

from . import grouped_mm
from .optimizer import upcast

# Keeps the normalization from dividing by 0.
TINY = 1e-20


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x)


def sigmoid_grad(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return dy * y * (1 - y)


def scores(logits: torch.Tensor, by: str) -> torch.Tensor:
    return torch.softmax(upcast(logits), -1) if by == "softmax" else torch.sigmoid(upcast(logits))


def scores_grad(dscores: torch.Tensor, scores: torch.Tensor, by: str) -> torch.Tensor:
    if by == "sigmoid":
        return dscores * scores * (1 - scores)
    return scores * (dscores - (scores * dscores).sum(-1, keepdim=True))


def _top_indices(values: torch.Tensor, count: int) -> torch.Tensor:
    """Ties go to the lower index: torch.topk guarantees no order."""
    return torch.sort(values, dim=-1, descending=True, stable=True).indices[..., :count]


def top_k(scores: torch.Tensor, k: int, bias: Optional[torch.Tensor] = None, groups: Optional[Tuple[int, int]] = None) -> torch.Tensor:
    rated = scores if bias is None else scores + bias
    if groups is not None:
        num_groups, top_groups = groups
        by_group = rated.unflatten(-1, (num_groups, -1))
        best = torch.sort(by_group, dim=-1, descending=True).values[..., : k // top_groups].sum(-1)
        is_allowed = torch.zeros_like(best, dtype=torch.bool).scatter(-1, _top_indices(best, top_groups), True)
        rated = by_group.masked_fill(~is_allowed.unsqueeze(-1), -torch.inf).flatten(-2)
    return _top_indices(rated, k)


def _selected_scores(scores: torch.Tensor, expert_ids: torch.Tensor, normalize: bool):
    selected = scores.gather(-1, expert_ids.clamp(min=0)) * (expert_ids >= 0)
    return selected, selected.sum(-1, keepdim=True) + TINY if normalize else torch.ones_like(selected[..., :1])


def routing_weights(scores: torch.Tensor, expert_ids: torch.Tensor, normalize: bool, scale: float) -> torch.Tensor:
    selected, total = _selected_scores(scores, expert_ids, normalize)
    return selected / total * scale


def routing_weights_grad(
    dweight: torch.Tensor, scores: torch.Tensor, expert_ids: torch.Tensor, normalize: bool, scale: float,
) -> torch.Tensor:
    selected, total = _selected_scores(scores, expert_ids, normalize)
    grads = dweight * scale
    shared = (selected / total * grads).sum(-1, keepdim=True) if normalize else 0
    grads = (grads - shared) / total * (expert_ids >= 0)
    return torch.zeros_like(scores).scatter_add(-1, expert_ids.clamp(min=0), grads)


def _gather_tokens(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Gathers tokens by index in each sequence: [batch seq any]."""
    return x.gather(1, tokens.unsqueeze(-1).expand(x.shape))


def _round_to_16_bits(scores: torch.Tensor) -> torch.Tensor:
    """Non-negative scores rounded to 16 bits, half up, as integers in the same order: nearly equal tokens become ties."""
    int_dtype, low_bits = (torch.int64, 37) if scores.dtype == torch.float64 else (torch.int32, 8)
    return (scores.view(int_dtype) + (1 << (low_bits - 1))) >> low_bits


def apply_capacity(
    scores: torch.Tensor, expert_ids: torch.Tensor, capacity: int, tokens: int, by: str,
    token_order: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Expert capacity (GShard, Lepikhin et al., 2021): -1 for tokens beyond it, per group of `tokens`; `token_order`: token at each slot."""
    if token_order is not None:
        token_order = token_order.long()
        scores, expert_ids = (_gather_tokens(x, torch.argsort(token_order, dim=1)) for x in (scores, expert_ids))
        return _gather_tokens(apply_capacity(scores, expert_ids, capacity, tokens, by), token_order)
    runs = expert_ids.reshape(-1, tokens, expert_ids.shape[-1])
    requests = (runs.transpose(1, 2) if by == "choice" else runs).flatten(1)
    if by == "probability":
        rated = scores.gather(-1, expert_ids.clamp(min=0)).reshape(runs.shape).flatten(1)
        priority = torch.sort(_round_to_16_bits(upcast(rated)), dim=-1, descending=True, stable=True).indices
        requests = requests.gather(1, priority)
    onehot = F.one_hot(requests.clamp(min=0), scores.shape[-1]) * (requests >= 0).unsqueeze(-1)
    earlier = (onehot.cumsum(1) * onehot).sum(-1) - 1
    accepted = torch.where(earlier < capacity, requests, -1)
    if by == "probability":
        accepted = torch.empty_like(accepted).scatter(1, priority, accepted)
    accepted = accepted.unflatten(1, (-1, tokens)).transpose(1, 2) if by == "choice" else accepted
    return accepted.reshape(expert_ids.shape)


def dispatch_indices(
    expert_ids: torch.Tensor, num_experts: int, num_local: int, first: int, capacity: int,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    (expert_rows, source, counts): the row of each selected expert, the token of each local row, and tokens per local expert. Rows are numbered
    through all expert-parallel ranks; tokens beyond a rank's buffer get none, and `ctx.check_capacity` fails the step.
    """
    flat = expert_ids.flatten()
    sorted_experts, order = torch.sort(torch.where(flat < 0, num_experts, flat), stable=True)
    bounds = torch.searchsorted(sorted_experts, torch.arange(num_experts + 1, dtype=flat.dtype, device=flat.device))
    # Sorted by expert: where each rank's section begins, and each element's index in it.
    begins = bounds[:-1:num_local]
    rank = sorted_experts // num_local
    row = torch.arange(flat.numel(), device=flat.device) - begins[rank.clamp(max=len(begins) - 1)]
    rows = torch.where((sorted_experts < num_experts) & (row < capacity), rank * capacity + row, -1)
    expert_rows = torch.empty_like(flat).scatter(0, order, rows.to(flat.dtype))
    counts = bounds.diff()[first : first + num_local]
    local_rows = torch.arange(capacity, device=flat.device)
    at = (bounds[first] + local_rows).clamp(max=flat.numel() - 1)
    source = torch.where(local_rows < counts.sum(), order[at], -1)
    return expert_rows.reshape(expert_ids.shape), source, counts


def permute_tokens(x: torch.Tensor, source: torch.Tensor, top_k: int, per_expert: bool) -> torch.Tensor:
    """Permutes tokens to the rows of their experts; `per_expert`: x already has one row per selected expert."""
    rows = x.flatten(0, 2) if per_expert else x.flatten(0, 1)
    index = (source if per_expert else source // top_k).clamp(min=0)
    return _where(source >= 0, rows[index])


def unpermute_tokens(rows: torch.Tensor, expert_rows: torch.Tensor, per_expert: bool) -> torch.Tensor:
    """Combine: the row of each selected expert, 0 if it was dropped; summed over the experts in order, unless `per_expert`."""
    gathered = _where(expert_rows >= 0, rows[expert_rows.clamp(min=0)])
    if per_expert:
        return gathered
    total = gathered[:, :, 0]
    for i in range(1, expert_rows.shape[2]):
        total = total + gathered[:, :, i]
    return total


def _where(mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """0 elsewhere, even if x is NaN there."""
    return torch.where(mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim())), x, x.new_zeros(()))


def grouped_gemm(rows: torch.Tensor, counts: torch.Tensor, w: torch.Tensor, transposed: bool = False) -> torch.Tensor:
    return grouped_mm.gemm(rows, counts, w, transposed)


def grouped_gemm_weight_grad(rows: torch.Tensor, drows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return grouped_mm.weight_grad(rows, drows, counts)


def weighted_swiglu(gate: torch.Tensor, up: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (F.silu(upcast(gate)) * upcast(up) * upcast(weight).unsqueeze(-1)).to(gate.dtype)


def weighted_swiglu_grad(
    dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, weight: torch.Tensor,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dy, gate, up, weight, dtype = upcast(dy), upcast(gate), upcast(up), upcast(weight).unsqueeze(-1), gate.dtype
    s = torch.sigmoid(gate)
    silu = gate * s
    dgate = dy * weight * up * (s + silu * (1 - s))
    return dgate.to(dtype), (dy * weight * silu).to(dtype), (dy * silu * up).sum(-1)


def expert_histogram(expert_ids: torch.Tensor, num_experts: int, dtype: torch.dtype) -> torch.Tensor:
    selected = expert_ids.unsqueeze(-1) == torch.arange(num_experts, device=expert_ids.device)
    return selected.sum(tuple(range(expert_ids.dim()))).to(dtype)


def topk_histogram(scores: torch.Tensor, top_k: int, sum_dims: Sequence[int]) -> torch.Tensor:
    best = torch.zeros_like(scores).scatter(-1, _top_indices(scores, top_k), 1.0)
    return best.sum(tuple(sum_dims))


def _score_sums(scores: torch.Tensor, normalize: bool):
    return scores.sum(-1, keepdim=True) if normalize else torch.ones_like(scores[..., :1])


def balance_loss(scores: torch.Tensor, counts: torch.Tensor, by: float, normalize: bool) -> torch.Tensor:
    return by * (scores / _score_sums(scores, normalize) * counts).sum()


def balance_loss_grad(
    scores: torch.Tensor, counts: torch.Tensor, scale: Union[float, torch.Tensor] = 1, *, by: float, normalize: bool,
) -> torch.Tensor:
    total = _score_sums(scores, normalize)
    mean = (scores / total * counts).sum(-1, keepdim=True) if normalize else 0
    return by * (counts - mean) / total * scale


def z_loss(logits: torch.Tensor, by: float) -> torch.Tensor:
    return by * torch.logsumexp(upcast(logits), -1).square().sum()


def z_loss_grad(logits: torch.Tensor, scale: Union[float, torch.Tensor] = 1, *, by: float) -> torch.Tensor:
    full = upcast(logits)
    return (2 * by * torch.logsumexp(full, -1, keepdim=True) * torch.softmax(full, -1) * scale).to(logits.dtype)


def update_router_bias_(bias: torch.Tensor, counts: torch.Tensor, apply: torch.Tensor, rate: float, mean: float) -> torch.Tensor:
    return bias.copy_(torch.where(apply, bias + rate * torch.sign(mean - counts), bias))
