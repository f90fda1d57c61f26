"""
Attention of sequences that hold several documents, by PyTorch's flash attention: it takes sequences of any lengths one after the
other, and here each document is one. Only whole sequences are cut so; of parts the scores are written out.
"""
from typing import Callable, NamedTuple, Optional, Tuple

import torch

from .fused import narrowed, widened


class Varlen(NamedTuple):
    """Tokens of all sequences in one row, [tokens, heads, headDim], with the bounds of documents; lse stays as the op gives it."""

    forward: Callable
    backward: Callable


def _window(window: Optional[int]):
    return {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}


def _flash_forward(q, k, v, bounds, longest, scale, window):
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, bounds, bounds, longest, longest, 0.0, True, False, scale=scale, **_window(window)
    )
    return out, lse


def _flash_backward(dout, q, k, v, out, lse, bounds, longest, scale, window):
    state = torch.zeros(2, dtype=torch.int64, device=q.device).view(torch.uint64)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, bounds, bounds, longest, longest, 0.0, True, state, state[:1], scale=scale, **_window(window)
    )


FLASH = Varlen(_flash_forward, _flash_backward)

# Whether the host has waited for the GPU to learn where documents end: such a step cannot be recorded.
asked = False


def bounds_of(places) -> Tuple[torch.Tensor, int]:
    """Where documents begin through all sequences, and where the last ends; and how long the longest is. Found once a microbatch."""
    found = getattr(places, "bounds", None)
    # A step may find its data where that of the step before lay.
    if found is None or found[0] != places._version:
        global asked
        asked = True
        flat = places.flatten()
        begins = torch.nonzero(flat == 0).flatten()
        ends = begins.new_full((1,), flat.numel())
        found = places._version, torch.cat((begins, ends)).int(), int(flat.max()) + 1
        places.bounds = found
    return found[1:]


def _row(x):
    """[batch, seq, kvHeads, group, d] or [batch, seq, kvHeads, d] -> [tokens, heads, d]"""
    return x.flatten(0, 1).flatten(1, -2)


def forward(op: Varlen, q, k, v, scale, window, places):
    bounds, longest = bounds_of(places)
    out, lse = op.forward(_row(q), _row(k), _row(widened(v, k)), bounds, longest, scale, window)
    return narrowed(out.reshape(q.shape), v.shape[-1]), lse


def backward(op: Varlen, dout, q, k, v, out, lse, scale, window, places):
    bounds, longest = bounds_of(places)
    rows = [_row(x) for x in (widened(dout, q), q, k, widened(v, k), widened(out, q))]
    dq, dk, dv = op.backward(*rows, lse, bounds, longest, scale, window)
    return dq.reshape(q.shape), dk.reshape(k.shape), narrowed(dv.reshape(*v.shape[:-1], -1), v.shape[-1])


def keep_out_of_compiled_code() -> None:
    """How many documents there are differs from step to step."""
    global forward, backward
    if not hasattr(forward, "__wrapped__"):
        forward, backward = torch.compiler.disable(forward), torch.compiler.disable(backward)
