"""
Checkpoints: every rank writes the parts of parameters and optimizer state that nobody else writes, and a manifest says
which part of which whole tensor lies where. Any plan can read what any plan has written.

    step-00000100/manifest.json          written last: a folder without one is no checkpoint
    step-00000100/rank-00003.safetensors
"""
import glob
import json
import os
import shutil
from typing import Dict, Iterator, List, NamedTuple

import torch
import torch.distributed as dist

from .mesh import Mesh
from .safetensors import Damaged, Reader, write

FORMAT = "lockstep checkpoint 1"


class Shard(NamedTuple):
    """What a rank holds of a logical tensor, and where it keeps it."""

    tensor: str
    frame: int
    dims: List[Dict]
    layout: Dict
    # The first pipeline coordinate that holds it.
    first: int


def shards_of(program: Dict, pp: int) -> Iterator[Shard]:
    """Everything a step leaves to the next, as the ranks of a pipeline coordinate hold it."""
    for param in program["params"]:
        frames = param["frames"].get(str(pp))
        if frames is None:
            continue
        # Of a bf16 parameter the f32 master is kept, and the parameter is rounded from it.
        held = (frames["master"], param["state"]) if "master" in frames else (frames["param"], param["kept"])
        first = min(int(holder) for holder in param["frames"])
        yield Shard(f"param.{param['name']}", held[0], param["dims"], held[1], first)
        for state, frame in frames["states"].items():
            yield Shard(f"{state}.{param['name']}", frame, param["dims"], param["state"], first)


def owner(mesh: Mesh, shard: Shard, rank: int) -> bool:
    """Of all ranks that hold the same part the first writes it."""
    at = mesh.coordinates(rank)
    split = {axis for axes in shard.layout["splits"].values() for axis in axes}
    return at.get("pp", 0) == shard.first and all(at[axis] == 0 for axis in at if axis != "pp" and axis not in split)


