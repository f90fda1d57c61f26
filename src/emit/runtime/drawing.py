"""
Random numbers of each step, by an element's index in the full tensor, so that every plan has the same: dropout masks, and samples for
stochastic rounding. On a GPU a kernel computes Philox in registers; counter.py, the reference, would take ten passes over 64-bit
integers. The step is a tensor, so that CUDA graphs can be replayed with another.
"""
import functools
import math
from typing import Callable, Sequence

import torch

from . import counter
from .parts import Start, positions

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MOST = 1024  # elements of a row per program


def kept(
    rate: float, starts: Sequence[Start], sizes: Sequence[int], wholes: Sequence[int], seed: int, name: str, step: torch.Tensor,
    order=None, along: Sequence[int] = (),
) -> torch.Tensor:
    """The dropout mask of the shard at `starts`, indexed as in counter.grid."""
    in_rows = order is None or len(sizes) - 1 not in along
    how = _drawn if in_rows and step.is_cuda and _agrees(step.device) else _formula
    return how(rate, starts, sizes, wholes, seed, name, step, order, along)


def draws(index: torch.Tensor, seed: int, name: str, step: torch.Tensor) -> torch.Tensor:
    """As counter.draws: 16-bit samples, one per index."""
    return (_drawn_words if index.is_cuda and _words_agree(index.device) else counter.draws)(index, seed, name, step)


def _drawn_words(index: torch.Tensor, seed: int, name: str, step: torch.Tensor) -> torch.Tensor:
    index = index.contiguous()
    out = torch.empty(index.shape, dtype=torch.int32, device=index.device)
    _draw_words[(triton.cdiv(index.numel(), MOST),)](
        index, step, out, index.numel(), seed & counter.WORD, counter.hash_name(name), BLOCK=MOST
    )
    return out


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
    step = torch.full((), 3, dtype=torch.int64, device=device)
    asked = 0.3, (5, 2**33, 7), (2, 3, 70), (9, 2**34, 100), 2**32 - 3, "layer1.drop", step
    return _same(lambda: _drawn(*asked), _formula(*asked))


@functools.lru_cache(maxsize=None)
def _words_agree(device) -> bool:
    index = torch.tensor([[0, 1, 7], [2**32 - 1, 2**32, 2**40 + 5]], device=device)
    asked = index, 2**32 - 3, "layer1.up", torch.full((), 3, dtype=torch.int64, device=device)
    return _same(lambda: _drawn_words(*asked), counter.draws(*asked))


def _same(made: Callable[[], torch.Tensor], expected: torch.Tensor) -> bool:
    """Whether Triton is available and its kernel agrees with the formula."""
    try:
        return triton is not None and torch.equal(made(), expected)
    except Exception:  # of any type: each release of Triton has its own
        return False


if triton is not None:

    @triton.jit(do_not_specialize=["least", "k0", "k1"])
    def _draw(rows, columns, step, out, width, least, k0, k1, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        there = column < width
        index = tl.load(rows + row) + tl.load(columns + column, mask=there, other=0)
        low, high, none = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32), tl.zeros((BLOCK,), tl.uint32)
        steps = tl.load(step).to(tl.uint32) + none
        word, _, _, _ = tl.philox_impl(low, high, steps, none, k0.to(tl.uint32), k1.to(tl.uint32), n_rounds=10)
        tl.store(out + row * width + column, (word.to(tl.int64) >= least).to(tl.uint8), mask=there)

    @triton.jit(do_not_specialize=["k0", "k1"])
    def _draw_words(index, step, out, count, k0, k1, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        there = at < count
        index = tl.load(index + at, mask=there, other=0)
        low, high, none = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32), tl.zeros((BLOCK,), tl.uint32)
        steps, third = tl.load(step).to(tl.uint32) + none, tl.full((BLOCK,), 2, tl.uint32)
        word, _, _, _ = tl.philox_impl(low, high, steps, third, k0.to(tl.uint32), k1.to(tl.uint32), n_rounds=10)
        tl.store(out + at, (word.to(tl.int64) & 0xFFFF).to(tl.int32), mask=there)
