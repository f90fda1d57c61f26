"""Rotary position embeddings (RoPE, Su et al., 2021). The cos/sin table is computed once, in f64."""
import math
from typing import Dict, Optional, Sequence, Tuple

import torch

from . import kernels
from .einsum import split
from .optimizer import upcast
from .shards import Start, positions


def rope(
    x: torch.Tensor, theta: float, scaling: Tuple = (), first: Start = 0, inverse: bool = False,
    doc_positions: Optional[torch.Tensor] = None, length: int = 0,
) -> torch.Tensor:
    """
    x is [batch, seq, ..., headDim]; elements i and i + headDim/2 are rotated by position * frequency i (Llama's half-split layout).
    `doc_positions` [batch, seq] are positions within documents, all below `length`; by default positions in the sequence, from `first` on.
    """
    half = x.shape[-1] // 2
    full = upcast(x)
    if doc_positions is None:
        cos_sin = _cos_sin(x.shape[1], half, theta, scaling, first, full.dtype, x.device).unsqueeze(1)
    else:
        cos_sin = _cos_sin(length, half, theta, scaling, 0, full.dtype, x.device)[:, doc_positions]
    cos, sin = cos_sin.reshape(2, -1, x.shape[1], *([1] * (x.dim() - 3)), half)
    if inverse:
        sin = -sin
    a, b = full[..., :half], full[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def rotary_cat(
    tensors: Sequence[torch.Tensor], rotated: Sequence[bool], theta: float, scaling: Tuple = (), first: Start = 0, inverse: bool = False,
    doc_positions: Optional[torch.Tensor] = None, length: int = 0,
) -> torch.Tensor:
    """Concatenates tensors [batch, seq, ..., headDim], some of them rotated, into [batch, seq, all]."""
    half = tensors[0].shape[-1] // 2
    if doc_positions is None and kernels.can_rotate(tensors, half):
        cos_sin = _cos_sin(tensors[0].shape[1], half, theta, scaling, first, torch.float32, tensors[0].device)
        return torch.ops.lockstep.rotary_cat([x.flatten(2, -2) for x in tensors], list(rotated), cos_sin, inverse)
    options = dict(theta=theta, scaling=scaling, first=first, inverse=inverse, doc_positions=doc_positions, length=length)
    return torch.cat([(rope(x, **options) if cos_sin else x).flatten(2) for x, cos_sin in zip(tensors, rotated)], 2)


def split_rotary(
    x: torch.Tensor, sizes: Sequence[Sequence[int]], rotated: int, theta: float, scaling: Tuple = (), first: Start = 0,
    doc_positions: Optional[torch.Tensor] = None, length: int = 0,
) -> Tuple[torch.Tensor, ...]:
    """Splits [batch, seq, all] into tensors of these sizes, and rotates the first `rotated`, in place if possible."""
    half, tensors = sizes[0][-1] // 2, split(x, *sizes)
    if doc_positions is None and x.is_contiguous() and kernels.can_rotate(tensors[:rotated], half):
        cos_sin = _cos_sin(x.shape[1], half, theta, scaling, first, torch.float32, x.device)
        heads = sum([math.prod(each[:-1]) for each in sizes[:rotated]])
        torch.ops.lockstep.rotate_(x, heads, 2 * half, cos_sin)
        return split(x, *sizes)
    options = dict(theta=theta, scaling=scaling, first=first, doc_positions=doc_positions, length=length)
    # Views of unrotated tensors would keep the joined one alive.
    return tuple([rope(tensor, **options) if i < rotated else tensor.contiguous() for i, tensor in enumerate(tensors)])


def constant(function):
    """Marks a function that torch.compile evaluates once. Set by hand: the decorator would import the compiler."""
    function._dynamo_marked_constant = True
    return function


TABLES: Dict[Tuple, torch.Tensor] = {}


@constant
def _cos_sin(length: int, half: int, theta: float, scaling: Tuple, first: Start, dtype: torch.dtype, device) -> torch.Tensor:
    """[cos or sin, position, i]"""
    key = (length, half, theta, scaling, first, dtype, str(device))
    if key not in TABLES:
        TABLES[key] = _compute_cos_sin(length, half, theta, scaling, first, device).to(dtype)
    return TABLES[key]


def _compute_cos_sin(length: int, half: int, theta: float, scaling: Tuple, first: Start, device) -> torch.Tensor:
    position = positions(first, length, device).double()
    frequency = theta ** (torch.arange(half, device=device, dtype=torch.float64) * (-1.0 / half))
    mscale = 1.0
    if scaling:
        kind, factor, *numbers = scaling
        unscaled = UNSCALED[kind](frequency, theta, *numbers)
        frequency = unscaled * frequency + (1 - unscaled) * frequency / factor
        mscale = _mscale(factor, numbers[3]) / _mscale(factor, numbers[4]) if kind == "yarn" else 1.0
    angle = position[:, None] * frequency
    return mscale * torch.stack((torch.cos(angle), torch.sin(angle)))


def _linear(frequency, theta):
    return torch.zeros_like(frequency)


def _llama3(frequency, theta, low, high, original):
    """Llama 3: by the number of rotations over the original context length."""
    return ((original * frequency / (2 * math.pi) - low) / (high - low)).clamp(0, 1)


def _yarn(frequency, theta, original, fast, slow, scale, scale_all):
    """YaRN (Peng et al., 2023): a ramp over the pairs that rotate `fast` to `slow` times in the original context."""
    half = frequency.numel()
    dim_of = lambda cos_sin: half * math.log(original / (cos_sin * 2 * math.pi)) / math.log(theta)
    first, last = max(math.floor(dim_of(fast)), 0), min(math.ceil(dim_of(slow)), 2 * half - 1)
    index = torch.arange(half, dtype=frequency.dtype, device=frequency.device)
    return 1 - ((index - first) / (last - first if last != first else 0.001)).clamp(0, 1)


UNSCALED = {"linear": _linear, "llama3": _llama3, "yarn": _yarn}


def _mscale(factor: float, m: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1
