"""Rotary position embeddings (RoPE, Su et al., 2021). The cos/sin table is computed once, in f64."""
import math
from typing import Dict, Optional, Sequence, Tuple

import torch

from . import kernels
from .contract import apart
from .optimizer import wide
from .parts import Start, positions


def rope(
    x: torch.Tensor, theta: float, scaling: Tuple = (), first: Start = 0, inverse: bool = False,
    places: Optional[torch.Tensor] = None, length: int = 0,
) -> torch.Tensor:
    """
    x is [batch, seq, ..., headDim]; elements i and i + headDim/2 are rotated by position * frequency i (Llama's half-split layout).
    `places` [batch, seq] are positions within documents, all below `length`; by default positions in the sequence, from `first` on.
    """
    half = x.shape[-1] // 2
    full = wide(x)
    if places is None:
        turns = _turns(x.shape[1], half, theta, scaling, first, full.dtype, x.device).unsqueeze(1)
    else:
        turns = _turns(length, half, theta, scaling, 0, full.dtype, x.device)[:, places]
    cos, sin = turns.reshape(2, -1, x.shape[1], *([1] * (x.dim() - 3)), half)
    if inverse:
        sin = -sin
    a, b = full[..., :half], full[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def turned_beside(
    parts: Sequence[torch.Tensor], turned: Sequence[bool], theta: float, scaling: Tuple = (), first: Start = 0, inverse: bool = False,
    places: Optional[torch.Tensor] = None, length: int = 0,
) -> torch.Tensor:
    """Concatenates tensors [batch, seq, ..., headDim], some of them rotated, into [batch, seq, all]."""
    half = parts[0].shape[-1] // 2
    if places is None and kernels.can_turn(parts, half):
        turns = _turns(parts[0].shape[1], half, theta, scaling, first, torch.float32, parts[0].device)
        return torch.ops.lockstep.turned_beside([x.flatten(2, -2) for x in parts], list(turned), turns, inverse)
    how = dict(theta=theta, scaling=scaling, first=first, inverse=inverse, places=places, length=length)
    return torch.cat([(rope(x, **how) if turns else x).flatten(2) for x, turns in zip(parts, turned)], 2)


def turned_apart(
    joined: torch.Tensor, sizes: Sequence[Sequence[int]], turned: int, theta: float, scaling: Tuple = (), first: Start = 0,
    places: Optional[torch.Tensor] = None, length: int = 0,
) -> Tuple[torch.Tensor, ...]:
    """Splits [batch, seq, all] into tensors of these sizes, and rotates the first `turned`, in place if possible."""
    half, parts = sizes[0][-1] // 2, apart(joined, *sizes)
    if places is None and joined.is_contiguous() and kernels.can_turn(parts[:turned], half):
        turns = _turns(joined.shape[1], half, theta, scaling, first, torch.float32, joined.device)
        heads = sum([math.prod(each[:-1]) for each in sizes[:turned]])
        torch.ops.lockstep.turn_(joined, heads, 2 * half, turns)
        return apart(joined, *sizes)
    how = dict(theta=theta, scaling=scaling, first=first, places=places, length=length)
    # Views of unrotated tensors would keep the joined one alive.
    return tuple([rope(part, **how) if i < turned else part.contiguous() for i, part in enumerate(parts)])


def constant(function):
    """Marks a function that torch.compile evaluates once. Set by hand: the decorator would import the compiler."""
    function._dynamo_marked_constant = True
    return function


TURNS: Dict[Tuple, torch.Tensor] = {}


@constant
def _turns(length: int, half: int, theta: float, scaling: Tuple, first: Start, dtype: torch.dtype, device) -> torch.Tensor:
    """[cos or sin, position, i]"""
    key = (length, half, theta, scaling, first, dtype, str(device))
    if key not in TURNS:
        TURNS[key] = _turns_anew(length, half, theta, scaling, first, device).to(dtype)
    return TURNS[key]


def _turns_anew(length: int, half: int, theta: float, scaling: Tuple, first: Start, device) -> torch.Tensor:
    position = positions(first, length, device).double()
    frequency = theta ** (torch.arange(half, device=device, dtype=torch.float64) * (-1.0 / half))
    growth = 1.0
    if scaling:
        kind, factor, *numbers = scaling
        kept = KEPT[kind](frequency, theta, *numbers)
        frequency = kept * frequency + (1 - kept) * frequency / factor
        growth = _growth(factor, numbers[3]) / _growth(factor, numbers[4]) if kind == "yarn" else 1.0
    angle = position[:, None] * frequency
    return growth * torch.stack((torch.cos(angle), torch.sin(angle)))


def _kept_linear(frequency, theta):
    return torch.zeros_like(frequency)


def _kept_llama3(frequency, theta, low, high, original):
    """Llama 3: by the number of rotations over the original context length."""
    return ((original * frequency / (2 * math.pi) - low) / (high - low)).clamp(0, 1)


def _kept_yarn(frequency, theta, original, fast, slow, scale, scale_all):
    """YaRN (Peng et al., 2023): a ramp over the pairs that rotate `fast` to `slow` times in the original context."""
    half = frequency.numel()
    place = lambda turns: half * math.log(original / (turns * 2 * math.pi)) / math.log(theta)
    first, last = max(math.floor(place(fast)), 0), min(math.ceil(place(slow)), 2 * half - 1)
    index = torch.arange(half, dtype=frequency.dtype, device=frequency.device)
    return 1 - ((index - first) / (last - first if last != first else 0.001)).clamp(0, 1)


KEPT = {"linear": _kept_linear, "llama3": _kept_llama3, "yarn": _kept_yarn}


def _growth(factor: float, m: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1
