"""
FP8 matmuls. Each tensor, or each block of it, is quantized with a scale that maps its amax into the range of the format, and the result
is divided by both scales. An f64 run keeps full precision; on a CPU the matmuls use dequantized values.
"""
from typing import Optional, Sequence, Tuple

import torch

from . import grouped_mm
from .dtypes import DTYPES
from .optimizer import Tensors

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MAX = {"f8e4m3": 448.0, "f8e5m2": 57344.0}
# The maximum is 1.75 * 2^this, and the mantissa has this many bits.
MAX_EXPONENT = {"f8e4m3": 8, "f8e5m2": 15}
MANTISSA_BITS = {"f8e4m3": 3, "f8e5m2": 2}
# Lower bound of amax, so that the scale is an f32 number.
MIN_AMAX = 2.0**-100
# cuBLAS wants rows of a multiple of this many values.
ROW = 16
TILE = 64


# Blockwise scaling in cuBLAS: values along the contracted dim, per row or in squares; MX formats (OCP), per row.
BLOCK = 128
MX_BLOCK = 32

Blocks = Sequence[int]


def abs_max(x: torch.Tensor, blocks: Optional[Blocks] = None) -> torch.Tensor:
    """amax of the tensor, or of each block: `blocks` has elements per block along each dim, 0 for all of them."""
    if blocks is None:
        amax = x.abs().amax()
    else:
        inside = tuple(range(1, 2 * x.dim(), 2))
        kept = [count for count, block in zip(_counts(x.shape, blocks), blocks) if block > 0]
        amax = _split_blocks(x.abs(), blocks).amax(dim=inside).reshape(kept)
    return amax if x.dtype == torch.float64 else amax.float()


