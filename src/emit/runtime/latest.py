"""
Finds the latest complete checkpoint. Before a run resumes, its ranks verify every byte, each a share of the files: a corrupt checkpoint
is skipped for the one before it, and reported with file, tensor and rank.
"""
import glob
import json
import os
import re
from typing import Callable, Dict, List, NamedTuple, Tuple

import torch.distributed as dist

from . import loading
from .checkpoint import Shards, read_manifest
from .safetensors import Corrupt, sum_of
from .saving import TEXTS


class AllCorrupt(Corrupt):
    """No checkpoint is complete; the error of each, by path."""

    def __init__(self, message: str, skipped: List[Tuple[str, str]]):
        super().__init__(message)
        self.skipped = skipped


class LatestCheckpoint(NamedTuple):
    folder: str
    manifest: Dict
    # Newer corrupt checkpoints: path and error.
    skipped: List[Tuple[str, str]]


def find(
    path_or_folder: str, rank: int, world: int, store: dist.Store, weights_only: bool = False, alive: Callable[[], None] = lambda: None
) -> LatestCheckpoint:
    """Collective: the requested checkpoint, or the latest complete one in a folder. Raises the errors if there is none."""
    if rank == 0:
        store.set("newest", json.dumps(candidates(path_or_folder)))
    listing = json.loads(store.get("newest"))
    if not listing["paths"]:
        wait_until_read(rank, world, store)
        raise Corrupt(f"{path_or_folder} holds no checkpoint")
    skipped: List[Tuple[str, str]] = []
    for i, path in enumerate(listing["paths"]):
        store.set(f"newest/{i}/{rank}", json.dumps(find_corruption(path, rank, world, weights_only, alive)))
        errors = [text for other in range(world) for text in json.loads(store.get(f"newest/{i}/{other}"))]
        if not errors:
            return LatestCheckpoint(path, read_manifest(path), skipped + [tuple(one) for one in listing["doubtful"]])
        skipped.append((path, summary(errors)))
    message = "; ".join(text for _, text in skipped) + previous_complete(listing["paths"][-1], weights_only, rank, store)
    wait_until_read(rank, world, store)
    raise AllCorrupt(message, skipped)


def wait_until_read(rank: int, world: int, store: dist.Store) -> None:
    """The store lives on rank 0, which must not exit before the others have read the errors."""
    store.set(f"newest/known/{rank}", "")
    for other in range(world if rank == 0 else 0):
        store.get(f"newest/known/{other}")


def candidates(path_or_folder: str) -> Dict:
    """Latest first; those that crashed the process twice while loading come last."""
    if os.path.exists(os.path.join(path_or_folder, "manifest.json")):
        return {"paths": [path_or_folder], "doubtful": []}
    found = [
        path
        for name in ("manifest.json", "rank-*.safetensors")
        for path in glob.glob(os.path.join(glob.escape(path_or_folder), "**", "step-*", name), recursive=True)
    ]
    if step_in(path_or_folder) >= 0 and glob.glob(os.path.join(glob.escape(path_or_folder), "rank-*.safetensors")):
        found.append(os.path.join(path_or_folder, "manifest.json"))
    paths = sorted({os.path.dirname(path) for path in found}, key=step_in, reverse=True)
    paths = [path for path in paths if step_in(path) >= 0]
    crashes = {path: loading.times_crashed(path) for path in paths}
    doubtful = [path for path in paths if crashes[path] >= 2]
    if len(doubtful) == len(paths):
        return {"paths": paths, "doubtful": []}
    template = "{}: its checksums are correct, but {} processes have ended while they loaded it"
    return {
        "paths": [path for path in paths if path not in doubtful] + doubtful,
        "doubtful": [(path, template.format(path, crashes[path])) for path in doubtful],
    }


def step_in(path: str) -> int:
    found = re.match(r"step-(\d+)\Z", os.path.basename(os.path.normpath(path)))
    return int(found[1]) if found else -1


def previous_complete(path: str, weights_only: bool, rank: int, store: dist.Store) -> str:
    """The latest complete checkpoint before a corrupt one."""
    step, parent = step_in(path), os.path.dirname(os.path.normpath(path))
    if rank == 0 and step >= 0:
        names = sorted((name for name in os.listdir(parent or ".") if 0 <= step_in(name) < step), key=step_in, reverse=True)
        earlier = (os.path.join(parent, name) for name in names)
        complete = next((path for path in earlier if not find_corruption(path, 0, 1, weights_only)), None)
        store.set("before", f"; the previous checkpoint is complete: {complete}" if complete else "")
    return store.get("before").decode() if step >= 0 else ""


def find_corruption(
    path: str, rank: int = 0, world: int = 1, weights_only: bool = False, alive: Callable[[], None] = lambda: None
) -> List[str]:
    """Errors in the files that this rank verifies, tensor by tensor."""
    try:
        manifest = read_manifest(path)
    except Corrupt as error:
        return [str(error)] if rank == 0 else []
    shards, errors = Shards(path, manifest), []
    for name, entry in manifest["tensors"].items():
        if weights_only and not name.startswith("param."):
            continue
        for saved in entry["shards"]:
            if saved["rank"] % world != rank:
                continue
            try:
                shards.values(saved, name)
                alive()
            except Corrupt as error:
                errors.append(f"tensor {name}: {error}" if f"tensor {name}" not in str(error) else str(error))
    for reader in shards.readers.values():
        reader.file.close()
    return errors + (_corrupt_texts(path, manifest) if rank == 0 else [])


def _corrupt_texts(path: str, manifest: Dict) -> List[str]:
    errors = []
    for name in TEXTS:
        if name not in manifest["files"]:
            continue
        try:
            with open(os.path.join(path, name), "rb") as file:
                if sum_of(file.read()) != manifest["files"][name]:
                    errors.append(f"{os.path.join(path, name)} is corrupt: its CRC-32 is not the one in the manifest")
        except OSError as error:
            errors.append(f"{os.path.join(path, name)} cannot be read: {error.strerror}")
    return errors


def summary(errors: List[str]) -> str:
    return errors[0] + (f", and {len(errors) - 1} more" if len(errors) > 1 else "")
