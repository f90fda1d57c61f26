"""
Causal attention, forward and backward. Queries are [batch, seq, kvHeads, group, headDim]; keys and values lack the group (GQA), and
values may have another head dim. Scores are multiplied by `scale`, or 1/sqrt(headDim). Half precision on a GPU uses PyTorch's fused
ops; otherwise scores are materialized. With context parallelism `query_first` and `key_first` are the positions of the rank's queries
and keys. In packed sequences `doc_positions` [batch, queries] are positions within the document, which mask out earlier documents, and
`token_order` [batch, slots] is the token at each slot, if tokens are permuted.
"""
import math
from typing import List, Optional, Tuple

import torch

from . import fused_attention, varlen
from .fused_attention import Block, Fused
from .fused_attention import merge as attention_merge  # noqa: F401  (an op as well)
from .shards import Start, positions


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Optional[float] = None, window: Optional[int] = None,
    query_first: Optional[Start] = None, key_first: Start = 0, dropout: float = 0.0, keep_mask: Optional[torch.Tensor] = None,
    doc_positions: Optional[torch.Tensor] = None, token_order: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """(out, lse): lse is the log-sum-exp of the scores, which the backward needs."""
    if doc_positions is not None and token_order is None and query_first is None and chosen_for_documents is not None and _is_half(q, v, dropout):
        return varlen.forward(chosen_for_documents, q, k, v, scale, window, doc_positions)
    full = _full_op(q, k, v, window, query_first, dropout, doc_positions)
    if full is not None:
        return fused_attention.forward(full, q, k, v, scale)
    block_list = _blocks(q, k, v, window, query_first, key_first, dropout, doc_positions)
    if block_list is not None:
        return fused_attention.forward_blocks(chosen_for_shards, q, k, v, scale, block_list)
    segments = _segments(q, k, v, window, query_first, key_first, dropout, doc_positions, token_order)
    if segments is not None:
        return varlen.forward_segments(chosen_for_documents, q, k, v, scale, segments)
    scores = _scores(q, k, scale, window, query_first, key_first, doc_positions, token_order)
    lse = torch.logsumexp(scores, -1)
    # A query that sees no key here has lse = -inf, which must not be subtracted.
    seen = lse.masked_fill(lse == -math.inf, 0.0)
    p = _dropout(torch.exp(scores - seen.unsqueeze(-1)), dropout, keep_mask)
    out = torch.einsum("bkgst,btkd->bskgd", p.to(v.dtype), v)
    return out, lse.permute(0, 3, 1, 2)


