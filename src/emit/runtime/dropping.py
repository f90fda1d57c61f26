"""
What dropout leaves of a tensor: by an element's index in the whole one, so every plan leaves the same. On a GPU a kernel draws and
compares in registers, where counter.py, which is used everywhere else, would make ten passes over numbers of 64 bits.
"""
import functools
import math
from typing import Sequence

import torch

from . import counter
from .parts import Start, positions

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MOST = 1024  # elements of a row that are drawn at once


def kept(
    rate: float, starts: Sequence[Start], sizes: Sequence[int], wholes: Sequence[int], seed: int, name: str, step: torch.Tensor,
    order=None, along: Sequence[int] = (),
) -> torch.Tensor:
    """Of the part that begins at `starts`, as counter.grid counts. The step is a tensor, so that a recorded one can be told another."""
    in_rows = order is None or len(sizes) - 1 not in along
    how = _drawn if in_rows and step.is_cuda and _agrees(step.device) else _formula
    return how(rate, starts, sizes, wholes, seed, name, step, order, along)


def _formula(rate, starts, sizes, wholes, seed, name, step, order=None, along=()) -> torch.Tensor:
    return counter.uniform(counter.grid(starts, sizes, wholes, step.device, order, along), seed, name, step) >= rate


def _drawn(rate, starts, sizes, wholes, seed, name, step, order=None, along=()) -> torch.Tensor:
    *outer, width = sizes
    rows = counter.grid(starts[:-1], outer, wholes[:-1], step.device, order, along).flatten() * wholes[-1]
    columns = positions(starts[-1], width, step.device)
    out = torch.empty(tuple(sizes), dtype=torch.uint8, device=step.device)
    block = min(MOST, triton.next_power_of_2(width))
    _draw[(rows.numel(), triton.cdiv(width, block))](
        rows, columns, step, out, width, math.ceil(rate * 2.0**32), seed & counter.WORD, counter.hash_name(name), BLOCK=block
    )
    return out.view(torch.bool)


@functools.lru_cache(maxsize=None)
def _agrees(device) -> bool:
    """Whether there is Triton, and its kernel draws what the formula says."""
    step = torch.full((), 3, dtype=torch.int64, device=device)
    asked = 0.3, (5, 2**33, 7), (2, 3, 70), (9, 2**34, 100), 2**32 - 3, "layer1.drop", step
    try:
        return triton is not None and torch.equal(_drawn(*asked), _formula(*asked))
    except Exception:  # of whatever kind: each release of Triton has its own
        return False


if triton is not None:

    @triton.jit(do_not_specialize=["least", "k0", "k1"])
    def _draw(rows, columns, step, out, width, least, k0, k1, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        there = column < width
        index = tl.load(rows + row) + tl.load(columns + column, mask=there, other=0)
        none = tl.zeros((BLOCK,), tl.uint32)
        counts = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32), tl.load(step).to(tl.uint32) + none, none
        word, _, _, _ = tl.philox_impl(
            counts[0], counts[1], counts[2], counts[3], k0.to(tl.uint32), k1.to(tl.uint32), n_rounds=10
        )
        tl.store(out + row * width + column, (word.to(tl.int64) >= least).to(tl.uint8), mask=there)
