"""
Attention within the documents of packed sequences, by PyTorch's variable-length flash attention. A segment is a document, or, with
context parallelism, the rank's queries of a document and the keys they see.
"""
from bisect import bisect_left, bisect_right
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from .fused_attention import accumulation_dtype, pad_head_dim, trim_head_dim, window_args
from .shards import Start, ranges


class Bounds(NamedTuple):
    """Cumulative lengths of the query and key segments, and their maxima. Causal: the last query of a segment sees its last key."""

    queries: torch.Tensor
    keys: torch.Tensor
    max_queries: int
    max_keys: int
    causal: bool


class Varlen(NamedTuple):
    """All segments in one row, [tokens, heads, headDim], with their bounds; lse is [heads, tokens]."""

    forward: Callable
    backward: Callable


def _flash_forward(q, k, v, bounds: Bounds, scale, window):
    *cut, causal = bounds
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, *cut, 0.0, causal, False, scale=scale, **window_args(window)
    )
    return out, lse


def _flash_backward(dout, q, k, v, out, lse, bounds: Bounds, scale, window):
    *cut, causal = bounds
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, *cut, 0.0, causal, state, state[:1], scale=scale, **window_args(window)
    )


FLASH = Varlen(_flash_forward, _flash_backward)

# Whether the host has waited for the GPU to read document boundaries: such a step cannot be captured.
host_synced = False


def _cache(doc_positions) -> Dict:
    """What was computed from these positions: once per microbatch, for all layers."""
    found = getattr(doc_positions, "varlen_cache", None)
    # A step may load its data into the same memory as the step before.
    if found is None or found[0] != doc_positions._version:
        global host_synced
        host_synced = True
        found = doc_positions._version, {}
        doc_positions.varlen_cache = found
    return found[1]


def document_bounds(doc_positions: torch.Tensor) -> Bounds:
    """For full sequences: document boundaries of the flattened batch."""
    cache = _cache(doc_positions)
    if None not in cache:
        flat = doc_positions.flatten()
        begins = torch.nonzero(flat == 0).flatten()
        ends = torch.cat((begins, begins.new_full((1,), flat.numel()))).int()
        longest = int(flat.max()) + 1
        cache[None] = Bounds(ends, ends, longest, longest, True)
    return cache[None]


def _row(x):
    """[batch, seq, kvHeads, group, d] or [batch, seq, kvHeads, d] -> [tokens, heads, d]"""
    return x.flatten(0, 1).flatten(1, -2)


