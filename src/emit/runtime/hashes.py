"""Silent data corruption (SDC) detection: hashes of parameters and optimizer state are compared across replicas."""
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from . import spaces
from .spoken import listed, phrase

# Elements per hashing chunk.
CHUNK = 1 << 24
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# 2^64 divided by the golden ratio, as a signed integer: odd, like every multiplier.
MIXED = -7046029254386353131


class Kept(NamedTuple):
    """A parameter or one of its optimizer states. Ranks that differ only along other axes than these hold the same shard."""

    param: Dict
    state: str
    layout: Dict

    def axes(self) -> List[str]:
        split = [axis for axes in self.layout["splits"].values() for axis in axes]
        return [*split, *self.layout.get("flat", []), *self.layout.get("partial", {})]

    def values(self, stage) -> Optional[spaces.Held]:
        """This rank's shard."""
        frames = self.param["frames"].get(str(stage.pp))
        if frames is None:
            return None
        if not self.state:
            return stage.own_part(frames["param"], self.param, self.layout)
        return stage.values(frames["master"] if self.state == "master" else frames["states"][self.state])


class Unlike(NamedTuple):
    """Replicas that differ. odd: the ranks that differ from the majority, if there is one."""

    kept: Kept
    holders: List[int]
    odd: Optional[List[int]]

    def event(self, step: int, equal: int) -> Dict:
        name = self.kept.param["name"]
        what = f"the {self.kept.state} of {name}" if self.kept.state else name
        gap = phrase(".state", state=self.kept.state, parameter=name) if self.kept.state else name
        odd = self.odd or []
        others = [rank for rank in self.holders if rank not in odd]
        kind = "all" if self.odd is None else "odd" if len(odd) == 1 else "several"
        message = (
            f"{what}: ranks {listed(others)} should be equal and differ; there is no majority"
            if self.odd is None
            else f"{what}: {'rank' if kind == 'odd' else 'ranks'} {listed(odd)} {'differs' if kind == 'odd' else 'differ'} from ranks {listed(others)}, which agree"
        )
        whose = "that rank" if kind == "odd" else "these ranks"
        resume = phrase(".resume", step=equal) if equal else phrase(".start-again")
        values = {"what": gap, "others": {"joint": "and", "of": others}, "resume": resume}
        return {
            **{"step": step, "event": "replicasDiffer", "severity": "error", "message": message},
            **({"rank": odd[0]} if len(odd) == 1 else {}),
            "numbers": {"holders": len(self.holders), "odd": len(odd) or len(self.holders), "equal": equal},
            "advice": f"{resume_from(equal)}, and suspect the hardware of {whose}",
            **phrase(f"replicasDiffer/{kind}", **values, **({} if self.odd is None else {"odd": {"joint": "and", "of": odd}})),
        }


def resume_from(equal: int) -> str:
    if equal:
        return f"resume from the checkpoint of step {equal}, where all replicas were equal, or an earlier one"
    return "restart the run from scratch: no earlier comparison of replicas was equal"


class ReplicasDiffer(Exception):
    """Silent data corruption: the state after step `equal` is suspect. Raised on all ranks."""

    def __init__(self, differ: int, equal: int):
        super().__init__(f"replicas differ since step {differ}: checkpoints after step {equal} may be corrupt; {resume_from(equal)}")


class Replicas:
    """Results of replica comparisons: the last step at which all were equal, and the first at which some differed."""

    def __init__(self, first: int):
        self.equal = first
        self.differ: Optional[int] = None

    def compare(self, stage, step: int) -> List[Dict]:
        """Compares replicas after a step (collective). Returns differences as events."""
        found = unlike(stage)
        if self.differ is None and found:
            self.differ = step
        if self.differ is None:
            self.equal = step
        return [one.event(step, self.equal) for one in found]

    def needs(self, step: int, steps: List[int]) -> bool:
        """Whether a checkpoint is not pruned: the newest verified one, and those before the first mismatch."""
        verified = max((one for one in steps if one <= self.equal), default=None)
        return step == verified or (self.differ is not None and step < self.differ)

    def failure(self) -> Optional[ReplicasDiffer]:
        return None if self.differ is None else ReplicasDiffer(self.differ, self.equal)


def kept_in(params: List[Dict]) -> Iterator[Kept]:
    """All persistent tensors, in the same order on all ranks."""
    for param in params:
        yield Kept(param, "", param["kept"])
        held = next(iter(param["frames"].values()))
        for state in [*held["states"], *(["master"] if "master" in held else [])]:
            yield Kept(param, state, param.get("apart", {}).get(state, {}).get("layout", param["state"]))


def hash_of(values: torch.Tensor) -> torch.Tensor:
    """A 64-bit hash: the sum of all elements as integers times odd factors, so a single flipped bit changes it. All NaNs have one hash."""
    line = values.detach().reshape(-1)
    total = torch.zeros((), dtype=torch.int64, device=line.device)
    for first in range(0, line.numel(), CHUNK):
        part = line[first : first + CHUNK]
        bits = part.view(BITS[part.element_size()]).long()
        if part.is_floating_point():
            bits = torch.where(torch.isnan(part), torch.full_like(bits, -1), bits)
        odd = 2 * torch.arange(first, first + part.numel(), device=line.device) + 1
        total += (bits * (odd * MIXED)).sum()
    return total


def unlike(stage) -> List[Unlike]:
    """Compares all persistent tensors (collective); every rank gets the result."""
    mesh, device = stage.here.mesh, stage.here.device
    all_kept = list(kept_in(stage.params))
    held = [kept.values(stage) for kept in all_kept]
    none = torch.zeros((), dtype=torch.int64, device=device)
    mine = torch.stack([none if values is None else hash_of(spaces.in_memory(values)).to(device) for values in held])
    every = [torch.empty_like(mine) for _ in range(mesh.world)]
    dist.all_gather(every, mine)
    hashes = torch.stack(every, 1).tolist()
    return [found for kept, of in zip(all_kept, hashes) for found in unlike_of(mesh, kept, of)]


def unlike_of(mesh, kept: Kept, hashes: List[int]) -> Iterator[Unlike]:
    groups: Dict[Tuple, List[int]] = {}
    for rank in range(mesh.world):
        at = mesh.coordinates(rank)
        if str(at.get("pp", 0)) in kept.param["frames"]:
            groups.setdefault(tuple(at.get(axis, 0) for axis in kept.axes()), []).append(rank)
    for ranks in groups.values():
        votes = [hashes[rank] for rank in ranks]
        if len(set(votes)) > 1:
            most = max(votes, key=votes.count)
            agreed = 2 * votes.count(most) > len(votes)
            yield Unlike(kept, ranks, [rank for rank in ranks if hashes[rank] != most] if agreed else None)
