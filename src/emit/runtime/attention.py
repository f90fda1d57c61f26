"""
Causal attention, forward and backward. Queries are [batch, seq, kvHeads, group, headDim]; keys and values lack the group (GQA), and
values may have another head dim. Scores are multiplied by `scale`, or 1/sqrt(headDim). Half precision on a GPU uses PyTorch's fused
ops; otherwise scores are materialized. With context parallelism `query_first` and `key_first` are the positions of the rank's queries
and keys. In packed sequences `places` [batch, queries] are positions within the document, which mask out earlier documents, and `order`
[batch, slots] is the token at each slot, if tokens are permuted.
"""
import math
from typing import List, Optional

import torch

from . import documents, fused
from .fused import Block, Fused
from .fused import merge as attention_merge  # noqa: F401  (an op as well)
from .parts import Start, positions


def attention(
    q, k, v, scale: Optional[float] = None, window: Optional[int] = None, query_first: Optional[Start] = None,
    key_first: Start = 0, dropout: float = 0.0, kept=None, places=None, order=None,
):
    """(out, lse): lse is the log-sum-exp of the scores, which the backward needs."""
    if places is not None and order is None and query_first is None and chosen_for_documents is not None and _half(q, v, dropout):
        return documents.forward(chosen_for_documents, q, k, v, scale, window, places)
    whole = _whole(q, k, v, window, query_first, dropout, places)
    if whole is not None:
        return fused.forward(whole, q, k, v, scale)
    cut = _blocks(q, k, v, window, query_first, key_first, dropout, places)
    if cut is not None:
        return fused.forward_blocks(chosen_for_parts, q, k, v, scale, cut)
    pieces = _pieces(q, k, v, window, query_first, key_first, dropout, places, order)
    if pieces is not None:
        return documents.forward_parts(chosen_for_documents, q, k, v, scale, pieces)
    scores = _scores(q, k, scale, window, query_first, key_first, places, order)
    lse = torch.logsumexp(scores, -1)
    # A query that sees no key here has lse = -inf, which must not be subtracted.
    seen = lse.masked_fill(lse == -math.inf, 0.0)
    p = _kept(torch.exp(scores - seen.unsqueeze(-1)), dropout, kept)
    out = torch.einsum("bkgst,btkd->bskgd", p.to(v.dtype), v)
    return out, lse.permute(0, 3, 1, 2)


def attention_grad(
    dout, q, k, v, out, lse, scale: Optional[float] = None, window: Optional[int] = None,
    query_first: Optional[Start] = None, key_first: Start = 0, dropout: float = 0.0, kept=None, places=None, order=None,
):
    """Flash-attention backward (Dao et al., 2022): p = exp(score - lse); dscore = p (mask dout.v - dout.out); the rest are matmuls."""
    if places is not None and order is None and query_first is None and chosen_for_documents is not None and _half(q, v, dropout):
        return documents.backward(chosen_for_documents, dout, q, k, v, out, lse, scale, window, places)
    whole = _whole(q, k, v, window, query_first, dropout, places)
    if whole is not None:
        return fused.backward(whole, dout, q, k, v, out, lse, scale)
    cut = _blocks(q, k, v, window, query_first, key_first, dropout, places)
    if cut is not None:
        return fused.backward_blocks(chosen_for_parts, dout, q, k, v, out, lse, scale, cut)
    pieces = _pieces(q, k, v, window, query_first, key_first, dropout, places, order)
    if pieces is not None:
        return documents.backward_parts(chosen_for_documents, dout, q, k, v, out, lse, scale, pieces)
    scores = _scores(q, k, scale, window, query_first, key_first, places, order)
    p = torch.exp(scores - lse.permute(0, 2, 3, 1).unsqueeze(-1))
    delta = (dout * out).sum(-1).permute(0, 2, 3, 1).unsqueeze(-1)
    dp = _kept(torch.einsum("bskgd,btkd->bkgst", dout, v), dropout, kept)
    dscores = (p * (dp - delta)).to(q.dtype) * _scale(q, scale)
    dq = torch.einsum("bkgst,btkd->bskgd", dscores, k)
    dk = torch.einsum("bkgst,bskgd->btkd", dscores, q)
    dv = torch.einsum("bkgst,bskgd->btkd", _kept(p, dropout, kept).to(dout.dtype), dout)
    return dq, dk, dv


def _scale(q, scale: Optional[float]) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _scores(q, k, scale, window, query_first, key_first, places, order):
    """[batch, kvHeads, group, query, key]; -inf where masked."""
    scores = torch.einsum("bskgd,btkd->bkgst", q, k) * _scale(q, scale)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    query = positions(query_first or 0, q.shape[1], q.device)
    key = positions(key_first, k.shape[1], q.device)
    if order is not None:
        query, key = order[:, query], order[:, key].unsqueeze(1)
    query = query.unsqueeze(-1)
    hidden = key > query if window is None else (key > query) | (key <= query - window)
    if places is not None:
        hidden = (hidden | (key < query - places.unsqueeze(2)))[:, None, None]
    return scores.masked_fill(hidden, -math.inf)


def _kept(p, dropout, kept):
    return p if dropout == 0 else torch.where(kept, p / (1 - dropout), torch.zeros_like(p))


# The fused ops that `choose` found to work here, for full sequences, for shards and for packed documents; None: scores are materialized.
# And whether flash attention supports sliding windows.
chosen: Optional[Fused] = None
takes_windows = False
chosen_for_parts: Optional[Fused] = None
chosen_for_documents: Optional[documents.Varlen] = None


# Raised by ops that this release of PyTorch, or the device, does not support.
UNABLE = (RuntimeError, NotImplementedError, AttributeError, TypeError)


