"""
Checkpoints: every rank writes the parts of parameters and optimizer state that nobody else writes, and a manifest says
which part of which whole tensor lies where, which run wrote it, and the CRC-32 of every file. Any plan can read what any
plan has written.

    step-00000100/manifest.json          written last: a folder without one is no checkpoint
    step-00000100/rank-00003.safetensors
    step-00000100/job.json               the job whose weights these are; its tokenizer.json too, where it has one
"""
import glob
import json
import os
import re
from typing import Dict, Iterator, List, NamedTuple

import torch
import torch.distributed as dist

from .mesh import Mesh
from .safetensors import Damaged, Reader, require_finite, sum_of, write
from .saving import Saving, name_of

FORMAT = "lockstep checkpoint 2"


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


def box_of(part: Dict) -> Dict:
    """What a shard says of a tensor in it."""
    return {key: value for key, value in part.items() if key not in ("rank", "file")}


def save(saving: Saving, program: Dict, stage, position: Dict) -> str:
    """All ranks together. The folder gets its name when all of it is there. `position` says how far the run is."""
    here = stage.here
    final = os.path.join(saving.folder, name_of(position["step"]))
    partial = f"{final}.{saving.run}.partial"
    os.makedirs(partial, exist_ok=True)
    manifest = {**manifest_of(program, here.mesh, position), "run": saving.run}
    mine = {
        shard.tensor: stage.frames[shard.frame][0]
        for shard in shards_of(program, stage.pp)
        if owner(here.mesh, shard, here.rank)
    }
    if mine:
        parts = {
            name: box_of(part)
            for name in mine
            for part in manifest["tensors"][name]["shards"]
            if part["rank"] == here.rank
        }
        try:
            for name, values in mine.items():
                require_finite(name, values)
        except Damaged as error:
            raise Damaged(f"{final} is not written: {error}") from None
        said = {"run": saving.run, "step": str(position["step"]), "rank": str(here.rank), "parts": json.dumps(parts)}
        write(os.path.join(partial, file_of(here.rank)), mine, {"format": FORMAT, **said})
    dist.barrier()
    if here.rank == 0:
        _seal(partial, manifest, saving)
        saving.lock.require()
        # Fails where another run has written a checkpoint of that name.
        os.rename(partial, final)
    dist.barrier()
    return final


def _seal(partial: str, manifest: Dict, saving: Saving) -> None:
    """Writes what lies beside the shards, and the manifest that names all files and ends with its own CRC-32."""
    sums, shards = {}, Shards(partial, manifest)
    for entry in manifest["tensors"].values():
        for part in entry["shards"]:
            if part["file"] not in sums:
                reader = shards.open(part)
                reader.file.close()
                sums[part["file"]] = reader.head_sum
    for name, text in saving.texts.items():
        sums[name] = sum_of(text.encode())
        with open(os.path.join(partial, name), "wb") as file:
            file.write(text.encode())
    body = json.dumps({**manifest, "files": sums}, indent=1)[: -len("\n}")]
    with open(os.path.join(partial, "manifest.json"), "w") as file:
        file.write(f'{body},\n "checksum": "{sum_of(body.encode())}"\n}}\n')
        file.flush()
        os.fsync(file.fileno())


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
            text = file.read()
        manifest = json.loads(text)
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']}, not {FORMAT}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{folder} is no checkpoint: {error}") from None
    end = re.search(r',\n "checksum": "([0-9a-f]{8})"\n\}\n\Z', text)
    if end is None or sum_of(text[: end.start()].encode()) != end[1]:
        raise Damaged(f"{folder}: manifest.json is damaged or was changed: its CRC-32 is not the one that was written")
    return manifest


class Shards:
    """The files of a checkpoint, each opened once. One that says anything else than the manifest is refused."""

    def __init__(self, folder: str, manifest: Dict):
        self.folder, self.manifest = folder, manifest
        self.readers: Dict[str, Reader] = {}

    def open(self, part: Dict) -> Reader:
        if part["file"] not in self.readers:
            path = os.path.join(self.folder, os.path.basename(part["file"]))
            self.readers[part["file"]] = reader = Reader(path)
            said, run, step = reader.metadata, self.manifest["run"], self.manifest["step"]
            if said.get("run") != run:
                raise Damaged(f"{path} is a shard of run {said.get('run')}, but the manifest is of run {run}")
            if said.get("step") != str(step):
                raise Damaged(f"{path} is a shard of step {said.get('step')}, but the manifest is of step {step}")
            if said.get("rank") != str(part["rank"]):
                raise Damaged(f"{path} was written by rank {said.get('rank')}, not by rank {part['rank']}")
            if self.manifest.get("files", {}).get(part["file"], reader.head_sum) != reader.head_sum:
                raise Damaged(f"{path} is damaged: the CRC-32 of its header is not the one in the manifest")
        return self.readers[part["file"]]

    def values(self, part: Dict, name: str) -> torch.Tensor:
        try:
            reader = self.open(part)
            held = json.loads(reader.metadata["parts"]).get(name)
            if held != box_of(part):
                raise Damaged(f"{reader.path} holds the part {held} of tensor {name}, but the manifest says {box_of(part)}")
            values = reader.tensor(name)
            try:
                require_finite(name, values)
            except Damaged as error:
                raise Damaged(f"{reader.path}: {error}") from None
            return values
        except Damaged as error:
            raise Damaged(f"{error} (written by rank {part['rank']})") from None


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
    shards = Shards(folder, manifest)
    for shard in shards_of(program, stage.pp):
        if shard.tensor.startswith("param.") or not weights_only:
            _fill(shards, shard, stage)
    for param in program["params"]:
        frames = param["frames"].get(str(stage.pp), {})
        if "master" in frames:
            rounded = Shard(f"param.{param['name']}", frames["param"], param["dims"], param["kept"], first=0)
            _fill(shards, rounded, stage)


def _fill(shards: Shards, shard: Shard, stage) -> None:
    folder, entry = shards.folder, shards.manifest["tensors"].get(shard.tensor)
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
        values = shards.values(part, shard.tensor)
        into = tuple(slice(begin - a, end - a) for (begin, end), a in zip(both, starts))
        of = tuple(slice(begin - b, end - b) for (begin, end), b in zip(both, part["start"]))
        target[into] = values[of].to(target.device)
        filled += torch.Size([end - begin for begin, end in both]).numel()
    if filled != target.numel():
        raise Damaged(f"{folder}: only {filled} of {target.numel()} elements of {shard.tensor} are there")
