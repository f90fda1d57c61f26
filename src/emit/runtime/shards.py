"""A rank's shard of a dim: one range of positions from `start` on, or two if a sequence is sharded in zigzag."""
from typing import List, Optional, Tuple, Union

import torch

# Two ranges are (origin, until, gap): the first `until` elements are consecutive from `origin` on, then `gap` positions are skipped. A
# plain tuple: torch.compile passes the fields of a constant namedtuple to its class as one argument.
Start = Union[int, Tuple[int, int, int]]


def zigzag_start(rank: int, ranks: int, minor: int, shards: int, size: int) -> Start:
    """
    Zigzag (load-balanced) sharding for causal context parallelism: rank r of `ranks` has chunks r and 2 * ranks - 1 - r of twice as
    many. They are split further, in this order, into `shards` shards of `size`, of which this is number `minor`.
    """
    chunk = size * shards // 2
    first = minor * size
    gap = 2 * (ranks - 1 - rank) * chunk
    if gap > 0 and first < chunk < first + size:
        return (rank * chunk + first, chunk - first, gap)
    return rank * chunk + first + (0 if first < chunk else gap)


def positions(start: Start, size: int, device: Optional[torch.device] = None) -> torch.Tensor:
    if isinstance(start, int):
        return torch.arange(start, start + size, device=device)
    origin, until, gap = start
    index = torch.arange(size, device=device)
    return index + origin + (index >= until) * gap


def ranges(start: Start, size: int) -> List[Tuple[int, int, int]]:
    """Ranges that are consecutive in both: (index in the shard, position in the sequence, length)."""
    if isinstance(start, int):
        return [(0, start, size)]
    origin, until, gap = start
    return [(0, origin, until), (until, origin + until + gap, size - until)]


def zigzag_document_order(doc_positions: torch.Tensor, ranks: int) -> torch.Tensor:
    """
    The tokens of a packed sequence in the order of their ranks, if each document is sharded in zigzag over `ranks`: rank by rank, and
    for each rank its two chunks of document after document. `doc_positions` are positions within documents.
    """
    begins = torch.nonzero(doc_positions == 0).flatten()
    lengths = torch.diff(begins, append=torch.tensor([len(doc_positions)]))
    chunk = doc_positions * 2 * ranks // lengths.repeat_interleave(lengths)
    return torch.argsort(torch.minimum(chunk, 2 * ranks - 1 - chunk), stable=True)


def narrow(x: torch.Tensor, dim: int, start: Start, size: int) -> torch.Tensor:
    if isinstance(start, int):
        return x.narrow(dim, start, size)
    return torch.cat([x.narrow(dim, position, count) for _, position, count in ranges(start, size)], dim)


def pair_chunks(chunks: torch.Tensor) -> torch.Tensor:
    """[2n, ...] chunks in sequence order -> [n, 2, ...]: the pair of each rank."""
    ranks = chunks.shape[0] // 2
    return torch.stack((chunks[:ranks], chunks[ranks:].flip(0)), 1)


def unpair_chunks(pairs: torch.Tensor) -> torch.Tensor:
    """The inverse of `pair_chunks`."""
    return torch.cat((pairs[:, 0], pairs[:, 1].flip(0)))
