"""
Checkpoints: every rank writes the parts of parameters and optimizer state that nobody else writes, and a manifest says
which part of which whole tensor lies where, which run wrote it, and the CRC-32 of every file. Any plan can read what any
plan has written.

    step-00000100/manifest.json          written last: a folder without one is no checkpoint
    step-00000100/rank-00003.safetensors
    step-00000100/job.json               the job whose weights these are; its tokenizer.json too, where it has one
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
    """What a rank holds of a logical tensor, and where it keeps it."""

    tensor: str
    frame: int
    dims: List[Dict]
    layout: Dict
    # The first pipeline coordinate that holds it.
    first: int
    # The own part lies inside the whole.
    inside: bool = False


def shards_of(program: Dict, pp: int) -> Iterator[Shard]:
    """Everything a step leaves to the next, as the ranks of a pipeline coordinate hold it."""
    for param in program["params"]:
        frames = param["frames"].get(str(pp))
        if frames is None:
            continue
        # Of a bf16 parameter the f32 master is kept, and the parameter is rounded from it.
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
    """Of all ranks that hold the same part the first writes it; an empty part nobody does."""
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
    """The same on every rank: where each part lies follows from the mesh alone."""
    tensors: Dict[str, Dict] = {}
    for rank in range(mesh.world):
        for shard in shards_of(program, mesh.coordinates(rank).get("pp", 0)):
            if owner(mesh, shard, rank):
                entry = tensors.setdefault(shard.tensor, {"dims": dims_held(mesh, shard), "shards": []})
                entry["shards"].append({"rank": rank, "file": file_of(rank), **box_held(mesh, shard, rank)})
    return {"format": FORMAT, "name": program["name"], **position, "tensors": tensors}


def dims_held(mesh: Mesh, shard: Shard) -> List[Dict]:
    """Of the whole tensor. A residual that each rank has its own of (error feedback) is stacked along `addend`, which comes first."""
    axes = list(shard.layout["partial"])
    return [{"name": "addend", "size": mesh.size(axes)}, *shard.dims] if axes else shard.dims


def box_held(mesh: Mesh, shard: Shard, rank: int) -> Dict:
    """What a rank holds: a box of the whole tensor, and where ranks share one, which elements of it."""
    starts, sizes, _ = mesh.part(shard.dims, shard.layout, rank)
    line = {"line": list(mesh.cut(sizes, shard.layout, rank))} if "flat" in shard.layout else {}
    axes = list(shard.layout["partial"])
    if axes:
        starts, sizes = [mesh.index(axes, mesh.coordinates(rank)), *starts], [1, *sizes]
    return {"start": starts, "shape": sizes, **line}


def held_values(stage, shard: Shard) -> Held:
    """The very memory in which a rank keeps its part: as its box, or in one row without what pads it."""
    values = stage.values(shard.frame)
    if "flat" not in shard.layout:
        return values.unsqueeze(0) if shard.layout["partial"] else values
    begin, end = box_held(stage.here.mesh, shard, stage.here.rank)["line"]
    if shard.inside:
        values = stage.here.own(values, *shard.layout["flat"])
    return values.first(end - begin) if isinstance(values, OnDisk) else values.view(-1)[: end - begin]


def pieces_of(box: Dict) -> List[Tuple[List[int], List[int], int]]:
    """A part as boxes (start, shape) in the order of its elements, each with the place of its first element."""
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
    """What a shard says of a tensor in it."""
    return {key: value for key, value in part.items() if key not in ("rank", "file")}


def save(saving: Saving, program: Dict, stage, position: Dict) -> str:
    """
    All ranks together. What they hold is copied with the position, which says how far the run is; then it is written while the
    run goes on, or, where the run saves so, before it does. The folder gets its name when all of it is there.
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
    """A checkpoint that is to be written: what this rank does of it, and what the first does when all have done theirs."""

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
            # Others are removed for it: it is read back first.
            reader = Reader(path)
            for name in mine:
                reader.tensor(name)
            reader.file.close()

    def seal(self) -> None:
        """By the first rank, when the files of all are there."""
        self.saving.lock.require()
        _seal(self.partial, self.manifest, self.saving)
        self.saving.lock.require()
        sync_folder(self.partial)
        # Fails where another run has written a checkpoint of that name.
        os.rename(self.partial, self.final)
        sync_folder(self.saving.folder)
        self.saving.prune(self.step)

    def abandon(self) -> None:
        shutil.rmtree(self.partial, ignore_errors=True)


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
    return manifest


class Shards:
    """The files of a checkpoint, each opened once. One that says anything else than the manifest is refused."""

    def __init__(self, folder: str, manifest: Dict):
        self.folder, self.manifest = folder, manifest
        self.readers: Dict[str, Reader] = {}
        # By file and tensor: the part that a file says to hold.
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
            held = self.held[part["file"]].get(name)
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
        raise Damaged(f"{folder}: the checkpoint was trained on different data, or on different sequences{anew}")
    if data["samples"] != position["data"]["samples"]:
        seen = f"{data['samples']} sequences in {manifest['step']} steps, not {position['data']['samples']}"
        raise Damaged(f"{folder}: the checkpoint has seen {seen}{anew}")


def starting(program: Dict, manifest: Dict) -> set:
    """What is trained beside frozen parameters starts anew where somebody else's weights lack it."""
    params = program["params"] if any(param.get("frozen") for param in program["params"]) else []
    trained = (param["name"] for param in params if not param.get("frozen"))
    return {name for name in trained if f"param.{name}" not in manifest["tensors"]}


def load(folder: str, manifest: Dict, program: Dict, stage, weights_only: bool = False) -> None:
    """Each rank its own parts, whoever wrote them."""
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
            # An average that is not there starts as the parameter does.
            _fill(shards, shard, stage, f"param.{shard.tensor[len('ema.') :]}")
        elif shard.tensor.startswith("param.") or not weights_only:
            _fill(shards, shard, stage)
    for param in program["params"]:
        frames = param["frames"].get(str(stage.pp), {})
        if "master" in frames and param["name"] not in anew:
            _fill(shards, kept(param, frames["param"], first=0), stage)
    if not weights_only:
        # Where nothing was written of them, no step was skipped.
        saved = {"taken": manifest["step"], **manifest.get("scalars", {})}
        # A scale that never moves is the run's own, and what was not written yet starts as the run does.
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
    """Of a part's values those of a window, which lies in one piece of it: a view."""
    start, shape, at = piece
    box = values if list(values.shape) == list(shape) else values.view(-1).narrow(0, at, torch.Size(shape).numel()).view(shape)
    return box[tuple(slice(begin - a, end - a) for (begin, end), a in zip(both, start))]
