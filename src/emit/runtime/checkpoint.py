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

from .error_feedback import redistribute, sizes_without_ranks, stacked_ranks
from .mesh import Mesh
from .offload import DiskTensor, Storage, materialize, writable
from .safetensors import Corrupt, NotFinite, Reader, require_finite, sum_of, write
from .saving import Saving, name_of, sync_folder, write_text
from .software import SOFTWARE

FORMAT = "lockstep checkpoint 2"


class Shard(NamedTuple):
    """A rank's shard of a logical tensor, and the buffer that stores it."""

    tensor: str
    buffer: int
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
            yield param_shard(param, frames["param"], first)
        for state, buffer in frames["states"].items():
            tensor = param.get("apart", {}).get(state, {"dims": param["dims"], "layout": param["state"]})
            yield Shard(f"{state}.{param['name']}", buffer, tensor["dims"], tensor["layout"], first)


def param_shard(param: Dict, buffer: int, first: int) -> Shard:
    """The parameter itself, in its own buffer."""
    inside = bool(param.get("keptInside"))
    return Shard(f"param.{param['name']}", buffer, param["dims"], param["kept"], first, inside)


def owner(mesh: Mesh, shard: Shard, rank: int) -> bool:
    """The first of all replicas of a shard writes it; empty shards are not written."""
    at = mesh.coordinates(rank)
    split = {axis for axes in shard.layout["splits"].values() for axis in axes}
    split |= {*shard.layout.get("flat", []), *shard.layout["partial"]}
    if at.get("pp", 0) != shard.first or any(at[axis] > 0 for axis in at if axis != "pp" and axis not in split):
        return False
    begin, end = stored_box(mesh, shard, rank).get("line", (0, 1))
    return begin < end


