"""
Attention by PyTorch's fused ops (flash, cuDNN). They support two masks: none, and causal with as many queries as keys; flash attention also
has sliding windows over full sequences. With context parallelism queries and keys are split into blocks of these two kinds, and the
partial outputs are merged by their log-sum-exp.
"""
import math
from functools import partial
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

from .shards import Start, ranges

Range = Tuple[int, int]


class Fused:
    """One fused op: [batch, seq, heads, headDim] in and out, with fewer heads for keys and values (GQA)."""

    def __init__(self, name: str, forward: Callable, backward: Callable, supports_gqa: bool):
        self.name, self.forward, self.backward = name, forward, backward
        # Whether it supports GQA natively; else keys and values are repeated.
        self.supports_gqa = supports_gqa


def _cudnn_forward(q, k, v, scale, causal):
    out, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), None, True, 0.0, causal, False, scale=scale
    )
    return out.transpose(1, 2), lse


def _cudnn_backward(dout, q, k, v, out, lse, scale, causal):
    # Without dropout the RNG state is not read.
    state = torch.zeros((), dtype=torch.int64, device=q.device)
    lse = lse if lse.dim() == 4 else lse.unsqueeze(-1)
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dout.transpose(1, 2), q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), out.transpose(1, 2), lse,
        state, state, None, None, None, q.shape[1], k.shape[1], 0.0, causal, scale=scale,
    )
    return tuple(grad.transpose(1, 2) for grad in grads)


def window_args(window: Optional[int]) -> Dict[str, int]:
    """Flash attention's window: keys before a query, and none after it."""
    return {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}


def _flash_forward(q, k, v, scale, causal, window: Optional[int] = None):
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, None, None, q.shape[1], k.shape[1], 0.0, causal, False, scale=scale, **window_args(window)
    )
    return out, lse


def _flash_backward(dout, q, k, v, out, lse, scale, causal, window: Optional[int] = None):
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, None, None, q.shape[1], k.shape[1], 0.0, causal, state, state[:1], scale=scale,
        **window_args(window),
    )


def with_window(window: int) -> Fused:
    """Sliding window: a query sees itself and the window - 1 keys before it."""
    return Fused("flash", partial(_flash_forward, window=window), partial(_flash_backward, window=window), supports_gqa=True)


CANDIDATES = [
    Fused("cudnn", _cudnn_forward, _cudnn_backward, supports_gqa=True),
    Fused("flash", _flash_forward, _flash_backward, supports_gqa=True),
    Fused("cudnn, repeated keys", _cudnn_forward, _cudnn_backward, supports_gqa=False),
    Fused("flash, repeated keys", _flash_forward, _flash_backward, supports_gqa=False),
]


def _repeated(x, group: int):
    return x.unsqueeze(3).expand(*x.shape[:3], group, x.shape[3]).flatten(2, 3)