def _counts(sizes: Sequence[int], blocks: Blocks) -> Sequence[int]:
    return [-(-size // block) if block > 0 else 1 for size, block in zip(sizes, blocks)]


def _split_blocks(x: torch.Tensor, blocks: Blocks) -> torch.Tensor:
    """Splits every dim into [blocks, elements of a block]; partial blocks are zero-padded."""
    counts = _counts(x.shape, blocks)
    lengths = [block if block > 0 else size for size, block in zip(x.shape, blocks)]
    missing = [count * length - size for count, length, size in zip(counts, lengths, x.shape)]
    if any(missing):
        x = torch.nn.functional.pad(x, [n for more in reversed(missing) for n in (0, more)])
    return x.reshape([n for pair in zip(counts, lengths) for n in pair])


def _scale_blocks(x: torch.Tensor, factors: torch.Tensor, blocks: Optional[Blocks]) -> torch.Tensor:
    """Multiplies each element by the factor of its block."""
    if blocks is None:
        return x * factors
    counts = [n for count in _counts(x.shape, blocks) for n in (count, 1)]
    product = _split_blocks(x, blocks) * factors.reshape(counts)
    whole = product.reshape([pair[0] * pair[1] for pair in zip(product.shape[::2], product.shape[1::2])])
    return whole[tuple([slice(size) for size in x.shape])]


def scale(amax: torch.Tensor, format: str, by: str = "amax") -> torch.Tensor:
    """
    The quantization scale for an amax. By default the largest power of two that keeps amax in range, from its bits, so that all ranks
    compute the same: the format's maximum is 1.75 times a power of two. `exact` maps amax to that maximum. The others are powers of two
    as in MX: of amax rounded down, up, or to the mantissa of the format. 0 if amax is NaN or Inf.
    """
    bounded = amax.clamp(min=MIN_AMAX)
    if by == "exact" and amax.dtype == torch.float64:
        return MAX[format] / bounded
    full = bounded.float()
    bits = full.view(torch.int32)
    if by == "exact":
        result = torch.full_like(full, MAX[format]) / full
    else:
        more = {"amax": 0x7FFFFF - 0x600000, "floor": 0, "ceil": 0x7FFFFF, "even": 1 << (22 - MANTISSA_BITS[format])}[by]
        result = ((254 + MAX_EXPONENT[format] - ((bits + more) >> 23)) << 23).view(torch.float32)
    return torch.where(bits >= 0x7F800000, 0.0, result).to(amax.dtype)


def _scale(number: torch.Tensor, format: str, by: str) -> torch.Tensor:
    """The scale for an amax, or `number` itself if it is one."""
    return number if by == "scale" else scale(number, format, by)


def update_scale_(
    scales: Tensors, histories: Tensors, amaxes: Tensors, apply: torch.Tensor, format: str, margin: int, algo: str,
) -> Tuple[Tensors, Tensors]:
    """
    Delayed scaling (as in Transformer Engine): index 0 of an amax history is this step's. The scale follows from the history's max or
    from its latest; then the history rolls. An amax of 0, NaN or Inf leaves the scale. Takes one tensor or a list.
    """
    if isinstance(scales, list):
        scale, history = torch.stack(scales), torch.stack(histories)
        _track(scale, history, torch.stack(list(amaxes)).to(scale.dtype), apply, format, margin, algo)
        for each, result in ((scales, scale), (histories, history)):
            for old, new in zip(each, result.unbind()):
                old.copy_(new)
    else:
        _track(scales.view(1), histories.view(1, -1), amaxes.view(1).to(scales.dtype), apply, format, margin, algo)
    return scales, histories


def _track(scale, history, amax, apply, format: str, margin: int, algo: str) -> None:
    now = torch.cat([amax.unsqueeze(1), history[:, 1:]], 1)
    chosen = now.amax(1) if algo == "max" else amax
    result = (MAX[format] / chosen.float() / 2.0**margin).clamp(max=torch.finfo(torch.float32).max).to(scale.dtype)
    usable = (chosen > 0) & torch.isfinite(chosen)
    scale.copy_(torch.where(apply & usable, result, scale))
    moved = torch.roll(now, -1, 1)
    moved[:, 0] = 0
    history.copy_(torch.where(apply, moved, history))


def quantize(
    x: torch.Tensor, amax: torch.Tensor, format: str, blocks: Optional[Blocks] = None, by: str = "amax"
) -> torch.Tensor:
    """Saturating cast: clamps to the format's range, since some releases of PyTorch saturate and others overflow."""
    # A power of two is exact in any dtype; other scales need more than 16 bits.
    full = x if by not in ("scale", "exact") or x.dtype == torch.float64 else x.float()
    scaled = _scale_blocks(full, _scale(amax, format, by).to(full.dtype), blocks).clamp(-MAX[format], MAX[format])
    return scaled if x.dtype == torch.float64 else scaled.to(DTYPES[format])


def quantize_with_amax(x: torch.Tensor, format: str, blocks: Sequence[Blocks], by: str = "amax") -> Tuple[torch.Tensor, ...]:
    """amax and quantized values of x for each of the given block shapes: in one pass where a GPU can."""
    result = _quantize_both_ways(x, format, blocks) if by == "amax" else None
    if result is None:
        result = []
        for each in blocks:
            amax = abs_max(x, each)
            result += [amax, quantize(x, amax, format, each, by)]
    return tuple(result)


def _quantize_both_ways(x: torch.Tensor, format: str, blocks: Sequence[Blocks]):
    """
    Quantizes a matrix of full tiles along its last dim and along its first. The latter result is stored transposed, contiguous along
    the first dim, as `transpose_quantized` does.
    """
    if triton is None or not x.is_cuda or x.dtype != torch.bfloat16 or format != "f8e4m3" or len(blocks) != 2:
        return None
    (rows, columns), counts = blocks, [_counts(x.shape, each) for each in blocks]
    for first in range(1, x.dim()):
        height, width = x.shape[:first].numel(), x.shape[first:].numel()
        by_rows = all(n == 1 for n in rows[:first]) and torch.Size(counts[0][first:]).numel() * BLOCK == width
        by_columns = all(n == 1 for n in columns[first:]) and torch.Size(counts[1][:first]).numel() * BLOCK == height
        if by_rows and by_columns:
            quantized, amax, transposed, transposed_amax = torch.ops.lockstep.quantize_with_amax(x.reshape(height, width).contiguous())
            kept = [[count for count, n in zip(*each) if n > 0] for each in zip(counts, blocks)]
            dtype = DTYPES[format]
            return (
                amax.t().reshape(kept[0]),
                quantized.view(dtype).view(x.shape),
                transposed_amax.reshape(kept[1]),
                transposed.view(dtype).t().reshape(x.shape),
            )
    return None


def transpose_quantized(quantized: torch.Tensor, first: int) -> torch.Tensor:
    """Transpose: moves the dims from `first` on to the front. FP8 GEMMs need operands that are contiguous along the contracted dim."""
    transposed_at = quantized.permute(*range(first, quantized.dim()), *range(first))
    if transposed_at.is_contiguous():
        return transposed_at
    sizes = (*quantized.shape[first:], *quantized.shape[:first])
    rows = quantized.reshape(quantized.shape[:first].numel(), -1)
    if quantized.is_cuda and triton is not None and quantized.element_size() == 1:
        return torch.ops.lockstep.transpose_quantized(rows.view(torch.uint8)).view(quantized.dtype).view(sizes)
    if quantized.element_size() == 1:
        return rows.view(torch.uint8).t().contiguous().view(quantized.dtype).view(sizes)
    return rows.t().contiguous().view(sizes)


def scaled_einsum(
    equation: str,
    a: torch.Tensor,
    b: torch.Tensor,
    a_max: torch.Tensor,
    b_max: torch.Tensor,
    formats: Sequence[str],
    dtype: str,
    blocks: Optional[Sequence[Blocks]] = None,
    by: str = "amax",
) -> torch.Tensor:
    """Quantized `einsum`. One FP8 GEMM if the contracted dims come last in both operands and the GPU supports the scaling."""
    by_a, by_b = 1 / _scale(a_max, formats[0], by), 1 / _scale(b_max, formats[1], by)
    ins, out = equation.replace(" ", "").split("->")
    left, right = ins.split(",")
    summed = "".join([d for d in left if d not in out])
    m, n = left[: -len(summed)], right[: -len(summed)]
    if (m + summed, n + summed, m + n) == (left, right, out) and a.is_cuda and a.element_size() == 1:
        rows, columns = (quantized.reshape(quantized.shape[: len(kept_dims)].numel(), -1) for quantized, kept_dims in ((a, m), (b, n)))
        if blocks is not None:
            by_a, by_b = _tiles(a, by_a, len(m), blocks[0]), _tiles(b, by_b, len(n), blocks[1])
        if rows.shape[1] % ROW == 0 and columns.shape[0] % ROW == 0 and _is_supported(by_a, by_b):
            product = _multiply(rows, columns, by_a, by_b, DTYPES[dtype], formats[0] == formats[1] and blocks is None)
            return product.view(*a.shape[: len(m)], *b.shape[: len(n)])
        by_a, by_b = 1 / _scale(a_max, formats[0], by), 1 / _scale(b_max, formats[1], by)
    full = torch.float64 if a.dtype == torch.float64 else torch.float32
    of_a, of_b = (None, None) if blocks is None else blocks
    factors = _scale_blocks(a.to(full), by_a.to(full), of_a), _scale_blocks(b.to(full), by_b.to(full), of_b)
    product = torch.einsum(f"{ins}->{out}", *factors)
    return product if full == torch.float64 else product.to(DTYPES[dtype])


def scaled_grouped_gemm(
    rows: torch.Tensor,
    counts: torch.Tensor,
    w: torch.Tensor,
    rows_max: torch.Tensor,
    w_max: torch.Tensor,
    formats: Sequence[str],
    dtype: str,
    transposed: bool = False,
    blocks: Optional[Sequence[Blocks]] = None,
    by: str = "amax",
) -> torch.Tensor:
    """Quantized `grouped_gemm`. Padding rows are zeroed, since amax covers all rows."""
    by_rows, by_w = 1 / _scale(rows_max, formats[0], by), 1 / _scale(w_max, formats[1], by)
    if rows.is_cuda and rows.element_size() == 1:
        if blocks is None:
            return grouped_mm.gemm_fp8(rows, counts, w, by_rows, by_w, transposed, DTYPES[dtype])
        factors = _dequantize(rows, by_rows, blocks[0]).bfloat16(), _dequantize(w, by_w, blocks[1]).bfloat16()
        return grouped_mm.zero_padding(grouped_mm.gemm(factors[0], counts, factors[1], transposed), counts).to(DTYPES[dtype])
    of_rows, of_w = (None, None) if blocks is None else blocks
    product = grouped_mm.gemm(_dequantize(rows, by_rows, of_rows), counts, _dequantize(w, by_w, of_w), transposed)
    return product if product.dtype == torch.float64 else product.to(DTYPES[dtype])


def scaled_grouped_gemm_weight_grad(
    rows: torch.Tensor,
    drows: torch.Tensor,
    counts: torch.Tensor,
    rows_max: torch.Tensor,
    drows_max: torch.Tensor,
    formats: Sequence[str],
    dtype: str,
    by: str = "amax",
) -> torch.Tensor:
    """Quantized `grouped_gemm_weight_grad`. A GPU multiplies the values as bf16."""
    by_rows, by_drows = 1 / _scale(rows_max, formats[0], by), 1 / _scale(drows_max, formats[1], by)
    if rows.is_cuda and rows.element_size() == 1:
        sums = grouped_mm.weight_grad(rows.bfloat16(), drows.bfloat16(), counts).float() * (by_rows * by_drows)
        return sums.to(DTYPES[dtype])
    sums = grouped_mm.weight_grad(_dequantize(rows, by_rows, None), _dequantize(drows, by_drows, None), counts)
    return sums if sums.dtype == torch.float64 else sums.to(DTYPES[dtype])


def _dequantize(quantized: torch.Tensor, inverse: torch.Tensor, blocks: Optional[Blocks]) -> torch.Tensor:
    """Dequantizes."""
    full = torch.float64 if quantized.dtype == torch.float64 else torch.float32
    return _scale_blocks(quantized.to(full), inverse.to(full), blocks)


def _tiles(quantized: torch.Tensor, scales: torch.Tensor, kept_dims: int, blocks: Blocks) -> Optional[torch.Tensor]:
    """
    Scales in the layout of cuBLAS: per row, or per block of rows, and per BLOCK values of the contracted dim; those per row are
    column-major. None if cuBLAS has no kernel for these blocks.
    """
    sizes = quantized.shape[:kept_dims].numel(), quantized.shape[kept_dims:].numel()
    counts = _counts(quantized.shape, blocks)
    counts = torch.Size(counts[:kept_dims]).numel(), torch.Size(counts[kept_dims:]).numel()
    if counts == (sizes[0], sizes[1] // MX_BLOCK) and sizes[1] % MX_BLOCK == 0:
        return _in_tiles(scales.reshape(counts)) if _multiplies_mx(quantized) else None
    if counts[1] * BLOCK != sizes[1] or counts[0] not in (sizes[0], sizes[0] // BLOCK) or sizes[0] % ROW:
        return None
    table = scales.reshape(counts)
    if counts[0] == sizes[0]:
        return table.t().contiguous().t()
    # Newer releases want a multiple of 4 scales per row.
    return table.contiguous() if counts[1] % 4 == 0 and counts[0] * BLOCK == sizes[0] else None


def _multiplies_mx(quantized: torch.Tensor) -> bool:
    """Blackwell and newer support MX formats; older GPUs multiply dequantized values."""
    return hasattr(torch, "float8_e8m0fnu") and torch.cuda.get_device_capability(quantized.device)[0] >= 10


def _in_tiles(table: torch.Tensor) -> torch.Tensor:
    """
    E8M0 scales in the swizzled layout of cuBLAS: padded tiles of 128 rows and 4 columns, in which row r and column c are at
    16 (r % 32) + 4 (r // 32) + c.
    """
    rows, columns = table.shape
    down, across = -(-rows // 128), -(-columns // 4)
    full = torch.nn.functional.pad(table.float(), (0, 4 * across - columns, 0, 128 * down - rows), value=1.0)
    tiles = full.view(down, 4, 32, across, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(-1).to(torch.float8_e8m0fnu)


def _is_supported(by_rows: Optional[torch.Tensor], by_columns: Optional[torch.Tensor]) -> bool:
    """GPUs support square blocks in at most one operand."""
    return by_rows is not None and by_columns is not None


def _multiply(rows, columns, by_rows, by_columns, dtype: torch.dtype, forward: bool) -> torch.Tensor:
    """Gradients accumulate in full precision, since they sum many small values; the forward uses fast accumulation."""
    return torch._scaled_mm(
        rows, columns.t(), scale_a=by_rows, scale_b=by_columns.t(), out_dtype=dtype, use_fast_accum=forward
    )


def _transpose(rows: torch.Tensor) -> torch.Tensor:
    out = _transpose_like(rows)
    height, width = rows.shape
    _transpose_kernel[(triton.cdiv(height, TILE), triton.cdiv(width, TILE))](rows.contiguous(), out, height, width, TILE=TILE)
    return out


def _transpose_like(rows: torch.Tensor) -> torch.Tensor:
    return rows.new_empty((rows.shape[1], rows.shape[0]))


def _quantize_tiles(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    result = _quantize_like(x)
    height, width = x.shape
    _quantize_kernel[(height // BLOCK, width // BLOCK)](x, *result, height, width, BLOCK=BLOCK, MIN_AMAX=MIN_AMAX, num_warps=4)
    return result


def _quantize_like(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    height, width = x.shape
    quantized = x.new_empty((height, width), dtype=torch.uint8), x.new_empty((width, height), dtype=torch.uint8)
    rows = x.new_empty((width // BLOCK, height), dtype=torch.float32)
    columns = x.new_empty((height // BLOCK, width), dtype=torch.float32)
    return quantized[0], rows, quantized[1], columns


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _transpose_kernel(x, out, height, width, TILE: tl.constexpr):
        row = tl.program_id(0) * TILE + tl.arange(0, TILE)
        column = tl.program_id(1) * TILE + tl.arange(0, TILE)
        inside = (row[:, None] < height) & (column[None, :] < width)
        tile = tl.load(x + row[:, None].to(tl.int64) * width + column[None, :], mask=inside)
        transpose_quantized = (row[None, :] < height) & (column[:, None] < width)
        tl.store(out + column[:, None].to(tl.int64) * height + row[None, :], tl.trans(tile), mask=transpose_quantized)

    @triton.jit
    def _power_of_two_scale(amax):
        """`scale` for E4M3."""
        bits = amax.to(tl.int32, bitcast=True)
        exponent = 254 + 8 - (bits >> 23) - ((bits & 0x7FFFFF) > 0x600000).to(tl.int32)
        return tl.where(bits >= 0x7F800000, 0, exponent << 23).to(tl.float32, bitcast=True)

    @triton.jit
    def _saturate(x):
        """Clamps to the range of the format; NaN stays NaN."""
        x = tl.where(x > 448.0, 448.0, x)
        return tl.where(x < -448.0, -448.0, x).to(tl.float8e4nv).to(tl.uint8, bitcast=True)

    @triton.jit
    def _quantize_kernel(x, quantized, rows, transpose_quantized, columns, height, width, BLOCK: tl.constexpr, MIN_AMAX: tl.constexpr):
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        at = row[:, None].to(tl.int64) * width + column[None, :]
        tile = tl.load(x + at).to(tl.float32)
        size = tl.abs(tile)
        in_row, in_column = tl.max(size, 1), tl.max(size, 0)
        tl.store(rows + tl.program_id(1).to(tl.int64) * height + row, in_row)
        tl.store(columns + tl.program_id(0).to(tl.int64) * width + column, in_column)
        by_row, by_column = _power_of_two_scale(tl.maximum(in_row, MIN_AMAX)), _power_of_two_scale(tl.maximum(in_column, MIN_AMAX))
        tl.store(quantized + at, _saturate(tile * by_row[:, None]))
        transposed_at = column[:, None].to(tl.int64) * height + row[None, :]
        tl.store(transpose_quantized + transposed_at, tl.trans(_saturate(tile * by_column[None, :])))

    torch.library.custom_op("lockstep::transpose_quantized", _transpose, mutates_args=()).register_fake(_transpose_like)
    torch.library.custom_op("lockstep::quantize_with_amax", _quantize_tiles, mutates_args=()).register_fake(_quantize_like)
else:
    triton = None
