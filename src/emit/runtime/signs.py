"""
Sign compression (1-bit Adam, Tang et al., 2021): 8 signs per byte, lowest bit first, set if negative. The scale is the RMS of a shard,
or of the full buffer, which every shard then repeats. Padding does not count in it, and unpacks to 0.
"""
from typing import Optional, Sequence, Tuple

import torch

from .dtypes import DTYPES


def blend_(grad: torch.Tensor, m: torch.Tensor, beta1: float, ranks: int) -> torch.Tensor:
    """The rank's contribution to Adam's next first moment, before the sum over ranks."""
    return grad.mul_(1 - beta1).add_(m, alpha=beta1 / ranks)


def pack_signs(
    tensors: Sequence[torch.Tensor], parts: int, whole: bool, count: Optional[int] = None, apart: bool = False
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Signs and scales of several tensors, concatenated; stacked if `apart`."""
    made = [_pack(x.reshape(-1), parts, whole, count) for x in tensors]
    beside = torch.stack if apart else torch.cat
    return beside([codes for codes, _ in made]), beside([units for _, units in made])


def _pack(line: torch.Tensor, parts: int, whole: bool, count: Optional[int]) -> Tuple[torch.Tensor, torch.Tensor]:
    wide = line if line.dtype == torch.float64 else line.float()
    there = line.numel() if count is None else count
    part = -(-line.numel() // parts)
    padded = _padded(wide, parts * part).view(parts, part)
    counts = (there - torch.arange(parts, device=line.device) * part).clamp(0, part)
    sums = padded.square().sum(-1, dtype=torch.float64)
    mean = sums.sum() / max(there, 1) if whole else sums / counts.clamp(min=1)
    units = torch.where(mean.isfinite(), mean.sqrt(), torch.nan).to(wide.dtype)
    bits = _padded(padded < 0, -(-part // 8) * 8).view(parts, -1, 8)
    codes = (bits * _powers(line.device)).sum(-1, dtype=torch.int32).to(torch.uint8).view(torch.int8)
    return codes.reshape(-1), units.expand(parts).contiguous() if whole else units


def _padded(x: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, size - x.shape[-1]))


def _powers(device) -> torch.Tensor:
    return 2 ** torch.arange(8, device=device, dtype=torch.int32)


def unpack_signs(
    codes, units, parts: int, sizes: Sequence[int], dtype: str, count: Optional[int] = None, apart: bool = False
) -> torch.Tensor:
    """The sum over ranks, in rank order; `apart`: one result per rank."""
    addends = units.numel() // parts
    elements = torch.Size(sizes).numel() // (addends if apart else 1)
    part = -(-elements // parts)
    bits = codes.contiguous().view(torch.uint8).view(addends, parts, -1, 1).bitwise_and(_powers(codes.device).to(torch.uint8)) != 0
    of_units = units.contiguous().view(addends, parts, 1)
    each = torch.where(bits.view(addends, parts, -1)[..., :part], -of_units, of_units).reshape(addends, -1)[:, :elements]
    if apart:
        made = each
    else:
        made = each[0]
        for other in each[1:]:
            made = made + other
    if count is not None:
        made = torch.where(torch.arange(elements, device=codes.device) < count, made, 0)
    made = made.reshape(sizes)
    return made if made.dtype == torch.float64 else made.to(DTYPES[dtype])
