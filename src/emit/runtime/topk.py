"""Top-k gradient sparsification (Lin et al., 2018): the values of largest magnitude, with their indices, and back to dense."""
from typing import Sequence, Tuple

import torch


def compress_topk(x: torch.Tensor, k: int, ranks: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """
    Values and indices [ranks, k] of the k largest magnitudes, in index order. Ties go to the lower index: `topk` gives the
    threshold, but not which of equal values. NaN counts as infinite. The host never synchronizes.
    """
    flat = x.reshape(ranks, -1)
    sizes = torch.nan_to_num(flat.abs(), nan=torch.inf, posinf=torch.inf)
    threshold = sizes.topk(k, 1).values[:, -1:]
    above, equal = sizes > threshold, sizes == threshold
    selected = above | (equal & (equal.cumsum(1) <= k - above.sum(1, keepdim=True)))
    # Values that are not selected go to an index behind the last.
    slots = torch.where(selected, selected.cumsum(1) - 1, k)
    index = torch.arange(flat.size(1), device=x.device).expand(flat.shape)
    indices = index.new_empty(ranks, k + 1).scatter_(1, slots, index)[:, :k]
    return flat.gather(1, indices), indices.to(torch.int32)


def decompress_topk(values: torch.Tensor, indices: torch.Tensor, sizes: Sequence[int], per_rank: bool = False) -> torch.Tensor:
    """Scatters the values to dense, summed over ranks in order; `per_rank`: one result per rank."""
    out = values.new_zeros(sizes)
    flat = out.view(values.size(0) if per_rank else 1, -1)
    for i, (value, index) in enumerate(zip(values, indices)):
        flat[i if per_rank else 0].index_add_(0, index, value)
    return out
