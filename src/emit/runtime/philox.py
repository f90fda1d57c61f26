"""
Counter-based RNG, Philox4x32-10 (Salmon et al., SC11): a number depends only on its key and its index, so every plan, and the engine
that wrote this program, has the same initial weights and dropout masks.
"""
import math
from functools import lru_cache
from typing import Optional, Sequence, Union

import torch

from . import shards

WORD = 0xFFFFFFFF

Step = Union[int, torch.Tensor]


def philox(c0, c1, c2, c3, k0: int, k1: int):
    """On integers or int64 tensors: a multiplication that overflows keeps the low 64 bits, which are those that are used."""
    for _ in range(10):
        p0 = 0xD2511F53 * c0
        p1 = 0xCD9E8D57 * c2
        c0, c1, c2, c3 = ((p1 >> 32) & WORD) ^ c1 ^ k0, p1 & WORD, ((p0 >> 32) & WORD) ^ c3 ^ k1, p0 & WORD
        k0 = (k0 + 0x9E3779B9) & WORD
        k1 = (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


@lru_cache(maxsize=None)
def hash_name(name: str) -> int:
    """FNV-1a over UTF-16 units: a 32-bit key for a name."""
    units = name.encode("utf-16-le", "surrogatepass")
    value = 0x811C9DC5
    for low, high in zip(units[::2], units[1::2]):
        value = ((value ^ (low | high << 8)) * 0x01000193) & WORD
    return value


def uniform(index: torch.Tensor, seed: int, name: str, step: Step = 0) -> torch.Tensor:
    """Uniform samples in [0, 1), f64, one per index."""
    words = philox(index & WORD, index >> 32, step, 0, seed & WORD, hash_name(name))
    return words[0].double() / 2.0**32


def uniform_at(index: int, seed: int, name: str, step: int = 0) -> float:
    """`uniform` of one index as a Python float: a tensor of one element takes thirty times as long."""
    return philox(index & WORD, index >> 32, step, 0, seed & WORD, hash_name(name))[0] / 2.0**32


def rounding_bits(index: torch.Tensor, seed: int, name: str, step: Step = 0) -> torch.Tensor:
    """16-bit random samples, one per index, for stochastic rounding."""
    return (words(index, step, seed & WORD, hash_name(name)) & 0xFFFF).int()


def words(index: torch.Tensor, step: Step, k0: int, k1: int) -> torch.Tensor:
    return philox(index & WORD, index >> 32, step, 2, k0, k1)[0]


def normal(index: torch.Tensor, seed: int, name: str, step: int = 0) -> torch.Tensor:
    """Standard normal samples (Box-Muller), f64, rounded to f32: every precision starts from the same weights."""
    a, b, _, _ = philox(index & WORD, index >> 32, step, 1, seed & WORD, hash_name(name))
    radius = torch.sqrt(-2 * torch.log((a.double() + 1) / 2.0**32))
    return (radius * torch.cos(2 * math.pi * b.double() / 2.0**32)).float().double()


def grid(
    starts: Sequence[shards.Start], sizes: Sequence[int], full_sizes: Sequence[int], device: torch.device,
    token_order: Optional[torch.Tensor] = None, permuted_dims: Sequence[int] = (),
) -> torch.Tensor:
    """
    Row-major index, in a full tensor of sizes `full_sizes`, of every element of the shard at `starts`. Along some dims elements are
    permuted: `token_order` [batch, slots] is the original index; the batch is the first dim.
    """
    index = torch.zeros((), dtype=torch.int64, device=device)
    for dim, (start, size, whole) in enumerate(zip(starts, sizes, full_sizes)):
        at = shards.positions(start, size, device)
        if dim in permuted_dims and token_order is not None:
            at = token_order[:, at].long().reshape(-1, *[1] * (dim - 1), size)
        index = index.unsqueeze(-1) * whole + at
    return index


def permutation(index: int, n: int, seed: int, name: str, step: int) -> int:
    """A random permutation without a table: a Feistel network over a square a little larger than n."""
    side = 2 ** max(1, math.ceil(math.log2(n) / 2))
    key = hash_name(name)
    while True:
        left, right = divmod(index, side)
        for round_index in range(6):
            word = philox(right, step, round_index, 2, seed & WORD, key)[0]
            left, right = right, (left + word % side) % side
        index = left * side + right
        if index < n:
            return index
