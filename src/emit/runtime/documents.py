"""
Attention within the documents of packed sequences, by PyTorch's variable-length flash attention. A segment is a document, or, with
context parallelism, the rank's queries of a document and the keys they see.
"""
from bisect import bisect_left, bisect_right
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from .fused import narrowed, wide, widened, window_of
from .parts import Start, runs


class Bounds(NamedTuple):
    """Cumulative lengths of the query and key segments, and their maxima. Causal: the last query of a segment sees its last key."""

    queries: torch.Tensor
    keys: torch.Tensor
    most_queries: int
    most_keys: int
    causal: bool


class Varlen(NamedTuple):
    """All segments in one row, [tokens, heads, headDim], with their bounds; lse is [heads, tokens]."""

    forward: Callable
    backward: Callable


def _flash_forward(q, k, v, bounds: Bounds, scale, window):
    *cut, causal = bounds
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, *cut, 0.0, causal, False, scale=scale, **window_of(window)
    )
    return out, lse


def _flash_backward(dout, q, k, v, out, lse, bounds: Bounds, scale, window):
    *cut, causal = bounds
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, *cut, 0.0, causal, state, state[:1], scale=scale, **window_of(window)
    )


FLASH = Varlen(_flash_forward, _flash_backward)

# Whether the host has waited for the GPU to read document boundaries: such a step cannot be captured.
asked = False


def _known(places) -> Dict:
    """What was computed from these positions: once per microbatch, for all layers."""
    found = getattr(places, "found", None)
    # A step may load its data into the same memory as the step before.
    if found is None or found[0] != places._version:
        global asked
        asked = True
        found = places._version, {}
        places.found = found
    return found[1]


def bounds_of(places) -> Bounds:
    """For full sequences: document boundaries of the flattened batch."""
    known = _known(places)
    if None not in known:
        flat = places.flatten()
        begins = torch.nonzero(flat == 0).flatten()
        ends = torch.cat((begins, begins.new_full((1,), flat.numel()))).int()
        longest = int(flat.max()) + 1
        known[None] = Bounds(ends, ends, longest, longest, True)
    return known[None]


def _row(x):
    """[batch, seq, kvHeads, group, d] or [batch, seq, kvHeads, d] -> [tokens, heads, d]"""
    return x.flatten(0, 1).flatten(1, -2)


def forward(op: Varlen, q, k, v, scale, window, places):
    """lse keeps the layout of the op."""
    out, lse = op.forward(_row(q), _row(k), _row(widened(v, k)), bounds_of(places), scale, window)
    return narrowed(out.reshape(q.shape), v.shape[-1]), lse


def backward(op: Varlen, dout, q, k, v, out, lse, scale, window, places):
    rows = [_row(x) for x in (widened(dout, q), q, k, widened(v, k), widened(out, q))]
    dq, dk, dv = op.backward(*rows, lse, bounds_of(places), scale, window)
    return dq.reshape(q.shape), dk.reshape(k.shape), narrowed(dv.reshape(*v.shape[:-1], -1), v.shape[-1])


class Piece(NamedTuple):
    """Queries, each at most once, and keys, by index in the flattened batch."""

    queries: torch.Tensor
    keys: torch.Tensor
    bounds: Bounds


# The first of some consecutive tokens, their number, and the ranges of keys they see.
Segment = Tuple[int, int, List[Tuple[int, int]]]


def pieces_of(places, query_first: Start, key_first: Start, held: int, order=None) -> Optional[List[Piece]]:
    """
    Which of a CP rank's keys its queries see. None: only some of the keys at the positions of the queries are on this rank, so there is
    no causal segment. `order`: the token at each slot.
    """
    known = _known(places)
    cut = (query_first, key_first, held)
    if cut not in known:
        if "rows" not in known:
            known["rows"], known["order"] = places.tolist(), None if order is None else order.cpu()
        queries, keys = runs(query_first, places.shape[1]), runs(key_first, held)
        found = _segments(known["rows"], _held(queries, known), _held(keys, known), held)
        known[cut] = found and [_piece(found[causal], causal, places.device) for causal in found if found[causal]]
    return known[cut]


# First element in the shard, its token, and the number of consecutive tokens.
Run = Tuple[int, int, int]


