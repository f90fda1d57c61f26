"""
Random numbers of each step, by an element's index in the full tensor, so that every plan has the same: dropout masks, and samples for
stochastic rounding. On a GPU a kernel computes Philox in registers; philox.py, the reference, would take ten passes over 64-bit
integers. The step is a tensor, so that CUDA graphs can be replayed with another.
"""
import functools
import math
from typing import Callable, Optional, Sequence

import torch

from . import philox
from .shards import Start, positions

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MAX_BLOCK = 1024  # elements of a row per program


def dropout_mask(
    rate: float, starts: Sequence[Start], sizes: Sequence[int], full_sizes: Sequence[int], seed: int, name: str, step: torch.Tensor,
    token_order: Optional[torch.Tensor] = None, permuted_dims: Sequence[int] = (),
) -> torch.Tensor:
    """The dropout mask of the shard at `starts`, indexed as in philox.grid."""
    in_rows = token_order is None or len(sizes) - 1 not in permuted_dims
    sample = _mask_kernel if in_rows and step.is_cuda and _mask_agrees(step.device) else _mask_formula
    return sample(rate, starts, sizes, full_sizes, seed, name, step, token_order, permuted_dims)


def rounding_bits(index: torch.Tensor, seed: int, name: str, step: torch.Tensor) -> torch.Tensor:
    """As philox.rounding_bits: 16-bit samples, one per index."""
    return (_bits_kernel if index.is_cuda and _bits_agree(index.device) else philox.rounding_bits)(index, seed, name, step)


def _bits_kernel(index: torch.Tensor, seed: int, name: str, step: torch.Tensor) -> torch.Tensor:
    index = index.contiguous()
    out = torch.empty(index.shape, dtype=torch.int32, device=index.device)
    _bits_triton[(triton.cdiv(index.numel(), MAX_BLOCK),)](
        index, step, out, index.numel(), seed & philox.WORD, philox.hash_name(name), BLOCK=MAX_BLOCK
    )
    return out


def _mask_formula(rate, starts, sizes, full_sizes, seed, name, step, token_order=None, permuted_dims=()) -> torch.Tensor:
    return philox.uniform(philox.grid(starts, sizes, full_sizes, step.device, token_order, permuted_dims), seed, name, step) >= rate


def _mask_kernel(rate, starts, sizes, full_sizes, seed, name, step, token_order=None, permuted_dims=()) -> torch.Tensor:
    *outer, width = sizes
    rows = philox.grid(starts[:-1], outer, full_sizes[:-1], step.device, token_order, permuted_dims).flatten() * full_sizes[-1]
    columns = positions(starts[-1], width, step.device)
    out = torch.empty(tuple(sizes), dtype=torch.uint8, device=step.device)
    block = min(MAX_BLOCK, triton.next_power_of_2(width))
    _mask_triton[(rows.numel(), triton.cdiv(width, block))](
        rows, columns, step, out, width, math.ceil(rate * 2.0**32), seed & philox.WORD, philox.hash_name(name), BLOCK=block
    )
    return out.view(torch.bool)


@functools.lru_cache(maxsize=None)
def _mask_agrees(device) -> bool:
    step = torch.full((), 3, dtype=torch.int64, device=device)
    args = 0.3, (5, 2**33, 7), (2, 3, 70), (9, 2**34, 100), 2**32 - 3, "layer1.drop", step
    return _matches(lambda: _mask_kernel(*args), _mask_formula(*args))


@functools.lru_cache(maxsize=None)
def _bits_agree(device) -> bool:
    index = torch.tensor([[0, 1, 7], [2**32 - 1, 2**32, 2**40 + 5]], device=device)
    args = index, 2**32 - 3, "layer1.up", torch.full((), 3, dtype=torch.int64, device=device)
    return _matches(lambda: _bits_kernel(*args), philox.rounding_bits(*args))


def _matches(actual: Callable[[], torch.Tensor], expected: torch.Tensor) -> bool:
    """Whether Triton is available and its kernel agrees with the formula."""
    try:
        return triton is not None and torch.equal(actual(), expected)
    except Exception:  # of any type: each release of Triton has its own
        return False


if triton is not None:

    @triton.jit(do_not_specialize=["least", "k0", "k1"])
    def _mask_triton(rows, columns, step, out, width, threshold, k0, k1, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = column < width
        index = tl.load(rows + row) + tl.load(columns + column, mask=inside, other=0)
        low, high, none = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32), tl.zeros((BLOCK,), tl.uint32)
        steps = tl.load(step).to(tl.uint32) + none
        word, _, _, _ = tl.philox_impl(low, high, steps, none, k0.to(tl.uint32), k1.to(tl.uint32), n_rounds=10)
        tl.store(out + row * width + column, (word.to(tl.int64) >= threshold).to(tl.uint8), mask=inside)

    @triton.jit(do_not_specialize=["k0", "k1"])
    def _bits_triton(index, step, out, count, k0, k1, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < count
        index = tl.load(index + at, mask=inside, other=0)
        low, high, none = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32), tl.zeros((BLOCK,), tl.uint32)
        steps, third = tl.load(step).to(tl.uint32) + none, tl.full((BLOCK,), 2, tl.uint32)
        word, _, _, _ = tl.philox_impl(low, high, steps, third, k0.to(tl.uint32), k1.to(tl.uint32), n_rounds=10)
        tl.store(out + at, (word.to(tl.int64) & 0xFFFF).to(tl.int32), mask=inside)
