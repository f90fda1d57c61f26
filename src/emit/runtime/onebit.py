"""
Sign compression (1-bit Adam, Tang et al., 2021): 8 signs per byte, lowest bit first, set if negative. The scale is the RMS of a shard,
or of the full buffer, which every shard then repeats. Padding does not count in it, and unpacks to 0.
"""
from typing import Optional, Sequence, Tuple

import torch

from .dtypes import DTYPES


def onebit_momentum_(grad: torch.Tensor, m: torch.Tensor, beta1: float, ranks: int) -> torch.Tensor:
    """The rank's contribution to Adam's next first moment, before the sum over ranks."""
    return grad.mul_(1 - beta1).add_(m, alpha=beta1 / ranks)


def pack_signs(
    tensors: Sequence[torch.Tensor], shards: int, one_scale: bool, count: Optional[int] = None, per_rank: bool = False
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Signs and scales of several tensors, concatenated; stacked if `per_rank`."""
    made = [_pack(x.reshape(-1), shards, one_scale, count) for x in tensors]
    combine = torch.stack if per_rank else torch.cat
    return combine([packed for packed, _ in made]), combine([scales for _, scales in made])


def _pack(flat: torch.Tensor, shards: int, one_scale: bool, count: Optional[int]) -> Tuple[torch.Tensor, torch.Tensor]:
    full = flat if flat.dtype == torch.float64 else flat.float()
    valid = flat.numel() if count is None else count
    shard_numel = -(-flat.numel() // shards)
    padded = _padded(full, shards * shard_numel).view(shards, shard_numel)
    counts = (valid - torch.arange(shards, device=flat.device) * shard_numel).clamp(0, shard_numel)
    squares = padded.square().sum(-1, dtype=torch.float64)
    mean = squares.sum() / max(valid, 1) if one_scale else squares / counts.clamp(min=1)
    scales = torch.where(mean.isfinite(), mean.sqrt(), torch.nan).to(full.dtype)
    bits = _padded(padded < 0, -(-shard_numel // 8) * 8).view(shards, -1, 8)
    packed = (bits * _powers(flat.device)).sum(-1, dtype=torch.int32).to(torch.uint8).view(torch.int8)
    return packed.reshape(-1), scales.expand(shards).contiguous() if one_scale else scales


def _padded(x: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, size - x.shape[-1]))


def _powers(device) -> torch.Tensor:
    return 2 ** torch.arange(8, device=device, dtype=torch.int32)


def unpack_signs(
    packed: torch.Tensor, scales: torch.Tensor, shards: int, sizes: Sequence[int], dtype: str, count: Optional[int] = None,
    per_rank: bool = False,
) -> torch.Tensor:
    """The sum over ranks, in rank order; `per_rank`: one result per rank."""
    ranks = scales.numel() // shards
    numel = torch.Size(sizes).numel() // (ranks if per_rank else 1)
    shard_numel = -(-numel // shards)
    bits = packed.contiguous().view(torch.uint8).view(ranks, shards, -1, 1).bitwise_and(_powers(packed.device).to(torch.uint8)) != 0
    rank_scales = scales.contiguous().view(ranks, shards, 1)
    values = torch.where(bits.view(ranks, shards, -1)[..., :shard_numel], -rank_scales, rank_scales).reshape(ranks, -1)[:, :numel]
    if per_rank:
        made = values
    else:
        made = values[0]
        for value in values[1:]:
            made = made + value
    if count is not None:
        made = torch.where(torch.arange(numel, device=packed.device) < count, made, 0)
    made = made.reshape(sizes)
    return made if made.dtype == torch.float64 else made.to(DTYPES[dtype])
