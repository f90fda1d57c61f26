"""
Sharded checkpoints: every rank writes the shards of parameters and optimizer state that it owns. The manifest lists the file of each
shard of each full tensor, the run that wrote it, and the CRC-32 of every file. Any plan can load any checkpoint (resharding).

    step-00000100/manifest.json          written last: a folder without one is not a checkpoint
    step-00000100/rank-00003.safetensors
    step-00000100/job.json               the job of these weights; its tokenizer.json too, if it has one
"""
import json
import os
import re
import shutil
from typing import Dict, Iterator, List, NamedTuple, Tuple

import torch

from .mesh import Mesh
from .residuals import redistribute, sizes_of, stacked
from .safetensors import Damaged, NotFinite, Reader, require_finite, sum_of, write
from .saving import Saving, name_of, sync_folder, write_text
from .software import SOFTWARE
from .spaces import Held, OnDisk, changing, in_memory

FORMAT = "lockstep checkpoint 2"


class Shard(NamedTuple):
    """A rank's shard of a logical tensor, and the buffer that stores it."""

    tensor: str
    frame: int
    dims: List[Dict]
    layout: Dict
    # The first pipeline coordinate that has it.
    first: int
    # The shard is a view into the full tensor.
    inside: bool = False


def shards_of(program: Dict, pp: int) -> Iterator[Shard]:
    """All persistent state, as the ranks of a pipeline coordinate store it."""
    for param in program["params"]:
        frames = param["frames"].get(str(pp))
        if frames is None:
            continue
        # A bf16 parameter is saved as its FP32 master weights, from which it is rounded on load.
        first = min(int(holder) for holder in param["frames"])
        if "master" in frames:
            yield Shard(f"param.{param['name']}", frames["master"], param["dims"], param["state"], first)
        else:
            yield kept(param, frames["param"], first)
        for state, frame in frames["states"].items():
            tensor = param.get("apart", {}).get(state, {"dims": param["dims"], "layout": param["state"]})
            yield Shard(f"{state}.{param['name']}", frame, tensor["dims"], tensor["layout"], first)


def kept(param: Dict, frame: int, first: int) -> Shard:
    """The parameter itself, in its own frame."""
    inside = bool(param.get("keptInside"))
    return Shard(f"param.{param['name']}", frame, param["dims"], param["kept"], first, inside)


def owner(mesh: Mesh, shard: Shard, rank: int) -> bool:
    """The first of all replicas of a shard writes it; empty shards are not written."""
    at = mesh.coordinates(rank)
    split = {axis for axes in shard.layout["splits"].values() for axis in axes}
    split |= {*shard.layout.get("flat", []), *shard.layout["partial"]}
    if at.get("pp", 0) != shard.first or any(at[axis] > 0 for axis in at if axis != "pp" and axis not in split):
        return False
    begin, end = box_held(mesh, shard, rank).get("line", (0, 1))
    return begin < end


