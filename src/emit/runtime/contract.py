"""Sums of products by letters, as in einsum: "b s e, e f -> b s f" is a matmul because e is missing from the result."""
import math
from typing import Optional

import torch

from . import products
from .dtypes import DTYPES

# torch.mm that sums bf16 into f32 and leaves it there.
MM_HAS_OUT_DTYPE = "dtype" in torch.ops.aten.mm.overloads()


def contract(equation: str, a: torch.Tensor, b: torch.Tensor, dtype: Optional[str] = None) -> torch.Tensor:
    """One matmul wherever it is one. `dtype` is what comes out, where that is not what goes in."""
    ins, out = equation.replace(" ", "").split("->")
    left, right = ins.split(",")
    if dtype is not None and a.dtype != torch.float64:
        return _wider(left, right, out, a, b, DTYPES[dtype])
    product = _matmul(left, right, out, a, b)
    return torch.einsum(f"{ins}->{out}", a, b) if product is None else product


def _wider(left: str, right: str, out: str, a, b, dtype: torch.dtype) -> torch.Tensor:
    """Half precision in, full precision out: the sum is rounded once (by older releases on a GPU twice)."""
    product = _matmul(left, right, out, a, b, dtype if MM_HAS_OUT_DTYPE else None) if a.is_cuda else None
    if product is None:
        product = torch.einsum(f"{left},{right}->{out}", a.to(dtype), b.to(dtype))
    return product.to(dtype)


def _matmul(left: str, right: str, out: str, a, b, dtype: Optional[torch.dtype] = None) -> Optional[torch.Tensor]:
    """None unless the dims of a and those of b stand side by side in out, and what is summed in both."""
    k = "".join(d for d in left if d not in out)
    m = "".join(d for d in out if d in left)
    n = "".join(d for d in out if d in right)
    if set(left) & set(right) != set(k) or out not in (m + n, n + m):
        return None
    if out != m + n:
        return _matmul(right, left, out, b, a, dtype)
    if left not in (m + k, k + m) or right not in (k + n, n + k):
        return None
    sizes = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}
    # A list: at a generator torch.compile would cut the segment in two, and fuse less.
    depth = math.prod([sizes[d] for d in k])
    rows = a.reshape(-1, depth) if left == m + k else a.reshape(depth, -1).t()
    columns = b.reshape(depth, -1) if right == k + n else b.reshape(-1, depth).t()
    return products.mm(rows, columns, dtype).reshape([sizes[d] for d in out])
