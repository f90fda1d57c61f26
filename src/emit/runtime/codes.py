"""
Products of 8-bit codes. A tensor is multiplied with a power of two that brings what is greatest in it into their range, and the product is
divided by both. A run in f64 keeps all digits; on a CPU products are those of the numbers that codes stand for.
"""
from typing import Sequence

import torch

from .dtypes import DTYPES

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

GREATEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}
# What is smaller counts as this: the scale stays an f32 number.
LEAST = 2.0**-100
# cuBLAS wants so many codes in a row, and rows that begin at multiples of as many.
ROW = 16
TILE = 64


def abs_max(x: torch.Tensor) -> torch.Tensor:
    greatest = x.abs().amax()
    return greatest if x.dtype == torch.float64 else greatest.float()


def scale(amax: torch.Tensor, form: str) -> torch.Tensor:
    """The greatest power of two with which amax stays in range, by the bits of its exponent."""
    ratio = (GREATEST[form] / amax.clamp(min=LEAST)).float()
    return (ratio.view(torch.int32) & 0x7F800000).view(torch.float32).to(amax.dtype)


def quantize(x: torch.Tensor, amax: torch.Tensor, form: str) -> torch.Tensor:
    """Numbers beyond the greatest become it; casts of some releases do so by themselves, of others not."""
    scaled = (x * scale(amax, form).to(x.dtype)).clamp(-GREATEST[form], GREATEST[form])
    return scaled if x.dtype == torch.float64 else scaled.to(DTYPES[form])


def turned(codes: torch.Tensor, first: int) -> torch.Tensor:
    """The dims from `first` on before the others: a GPU multiplies codes that lie one after the other along what is summed."""
    sizes = (*codes.shape[first:], *codes.shape[:first])
    rows = codes.reshape(codes.shape[:first].numel(), -1)
    if codes.is_cuda and triton is not None and codes.element_size() == 1:
        return torch.ops.lockstep.turned(rows.view(torch.uint8)).view(codes.dtype).view(sizes)
    if codes.element_size() == 1:
        return rows.view(torch.uint8).t().contiguous().view(codes.dtype).view(sizes)
    return rows.t().contiguous().view(sizes)


def scaled_contract(
    equation: str, a: torch.Tensor, b: torch.Tensor, a_max: torch.Tensor, b_max: torch.Tensor, forms: Sequence[str], dtype: str
) -> torch.Tensor:
    """As contract. One product of matrices where what is summed comes last in both, and a GPU has units for it."""
    by_a, by_b = 1 / scale(a_max, forms[0]), 1 / scale(b_max, forms[1])
    ins, out = equation.replace(" ", "").split("->")
    left, right = ins.split(",")
    summed = "".join([d for d in left if d not in out])
    m, n = left[: -len(summed)], right[: -len(summed)]
    if (m + summed, n + summed, m + n) == (left, right, out) and a.is_cuda and a.element_size() == 1:
        rows, columns = (codes.reshape(codes.shape[: len(free)].numel(), -1) for codes, free in ((a, m), (b, n)))
        if rows.shape[1] % ROW == 0 and columns.shape[0] % ROW == 0:
            product = _multiply(rows, columns, by_a, by_b, DTYPES[dtype], forms[0] == forms[1])
            return product.view(*a.shape[: len(m)], *b.shape[: len(n)])
    full = torch.float64 if a.dtype == torch.float64 else torch.float32
    product = torch.einsum(f"{ins}->{out}", a.to(full), b.to(full)) * by_a * by_b
    return product if full == torch.float64 else product.to(DTYPES[dtype])


def _multiply(rows, columns, by_rows, by_columns, dtype: torch.dtype, forward: bool) -> torch.Tensor:
    """Gradients, of which many small ones are summed, are summed in full; what goes forward need not be."""
    return torch._scaled_mm(
        rows, columns.t(), scale_a=by_rows, scale_b=by_columns, out_dtype=dtype, use_fast_accum=forward
    )


def _turned(rows: torch.Tensor) -> torch.Tensor:
    out = _columns(rows)
    height, width = rows.shape
    _turn[(triton.cdiv(height, TILE), triton.cdiv(width, TILE))](rows.contiguous(), out, height, width, TILE=TILE)
    return out


def _columns(rows: torch.Tensor) -> torch.Tensor:
    return rows.new_empty((rows.shape[1], rows.shape[0]))


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _turn(x, out, height, width, TILE: tl.constexpr):
        row = tl.program_id(0) * TILE + tl.arange(0, TILE)
        column = tl.program_id(1) * TILE + tl.arange(0, TILE)
        inside = (row[:, None] < height) & (column[None, :] < width)
        tile = tl.load(x + row[:, None].to(tl.int64) * width + column[None, :], mask=inside)
        turned = (row[None, :] < height) & (column[:, None] < width)
        tl.store(out + column[:, None].to(tl.int64) * height + row[None, :], tl.trans(tile), mask=turned)

    torch.library.custom_op("lockstep::turned", _turned, mutates_args=()).register_fake(_columns)
else:
    triton = None