def file_of(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def manifest_of(program: Dict, mesh: Mesh, position: Dict) -> Dict:
    """The same on every rank: the file of each shard follows from the mesh alone."""
    tensors: Dict[str, Dict] = {}
    for rank in range(mesh.world):
        for shard in shards_of(program, mesh.coordinates(rank).get("pp", 0)):
            if owner(mesh, shard, rank):
                entry = tensors.setdefault(shard.tensor, {"dims": stored_dims(mesh, shard), "shards": []})
                entry["shards"].append({"rank": rank, "file": file_of(rank), **stored_box(mesh, shard, rank)})
    return {"format": FORMAT, "name": program["name"], **position, "tensors": tensors}


def stored_dims(mesh: Mesh, shard: Shard) -> List[Dict]:
    """Dims of the full tensor. Error-feedback residuals, which differ per rank, are stacked along a first dim."""
    axes = list(shard.layout["partial"])
    return [{"name": "addend", "size": mesh.size(axes)}, *shard.dims] if axes else shard.dims


def stored_box(mesh: Mesh, shard: Shard, rank: int) -> Dict:
    """The rank's shard: a box of the full tensor, and for a flattened shard its range of elements in the box."""
    starts, sizes, _ = mesh.shard_box(shard.dims, shard.layout, rank)
    flat = {"line": list(mesh.flat_range(sizes, shard.layout, rank))} if "flat" in shard.layout else {}
    axes = list(shard.layout["partial"])
    if axes:
        starts, sizes = [mesh.index(axes, mesh.coordinates(rank)), *starts], [1, *sizes]
    return {"start": starts, "shape": sizes, **flat}


def stored_values(stage, shard: Shard) -> Storage:
    """The storage of a rank's shard itself: as its box, or flattened without padding."""
    values = stage.values(shard.buffer)
    if "flat" not in shard.layout:
        return values.unsqueeze(0) if shard.layout["partial"] else values
    begin, end = stored_box(stage.ctx.mesh, shard, stage.ctx.rank)["line"]
    if shard.inside:
        values = stage.ctx.local_shard(values, *shard.layout["flat"])
    return values.first(end - begin) if isinstance(values, DiskTensor) else values.view(-1)[: end - begin]


def contiguous_boxes(box: Dict) -> List[Tuple[List[int], List[int], int]]:
    """A flattened shard as boxes (start, shape) in element order, each with the index of its first element."""
    boxes: List[Tuple[List[int], List[int], int]] = []
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
            boxes.append((_changed(start, dim, start[dim] + first), piece, done))
            done += torch.Size(piece).numel()
        if last * row < end:
            within(last, 0, end - last * row)

    if not box["shape"]:
        return [([], [], 0)] if box.get("line", [0, 1])[1] > 0 else []
    add(0, box["start"], box["shape"], *box.get("line", (0, torch.Size(box["shape"]).numel())))
    return boxes


def _changed(sizes: List[int], dim: int, to: int) -> List[int]:
    return [*sizes[:dim], to, *sizes[dim + 1 :]]


def box_of(saved: Dict) -> Dict:
    """What the header of a shard file records of a tensor."""
    return {key: value for key, value in saved.items() if key not in ("rank", "file")}


def save(saving: Saving, program: Dict, stage, position: Dict) -> str:
    """
    Saves a checkpoint (collective). The ranks copy their state and position; the files are written in the background, or, if the run is
    configured so, before the next step. The folder is renamed to its final name when it is complete.
    """
    ctx = stage.ctx
    manifest = {**manifest_of(program, ctx.mesh, position), "run": saving.run, "software": SOFTWARE, **({"line": saving.lineage} if saving.lineage else {})}
    stored = [(shard, stored_values(stage, shard)) for shard in shards_of(program, stage.pp)]
    own = {shard.tensor: values for shard, values in stored if owner(ctx.mesh, shard, ctx.rank)}
    saved_boxes = {
        name: box_of(saved) for name in own for saved in manifest["tensors"][name]["shards"] if saved["rank"] == ctx.rank
    }
    metadata = {"run": saving.run, "step": str(position["step"]), "rank": str(ctx.rank), "parts": json.dumps(saved_boxes)}
    task = SaveTask(saving, manifest, ctx.rank, ctx.mesh.world, {"format": FORMAT, **metadata})
    saving.writer.start(task, own, ctx.device)
    return task.final


class SaveTask:
    """One checkpoint to write: the work of this rank, and what rank 0 does when all ranks are done."""

    def __init__(self, saving: Saving, manifest: Dict, rank: int, world: int, metadata: Dict[str, str]):
        self.saving, self.manifest, self.rank, self.world, self.metadata = saving, manifest, rank, world, metadata
        self.step = manifest["step"]
        self.final = os.path.join(saving.folder, name_of(self.step))
        self.partial = f"{self.final}.{saving.run}.partial"

    def write_own(self, own: Dict[str, Storage]) -> None:
        os.makedirs(self.partial, exist_ok=True)
        if not own:
            return
        try:
            for name, values in own.items():
                require_finite(name, materialize(values))
        except NotFinite as error:
            raise NotFinite(f"{self.final} is not written: {error}") from None
        path = os.path.join(self.partial, file_of(self.rank))
        write(path, own, self.metadata)
        if self.saving.keep:
            # Older checkpoints are pruned after this one, so it is read back first.
            reader = Reader(path)
            for name in own:
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
        for saved in entry["shards"]:
            if saved["file"] not in sums:
                reader = shards.open(saved)
                reader.file.close()
                sums[saved["file"]] = reader.head_sum
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
        raise Corrupt(f"{folder}: manifest.json cannot be read: {error}") from None
    end = re.search(rb',\n "checksum": "([0-9a-f]{8})"\n\}\n\Z', data)
    if end is None or sum_of(data[: end.start()]) != end[1].decode():
        raise Corrupt(f"{folder}: manifest.json is corrupt or was changed: its CRC-32 is not the one that was written")
    return {**manifest, "tensors": dict(_current_name(*named) for named in manifest.get("tensors", {}).items())}


def _current_name(stored: str, entry: Dict) -> Tuple[str, Dict]:
    """Earlier versions called norm weights `norm1.gain`; their shards still do."""
    name = re.sub(r"(\bnorm\d?)\.gain$", r"\1.weight", stored)
    return name, entry if name == stored else {**entry, "stored": stored}


class Shards:
    """The shard files of a checkpoint, each opened once. A file that disagrees with the manifest is refused."""

    def __init__(self, folder: str, manifest: Dict):
        self.folder, self.manifest = folder, manifest
        self.readers: Dict[str, Reader] = {}
        # By file and tensor: the shard that the file's header declares.
        self.declared: Dict[str, Dict[str, Dict]] = {}

    def open(self, saved: Dict) -> Reader:
        if saved["file"] not in self.readers:
            path = os.path.join(self.folder, os.path.basename(saved["file"]))
            reader = Reader(path)
            metadata, run, step = reader.metadata, self.manifest["run"], self.manifest["step"]
            if metadata.get("run") != run:
                raise Corrupt(f"{path} is a shard of run {metadata.get('run')}, but the manifest is of run {run}")
            if metadata.get("step") != str(step):
                raise Corrupt(f"{path} is a shard of step {metadata.get('step')}, but the manifest is of step {step}")
            if metadata.get("rank") != str(saved["rank"]):
                raise Corrupt(f"{path} was written by rank {metadata.get('rank')}, not by rank {saved['rank']}")
            if self.manifest.get("files", {}).get(saved["file"], reader.head_sum) != reader.head_sum:
                raise Corrupt(f"{path} is corrupt: the CRC-32 of its header is not the one in the manifest")
            self.readers[saved["file"]], self.declared[saved["file"]] = reader, json.loads(metadata["parts"])
        return self.readers[saved["file"]]

    def values(self, saved: Dict, name: str) -> torch.Tensor:
        try:
            reader = self.open(saved)
            stored_name = self.manifest["tensors"].get(name, {}).get("stored", name)
            stored = self.declared[saved["file"]].get(stored_name)
            if stored != box_of(saved):
                raise Corrupt(f"{reader.path} holds the part {stored} of tensor {name}, but the manifest says {box_of(saved)}")
            values = reader.tensor(stored_name)
            try:
                require_finite(name, values)
            except Corrupt as error:
                raise Corrupt(f"{reader.path}: {error}") from None
            return values
        except Corrupt as error:
            raise Corrupt(f"{error} (written by rank {saved['rank']})") from None


def require_continuation(folder: str, manifest: Dict, position: Dict) -> None:
    """A resumed run must have the same dropout masks, and data at the same position."""
    hint = "; --init starts a new run from its weights"
    data = manifest.get("data", position["data"])
    if manifest["seed"] != position["seed"]:
        raise Corrupt(f"{folder}: the checkpoint's seed is {manifest['seed']}, the run's {position['seed']}{hint}")
    if data["fingerprint"] != position["data"]["fingerprint"]:
        raise Corrupt(f"{folder}: the checkpoint was trained on different data, or on different sequences{hint}")
    if data["samples"] != position["data"]["samples"]:
        seen = f"{data['samples']} sequences in {manifest['step']} steps, not {position['data']['samples']}"
        raise Corrupt(f"{folder}: the checkpoint has seen {seen}{hint}")


def missing_adapters(program: Dict, manifest: Dict) -> set:
    """Trained parameters next to frozen ones (LoRA adapters) that start from scratch, because the loaded weights lack them."""
    params = program["params"] if any(param.get("frozen") for param in program["params"]) else []
    trained = (param["name"] for param in params if not param.get("frozen"))
    return {name for name in trained if f"param.{name}" not in manifest["tensors"]}


def load(folder: str, manifest: Dict, program: Dict, stage, weights_only: bool = False) -> None:
    """Loads each rank's shards, from the shards of any plan."""
    named = {f"param.{param['name']}" for param in program["params"]}
    unknown = [name for name in manifest["tensors"] if name.startswith("param.") and name not in named]
    if unknown:
        raise Corrupt(f"{folder} holds {unknown[0]}, the program has none")
    shards = Shards(folder, manifest)
    hint = missing_adapters(program, manifest) if weights_only else set()
    for shard in shards_of(program, stage.pp):
        if shard.tensor.partition(".")[2] in hint:
            continue
        if shard.tensor.startswith("ema.") and (weights_only or shard.tensor not in manifest["tensors"]):
            # A missing EMA starts as the parameter.
            _fill(shards, shard, stage, f"param.{shard.tensor[len('ema.') :]}")
        elif shard.tensor.startswith("param.") or not weights_only:
            _fill(shards, shard, stage)
    for param in program["params"]:
        frames = param["frames"].get(str(stage.pp), {})
        if "master" in frames and param["name"] not in hint:
            _fill(shards, param_shard(param, frames["param"], first=0), stage)
    if not weights_only:
        # Without a count of skipped steps, none was skipped.
        saved = {"taken": manifest["step"], **manifest.get("scalars", {})}
        # A static loss scale is the run's own, and missing scaler state starts as in a new run.
        own = [name for name in stage.initial_scalars if name not in saved or (name == "scale" and "growth" not in stage.initial_scalars)]
        stage.set_scalars({**saved, **{name: stage.initial_scalars[name] for name in own}})


def _fill(shards: Shards, shard: Shard, stage, source: str = "") -> None:
    folder, name = shards.folder, source or shard.tensor
    entry = shards.manifest["tensors"].get(name)
    if entry is None:
        raise Corrupt(f"{folder} holds no {shard.tensor}")
    if sizes_without_ranks(entry["dims"]) != sizes_without_ranks(shard.dims):
        raise Corrupt(f"{folder}: {shard.tensor} has sizes {entry['dims']}, the program's are {shard.dims}")
    with writable(stored_values(stage, shard)) as target:
        _fill_values(shards, shard, stage, entry, name, target)


def _fill_values(shards: Shards, shard: Shard, stage, entry: Dict, name: str, target: torch.Tensor) -> None:
    ctx = stage.ctx
    box, own, stored = stored_box(ctx.mesh, shard, ctx.rank), stacked_ranks(stored_dims(ctx.mesh, shard)), stacked_ranks(entry["dims"])
    if own == stored:
        return _fill_box(shards, entry, name, box, target)
    redistribute(box, own, stored, target, lambda box, values: _fill_box(shards, entry, name, box, values))


def _fill_box(shards: Shards, entry: Dict, name: str, box: Dict, target: torch.Tensor) -> None:
    targets = contiguous_boxes(box)
    filled = 0
    for saved in entry["shards"]:
        values = None
        for source in contiguous_boxes(box_of(saved)):
            for into in targets:
                both = [
                    (max(a, b), min(a + n, b + m)) for a, n, b, m in zip(into[0], into[1], source[0], source[1])
                ]
                if any(begin >= end for begin, end in both):
                    continue
                if values is None:
                    values = shards.values(saved, name).to(target.device)
                _piece(target, into, both)[...] = _piece(values, source, both)
                filled += torch.Size([end - begin for begin, end in both]).numel()
    if filled != target.numel():
        raise Corrupt(f"{shards.folder}: only {filled} of {target.numel()} elements of {name} are there")


def _piece(values: torch.Tensor, piece: Tuple[List[int], List[int], int], both: List[Tuple[int, int]]) -> torch.Tensor:
    """The window of a shard's values that is contiguous in it, as a view."""
    start, shape, at = piece
    box = values if list(values.shape) == list(shape) else values.view(-1).narrow(0, at, torch.Size(shape).numel()).view(shape)
    return box[tuple(slice(begin - a, end - a) for (begin, end), a in zip(both, start))]