def forward(
    op: Varlen, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Optional[float], window: Optional[int],
    doc_positions: torch.Tensor,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """lse keeps the layout of the op."""
    out, lse = op.forward(_row(q), _row(k), _row(pad_head_dim(v, k)), document_bounds(doc_positions), scale, window)
    return trim_head_dim(out.reshape(q.shape), v.shape[-1]), lse


def backward(
    op: Varlen, dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    scale: Optional[float], window: Optional[int], doc_positions: torch.Tensor,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = [_row(x) for x in (pad_head_dim(dout, q), q, k, pad_head_dim(v, k), pad_head_dim(out, q))]
    dq, dk, dv = op.backward(*rows, lse, document_bounds(doc_positions), scale, window)
    return dq.reshape(q.shape), dk.reshape(k.shape), trim_head_dim(dv.reshape(*v.shape[:-1], -1), v.shape[-1])


class SegmentBatch(NamedTuple):
    """Queries, each at most once, and keys, by index in the flattened batch."""

    queries: torch.Tensor
    keys: torch.Tensor
    bounds: Bounds


# The first of some consecutive tokens, their number, and the ranges of keys they see.
Segment = Tuple[int, int, List[Tuple[int, int]]]


def segments_of(
    doc_positions: torch.Tensor, query_first: Start, key_first: Start, held: int, token_order: Optional[torch.Tensor] = None,
) -> Optional[List[SegmentBatch]]:
    """
    Which of a CP rank's keys its queries see. None: only some of the keys at the positions of the queries are on this rank, so there is
    no causal segment. `token_order`: the token at each slot.
    """
    cache = _cache(doc_positions)
    cut = (query_first, key_first, held)
    if cut not in cache:
        if "rows" not in cache:
            cache["rows"], cache["order"] = doc_positions.tolist(), None if token_order is None else token_order.cpu()
        queries, keys = ranges(query_first, doc_positions.shape[1]), ranges(key_first, held)
        found = _segments(cache["rows"], _local_runs(queries, cache), _local_runs(keys, cache), held)
        cache[cut] = found and [_batch(found[causal], causal, doc_positions.device) for causal in found if found[causal]]
    return cache[cut]


# First element in the shard, its token, and the number of consecutive tokens.
Run = Tuple[int, int, int]


def _local_runs(part: List[Run], cache: Dict) -> List[List[Run]]:
    """For each sequence, the consecutive runs of its tokens in a shard, sorted by token."""
    if cache["order"] is None:
        return [part] * len(cache["rows"])
    return [sorted((run for runs in part for run in _runs_in_slots(row, *runs)), key=lambda run: run[1]) for row in cache["order"]]


def _runs_in_slots(token_order: torch.Tensor, at: int, slot: int, length: int):
    tokens = token_order[slot : slot + length]
    breaks = (torch.nonzero(torch.diff(tokens) != 1).flatten() + 1).tolist()
    for begin, end in zip([0, *breaks], [*breaks, length]):
        yield at + begin, int(tokens[begin]), end - begin


def _segments(rows, queries: List[List[Run]], keys: List[List[Run]], held: int) -> Optional[Dict[bool, List[Segment]]]:
    found: Dict[bool, List[Segment]] = {True: [], False: []}
    for sample, row in enumerate(rows):
        begins = [start for _, start, _ in keys[sample]]
        for at, position, length in queries[sample]:
            for begin, end in _documents(row[at : at + length]):
                first, last = position + begin, position + end
                first_key = first - row[at + begin]
                near = keys[sample][max(0, bisect_right(begins, first_key) - 1) : bisect_left(begins, last)]
                seen = [(place, start, max(first_key, start), min(last, start + count)) for place, start, count in near]
                seen = [run for run in seen if run[2] < run[3]]
                # A causal segment needs all keys of its queries on this rank.
                causal = bool(seen) and seen[-1][3] > first
                if causal and not (seen[-1][1] <= first and seen[-1][3] == last):
                    return None
                if seen:
                    ranges = [(sample * held + place + low - start, high - low) for place, start, low, high in seen]
                    found[causal].append((sample * len(row) + at + begin, end - begin, ranges))
    return found


def _documents(row: List[int]):
    """Ranges of tokens by document."""
    begins = [i for i, place in enumerate(row) if place == 0 or i == 0]
    return zip(begins, [*begins[1:], len(row)])


def _batch(segments: List[Segment], causal: bool, device) -> SegmentBatch:
    asking = [(first, count) for first, count, _ in segments]
    lengths = [sum(count for _, count in ranges) for _, _, ranges in segments]
    queries, keys = _indices(asking, device), _indices([run for _, _, ranges in segments for run in ranges], device)
    counts = [count for _, count in asking]
    bounds = Bounds(_ends(counts, device), _ends(lengths, device), max(counts), max(lengths), causal)
    return SegmentBatch(queries, keys, bounds)


def _indices(ranges: List[Tuple[int, int]], device) -> torch.Tensor:
    return torch.cat([torch.arange(first, first + count) for first, count in ranges]).to(device)


def _ends(counts: List[int], device) -> torch.Tensor:
    return torch.tensor([0, *counts]).cumsum(0).int().to(device)


def forward_segments(
    op: Varlen, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Optional[float], cut: List[SegmentBatch],
) -> Tuple[torch.Tensor, torch.Tensor]:
    """(out, lse), lse as [batch, seq, kvHeads, group]: -inf if no key is seen."""
    asking, keys, values = (_row(x) for x in (q, k, pad_head_dim(v, k)))
    out = torch.zeros_like(asking)
    lse = torch.full(asking.shape[:-1], -float("inf"), dtype=accumulation_dtype(q), device=q.device)
    for of, held, bounds in cut:
        made, logs = op.forward(asking[of], keys[held], values[held], bounds, scale, None)
        out[of], lse[of] = made, logs.t()
    return trim_head_dim(out.reshape(q.shape), v.shape[-1]), lse.reshape(q.shape[:-1])


def backward_segments(
    op: Varlen, dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    scale: Optional[float], cut: List[SegmentBatch],
) -> Tuple[torch.Tensor, ...]:
    given, asking, keys, values, made = (_row(x) for x in (pad_head_dim(dout, q), q, k, pad_head_dim(v, k), pad_head_dim(out, q)))
    logs = lse.flatten(0, 1).flatten(1)
    dq, dk, dv = (torch.zeros_like(x, dtype=accumulation_dtype(x)) for x in (asking, keys, values))
    for of, held, bounds in cut:
        some = [x[of] for x in (given, asking)], [x[held] for x in (keys, values)]
        slopes = op.backward(*some[0], *some[1], made[of], logs[of].t().contiguous(), bounds, scale, None)
        dq[of] = slopes[0].to(dq.dtype)
        for total, grad in zip((dk, dv), slopes[1:]):
            total.index_add_(0, held, grad.to(total.dtype))
    grads = dq.reshape(q.shape), dk.reshape(k.shape), trim_head_dim(dv.reshape(*v.shape[:-1], -1), v.shape[-1])
    return tuple(grad.to(q.dtype) for grad in grads)


# Functions that torch.compile does not trace.
NOT_COMPILED = ["forward", "backward", "segments_of", "forward_segments", "backward_segments"]


def disable_compile() -> None:
    """The number of documents differs from step to step."""
    for name in NOT_COMPILED:
        if not hasattr(globals()[name], "__wrapped__"):
            globals()[name] = torch.compiler.disable(globals()[name])
