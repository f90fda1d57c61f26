"""A rank's part of a dim: one run of positions from `start` on, or, where a sequence is split in zigzag, two runs."""
from typing import List, Tuple, Union

import torch

# Two runs are (origin, until, gap): the first `until` elements follow each other from `origin` on, then `gap` positions are
# skipped. A plain tuple: torch.compile hands a named one, as a constant, to its class as one argument.
Start = Union[int, Tuple[int, int, int]]


def zigzag(rank: int, ranks: int, minor: int, parts: int, size: int) -> Start:
    """
    Of `ranks` ranks, rank r holds chunks r and 2 * ranks - 1 - r of twice as many. What it holds is cut further, in its
    order, into `parts` parts of `size`, of which this is part `minor`.
    """
    chunk = size * parts // 2
    first = minor * size
    gap = 2 * (ranks - 1 - rank) * chunk
    if gap > 0 and first < chunk < first + size:
        return (rank * chunk + first, chunk - first, gap)
    return rank * chunk + first + (0 if first < chunk else gap)


def positions(start: Start, size: int, device=None) -> torch.Tensor:
    if isinstance(start, int):
        return torch.arange(start, start + size, device=device)
    origin, until, gap = start
    index = torch.arange(size, device=device)
    return index + origin + (index >= until) * gap


def runs(start: Start, size: int) -> List[Tuple[int, int, int]]:
    """Elements that follow each other in the part and in the whole: (first of the part, its position, how many)."""
    if isinstance(start, int):
        return [(0, start, size)]
    origin, until, gap = start
    return [(0, origin, until), (until, origin + until + gap, size - until)]


def order(places: torch.Tensor, ranks: int) -> torch.Tensor:
    """
    The tokens of a sequence, by their places in their documents, as they lie where each document is cut in zigzag over so many
    ranks: rank after rank, and of each rank its two chunks of one document after the other.
    """
    begins = torch.nonzero(places == 0).flatten()
    lengths = torch.diff(begins, append=torch.tensor([len(places)]))
    chunk = places * 2 * ranks // lengths.repeat_interleave(lengths)
    return torch.argsort(torch.minimum(chunk, 2 * ranks - 1 - chunk), stable=True)


def narrow(x: torch.Tensor, dim: int, start: Start, size: int) -> torch.Tensor:
    if isinstance(start, int):
        return x.narrow(dim, start, size)
    return torch.cat([x.narrow(dim, position, count) for _, position, count in runs(start, size)], dim)


def paired(chunks: torch.Tensor) -> torch.Tensor:
    """[2n, ...] chunks of a sequence in order -> [n, 2, ...]: those of each rank."""
    ranks = chunks.shape[0] // 2
    return torch.stack((chunks[:ranks], chunks[ranks:].flip(0)), 1)


def in_order(pairs: torch.Tensor) -> torch.Tensor:
    """The inverse."""
    return torch.cat((pairs[:, 0], pairs[:, 1].flip(0)))