def file_of(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def manifest_of(program: Dict, mesh: Mesh, position: Dict) -> Dict:
    """The same on every rank: the file of each shard follows from the mesh alone."""
    tensors: Dict[str, Dict] = {}
    for rank in range(mesh.world):
        for shard in shards_of(program, mesh.coordinates(rank).get("pp", 0)):
            if owner(mesh, shard, rank):
                entry = tensors.setdefault(shard.tensor, {"dims": dims_held(mesh, shard), "shards": []})
                entry["shards"].append({"rank": rank, "file": file_of(rank), **box_held(mesh, shard, rank)})
    return {"format": FORMAT, "name": program["name"], **position, "tensors": tensors}


def dims_held(mesh: Mesh, shard: Shard) -> List[Dict]:
    """Dims of the full tensor. Error-feedback residuals, which differ per rank, are stacked along a first dim, `addend`."""
    axes = list(shard.layout["partial"])
    return [{"name": "addend", "size": mesh.size(axes)}, *shard.dims] if axes else shard.dims


def box_held(mesh: Mesh, shard: Shard, rank: int) -> Dict:
    """The rank's shard: a box of the full tensor, and for a flattened shard its range of elements in the box."""
    starts, sizes, _ = mesh.part(shard.dims, shard.layout, rank)
    line = {"line": list(mesh.cut(sizes, shard.layout, rank))} if "flat" in shard.layout else {}
    axes = list(shard.layout["partial"])
    if axes:
        starts, sizes = [mesh.index(axes, mesh.coordinates(rank)), *starts], [1, *sizes]
    return {"start": starts, "shape": sizes, **line}


def held_values(stage, shard: Shard) -> Held:
    """The storage of a rank's shard itself: as its box, or flattened without padding."""
    values = stage.values(shard.frame)
    if "flat" not in shard.layout:
        return values.unsqueeze(0) if shard.layout["partial"] else values
    begin, end = box_held(stage.here.mesh, shard, stage.here.rank)["line"]
    if shard.inside:
        values = stage.here.own(values, *shard.layout["flat"])
    return values.first(end - begin) if isinstance(values, OnDisk) else values.view(-1)[: end - begin]


def pieces_of(box: Dict) -> List[Tuple[List[int], List[int], int]]:
    """A flattened shard as boxes (start, shape) in element order, each with the index of its first element."""
    pieces: List[Tuple[List[int], List[int], int]] = []
    done = 0

    def add(dim: int, start: List[int], shape: List[int], begin: int, end: int) -> None:
        nonlocal done
        if begin >= end:
            return
        row = torch.Size(shape[dim + 1 :]).numel()
        first, last = -(-begin // row), end // row

        def within(index: int, inner: int, up_to: int) -> None:
            add(dim + 1, _changed(start, dim, start[dim] + index), _changed(shape, dim, 1), inner, up_to)

        if first > last:
            return within(last, begin - last * row, end - last * row)
        if begin < first * row:
            within(first - 1, begin - (first - 1) * row, row)
        if first < last:
            piece = _changed(shape, dim, last - first)
            pieces.append((_changed(start, dim, start[dim] + first), piece, done))
            done += torch.Size(piece).numel()
        if last * row < end:
            within(last, 0, end - last * row)

    if not box["shape"]:
        return [([], [], 0)] if box.get("line", [0, 1])[1] > 0 else []
    add(0, box["start"], box["shape"], *box.get("line", (0, torch.Size(box["shape"]).numel())))
    return pieces


def _changed(sizes: List[int], dim: int, to: int) -> List[int]:
    return [*sizes[:dim], to, *sizes[dim + 1 :]]


def box_of(part: Dict) -> Dict:
    """What the header of a shard file records of a tensor."""
    return {key: value for key, value in part.items() if key not in ("rank", "file")}


def save(saving: Saving, program: Dict, stage, position: Dict) -> str:
    """
    Saves a checkpoint (collective). The ranks copy their state and position; the files are written in the background, or, if the run is
    configured so, before the next step. The folder is renamed to its final name when it is complete.
    """
    here = stage.here
    manifest = {**manifest_of(program, here.mesh, position), "run": saving.run, "software": SOFTWARE, **({"line": saving.line} if saving.line else {})}
    held = [(shard, held_values(stage, shard)) for shard in shards_of(program, stage.pp)]
    mine = {shard.tensor: values for shard, values in held if owner(here.mesh, shard, here.rank)}
    parts = {
        name: box_of(part) for name in mine for part in manifest["tensors"][name]["shards"] if part["rank"] == here.rank
    }
    said = {"run": saving.run, "step": str(position["step"]), "rank": str(here.rank), "parts": json.dumps(parts)}
    order = Order(saving, manifest, here.rank, here.mesh.world, {"format": FORMAT, **said})
    saving.writer.start(order, mine, here.device)
    return order.final


class Order:
    """One checkpoint to write: the work of this rank, and what rank 0 does when all ranks are done."""

    def __init__(self, saving: Saving, manifest: Dict, rank: int, world: int, said: Dict[str, str]):
        self.saving, self.manifest, self.rank, self.world, self.said = saving, manifest, rank, world, said
        self.step = manifest["step"]
        self.final = os.path.join(saving.folder, name_of(self.step))
        self.partial = f"{self.final}.{saving.run}.partial"

    def write_mine(self, mine: Dict[str, Held]) -> None:
        os.makedirs(self.partial, exist_ok=True)
        if not mine:
            return
        try:
            for name, values in mine.items():
                require_finite(name, in_memory(values))
        except NotFinite as error:
            raise NotFinite(f"{self.final} is not written: {error}") from None
        path = os.path.join(self.partial, file_of(self.rank))
        write(path, mine, self.said)
        if self.saving.keep:
            # Older checkpoints are pruned after this one, so it is read back first.
            reader = Reader(path)
            for name in mine:
                reader.tensor(name)
            reader.file.close()

    def seal(self) -> None:
        """On rank 0, when the files of all ranks are there."""
        self.saving.lock.require()
        _seal(self.partial, self.manifest, self.saving)
        self.saving.lock.require()
        sync_folder(self.partial)
        # Fails if another run has written a checkpoint of that name.
        os.rename(self.partial, self.final)
        sync_folder(self.saving.folder)
        self.saving.prune(self.step)

    def abandon(self) -> None:
        shutil.rmtree(self.partial, ignore_errors=True)


def _seal(partial: str, manifest: Dict, saving: Saving) -> None:
    """Writes the files next to the shards, and last the manifest, which lists all files and ends with its own CRC-32."""
    sums, shards = {}, Shards(partial, manifest)
    for entry in manifest["tensors"].values():
        for part in entry["shards"]:
            if part["file"] not in sums:
                reader = shards.open(part)
                reader.file.close()
                sums[part["file"]] = reader.head_sum
    for name, text in saving.texts.items():
        sums[name] = sum_of(text.encode())
        write_text(os.path.join(partial, name), text)
    body = json.dumps({**manifest, "files": sums}, indent=1)[: -len("\n}")]
    write_text(os.path.join(partial, "manifest.json"), f'{body},\n "checksum": "{sum_of(body.encode())}"\n}}\n')


def read_manifest(folder: str) -> Dict:
    try:
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            data = file.read()
        manifest = json.loads(data)
        if manifest["format"] != FORMAT:
            other = f"its format is {manifest['format']}, and this program reads {FORMAT}"
            raise ValueError(f"{other}; resume it with the version of lockstep that wrote it")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{folder}: manifest.json cannot be read: {error}") from None
    end = re.search(rb',\n "checksum": "([0-9a-f]{8})"\n\}\n\Z', data)
    if end is None or sum_of(data[: end.start()]) != end[1].decode():
        raise Damaged(f"{folder}: manifest.json is corrupt or was changed: its CRC-32 is not the one that was written")
    return {**manifest, "tensors": dict(_named_today(*named) for named in manifest.get("tensors", {}).items())}


def _named_today(stored: str, entry: Dict) -> Tuple[str, Dict]:
    """Earlier versions called norm weights `norm1.gain`; their shards still do."""
    name = re.sub(r"(\bnorm\d?)\.gain$", r"\1.weight", stored)
    return name, entry if name == stored else {**entry, "stored": stored}


class Shards:
    """The shard files of a checkpoint, each opened once. A file that disagrees with the manifest is refused."""

    def __init__(self, folder: str, manifest: Dict):
        self.folder, self.manifest = folder, manifest
        self.readers: Dict[str, Reader] = {}
        # By file and tensor: the shard that the file's header declares.
        self.held: Dict[str, Dict[str, Dict]] = {}

    def open(self, part: Dict) -> Reader:
        if part["file"] not in self.readers:
            path = os.path.join(self.folder, os.path.basename(part["file"]))
            reader = Reader(path)
            said, run, step = reader.metadata, self.manifest["run"], self.manifest["step"]
            if said.get("run") != run:
                raise Damaged(f"{path} is a shard of run {said.get('run')}, but the manifest is of run {run}")
            if said.get("step") != str(step):
                raise Damaged(f"{path} is a shard of step {said.get('step')}, but the manifest is of step {step}")
            if said.get("rank") != str(part["rank"]):
                raise Damaged(f"{path} was written by rank {said.get('rank')}, not by rank {part['rank']}")
            if self.manifest.get("files", {}).get(part["file"], reader.head_sum) != reader.head_sum:
                raise Damaged(f"{path} is corrupt: the CRC-32 of its header is not the one in the manifest")
            self.readers[part["file"]], self.held[part["file"]] = reader, json.loads(said["parts"])
        return self.readers[part["file"]]

    def values(self, part: Dict, name: str) -> torch.Tensor:
        try:
            reader = self.open(part)
            stored = self.manifest["tensors"].get(name, {}).get("stored", name)
            held = self.held[part["file"]].get(stored)
            if held != box_of(part):
                raise Damaged(f"{reader.path} holds the part {held} of tensor {name}, but the manifest says {box_of(part)}")
            values = reader.tensor(stored)
            try:
                require_finite(name, values)
            except Damaged as error:
                raise Damaged(f"{reader.path}: {error}") from None
            return values
        except Damaged as error:
            raise Damaged(f"{error} (written by rank {part['rank']})") from None


def require_continuation(folder: str, manifest: Dict, position: Dict) -> None:
    """A resumed run must have the same dropout masks, and data at the same position."""
    anew = "; --init starts anew from its weights"
    data = manifest.get("data", position["data"])
    if manifest["seed"] != position["seed"]:
        raise Damaged(f"{folder}: the checkpoint's seed is {manifest['seed']}, the run's {position['seed']}{anew}")
    if data["fingerprint"] != position["data"]["fingerprint"]:
        raise Damaged(f"{folder}: the checkpoint was trained on different data, or on different sequences{anew}")
    if data["samples"] != position["data"]["samples"]:
        seen = f"{data['samples']} sequences in {manifest['step']} steps, not {position['data']['samples']}"
        raise Damaged(f"{folder}: the checkpoint has seen {seen}{anew}")


def starting(program: Dict, manifest: Dict) -> set:
    """Trained parameters next to frozen ones (LoRA adapters) that start from scratch, because the loaded weights lack them."""
    params = program["params"] if any(param.get("frozen") for param in program["params"]) else []
    trained = (param["name"] for param in params if not param.get("frozen"))
    return {name for name in trained if f"param.{name}" not in manifest["tensors"]}


def load(folder: str, manifest: Dict, program: Dict, stage, weights_only: bool = False) -> None:
    """Loads each rank's shards, from the shards of any plan."""
    named = {f"param.{param['name']}" for param in program["params"]}
    foreign = [name for name in manifest["tensors"] if name.startswith("param.") and name not in named]
    if foreign:
        raise Damaged(f"{folder} holds {foreign[0]}, the program has none")
    shards = Shards(folder, manifest)
    anew = starting(program, manifest) if weights_only else set()
    for shard in shards_of(program, stage.pp):
        if shard.tensor.partition(".")[2] in anew:
            continue
        if shard.tensor.startswith("ema.") and (weights_only or shard.tensor not in manifest["tensors"]):
            # A missing EMA starts as the parameter.
            _fill(shards, shard, stage, f"param.{shard.tensor[len('ema.') :]}")
        elif shard.tensor.startswith("param.") or not weights_only:
            _fill(shards, shard, stage)
    for param in program["params"]:
        frames = param["frames"].get(str(stage.pp), {})
        if "master" in frames and param["name"] not in anew:
            _fill(shards, kept(param, frames["param"], first=0), stage)
    if not weights_only:
        # Without a count of skipped steps, none was skipped.
        saved = {"taken": manifest["step"], **manifest.get("scalars", {})}
        # A static loss scale is the run's own, and missing scaler state starts as in a new run.
        own = [name for name in stage.starts if name not in saved or (name == "scale" and "growth" not in stage.starts)]
        stage.set_scalars({**saved, **{name: stage.starts[name] for name in own}})


def _fill(shards: Shards, shard: Shard, stage, source: str = "") -> None:
    folder, name = shards.folder, source or shard.tensor
    entry = shards.manifest["tensors"].get(name)
    if entry is None:
        raise Damaged(f"{folder} holds no {shard.tensor}")
    if sizes_of(entry["dims"]) != sizes_of(shard.dims):
        raise Damaged(f"{folder}: {shard.tensor} has sizes {entry['dims']}, the program's are {shard.dims}")
    with changing(held_values(stage, shard)) as target:
        _fill_values(shards, shard, stage, entry, name, target)


def _fill_values(shards: Shards, shard: Shard, stage, entry: Dict, name: str, target: torch.Tensor) -> None:
    here = stage.here
    box, own, held = box_held(here.mesh, shard, here.rank), stacked(dims_held(here.mesh, shard)), stacked(entry["dims"])
    if own == held:
        return _fill_box(shards, entry, name, box, target)
    redistribute(box, own, held, target, lambda box, values: _fill_box(shards, entry, name, box, values))


def _fill_box(shards: Shards, entry: Dict, name: str, box: Dict, target: torch.Tensor) -> None:
    targets = pieces_of(box)
    filled = 0
    for part in entry["shards"]:
        values = None
        for source in pieces_of(box_of(part)):
            for into in targets:
                both = [
                    (max(a, b), min(a + n, b + m)) for a, n, b, m in zip(into[0], into[1], source[0], source[1])
                ]
                if any(begin >= end for begin, end in both):
                    continue
                if values is None:
                    values = shards.values(part, name).to(target.device)
                _piece(target, into, both)[...] = _piece(values, source, both)
                filled += torch.Size([end - begin for begin, end in both]).numel()
    if filled != target.numel():
        raise Damaged(f"{shards.folder}: only {filled} of {target.numel()} elements of {name} are there")


def _piece(values: torch.Tensor, piece: Tuple[List[int], List[int], int], both: List[Tuple[int, int]]) -> torch.Tensor:
    """The window of a shard's values that is contiguous in it, as a view."""
    start, shape, at = piece
    box = values if list(values.shape) == list(shape) else values.view(-1).narrow(0, at, torch.Size(shape).numel()).view(shape)
    return box[tuple(slice(begin - a, end - a) for (begin, end), a in zip(both, start))]
