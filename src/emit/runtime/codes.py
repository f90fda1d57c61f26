"""
Products of 8-bit codes. A tensor, or each block of it, is multiplied with a power of two that brings what is greatest there into their
range, and the product is divided by both. A run in f64 keeps all digits; on a CPU products are those of the numbers that codes stand for.
"""
from typing import Optional, Sequence

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


# What cuBLAS multiplies of blocks: so many numbers along what is summed, for each row or for squares.
BLOCK = 128

Blocks = Sequence[int]


def abs_max(x: torch.Tensor, blocks: Optional[Blocks] = None) -> torch.Tensor:
    """Of all, or of each block: so many elements along each dim, 0 for all of it."""
    if blocks is None:
        greatest = x.abs().amax()
    else:
        inside = tuple(range(1, 2 * x.dim(), 2))
        kept = [count for count, block in zip(_counts(x.shape, blocks), blocks) if block > 0]
        greatest = _cut(x.abs(), blocks).amax(dim=inside).reshape(kept)
    return greatest if x.dtype == torch.float64 else greatest.float()


def _counts(sizes: Sequence[int], blocks: Blocks) -> Sequence[int]:
    return [-(-size // block) if block > 0 else 1 for size, block in zip(sizes, blocks)]


def _cut(x: torch.Tensor, blocks: Blocks) -> torch.Tensor:
    """Every dim as blocks and what lies in one; short blocks are filled up with zeros."""
    counts = _counts(x.shape, blocks)
    lengths = [block if block > 0 else size for size, block in zip(x.shape, blocks)]
    missing = [count * length - size for count, length, size in zip(counts, lengths, x.shape)]
    if any(missing):
        x = torch.nn.functional.pad(x, [n for more in reversed(missing) for n in (0, more)])
    return x.reshape([n for pair in zip(counts, lengths) for n in pair])


def _times(x: torch.Tensor, numbers: torch.Tensor, blocks: Optional[Blocks]) -> torch.Tensor:
    """Each element times the number of its block."""
    if blocks is None:
        return x * numbers
    counts = [n for count in _counts(x.shape, blocks) for n in (count, 1)]
    product = _cut(x, blocks) * numbers.reshape(counts)
    whole = product.reshape([pair[0] * pair[1] for pair in zip(product.shape[::2], product.shape[1::2])])
    return whole[tuple([slice(size) for size in x.shape])]


def scale(amax: torch.Tensor, form: str) -> torch.Tensor:
    """The greatest power of two with which amax stays in range, by the bits of its exponent."""
    ratio = (GREATEST[form] / amax.clamp(min=LEAST)).float()
    return (ratio.view(torch.int32) & 0x7F800000).view(torch.float32).to(amax.dtype)


def quantize(x: torch.Tensor, amax: torch.Tensor, form: str, blocks: Optional[Blocks] = None) -> torch.Tensor:
    """Numbers beyond the greatest become it; casts of some releases do so by themselves, of others not."""
    scaled = _times(x, scale(amax, form).to(x.dtype), blocks).clamp(-GREATEST[form], GREATEST[form])
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
    equation: str,
    a: torch.Tensor,
    b: torch.Tensor,
    a_max: torch.Tensor,
    b_max: torch.Tensor,
    forms: Sequence[str],
    dtype: str,
    blocks: Optional[Sequence[Blocks]] = None,
) -> torch.Tensor:
    """As contract. One product of matrices where what is summed comes last in both, and a GPU has units for it."""
    by_a, by_b = 1 / scale(a_max, forms[0]), 1 / scale(b_max, forms[1])
    ins, out = equation.replace(" ", "").split("->")
    left, right = ins.split(",")
    summed = "".join([d for d in left if d not in out])
    m, n = left[: -len(summed)], right[: -len(summed)]
    if (m + summed, n + summed, m + n) == (left, right, out) and a.is_cuda and a.element_size() == 1:
        rows, columns = (codes.reshape(codes.shape[: len(free)].numel(), -1) for codes, free in ((a, m), (b, n)))
        if blocks is not None:
            by_a, by_b = _tiles(a, by_a, len(m), blocks[0]), _tiles(b, by_b, len(n), blocks[1])
        if rows.shape[1] % ROW == 0 and columns.shape[0] % ROW == 0 and _multiplied(by_a, by_b):
            product = _multiply(rows, columns, by_a, by_b, DTYPES[dtype], forms[0] == forms[1] and blocks is None)
            return product.view(*a.shape[: len(m)], *b.shape[: len(n)])
        by_a, by_b = 1 / scale(a_max, forms[0]), 1 / scale(b_max, forms[1])
    full = torch.float64 if a.dtype == torch.float64 else torch.float32
    of_a, of_b = (None, None) if blocks is None else blocks
    numbers = _times(a.to(full), by_a.to(full), of_a), _times(b.to(full), by_b.to(full), of_b)
    product = torch.einsum(f"{ins}->{out}", *numbers)
    return product if full == torch.float64 else product.to(DTYPES[dtype])


def _tiles(codes: torch.Tensor, scales: torch.Tensor, free: int, blocks: Blocks) -> Optional[torch.Tensor]:
    """
    One scale for each row, or for as many rows as a block has, and so many codes of what is summed: rows side by side where each has its
    own. None where a block is no run of codes.
    """
    sizes = codes.shape[:free].numel(), codes.shape[free:].numel()
    counts = _counts(codes.shape, blocks)
    counts = torch.Size(counts[:free]).numel(), torch.Size(counts[free:]).numel()
    if counts[1] * BLOCK != sizes[1] or counts[0] not in (sizes[0], sizes[0] // BLOCK) or sizes[0] % ROW:
        return None
    table = scales.reshape(counts)
    if counts[0] == sizes[0]:
        return table.t().contiguous().t()
    # Later releases want rows of a multiple of 4.
    return table.contiguous() if counts[1] % 4 == 0 and counts[0] * BLOCK == sizes[0] else None


def _multiplied(by_rows: Optional[torch.Tensor], by_columns: Optional[torch.Tensor]) -> bool:
    """Blocks of a GPU are squares on one side at most."""
    return by_rows is not None and by_columns is not None


def _multiply(rows, columns, by_rows, by_columns, dtype: torch.dtype, forward: bool) -> torch.Tensor:
    """Gradients, of which many small ones are summed, are summed in full; what goes forward need not be."""
    return torch._scaled_mm(
        rows, columns.t(), scale_a=by_rows, scale_b=by_columns.t(), out_dtype=dtype, use_fast_accum=forward
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
