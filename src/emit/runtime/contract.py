"""Einsum by named dims: "b s e, e f -> b s f" is a matmul because e is missing from the result."""
import math
from typing import Optional, Sequence, Tuple

import torch

from . import products
from .dtypes import DTYPES

def contract(
    equation: str, a: torch.Tensor, b: torch.Tensor, dtype: Optional[str] = None, plus: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """One matmul if the equation allows it. `dtype` is the dtype of the result, by default that of the operands; `plus` is added to it."""
    ins, out = equation.replace(" ", "").split("->")
    left, right = ins.split(",")
    if dtype is not None and a.dtype != torch.float64:
        product = _matmul(left, right, out, a, b, DTYPES[dtype]) if a.is_cuda else None
        return torch.einsum(f"{ins}->{out}", a.to(DTYPES[dtype]), b.to(DTYPES[dtype])) if product is None else product
    product = _matmul(left, right, out, a, b, plus=plus)
    if product is not None:
        return product
    product = torch.einsum(f"{ins}->{out}", a, b)
    return product if plus is None else plus + product


def beside(*parts: torch.Tensor, after: int) -> torch.Tensor:
    """Concatenation along one dim, into which each operand's dims after the first `after` are flattened."""
    return torch.cat([part.flatten(after) for part in parts], after)


def apart(joined: torch.Tensor, *sizes: Sequence[int]) -> Tuple[torch.Tensor, ...]:
    """Splits the last dim into tensors of these sizes, as views."""
    parts = joined.split([math.prod(each) for each in sizes], -1)
    return tuple([part.unflatten(-1, each) for part, each in zip(parts, sizes)])


def _matmul(
    left: str, right: str, out: str, a, b, dtype: Optional[torch.dtype] = None, plus: Optional[torch.Tensor] = None
) -> Optional[torch.Tensor]:
    """None unless the dims of a, those of b and the contracted dims are each contiguous, so that one matmul suffices."""
    k = "".join(d for d in left if d not in out)
    m = "".join(d for d in out if d in left)
    n = "".join(d for d in out if d in right)
    if set(left) & set(right) != set(k) or out not in (m + n, n + m):
        return None
    if out != m + n:
        return _matmul(right, left, out, b, a, dtype, plus)
    if left not in (m + k, k + m) or right not in (k + n, n + k):
        return None
    sizes = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}
    # A list: at a generator torch.compile would break the graph, and fuse less.
    depth = math.prod([sizes[d] for d in k])
    rows = a.reshape(-1, depth) if left == m + k else a.reshape(depth, -1).t()
    columns = b.reshape(depth, -1) if right == k + n else b.reshape(-1, depth).t()
    added = None if plus is None else plus.reshape(rows.shape[0], -1)
    return products.mm(rows, columns, dtype, added).reshape([sizes[d] for d in out])
