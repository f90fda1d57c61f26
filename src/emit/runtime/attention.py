"""
Causal attention, forward and backward. Queries are [batch, seq, kvHeads, group, headDim], keys and values lack the
group; values may have another width than keys. Scores are multiplied by `scale`, or by 1/sqrt(headDim). In half precision on a GPU it is PyTorch's own fused ops; everywhere else it is written out, scores and all.
"""
import math
from typing import Callable, Optional

import torch
import torch.nn.functional as F

from .parts import Start, positions


def attention(
    q, k, v, scale: Optional[float] = None, window: Optional[int] = None, query_first: Start = 0, key_first: Start = 0,
    dropout: float = 0.0, chance=None,
):
    """(out, lse): lse is the log of the sum of exp(scores), which backward needs."""
    if _fused(q, v, window, query_first, key_first, dropout):
        return _fused_forward(chosen, q, k, v, scale)
    scores = _scores(q, k, scale, window, query_first, key_first)
    lse = torch.logsumexp(scores, -1)
    p = _kept(torch.exp(scores - lse.unsqueeze(-1)), dropout, chance)
    out = torch.einsum("bkgst,btkd->bskgd", p.to(v.dtype), v)
    return out, lse.permute(0, 3, 1, 2)


def attention_grad(
    dout, q, k, v, out, lse, scale: Optional[float] = None, window: Optional[int] = None, query_first: Start = 0,
    key_first: Start = 0, dropout: float = 0.0, chance=None,
):
    """With p = exp(score - lse): dscore = p (mask dout.v - dout.out), and everything else is a product with it."""
    if _fused(q, v, window, query_first, key_first, dropout):
        return _fused_backward(chosen, dout, q, k, v, out, lse, scale)
    p = torch.exp(_scores(q, k, scale, window, query_first, key_first) - lse.permute(0, 2, 3, 1).unsqueeze(-1))
    delta = (dout * out).sum(-1).permute(0, 2, 3, 1).unsqueeze(-1)
    dp = _kept(torch.einsum("bskgd,btkd->bkgst", dout, v), dropout, chance)
    dscores = (p * (dp - delta)).to(q.dtype) * _scale(q, scale)
    dq = torch.einsum("bkgst,btkd->bskgd", dscores, k)
    dk = torch.einsum("bkgst,bskgd->btkd", dscores, q)
    dv = torch.einsum("bkgst,bskgd->btkd", _kept(p, dropout, chance).to(dout.dtype), dout)
    return dq, dk, dv


def _scale(q, scale: Optional[float]) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _scores(q, k, scale, window, query_first, key_first):
    """[batch, kvHeads, group, query, key]; -inf where a query must not look."""
    scores = torch.einsum("bskgd,btkd->bkgst", q, k) * _scale(q, scale)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    query = positions(query_first, q.shape[1], q.device).unsqueeze(1)
    key = positions(key_first, k.shape[1], q.device)
    hidden = key > query if window is None else (key > query) | (key <= query - window)
    return scores.masked_fill(hidden, -math.inf)


def _kept(p, dropout, chance):
    return p if dropout == 0 else torch.where(chance >= dropout, p / (1 - dropout), torch.zeros_like(p))


class Fused:
    """One of PyTorch's own ops: [batch, seq, heads, headDim] in and out, fewer heads for keys and values."""

    def __init__(self, name: str, forward: Callable, backward: Callable, grouped: bool):
        self.name, self.forward, self.backward = name, forward, backward
        # Takes keys and values once for a group of queries; else they are repeated.
        self.grouped = grouped


def _cudnn_forward(q, k, v, scale):
    out, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), None, True, 0.0, True, False, scale=scale
    )
    return out.transpose(1, 2), lse


def _cudnn_backward(dout, q, k, v, out, lse, scale):
    # Without dropout the state of the generator is not looked at.
    state = torch.zeros((), dtype=torch.int64, device=q.device)
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dout.transpose(1, 2), q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), out.transpose(1, 2), lse,
        state, state, None, None, None, q.shape[1], k.shape[1], 0.0, True, scale=scale,
    )
    return tuple(grad.transpose(1, 2) for grad in grads)


