"""Top-k gradient sparsification (Lin et al., 2018): the values of largest magnitude, with their indices, and back to dense."""
from typing import Sequence, Tuple

import torch


def greatest(x: torch.Tensor, kept: int, addends: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """
    Values and indices [addends, kept] of the k largest magnitudes, in index order. Ties go to the lower index: `topk` gives the
    threshold, but not which of equal values. NaN counts as infinite. The host never synchronizes.
    """
    lines = x.reshape(addends, -1)
    sizes = torch.nan_to_num(lines.abs(), nan=torch.inf, posinf=torch.inf)
    least = sizes.topk(kept, 1).values[:, -1:]
    above, equal = sizes > least, sizes == least
    chosen = above | (equal & (equal.cumsum(1) <= kept - above.sum(1, keepdim=True)))
    # Values that are not kept go to an index behind the last.
    to = torch.where(chosen, chosen.cumsum(1) - 1, kept)
    index = torch.arange(lines.size(1), device=x.device).expand(lines.shape)
    places = index.new_empty(addends, kept + 1).scatter_(1, to, index)[:, :kept]
    return lines.gather(1, places), places.to(torch.int32)


def scatter(values: torch.Tensor, places: torch.Tensor, sizes: Sequence[int], apart: bool = False) -> torch.Tensor:
    """Scatters the values to dense, summed over ranks in order; `apart`: one result per rank."""
    out = values.new_zeros(sizes)
    lines = out.view(values.size(0) if apart else 1, -1)
    for i, (value, place) in enumerate(zip(values, places)):
        lines[i if apart else 0].index_add_(0, place, value)
    return out