def pad_head_dim(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Pads the head dim of values to that of keys, which the ops require; zeros change nothing."""
    return F.pad(x, (0, like.shape[-1] - x.shape[-1])) if x.shape[-1] < like.shape[-1] else x


def trim_head_dim(x: torch.Tensor, width: int) -> torch.Tensor:
    return x[..., :width].contiguous() if width < x.shape[-1] else x


def forward(
    fused: Fused, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Optional[float], causal: bool = True,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """lse keeps the layout of the op."""
    group, width = q.shape[3], v.shape[-1]
    v = pad_head_dim(v, k)
    if not fused.supports_gqa:
        k, v = _repeated(k, group), _repeated(v, group)
    out, lse = fused.forward(q.flatten(2, 3), k, v, scale, causal)
    return trim_head_dim(out.reshape(q.shape), width), lse


def backward(
    fused: Fused, dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    scale: Optional[float], causal: bool = True,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kv_heads, group = q.shape[2:4]
    width = v.shape[-1]
    dout, v, out = pad_head_dim(dout, q), pad_head_dim(v, k), pad_head_dim(out, q)
    if not fused.supports_gqa:
        k, v = _repeated(k, group), _repeated(v, group)
    dq, dk, dv = fused.backward(dout.flatten(2, 3), q.flatten(2, 3), k, v, out.flatten(2, 3), lse, scale, causal)
    if not fused.supports_gqa:
        dk, dv = (grad.unflatten(2, (kv_heads, group)).sum(3) for grad in (dk, dv))
    return dq.reshape(q.shape), dk, trim_head_dim(dv, width)


class Block(NamedTuple):
    """Ranges of queries and keys: each query sees all of these keys or, if causal, those up to its own position."""

    queries: Range
    keys: Range
    causal: bool


def blocks(query_first: Start, queries: int, key_first: Start, keys: int) -> Optional[List[Block]]:
    """The blocks of keys that a rank's queries see; None: they do not decompose into such blocks."""
    if query_first == key_first and queries == keys:
        return [Block((0, queries), (0, keys), True)]
    found: List[Block] = []
    for at, query_start, query_count in ranges(query_first, queries):
        for place, key_start, count in ranges(key_first, keys):
            before = max(0, min(count, query_start - key_start))
            if before > 0:
                found.append(Block((at, query_count), (place, before), False))
            if max(key_start, query_start) >= min(key_start + count, query_start + query_count):
                continue
            if key_start > query_start or key_start + count < query_start + query_count:
                return None
            found.append(Block((at, query_count), (place + query_start - key_start, query_count), True))
    return _merge_adjacent(found)


def _merge_adjacent(found: List[Block]) -> List[Block]:
    """Merges adjacent blocks: consecutive queries with the same keys, and consecutive keys."""
    merged: List[Block] = []
    for block in found:
        last = merged[-1] if merged else None
        if last and not (last.causal or block.causal):
            if last.keys == block.keys and sum(last.queries) == block.queries[0]:
                merged[-1] = Block((last.queries[0], last.queries[1] + block.queries[1]), last.keys, False)
                continue
            if last.queries == block.queries and sum(last.keys) == block.keys[0]:
                merged[-1] = Block(last.queries, (last.keys[0], last.keys[1] + block.keys[1]), False)
                continue
        merged.append(block)
    return merged


def merge(out: torch.Tensor, lse: torch.Tensor, more: torch.Tensor, more_lse: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Log-sum-exp merge of partial attention over disjoint keys, as in ring attention (Liu et al., 2023)."""
    total = torch.logaddexp(lse, more_lse)
    seen = total.masked_fill(total == -math.inf, 0.0)
    weight, other = (torch.exp(each - seen).unsqueeze(-1) for each in (lse, more_lse))
    return (weight * out + other * more).to(out.dtype), total


def forward_blocks(
    fused: Fused, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Optional[float], cut: List[Block],
) -> Tuple[torch.Tensor, torch.Tensor]:
    """(out, lse), lse as [batch, seq, kvHeads, group]."""
    made = [_attend(fused, q, k, v, scale, block) for block in cut]
    if len(cut) == 1:
        return _pad_rows(made[0][0], cut[0].queries, q.shape[1]), _pad_rows(made[0][1], cut[0].queries, q.shape[1], -math.inf)
    out = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=accumulation_dtype(q), device=q.device)
    lse = torch.full(q.shape[:-1], -math.inf, dtype=accumulation_dtype(q), device=q.device)
    for block, partial_out in zip(cut, made):
        rows = slice(block.queries[0], sum(block.queries))
        out[:, rows], lse[:, rows] = merge(out[:, rows], lse[:, rows], *partial_out)
    return out.to(q.dtype), lse


def _pad_rows(x, of: Range, size: int, rest: float = 0.0):
    """x as some of `size` rows; the others are `rest`."""
    first, count = of
    padding = (0, 0) * (x.dim() - 2) + (first, size - first - count)
    return x if count == size else F.pad(x, padding, value=rest)


def accumulation_dtype(x: torch.Tensor) -> torch.dtype:
    """The accumulation dtype."""
    return torch.promote_types(x.dtype, torch.float32)


def _rows_of(x, of: Range):
    return x.narrow(1, *of)


def _attend(fused: Fused, q, k, v, scale, block: Block):
    query_start = _rows_of(q, block.queries)
    out, lse = forward(fused, query_start, _rows_of(k, block.keys), _rows_of(v, block.keys), scale, block.causal)
    return out, lse.reshape(q.shape[0], q.shape[2], q.shape[3], -1).permute(0, 3, 1, 2)


def backward_blocks(
    fused: Fused, dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    scale: Optional[float], cut: List[Block],
) -> Tuple[torch.Tensor, ...]:
    if len(cut) == 1:
        made = _block_grads(fused, dout, q, k, v, out, lse, scale, cut[0])
        return tuple(_pad_rows(grad, of, x.shape[1]) for grad, of, x in zip(made, _ranges(cut[0]), (q, k, v)))
    grads = [torch.zeros_like(x, dtype=accumulation_dtype(x)) for x in (q, k, v)]
    for block in cut:
        made = _block_grads(fused, dout, q, k, v, out, lse, scale, block)
        for grad, partial_grad, of in zip(grads, made, _ranges(block)):
            _rows_of(grad, of).add_(partial_grad)
    return tuple(grad.to(x.dtype) for grad, x in zip(grads, (q, k, v)))


def _ranges(block: Block):
    return block.queries, block.keys, block.keys


def _block_grads(fused: Fused, dout, q, k, v, out, lse, scale, block: Block):
    dout, q, out, lse = (_rows_of(x, block.queries) for x in (dout, q, out, lse))
    k, v = (_rows_of(x, block.keys) for x in (k, v))
    rows = lse.permute(0, 2, 3, 1).flatten(1, 2).contiguous()
    return backward(fused, dout, q, k, v, out, rows, scale, block.causal)