def _held(part: List[Run], known: Dict) -> List[List[Run]]:
    """For each sequence, the consecutive runs of its tokens in a shard, sorted by token."""
    if known["order"] is None:
        return [part] * len(known["rows"])
    return [sorted((run for runs in part for run in _in_order(row, *runs)), key=lambda run: run[1]) for row in known["order"]]


def _in_order(order: torch.Tensor, at: int, slot: int, many: int):
    tokens = order[slot : slot + many]
    breaks = (torch.nonzero(torch.diff(tokens) != 1).flatten() + 1).tolist()
    for begin, end in zip([0, *breaks], [*breaks, many]):
        yield at + begin, int(tokens[begin]), end - begin


def _segments(rows, queries: List[List[Run]], keys: List[List[Run]], held: int) -> Optional[Dict[bool, List[Segment]]]:
    found: Dict[bool, List[Segment]] = {True: [], False: []}
    for sample, row in enumerate(rows):
        begins = [start for _, start, _ in keys[sample]]
        for at, position, many in queries[sample]:
            for begin, end in _documents(row[at : at + many]):
                first, last = position + begin, position + end
                least = first - row[at + begin]
                near = keys[sample][max(0, bisect_right(begins, least) - 1) : bisect_left(begins, last)]
                seen = [(place, start, max(least, start), min(last, start + count)) for place, start, count in near]
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


def _piece(segments: List[Segment], causal: bool, device) -> Piece:
    asking = [(first, count) for first, count, _ in segments]
    lengths = [sum(count for _, count in ranges) for _, _, ranges in segments]
    queries, keys = _indices(asking, device), _indices([run for _, _, ranges in segments for run in ranges], device)
    counts = [count for _, count in asking]
    bounds = Bounds(_ends(counts, device), _ends(lengths, device), max(counts), max(lengths), causal)
    return Piece(queries, keys, bounds)


def _indices(ranges: List[Tuple[int, int]], device) -> torch.Tensor:
    return torch.cat([torch.arange(first, first + count) for first, count in ranges]).to(device)


def _ends(counts: List[int], device) -> torch.Tensor:
    return torch.tensor([0, *counts]).cumsum(0).int().to(device)


def forward_parts(op: Varlen, q, k, v, scale, cut: List[Piece]):
    """(out, lse), lse as [batch, seq, kvHeads, group]: -inf if no key is seen."""
    asking, keys, values = (_row(x) for x in (q, k, widened(v, k)))
    out = torch.zeros_like(asking)
    lse = torch.full(asking.shape[:-1], -float("inf"), dtype=wide(q), device=q.device)
    for of, held, bounds in cut:
        made, logs = op.forward(asking[of], keys[held], values[held], bounds, scale, None)
        out[of], lse[of] = made, logs.t()
    return narrowed(out.reshape(q.shape), v.shape[-1]), lse.reshape(q.shape[:-1])


def backward_parts(op: Varlen, dout, q, k, v, out, lse, scale, cut: List[Piece]):
    given, asking, keys, values, made = (_row(x) for x in (widened(dout, q), q, k, widened(v, k), widened(out, q)))
    logs = lse.flatten(0, 1).flatten(1)
    dq, dk, dv = (torch.zeros_like(x, dtype=wide(x)) for x in (asking, keys, values))
    for of, held, bounds in cut:
        some = [x[of] for x in (given, asking)], [x[held] for x in (keys, values)]
        slopes = op.backward(*some[0], *some[1], made[of], logs[of].t().contiguous(), bounds, scale, None)
        dq[of] = slopes[0].to(dq.dtype)
        for total, addend in zip((dk, dv), slopes[1:]):
            total.index_add_(0, held, addend.to(total.dtype))
    grads = dq.reshape(q.shape), dk.reshape(k.shape), narrowed(dv.reshape(*v.shape[:-1], -1), v.shape[-1])
    return tuple(grad.to(q.dtype) for grad in grads)


APART = ["forward", "backward", "pieces_of", "forward_parts", "backward_parts"]


def keep_out_of_compiled_code() -> None:
    """The number of documents differs from step to step."""
    for name in APART:
        if not hasattr(globals()[name], "__wrapped__"):
            globals()[name] = torch.compiler.disable(globals()[name])
