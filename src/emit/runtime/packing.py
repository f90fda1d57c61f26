"""
INT8 blockwise quantization for communication: runs of values share a scale, amax / 128. A flat buffer is split into equal shards, and
runs restart at each; padding quantizes to 0. The values are only sent, and `unpack` dequantizes them.
"""
from typing import Sequence, Tuple

import torch

from .dtypes import DTYPES


def _runs(line: torch.Tensor, parts: int, run: int) -> torch.Tensor:
    """[parts, runs, run]: each shard zero-padded."""
    part = -(-line.numel() // parts)
    runs = -(-part // run)
    whole = torch.nn.functional.pad(line, (0, parts * part - line.numel())).view(parts, part)
    return torch.nn.functional.pad(whole, (0, runs * run - part)).view(parts, runs, run)


def pack(tensors: Sequence[torch.Tensor], run: int, parts: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Quantized values and scales of several tensors, concatenated."""
    made = [_pack(x.reshape(-1), run, parts) for x in tensors]
    return torch.cat([codes for codes, _ in made]), torch.cat([units for _, units in made])


def _pack(line: torch.Tensor, run: int, parts: int) -> Tuple[torch.Tensor, torch.Tensor]:
    wide = line if line.dtype == torch.float64 else line.float()
    runs = _runs(wide, parts, run)
    most = runs.abs().amax(-1)
    units = torch.where(most.isfinite(), most / 128, torch.nan)
    by = torch.where(units > 0, units, 1).unsqueeze(-1)
    codes = torch.where((units > 0).unsqueeze(-1), (runs / by).round(), 0).clamp(-128, 127).to(torch.int8)
    part = -(-line.numel() // parts)
    return codes.flatten(1)[:, :part].reshape(-1), units.reshape(-1)


def unpack(codes, units, run: int, parts: int, sizes: Sequence[int], dtype: str) -> torch.Tensor:
    """Dequantizes and sums the contributions of all ranks, in rank order."""
    elements = torch.Size(sizes).numel()
    part = -(-elements // parts)
    runs = -(-part // run)
    total = None
    for code, unit in zip(codes.view(-1, parts, part), units.view(-1, parts, runs)):
        each = unit.repeat_interleave(run, 1)[:, :part] * code
        total = each if total is None else total + each
    made = total.reshape(-1)[:elements].view(sizes)
    return made if made.dtype == torch.float64 else made.to(DTYPES[dtype])
