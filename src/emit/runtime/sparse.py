"""Of gradients the greatest numbers, which travel with their places, and what is made of them again."""
from typing import Sequence, Tuple

import torch


def greatest(x: torch.Tensor, kept: int, addends: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """
    [addends, kept] of values and of their places in the order of places. Of equals those that come first: `topk` finds which is the least that is
    kept, not which of its equals. What is no number counts as infinite. No host waits for how many there are.
    """
    lines = x.reshape(addends, -1)
    sizes = torch.nan_to_num(lines.abs(), nan=torch.inf, posinf=torch.inf)
    least = sizes.topk(kept, 1).values[:, -1:]
    above, equal = sizes > least, sizes == least
    chosen = above | (equal & (equal.cumsum(1) <= kept - above.sum(1, keepdim=True)))
    # Whoever is not chosen goes to a place behind the last.
    to = torch.where(chosen, chosen.cumsum(1) - 1, kept)
    index = torch.arange(lines.size(1), device=x.device).expand(lines.shape)
    places = index.new_empty(addends, kept + 1).scatter_(1, to, index)[:, :kept]
    return lines.gather(1, places), places.to(torch.int32)


def scatter(values: torch.Tensor, places: torch.Tensor, sizes: Sequence[int], apart: bool = False) -> torch.Tensor:
    """Values at their places, added up in the order of addends; or every addend by itself."""
    out = values.new_zeros(sizes)
    lines = out.view(values.size(0) if apart else 1, -1)
    for i, (value, place) in enumerate(zip(values, places)):
        lines[i if apart else 0].index_add_(0, place, value)
    return out
