"""
Orthogonalization for Muon by Newton-Schulz iteration, batched over matrices of one shape. Two of the three matmuls of an iteration are
symmetric: a kernel that computes half of such a matrix and mirrors it is used if it is faster on this GPU.
"""
import functools
import math
from typing import Callable, Dict, Iterator, List, Sequence, Tuple, Union

import torch

from . import gemm

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

A, B, C = 3.4445, -4.7750, 2.0315

# Elements of matrices that are orthogonalized at once.
MAX_ELEMENTS = 1 << 27

# Configurations of the kernel for symmetric matmuls: block size, depth, pipeline stages and warps.
CONFIGS = [(128, 64, 4, 8), (128, 64, 4, 4), (128, 64, 3, 8), (128, 128, 3, 8)]


class MuonMomenta:
    """Momentum of many parameters, computed on demand: all of them at once would take 4 bytes per element."""

    def __init__(self, made: List[Callable], singles: List[Callable], like: torch.Tensor, normalize: Callable):
        self.writers, self.singles, self.like, self.normalize = made, singles, like, normalize

    def __iter__(self) -> Iterator[torch.Tensor]:
        """One by one, for distributed Muon: other ranks orthogonalize some of them."""
        return (one() for one in self.singles)

    def stacked(self, first: int, count: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A batch of `count` parameters: matrices of Frobenius norm 1, transposed if they are tall."""
        each, rows, columns = sizes
        tall = rows > columns
        stack = self.like.new_empty((count * each, min(rows, columns), max(rows, columns)), dtype=dtype)
        squares = [
            made(place.mT if tall else place) for made, place in zip(self.writers[first:], stack.split(each))
        ]
        self.normalize(stack, torch.cat(squares).view(-1, 1, 1))
        return stack


def newton_schulz(
    x: Union[torch.Tensor, MuonMomenta], sizes: Sequence[int], steps: int, bf16: bool = False,
) -> Union[torch.Tensor, Iterator[torch.Tensor]]:
    """
    Orthogonalizes: the singular values of the result are all near 1. `bf16`: in bf16 on a GPU, which is accurate enough, since the
    iteration does not converge to 1 exactly.
    """
    each, rows, columns = (1, *sizes)[-3:]
    if isinstance(x, MuonMomenta):
        return _in_batches(x, (each, rows, columns), steps, bf16)
    made = x.reshape(each, rows, columns)
    tall = rows > columns
    made = made.mT if tall else made
    made = made / torch.linalg.matrix_norm(made, keepdim=True).clamp(min=1e-7)
    made = _iterate(made.to(_dtype(x, bf16)), steps)
    return (made.mT if tall else made).to(x.dtype).reshape(x.shape)


def stack(tensors: Sequence[torch.Tensor], slots: int) -> torch.Tensor:
    """One flattened tensor per row; unused rows are zero."""
    made = tensors[0].new_zeros((slots, tensors[0].numel()))
    for line, x in zip(made, tensors):
        line.copy_(x.reshape(-1))
    return made


def unstack(lines: torch.Tensor, count: int, sizes: Sequence[int]) -> Tuple[torch.Tensor, ...]:
    return tuple([line.reshape(sizes) for line in lines[:count]])


def newton_schulz_flat(
    x: torch.Tensor, sizes: Sequence[int], blocks: Sequence[int], matrix: Sequence[int], steps: int, bf16: bool = False,
) -> torch.Tensor:
    """`newton_schulz` of flattened tensors that consist of padded blocks: `blocks` has the number of blocks along each dim."""
    count = math.prod(blocks)
    block = [size // options for size, options in zip(sizes, blocks)]
    block_numel = math.prod(block)
    dims = len(sizes)
    # Dims of blocks come before those in a block; each pair becomes one dim.
    interleaved = [0, *[1 + d + dims * inner for d in range(dims) for inner in (0, 1)]]
    whole = x.view(x.size(0), count, -1)[:, :, :block_numel].reshape(-1, *blocks, *block).permute(interleaved)
    made = newton_schulz(whole.reshape(-1, *matrix), (whole.numel() // math.prod(matrix), *matrix), steps, bf16)
    inverse = sorted(range(len(interleaved)), key=lambda i: interleaved[i])
    lines = made.view(whole.shape).permute(inverse).reshape(x.size(0), count, block_numel)
    return torch.nn.functional.pad(lines, (0, x.size(1) // count - block_numel)).reshape(x.shape)


def _in_batches(momenta: MuonMomenta, sizes, steps: int, bf16: bool) -> Iterator[torch.Tensor]:
    """The update direction of each parameter, computed in batches."""
    each, rows, columns = sizes
    at_once = max(1, MAX_ELEMENTS // math.prod(sizes))
    for first in range(0, len(momenta.writers), at_once):
        count = min(at_once, len(momenta.writers) - first)
        made = _iterate(momenta.stacked(first, count, sizes, _dtype(momenta.like, bf16)), steps)
        yield from (x.mT if rows > columns else x for x in made.split(each))


def _dtype(x: torch.Tensor, bf16: bool) -> torch.dtype:
    if x.dtype == torch.float64:
        return x.dtype
    return torch.bfloat16 if bf16 and x.is_cuda else torch.float32


def _iterate(x: torch.Tensor, steps: int) -> torch.Tensor:
    step = _fastest(x) if x.dtype == torch.bfloat16 else _step
    for _ in range(steps):
        x = step(x)
    return x


def _step(x: torch.Tensor) -> torch.Tensor:
    square = x @ x.mT
    return torch.baddbmm(x, torch.baddbmm(square, square, square, beta=B, alpha=C), x, beta=A)


def _bf16_step(x: torch.Tensor) -> torch.Tensor:
    """The same in half precision. Adding A to a diagonal is cheaper than adding A * x to a matmul."""
    square = x @ x.mT
    factor = torch.baddbmm(square, square, square, beta=B, alpha=C)
    factor.diagonal(dim1=-2, dim2=-1).add_(A)
    return factor @ x


def _symmetric_step(x: torch.Tensor, shape: Tuple[int, int, int, int]) -> torch.Tensor:
    square = _symmetric(x, None, shape)
    return _symmetric(square, square, shape) @ x


fastest_steps: Dict[Tuple, Callable] = {}


def _fastest(x: torch.Tensor) -> Callable:
    """The fastest iteration for matrices of this shape, timed on these, unless runs must be bitwise reproducible."""
    if tuple(x.shape) not in fastest_steps:
        options: List[Callable] = [_bf16_step]
        if triton is not None and gemm.autotune:
            configs = [shape for shape in CONFIGS if x.shape[1] % shape[0] == 0 and math.gcd(x.shape[1], x.shape[2]) % shape[1] == 0]
            options += [functools.partial(_symmetric_step, shape=shape) for shape in configs]
        best = gemm.fastest([functools.partial(option, x) for option in options]) if len(options) > 1 else 0
        fastest_steps[tuple(x.shape)] = options[best]
    return fastest_steps[tuple(x.shape)]


def _symmetric(x: torch.Tensor, add, shape: Tuple[int, int, int, int]) -> torch.Tensor:
    """x x', or C * x x' + B * plus + A * I."""
    block, depth, stages, warps = shape
    count, rows, columns = x.shape
    out = x.new_empty((count, rows, rows))
    blocks = rows // block
    _symmetric_kernel[(blocks * (blocks + 1) // 2, count)](
        x, out if add is None else add, out, rows, columns, x.stride(0), *((1.0, 0.0, 0.0) if add is None else (C, B, A)),
        ADD=add is not None, BLOCK=block, DEPTH=depth, num_stages=stages, num_warps=warps,
    )
    return out


if triton is not None:

    @triton.jit
    def _symmetric_kernel(
        x, add, out, rows, columns, matrix_stride, scale, add_scale, diagonal, ADD: tl.constexpr, BLOCK: tl.constexpr,
        DEPTH: tl.constexpr,
    ):
        # Blocks on and below the diagonal, row by row.
        number = tl.program_id(0)
        down = ((tl.sqrt(8.0 * number + 1.0) - 1.0) / 2.0).to(tl.int32)
        down = tl.where(down * (down + 1) // 2 > number, down - 1, down)
        down = tl.where((down + 1) * (down + 2) // 2 <= number, down + 1, down)
        across = number - down * (down + 1) // 2
        matrix = tl.program_id(1).to(tl.int64)
        row = down * BLOCK + tl.arange(0, BLOCK)
        column = across * BLOCK + tl.arange(0, BLOCK)
        along = tl.arange(0, DEPTH)
        left = x + matrix * matrix_stride + row[:, None] * columns + along[None, :]
        right = x + matrix * matrix_stride + column[None, :] * columns + along[:, None]
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for _ in range(0, columns, DEPTH):
            total = tl.dot(tl.load(left), tl.load(right), total)
            left += DEPTH
            right += DEPTH
        total *= scale
        place = matrix * rows * rows + row[:, None] * rows + column[None, :]
        if ADD:
            total += add_scale * tl.load(add + place).to(tl.float32)
            total += tl.where(row[:, None] == column[None, :], diagonal, 0.0)
        value = total.to(out.dtype.element_ty)
        tl.store(out + place, value)
        if down != across:
            mirrored = matrix * rows * rows + column[:, None] * rows + row[None, :]
            tl.store(out + mirrored, tl.trans(value))