@torch.no_grad()
def choose(device, only: str = "") -> str:
    """
    Selects the first fused op of PyTorch that agrees with the formulas on this device, forward and backward: what an op accepts differs
    between releases. `only` restricts the choice to names with this prefix.
    """
    global chosen, chosen_for_parts, chosen_for_documents, takes_windows
    chosen = chosen_for_parts = chosen_for_documents = None
    takes_windows = False
    shapes = [(2, 128, 2, 2, 64), (2, 128, 2, 64), (2, 128, 2, 64), (2, 128, 2, 2, 64)]
    generator = torch.Generator(device).manual_seed(1)
    q, k, v, dout = (torch.randn(s, generator=generator, device=device).bfloat16() for s in shapes)
    if only != "math":
        chosen_for_documents = documents.FLASH if _takes_documents(documents.FLASH, dout, q, k, v) else None
        documents.asked = False
        takes_windows = _takes_windows(dout, q, k, v)
    out, lse = attention(q, k, v)
    expected = (out, *attention_grad(dout, q, k, v, out, lse))
    for candidate in fused.CANDIDATES if only != "math" else []:
        if not candidate.name.startswith(only):
            continue
        try:
            if _agrees(candidate, dout, q, k, v, expected):
                chosen = candidate
                chosen_for_parts = candidate if _takes_parts(candidate, dout, q, k, v) else None
                break
        except UNABLE:
            continue
    return chosen.name if chosen else "math"


def _agrees(candidate: Fused, dout, q, k, v, expected) -> bool:
    out, lse = fused.forward(candidate, q, k, v, None)
    given = (out, *fused.backward(candidate, dout, q, k, v, out, lse, None))
    return all(_near(a.float(), b.float()) for a, b in zip(given, expected))


def _takes_parts(candidate: Fused, dout, q, k, v) -> bool:
    """The second of two CP ranks (zigzag), with all keys: blocks of both kinds, and an lse that `merge` can use."""
    early, late = slice(32, 64), slice(64, 96)
    part = [torch.cat((x[:, early], x[:, late]), 1) for x in (dout, q)]
    out, lse = attention(part[1], k, v, query_first=32)
    expected = (out, lse, *attention_grad(part[0], part[1], k, v, out, lse, query_first=32))
    cut = fused.blocks(32, 64, 0, k.shape[1])
    out, lse = fused.forward_blocks(candidate, part[1], k, v, None, cut)
    given = (out, lse, *fused.backward_blocks(candidate, part[0], part[1], k, v, out, lse, None, cut))
    return all(_near(a.float(), b.float()) for a, b in zip(given, expected))


def _takes_windows(dout, q, k, v) -> bool:
    out, lse = attention(q, k, v, window=20)
    expected = (out, *attention_grad(dout, q, k, v, out, lse, window=20))
    try:
        return _agrees(fused.windowed(20), dout, q, k, v, expected)
    except UNABLE:
        return False


def _takes_documents(candidate: documents.Varlen, dout, q, k, v) -> bool:
    """Documents of different lengths, with and without a sliding window."""
    index = torch.arange(q.shape[1], device=q.device).expand(q.shape[:2])
    places = index % torch.tensor([[37], [128]], device=q.device)
    try:
        for window in (None, 20):
            out, lse = attention(q, k, v, window=window, places=places)
            expected = (out, *attention_grad(dout, q, k, v, out, lse, window=window, places=places))
            out, lse = documents.forward(candidate, q, k, v, None, window, places)
            given = (out, *documents.backward(candidate, dout, q, k, v, out, lse, None, window, places))
            if not all(_near(a.float(), b.float()) for a, b in zip(given, expected)):
                return False
        # The second of two CP ranks (contiguous): documents that begin before its queries, and all keys.
        some = slice(64, 128)
        dout, q, places = dout[:, some], q[:, some], places[:, some]
        out, lse = attention(q, k, v, query_first=64, places=places)
        expected = (out, lse, *attention_grad(dout, q, k, v, out, lse, query_first=64, places=places))
        cut = documents.pieces_of(places, 64, 0, k.shape[1])
        out, lse = documents.forward_parts(candidate, q, k, v, None, cut)
        given = (out, lse, *documents.backward_parts(candidate, dout, q, k, v, out, lse, None, cut))
        return all(_near(a.float(), b.float()) for a, b in zip(given, expected))
    except UNABLE:
        return False


def _near(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((actual - expected).abs().max() <= 0.05 * expected.abs().max())


def _half(q, v, dropout) -> bool:
    half = q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] % 8 == 0 and v.shape[-1] <= q.shape[-1]
    return half and dropout == 0


def _fusable(q, v, window, dropout, places) -> bool:
    return _half(q, v, dropout) and window is None and places is None


def _whole(q, k, v, window, query_first, dropout, places) -> Optional[Fused]:
    """The op for full sequences. A window over all keys is none."""
    if query_first is not None or not _fusable(q, v, None, dropout, places):
        return None
    if window is None or window >= k.shape[1]:
        return chosen
    return fused.windowed(window) if takes_windows else None


def _blocks(q, k, v, window, query_first, key_first, dropout, places) -> Optional[List[Block]]:
    if query_first is None or chosen_for_parts is None or not _fusable(q, v, window, dropout, places):
        return None
    return fused.blocks(query_first, q.shape[1], key_first, k.shape[1])


def _pieces(q, k, v, window, query_first, key_first, dropout, places, order) -> Optional[List[documents.Piece]]:
    whole = query_first is None and order is None
    if places is None or whole or window is not None or chosen_for_documents is None or not _half(q, v, dropout):
        return None
    return documents.pieces_of(places, query_first or 0, key_first, k.shape[1], order)
