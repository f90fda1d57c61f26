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

from .parts import Start, runs

Range = Tuple[int, int]


class Fused:
    """One fused op: [batch, seq, heads, headDim] in and out, with fewer heads for keys and values (GQA)."""

    def __init__(self, name: str, forward: Callable, backward: Callable, grouped: bool):
        self.name, self.forward, self.backward = name, forward, backward
        # Whether it supports GQA natively; else keys and values are repeated.
        self.grouped = grouped


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


def window_of(window: Optional[int]) -> Dict[str, int]:
    """Flash attention's window: keys before a query, and none after it."""
    return {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}


def _flash_forward(q, k, v, scale, causal, window: Optional[int] = None):
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, None, None, q.shape[1], k.shape[1], 0.0, causal, False, scale=scale, **window_of(window)
    )
    return out, lse


def _flash_backward(dout, q, k, v, out, lse, scale, causal, window: Optional[int] = None):
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, None, None, q.shape[1], k.shape[1], 0.0, causal, state, state[:1], scale=scale,
        **window_of(window),
    )


def windowed(window: int) -> Fused:
    """Sliding window: a query sees itself and the window - 1 keys before it."""
    return Fused("flash", partial(_flash_forward, window=window), partial(_flash_backward, window=window), grouped=True)


CANDIDATES = [
    Fused("cudnn", _cudnn_forward, _cudnn_backward, grouped=True),
    Fused("flash", _flash_forward, _flash_backward, grouped=True),
    Fused("cudnn, repeated keys", _cudnn_forward, _cudnn_backward, grouped=False),
    Fused("flash, repeated keys", _flash_forward, _flash_backward, grouped=False),
]


def _repeated(x, group: int):
    return x.unsqueeze(3).expand(*x.shape[:3], group, x.shape[3]).flatten(2, 3)


def widened(x, like):
    """Pads the head dim of values to that of keys, which the ops require; zeros change nothing."""
    return F.pad(x, (0, like.shape[-1] - x.shape[-1])) if x.shape[-1] < like.shape[-1] else x


def narrowed(x, width: int):
    return x[..., :width].contiguous() if width < x.shape[-1] else x


def forward(fused: Fused, q, k, v, scale, causal: bool = True):
    """lse keeps the layout of the op."""
    group, width = q.shape[3], v.shape[-1]
    v = widened(v, k)
    if not fused.grouped:
        k, v = _repeated(k, group), _repeated(v, group)
    out, lse = fused.forward(q.flatten(2, 3), k, v, scale, causal)
    return narrowed(out.reshape(q.shape), width), lse


def backward(fused: Fused, dout, q, k, v, out, lse, scale, causal: bool = True):
    kv_heads, group = q.shape[2:4]
    width = v.shape[-1]
    dout, v, out = widened(dout, q), widened(v, k), widened(out, q)
    if not fused.grouped:
        k, v = _repeated(k, group), _repeated(v, group)
    dq, dk, dv = fused.backward(dout.flatten(2, 3), q.flatten(2, 3), k, v, out.flatten(2, 3), lse, scale, causal)
    if not fused.grouped:
        dk, dv = (grad.unflatten(2, (kv_heads, group)).sum(3) for grad in (dk, dv))
    return dq.reshape(q.shape), dk, narrowed(dv, width)


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
    for at, asked, many in runs(query_first, queries):
        for place, held, count in runs(key_first, keys):
            before = max(0, min(count, asked - held))
            if before > 0:
                found.append(Block((at, many), (place, before), False))
            if max(held, asked) >= min(held + count, asked + many):
                continue
            if held > asked or held + count < asked + many:
                return None
            found.append(Block((at, many), (place + asked - held, many), True))
    return _joined(found)


def _joined(found: List[Block]) -> List[Block]:
    """Merges adjacent blocks: consecutive queries with the same keys, and consecutive keys."""
    joined: List[Block] = []
    for block in found:
        last = joined[-1] if joined else None
        if last and not (last.causal or block.causal):
            if last.keys == block.keys and sum(last.queries) == block.queries[0]:
                joined[-1] = Block((last.queries[0], last.queries[1] + block.queries[1]), last.keys, False)
                continue
            if last.queries == block.queries and sum(last.keys) == block.keys[0]:
                joined[-1] = Block(last.queries, (last.keys[0], last.keys[1] + block.keys[1]), False)
                continue
        joined.append(block)
    return joined


def merge(out, lse, more, more_lse):
    """Log-sum-exp merge of partial attention over disjoint keys, as in ring attention (Liu et al., 2023)."""
    total = torch.logaddexp(lse, more_lse)
    seen = total.masked_fill(total == -math.inf, 0.0)
    weight, other = (torch.exp(each - seen).unsqueeze(-1) for each in (lse, more_lse))
    return (weight * out + other * more).to(out.dtype), total


def forward_blocks(fused: Fused, q, k, v, scale, cut: List[Block]):
    """(out, lse), lse as [batch, seq, kvHeads, group]."""
    made = [_attend(fused, q, k, v, scale, block) for block in cut]
    if len(cut) == 1:
        return _among(made[0][0], cut[0].queries, q.shape[1]), _among(made[0][1], cut[0].queries, q.shape[1], -math.inf)
    out = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=wide(q), device=q.device)
    lse = torch.full(q.shape[:-1], -math.inf, dtype=wide(q), device=q.device)
    for block, share in zip(cut, made):
        rows = slice(block.queries[0], sum(block.queries))
        out[:, rows], lse[:, rows] = merge(out[:, rows], lse[:, rows], *share)
    return out.to(q.dtype), lse


def _among(x, of: Range, size: int, rest: float = 0.0):
    """x as some of `size` rows; the others are `rest`."""
    first, count = of
    beside = (0, 0) * (x.dim() - 2) + (first, size - first - count)
    return x if count == size else F.pad(x, beside, value=rest)


def wide(x) -> torch.dtype:
    """The accumulation dtype."""
    return torch.promote_types(x.dtype, torch.float32)


def _block(x, of: Range):
    return x.narrow(1, *of)


def _attend(fused: Fused, q, k, v, scale, block: Block):
    asked = _block(q, block.queries)
    out, lse = forward(fused, asked, _block(k, block.keys), _block(v, block.keys), scale, block.causal)
    return out, lse.reshape(q.shape[0], q.shape[2], q.shape[3], -1).permute(0, 3, 1, 2)


def backward_blocks(fused: Fused, dout, q, k, v, out, lse, scale, cut: List[Block]):
    if len(cut) == 1:
        made = _slope(fused, dout, q, k, v, out, lse, scale, cut[0])
        return tuple(_among(grad, of, x.shape[1]) for grad, of, x in zip(made, _ranges(cut[0]), (q, k, v)))
    grads = [torch.zeros_like(x, dtype=wide(x)) for x in (q, k, v)]
    for block in cut:
        made = _slope(fused, dout, q, k, v, out, lse, scale, block)
        for grad, addend, of in zip(grads, made, _ranges(block)):
            _block(grad, of).add_(addend)
    return tuple(grad.to(x.dtype) for grad, x in zip(grads, (q, k, v)))


def _ranges(block: Block):
    return block.queries, block.keys, block.keys


def _slope(fused: Fused, dout, q, k, v, out, lse, scale, block: Block):
    dout, q, out, lse = (_block(x, block.queries) for x in (dout, q, out, lse))
    k, v = (_block(x, block.keys) for x in (k, v))
    rows = lse.permute(0, 2, 3, 1).flatten(1, 2).contiguous()
    return backward(fused, dout, q, k, v, out, rows, scale, block.causal)
