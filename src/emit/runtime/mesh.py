"""A device mesh with named axes: coordinates of a rank and the ranks of its process groups. Pure functions of (mesh, rank)."""
from typing import Dict, List, Optional, Sequence, Tuple


class Mesh:
    def __init__(self, axes: Sequence[Dict]):
        """Fastest varying axis first: rank = c0 + size0 * (c1 + size1 * (c2 + ...))."""
        self.axes: List[Tuple[str, int]] = [(axis["name"], axis["size"]) for axis in axes]
        self.sizes = dict(self.axes)

    @property
    def world(self) -> int:
        world = 1
        for _, size in self.axes:
            world *= size
        return world

    def size(self, axes: Sequence[str]) -> int:
        product = 1
        for axis in axes:
            product *= self.sizes.get(axis, 1)
        return product

    def coordinates(self, rank: int) -> Dict[str, int]:
        at = {}
        for name, size in self.axes:
            at[name] = rank % size
            rank //= size
        return at

    def rank_at(self, at: Dict[str, int]) -> int:
        rank = 0
        for name, size in reversed(self.axes):
            rank = rank * size + at.get(name, 0)
        return rank

    def index(self, axes: Sequence[str], at: Dict[str, int]) -> int:
        """The coordinate along several axes flattened, major axis first."""
        index = 0
        for axis in axes:
            index = index * self.sizes.get(axis, 1) + at.get(axis, 0)
        return index

    def along(self, rank: int, axes: Sequence[str]) -> List[int]:
        """The ranks that differ from `rank` along `axes` only, in the order of `index`."""
        at = self.coordinates(rank)
        ranks = []
        for index in range(self.size(axes)):
            for axis in reversed(axes):
                size = self.sizes.get(axis, 1)
                at[axis] = index % size
                index //= size
            ranks.append(self.rank_at(at))
        return ranks

    def peer(self, rank: int, pp: int) -> int:
        """The rank with the same coordinates on every axis but pp."""
        return self.rank_at({**self.coordinates(rank), "pp": pp})

    def group_ranks(self, rank: int, axes: Sequence[str], stages: Optional[Sequence[int]] = None) -> List[int]:
        """The ranks of the process group of `rank` along axes, in group order; only those of `stages` if given."""
        if stages is None:
            return self.along(rank, axes)
        others = [axis for axis in axes if axis != "pp"]
        return [other for pp in stages for other in self.along(self.peer(rank, pp), others)]

    def flat_range(self, sizes: Sequence[int], layout: Dict, rank: int) -> Tuple[int, int]:
        """Begin and end of the rank's shard of a flattened block; the full block if the layout is not flat."""
        numel = 1
        for size in sizes:
            numel *= size
        axes = layout.get("flat", [])
        size_each = -(-numel // self.size(axes))
        begin = min(numel, self.index(axes, self.coordinates(rank)) * size_each)
        return begin, min(numel, begin + size_each)

    def shard_box(self, dims: Sequence[Dict], layout: Dict, rank: int) -> Tuple[List[int], List[int], List[int]]:
        """The rank's shard of a tensor under a layout: starts, sizes and full sizes."""
        at = self.coordinates(rank)
        starts, sizes, full_sizes = [], [], []
        for dim in dims:
            axes = layout["splits"].get(dim["name"], [])
            size = dim["size"] // self.size(axes)
            starts.append(self.index(axes, at) * size)
            sizes.append(size)
            full_sizes.append(dim["size"])
        return starts, sizes, full_sizes
