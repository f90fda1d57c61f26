"""Silent data corruption (SDC) detection: hashes of parameters and optimizer state are compared across replicas."""
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from . import offload
from .messages import listed, phrase

# Elements per hashing chunk.
CHUNK = 1 << 24
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# 2^64 divided by the golden ratio, as a signed integer: odd, like every multiplier.
MULTIPLIER = -7046029254386353131


class StoredTensor(NamedTuple):
    """A parameter or one of its optimizer states. Ranks that differ only along other axes than these hold the same shard."""

    param: Dict
    state: str
    layout: Dict

    def axes(self) -> List[str]:
        split = [axis for axes in self.layout["splits"].values() for axis in axes]
        return [*split, *self.layout.get("flat", []), *self.layout.get("partial", {})]

    def values(self, stage) -> Optional[offload.Storage]:
        """This rank's shard."""
        buffers = self.param["frames"].get(str(stage.pp))
        if buffers is None:
            return None
        if not self.state:
            return stage.local_shard_of(buffers["param"], self.param, self.layout)
        return stage.values(buffers["master"] if self.state == "master" else buffers["states"][self.state])


class Mismatch(NamedTuple):
    """Replicas that differ. odd: the ranks that differ from the majority, if there is one."""

    tensor: StoredTensor
    ranks: List[int]
    odd: Optional[List[int]]

    def event(self, step: int, equal: int) -> Dict:
        name = self.tensor.param["name"]
        what = f"the {self.tensor.state} of {name}" if self.tensor.state else name
        subject = phrase(".state", state=self.tensor.state, parameter=name) if self.tensor.state else name
        odd = self.odd or []
        others = [rank for rank in self.ranks if rank not in odd]
        kind = "all" if self.odd is None else "odd" if len(odd) == 1 else "several"
        message = (
            f"{what}: ranks {listed(others)} should be equal and differ; there is no majority"
            if self.odd is None
            else f"{what}: {'rank' if kind == 'odd' else 'ranks'} {listed(odd)} {'differs' if kind == 'odd' else 'differ'} from ranks {listed(others)}, which agree"
        )
        which = "that rank" if kind == "odd" else "these ranks"
        resume = phrase(".resume", step=equal) if equal else phrase(".start-again")
        values = {"what": subject, "others": {"joint": "and", "of": others}, "resume": resume}
        return {
            **{"step": step, "event": "replicasDiffer", "severity": "error", "message": message},
            **({"rank": odd[0]} if len(odd) == 1 else {}),
            "numbers": {"holders": len(self.ranks), "odd": len(odd) or len(self.ranks), "equal": equal},
            "advice": f"{resume_from(equal)}, and suspect the hardware of {which}",
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
        found = find_mismatches(stage)
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


def stored_tensors(params: List[Dict]) -> Iterator[StoredTensor]:
    """All persistent tensors, in the same order on all ranks."""
    for param in params:
        yield StoredTensor(param, "", param["kept"])
        stored = next(iter(param["frames"].values()))
        for state in [*stored["states"], *(["master"] if "master" in stored else [])]:
            yield StoredTensor(param, state, param.get("apart", {}).get(state, {}).get("layout", param["state"]))


def hash_of(values: torch.Tensor) -> torch.Tensor:
    """A 64-bit hash: the sum of all elements as integers times odd factors, so a single flipped bit changes it. All NaNs have one hash."""
    flat = values.detach().reshape(-1)
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for first in range(0, flat.numel(), CHUNK):
        part = flat[first : first + CHUNK]
        bits = part.view(BITS[part.element_size()]).long()
        if part.is_floating_point():
            bits = torch.where(torch.isnan(part), torch.full_like(bits, -1), bits)
        odd = 2 * torch.arange(first, first + part.numel(), device=flat.device) + 1
        total += (bits * (odd * MULTIPLIER)).sum()
    return total


def find_mismatches(stage) -> List[Mismatch]:
    """Compares all persistent tensors (collective); every rank gets the result."""
    mesh, device = stage.ctx.mesh, stage.ctx.device
    tensors = list(stored_tensors(stage.params))
    stored = [tensor.values(stage) for tensor in tensors]
    none = torch.zeros((), dtype=torch.int64, device=device)
    own = torch.stack([none if values is None else hash_of(offload.materialize(values)).to(device) for values in stored])
    gathered = [torch.empty_like(own) for _ in range(mesh.world)]
    dist.all_gather(gathered, own)
    hashes = torch.stack(gathered, 1).tolist()
    return [found for tensor, of in zip(tensors, hashes) for found in mismatches_of(mesh, tensor, of)]


def mismatches_of(mesh, tensor: StoredTensor, hashes: List[int]) -> Iterator[Mismatch]:
    groups: Dict[Tuple, List[int]] = {}
    for rank in range(mesh.world):
        at = mesh.coordinates(rank)
        if str(at.get("pp", 0)) in tensor.param["frames"]:
            groups.setdefault(tuple(at.get(axis, 0) for axis in tensor.axes()), []).append(rank)
    for ranks in groups.values():
        votes = [hashes[rank] for rank in ranks]
        if len(set(votes)) > 1:
            majority = max(votes, key=votes.count)
            has_majority = 2 * votes.count(majority) > len(votes)
            yield Mismatch(tensor, ranks, [rank for rank in ranks if hashes[rank] != majority] if has_majority else None)