def attention_grad(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    scale: Optional[float] = None, window: Optional[int] = None, query_first: Optional[Start] = None, key_first: Start = 0,
    dropout: float = 0.0, keep_mask: Optional[torch.Tensor] = None, doc_positions: Optional[torch.Tensor] = None,
    token_order: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Flash-attention backward (Dao et al., 2022): p = exp(score - lse); dscore = p (mask dout.v - dout.out); the rest are matmuls."""
    if doc_positions is not None and token_order is None and query_first is None and chosen_for_documents is not None and _is_half(q, v, dropout):
        return varlen.backward(chosen_for_documents, dout, q, k, v, out, lse, scale, window, doc_positions)
    full = _full_op(q, k, v, window, query_first, dropout, doc_positions)
    if full is not None:
        return fused_attention.backward(full, dout, q, k, v, out, lse, scale)
    block_list = _blocks(q, k, v, window, query_first, key_first, dropout, doc_positions)
    if block_list is not None:
        return fused_attention.backward_blocks(chosen_for_shards, dout, q, k, v, out, lse, scale, block_list)
    segments = _segments(q, k, v, window, query_first, key_first, dropout, doc_positions, token_order)
    if segments is not None:
        return varlen.backward_segments(chosen_for_documents, dout, q, k, v, out, lse, scale, segments)
    scores = _scores(q, k, scale, window, query_first, key_first, doc_positions, token_order)
    p = torch.exp(scores - lse.permute(0, 2, 3, 1).unsqueeze(-1))
    delta = (dout * out).sum(-1).permute(0, 2, 3, 1).unsqueeze(-1)
    dp = _dropout(torch.einsum("bskgd,btkd->bkgst", dout, v), dropout, keep_mask)
    dscores = (p * (dp - delta)).to(q.dtype) * _scale(q, scale)
    dq = torch.einsum("bkgst,btkd->bskgd", dscores, k)
    dk = torch.einsum("bkgst,bskgd->btkd", dscores, q)
    dv = torch.einsum("bkgst,bskgd->btkd", _dropout(p, dropout, keep_mask).to(dout.dtype), dout)
    return dq, dk, dv


def _scale(q, scale: Optional[float]) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _scores(q, k, scale, window, query_first, key_first, doc_positions, token_order):
    """[batch, kvHeads, group, query, key]; -inf where masked."""
    scores = torch.einsum("bskgd,btkd->bkgst", q, k) * _scale(q, scale)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    query = positions(query_first or 0, q.shape[1], q.device)
    key = positions(key_first, k.shape[1], q.device)
    if token_order is not None:
        query, key = token_order[:, query], token_order[:, key].unsqueeze(1)
    query = query.unsqueeze(-1)
    masked = key > query if window is None else (key > query) | (key <= query - window)
    if doc_positions is not None:
        masked = (masked | (key < query - doc_positions.unsqueeze(2)))[:, None, None]
    return scores.masked_fill(masked, -math.inf)


def _dropout(p, dropout, keep_mask):
    return p if dropout == 0 else torch.where(keep_mask, p / (1 - dropout), torch.zeros_like(p))


# The fused ops that `choose` found to work here, for full sequences, for shards and for packed documents; None: scores are materialized.
# And whether flash attention supports sliding windows.
chosen: Optional[Fused] = None
supports_windows = False
chosen_for_shards: Optional[Fused] = None
chosen_for_documents: Optional[varlen.Varlen] = None


# Raised by ops that this release of PyTorch, or the device, does not support.
UNSUPPORTED = (RuntimeError, NotImplementedError, AttributeError, TypeError)


@torch.no_grad()
def choose(device: torch.device, only: str = "") -> str:
    """
    Selects the first fused op of PyTorch that agrees with the formulas on this device, forward and backward: what an op accepts differs
    between releases. `only` restricts the choice to names with this prefix.
    """
    global chosen, chosen_for_shards, chosen_for_documents, supports_windows
    chosen = chosen_for_shards = chosen_for_documents = None
    supports_windows = False
    shapes = [(2, 128, 2, 2, 64), (2, 128, 2, 64), (2, 128, 2, 64), (2, 128, 2, 2, 64)]
    generator = torch.Generator(device).manual_seed(1)
    q, k, v, dout = (torch.randn(s, generator=generator, device=device).bfloat16() for s in shapes)
    if only != "math":
        chosen_for_documents = varlen.FLASH if _supports_documents(varlen.FLASH, dout, q, k, v) else None
        varlen.host_synced = False
        supports_windows = _supports_windows(dout, q, k, v)
    out, lse = attention(q, k, v)
    expected = (out, *attention_grad(dout, q, k, v, out, lse))
    for candidate in fused_attention.CANDIDATES if only != "math" else []:
        if not candidate.name.startswith(only):
            continue
        try:
            if _agrees(candidate, dout, q, k, v, expected):
                chosen = candidate
                chosen_for_shards = candidate if _supports_shards(candidate, dout, q, k, v) else None
                break
        except UNSUPPORTED:
            continue
    return chosen.name if chosen else "math"


def _agrees(candidate: Fused, dout, q, k, v, expected) -> bool:
    out, lse = fused_attention.forward(candidate, q, k, v, None)
    actual = (out, *fused_attention.backward(candidate, dout, q, k, v, out, lse, None))
    return all(_is_close(a.float(), b.float()) for a, b in zip(actual, expected))


def _supports_shards(candidate: Fused, dout, q, k, v) -> bool:
    """The second of two CP ranks (zigzag), with all keys: blocks of both kinds, and an lse that `merge` can use."""
    early, late = slice(32, 64), slice(64, 96)
    part = [torch.cat((x[:, early], x[:, late]), 1) for x in (dout, q)]
    out, lse = attention(part[1], k, v, query_first=32)
    expected = (out, lse, *attention_grad(part[0], part[1], k, v, out, lse, query_first=32))
    block_list = fused_attention.blocks(32, 64, 0, k.shape[1])
    out, lse = fused_attention.forward_blocks(candidate, part[1], k, v, None, block_list)
    actual = (out, lse, *fused_attention.backward_blocks(candidate, part[0], part[1], k, v, out, lse, None, block_list))
    return all(_is_close(a.float(), b.float()) for a, b in zip(actual, expected))


def _supports_windows(dout, q, k, v) -> bool:
    out, lse = attention(q, k, v, window=20)
    expected = (out, *attention_grad(dout, q, k, v, out, lse, window=20))
    try:
        return _agrees(fused_attention.with_window(20), dout, q, k, v, expected)
    except UNSUPPORTED:
        return False


def _supports_documents(candidate: varlen.Varlen, dout, q, k, v) -> bool:
    """Documents of different lengths, with and without a sliding window."""
    index = torch.arange(q.shape[1], device=q.device).expand(q.shape[:2])
    doc_positions = index % torch.tensor([[37], [128]], device=q.device)
    try:
        for window in (None, 20):
            out, lse = attention(q, k, v, window=window, doc_positions=doc_positions)
            expected = (out, *attention_grad(dout, q, k, v, out, lse, window=window, doc_positions=doc_positions))
            out, lse = varlen.forward(candidate, q, k, v, None, window, doc_positions)
            actual = (out, *varlen.backward(candidate, dout, q, k, v, out, lse, None, window, doc_positions))
            if not all(_is_close(a.float(), b.float()) for a, b in zip(actual, expected)):
                return False
        # The second of two CP ranks (contiguous): documents that begin before its queries, and all keys.
        some = slice(64, 128)
        dout, q, doc_positions = dout[:, some], q[:, some], doc_positions[:, some]
        out, lse = attention(q, k, v, query_first=64, doc_positions=doc_positions)
        expected = (out, lse, *attention_grad(dout, q, k, v, out, lse, query_first=64, doc_positions=doc_positions))
        block_list = varlen.segments_of(doc_positions, 64, 0, k.shape[1])
        out, lse = varlen.forward_segments(candidate, q, k, v, None, block_list)
        actual = (out, lse, *varlen.backward_segments(candidate, dout, q, k, v, out, lse, None, block_list))
        return all(_is_close(a.float(), b.float()) for a, b in zip(actual, expected))
    except UNSUPPORTED:
        return False


def _is_close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((actual - expected).abs().max() <= 0.05 * expected.abs().max())


def _is_half(q, v, dropout) -> bool:
    half = q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] % 8 == 0 and v.shape[-1] <= q.shape[-1]
    return half and dropout == 0


def _fusable(q, v, window, dropout, doc_positions) -> bool:
    return _is_half(q, v, dropout) and window is None and doc_positions is None


def _full_op(q, k, v, window, query_first, dropout, doc_positions) -> Optional[Fused]:
    """The op for full sequences. A window over all keys is none."""
    if query_first is not None or not _fusable(q, v, None, dropout, doc_positions):
        return None
    if window is None or window >= k.shape[1]:
        return chosen
    return fused_attention.with_window(window) if supports_windows else None


def _blocks(q, k, v, window, query_first, key_first, dropout, doc_positions) -> Optional[List[Block]]:
    if query_first is None or chosen_for_shards is None or not _fusable(q, v, window, dropout, doc_positions):
        return None
    return fused_attention.blocks(query_first, q.shape[1], key_first, k.shape[1])


def _segments(q, k, v, window, query_first, key_first, dropout, doc_positions, token_order) -> Optional[List[varlen.SegmentBatch]]:
    full = query_first is None and token_order is None
    if doc_positions is None or full or window is not None or chosen_for_documents is None or not _is_half(q, v, dropout):
        return None
    return varlen.segments_of(doc_positions, query_first or 0, key_first, k.shape[1], token_order)