def _flash_forward(q, k, v, scale):
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, None, None, q.shape[1], k.shape[1], 0.0, True, False, scale=scale
    )
    return out, lse


def _flash_backward(dout, q, k, v, out, lse, scale):
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, None, None, q.shape[1], k.shape[1], 0.0, True, state, state[:1], scale=scale
    )


CANDIDATES = [
    Fused("cudnn", _cudnn_forward, _cudnn_backward, grouped=True),
    Fused("flash", _flash_forward, _flash_backward, grouped=True),
    Fused("cudnn, repeated keys", _cudnn_forward, _cudnn_backward, grouped=False),
    Fused("flash, repeated keys", _flash_forward, _flash_backward, grouped=False),
]

# What `choose` found to work here; None: scores are written out.
chosen: Optional[Fused] = None


@torch.no_grad()
def choose(device, only: str = "") -> str:
    """
    The first of PyTorch's ops that is there and agrees with the formulas on this device, forward and backward: which
    op takes what differs from release to release. `only` narrows the choice to names that begin so.
    """
    global chosen
    chosen = None
    shapes = [(2, 128, 2, 2, 64), (2, 128, 2, 64), (2, 128, 2, 64), (2, 128, 2, 2, 64)]
    generator = torch.Generator(device).manual_seed(1)
    q, k, v, dout = (torch.randn(s, generator=generator, device=device).bfloat16() for s in shapes)
    out, lse = attention(q, k, v)
    expected = (out, *attention_grad(dout, q, k, v, out, lse))
    for candidate in CANDIDATES if only != "math" else []:
        if not candidate.name.startswith(only):
            continue
        try:
            out, lse = _fused_forward(candidate, q, k, v, None)
            given = (out, *_fused_backward(candidate, dout, q, k, v, out, lse, None))
            if all(_near(a.float(), b.float()) for a, b in zip(given, expected)):
                chosen = candidate
                break
        except (RuntimeError, NotImplementedError, AttributeError, TypeError):
            continue
    return chosen.name if chosen else "math"


def _near(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((actual - expected).abs().max() <= 0.05 * expected.abs().max())


def _fused(q, v, window, query_first, key_first, dropout) -> bool:
    plain = window is None and query_first == 0 and key_first == 0 and dropout == 0 and v.shape[-1] <= q.shape[-1]
    return chosen is not None and plain and q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] % 8 == 0


def _repeated(x, group: int):
    return x.unsqueeze(3).expand(*x.shape[:3], group, x.shape[3]).flatten(2, 3)


def _widened(x, like):
    """The ops want values as wide as keys: zeros beside them change nothing."""
    return F.pad(x, (0, like.shape[-1] - x.shape[-1])) if x.shape[-1] < like.shape[-1] else x


def _narrowed(x, width: int):
    return x[..., :width].contiguous() if width < x.shape[-1] else x


def _fused_forward(fused: Fused, q, k, v, scale):
    """lse stays as the op gives it: only the op's backward reads it."""
    group, width = q.shape[3], v.shape[-1]
    v = _widened(v, k)
    if not fused.grouped:
        k, v = _repeated(k, group), _repeated(v, group)
    out, lse = fused.forward(q.flatten(2, 3), k, v, scale)
    return _narrowed(out.reshape(q.shape), width), lse


def _fused_backward(fused: Fused, dout, q, k, v, out, lse, scale):
    kv_heads, group = q.shape[2:4]
    width = v.shape[-1]
    dout, v, out = _widened(dout, q), _widened(v, k), _widened(out, q)
    if not fused.grouped:
        k, v = _repeated(k, group), _repeated(v, group)
    dq, dk, dv = fused.backward(dout.flatten(2, 3), q.flatten(2, 3), k, v, out.flatten(2, 3), lse, scale)
    if not fused.grouped:
        dk, dv = (grad.unflatten(2, (kv_heads, group)).sum(3) for grad in (dk, dv))
    return dq.reshape(q.shape), dk, _narrowed(dv, width)
