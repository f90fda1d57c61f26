"""Einsum by named dims: "b s e, e f -> b s f" is a matmul because e is missing from the result."""
import math
from typing import Optional, Sequence, Tuple

import torch

from . import gemm
from .dtypes import DTYPES


def einsum(
    equation: str, a: torch.Tensor, b: torch.Tensor, dtype: Optional[str] = None, add: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """One matmul if the equation allows it. `dtype` is the dtype of the result, by default that of the operands; `add` is added to it."""
    operands, out = equation.replace(" ", "").split("->")
    left, right = operands.split(",")
    if dtype is not None and a.dtype != torch.float64:
        product = _matmul(left, right, out, a, b, DTYPES[dtype]) if a.is_cuda else None
        return torch.einsum(f"{operands}->{out}", a.to(DTYPES[dtype]), b.to(DTYPES[dtype])) if product is None else product
    product = _matmul(left, right, out, a, b, add=add)
    if product is not None:
        return product
    product = torch.einsum(f"{operands}->{out}", a, b)
    return product if add is None else add + product


def cat(*pieces: torch.Tensor, start_dim: int) -> torch.Tensor:
    """Concatenation along one dim, into which each operand's dims from `start_dim` on are flattened."""
    return torch.cat([piece.flatten(start_dim) for piece in pieces], start_dim)


def split(x: torch.Tensor, *sizes: Sequence[int]) -> Tuple[torch.Tensor, ...]:
    """Splits the last dim into tensors of these sizes, as views."""
    pieces = x.split([math.prod(shape) for shape in sizes], -1)
    return tuple([piece.unflatten(-1, shape) for piece, shape in zip(pieces, sizes)])


def _matmul(
    left: str, right: str, out: str, a, b, dtype: Optional[torch.dtype] = None, add: Optional[torch.Tensor] = None
) -> Optional[torch.Tensor]:
    """None unless the dims of a, those of b and the contracted dims are each contiguous, so that one matmul suffices."""
    k = "".join(d for d in left if d not in out)
    m = "".join(d for d in out if d in left)
    n = "".join(d for d in out if d in right)
    if set(left) & set(right) != set(k) or out not in (m + n, n + m):
        return None
    if out != m + n:
        return _matmul(right, left, out, b, a, dtype, add)
    if left not in (m + k, k + m) or right not in (k + n, n + k):
        return None
    sizes = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}
    # A list: at a generator torch.compile would break the graph, and fuse less.
    inner = math.prod([sizes[d] for d in k])
    rows = a.reshape(-1, inner) if left == m + k else a.reshape(inner, -1).t()
    columns = b.reshape(inner, -1) if right == k + n else b.reshape(-1, inner).t()
    add_rows = None if add is None else add.reshape(rows.shape[0], -1)
    return gemm.mm(rows, columns, dtype, add_rows).reshape([sizes[d] for d in out])
