"""
INT8 blockwise quantization for communication: each block of values has a scale, amax / 128. A flat buffer is split into equal shards, and
blocks restart at each; padding quantizes to 0.
"""
from typing import Sequence, Tuple

import torch

from .dtypes import DTYPES


def _blocks(flat: torch.Tensor, shards: int, block_size: int) -> torch.Tensor:
    """[shards, blocks, block_size]: each shard zero-padded."""
    shard_numel = -(-flat.numel() // shards)
    blocks = -(-shard_numel // block_size)
    whole = torch.nn.functional.pad(flat, (0, shards * shard_numel - flat.numel())).view(shards, shard_numel)
    return torch.nn.functional.pad(whole, (0, blocks * block_size - shard_numel)).view(shards, blocks, block_size)


def quantize_int8(tensors: Sequence[torch.Tensor], block_size: int, shards: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Quantized values and scales of several tensors, concatenated."""
    made = [_quantize(x.reshape(-1), block_size, shards) for x in tensors]
    return torch.cat([quantized for quantized, _ in made]), torch.cat([scales for _, scales in made])


def _quantize(flat: torch.Tensor, block_size: int, shards: int) -> Tuple[torch.Tensor, torch.Tensor]:
    full = flat if flat.dtype == torch.float64 else flat.float()
    blocks = _blocks(full, shards, block_size)
    amax = blocks.abs().amax(-1)
    scales = torch.where(amax.isfinite(), amax / 128, torch.nan)
    divisor = torch.where(scales > 0, scales, 1).unsqueeze(-1)
    quantized = torch.where((scales > 0).unsqueeze(-1), (blocks / divisor).round(), 0).clamp(-128, 127).to(torch.int8)
    shard_numel = -(-flat.numel() // shards)
    return quantized.flatten(1)[:, :shard_numel].reshape(-1), scales.reshape(-1)


def dequantize_int8(
    quantized: torch.Tensor, scales: torch.Tensor, block_size: int, shards: int, sizes: Sequence[int], dtype: str,
) -> torch.Tensor:
    """Dequantizes and sums the contributions of all ranks, in rank order."""
    numel = torch.Size(sizes).numel()
    shard_numel = -(-numel // shards)
    blocks = -(-shard_numel // block_size)
    total = None
    for values, scale in zip(quantized.view(-1, shards, shard_numel), scales.view(-1, shards, blocks)):
        dequantized = scale.repeat_interleave(block_size, 1)[:, :shard_numel] * values
        total = dequantized if total is None else total + dequantized
    made = total.reshape(-1)[:numel].view(sizes)
    return made if made.dtype == torch.float64 else made.to(DTYPES[dtype])