def file_of(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def manifest_of(program: Dict, mesh: Mesh, position: Dict) -> Dict:
    """The same on every rank: where each part lies follows from the mesh alone."""
    tensors: Dict[str, Dict] = {}
    for rank in range(mesh.world):
        for shard in shards_of(program, mesh.coordinates(rank).get("pp", 0)):
            if owner(mesh, shard, rank):
                starts, sizes, _ = mesh.part(shard.dims, shard.layout, rank)
                entry = tensors.setdefault(shard.tensor, {"dims": shard.dims, "shards": []})
                entry["shards"].append({"rank": rank, "file": file_of(rank), "start": starts, "shape": sizes})
    return {"format": FORMAT, "name": program["name"], **position, "tensors": tensors}


def save(folder: str, program: Dict, stage, position: Dict) -> str:
    """All ranks together. The folder gets its name when all of it is there. `position` says how far the run is."""
    here = stage.here
    final = os.path.join(folder, f"step-{position['step']:08d}")
    partial = final + ".partial"
    os.makedirs(partial, exist_ok=True)
    mine = {
        shard.tensor: stage.frames[shard.frame][0]
        for shard in shards_of(program, stage.pp)
        if owner(here.mesh, shard, here.rank)
    }
    if mine:
        write(os.path.join(partial, file_of(here.rank)), mine, {"format": FORMAT, "rank": str(here.rank)})
    dist.barrier()
    if here.rank == 0:
        with open(os.path.join(partial, "manifest.json"), "w") as file:
            json.dump(manifest_of(program, here.mesh, position), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(final, ignore_errors=True)
        os.replace(partial, final)
    dist.barrier()
    return final


def complete_in(folder: str) -> str:
    """The folder itself, or the last of the checkpoints below it that have got their names: those are whole."""
    if os.path.exists(os.path.join(folder, "manifest.json")):
        return folder
    found = glob.glob(os.path.join(glob.escape(folder), "**", "step-*", "manifest.json"), recursive=True)
    named = [path for path in map(os.path.dirname, found) if step_in(path) >= 0]
    if not named:
        raise Damaged(f"{folder} holds no checkpoint")
    return max(named, key=step_in)


def step_in(path: str) -> int:
    digits = os.path.basename(path)[len("step-") :]
    return int(digits) if digits.isdigit() else -1


def read_manifest(folder: str) -> Dict:
    try:
        with open(os.path.join(folder, "manifest.json")) as file:
            manifest = json.load(file)
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{folder} is no checkpoint: {error}") from None
    return manifest


def require_continuation(folder: str, manifest: Dict, position: Dict) -> None:
    """A run that goes on must draw the same masks and find the data where it left them."""
    anew = "; --init starts anew from its weights"
    data = manifest.get("data", position["data"])
    if manifest["seed"] != position["seed"]:
        raise Damaged(f"{folder}: the checkpoint's seed is {manifest['seed']}, the run's {position['seed']}{anew}")
    if data["fingerprint"] != position["data"]["fingerprint"]:
        raise Damaged(f"{folder}: the checkpoint was trained on other data, or on sequences cut otherwise{anew}")
    if data["samples"] != position["data"]["samples"]:
        seen = f"{data['samples']} sequences in {manifest['step']} steps, not {position['data']['samples']}"
        raise Damaged(f"{folder}: the checkpoint has seen {seen}{anew}")


def load(folder: str, manifest: Dict, program: Dict, stage, weights_only: bool = False) -> None:
    """Each rank its own parts, whoever wrote them."""
    named = {f"param.{param['name']}" for param in program["params"]}
    foreign = [name for name in manifest["tensors"] if name.startswith("param.") and name not in named]
    if foreign:
        raise Damaged(f"{folder} holds {foreign[0]}, the program has none")
    readers: Dict[str, Reader] = {}
    for shard in shards_of(program, stage.pp):
        if shard.tensor.startswith("param.") or not weights_only:
            _fill(folder, manifest, shard, stage, readers)
    for param in program["params"]:
        frames = param["frames"].get(str(stage.pp), {})
        if "master" in frames:
            rounded = Shard(f"param.{param['name']}", frames["param"], param["dims"], param["kept"], first=0)
            _fill(folder, manifest, rounded, stage, readers)


def _fill(folder: str, manifest: Dict, shard: Shard, stage, readers: Dict[str, Reader]) -> None:
    entry = manifest["tensors"].get(shard.tensor)
    if entry is None:
        raise Damaged(f"{folder} holds no {shard.tensor}")
    if [dim["size"] for dim in entry["dims"]] != [dim["size"] for dim in shard.dims]:
        raise Damaged(f"{folder}: {shard.tensor} has sizes {entry['dims']}, the program's are {shard.dims}")
    starts, sizes, _ = stage.here.mesh.part(shard.dims, shard.layout, stage.here.rank)
    target = stage.frames[shard.frame][0]
    filled = 0
    for part in entry["shards"]:
        both = [
            (max(a, b), min(a + n, b + m))
            for a, n, b, m in zip(starts, sizes, part["start"], part["shape"])
        ]
        if any(begin >= end for begin, end in both):
            continue
        if part["file"] not in readers:
            readers[part["file"]] = Reader(os.path.join(folder, part["file"]))
        try:
            values = readers[part["file"]].tensor(shard.tensor)
        except Damaged as error:
            raise Damaged(f"{error} (written by rank {part['rank']})") from None
        into = tuple(slice(begin - a, end - a) for (begin, end), a in zip(both, starts))
        of = tuple(slice(begin - b, end - b) for (begin, end), b in zip(both, part["start"]))
        target[into] = values[of].to(target.device)
        filled += torch.Size([end - begin for begin, end in both]).numel()
    if filled != target.numel():
        raise Damaged(f"{folder}: only {filled} of {target.numel()} elements of {shard.tensor} are there")
