"""
Finds the latest complete checkpoint. Before a run resumes, its ranks verify every byte, each a share of the files: a corrupt checkpoint
is skipped for the one before it, and reported with file, tensor and rank.
"""
import glob
import json
import os
import re
from typing import Callable, Dict, List, NamedTuple, Tuple

from . import loading
from .checkpoint import Shards, read_manifest
from .safetensors import Damaged, sum_of
from .saving import TEXTS


class AllDamaged(Damaged):
    """No checkpoint is complete; the error of each, by path."""

    def __init__(self, said: str, passed: List[Tuple[str, str]]):
        super().__init__(said)
        self.passed = passed


class Found(NamedTuple):
    folder: str
    manifest: Dict
    # Newer corrupt checkpoints: path and error.
    passed: List[Tuple[str, str]]


def find(
    asked: str, rank: int, world: int, store, weights_only: bool = False, alive: Callable[[], None] = lambda: None
) -> Found:
    """Collective: the requested checkpoint, or the latest complete one in a folder. Raises the errors if there is none."""
    if rank == 0:
        store.set("newest", json.dumps(candidates(asked)))
    told = json.loads(store.get("newest"))
    if not told["paths"]:
        all_know(rank, world, store)
        raise Damaged(f"{asked} holds no checkpoint")
    passed: List[Tuple[str, str]] = []
    for i, path in enumerate(told["paths"]):
        store.set(f"newest/{i}/{rank}", json.dumps(damages(path, rank, world, weights_only, alive)))
        wrong = [text for other in range(world) for text in json.loads(store.get(f"newest/{i}/{other}"))]
        if not wrong:
            return Found(path, read_manifest(path), passed + [tuple(one) for one in told["doubtful"]])
        passed.append((path, in_short(wrong)))
    said = "; ".join(text for _, text in passed) + before(told["paths"][-1], weights_only, rank, store)
    all_know(rank, world, store)
    raise AllDamaged(said, passed)


def all_know(rank: int, world: int, store) -> None:
    """The store lives on rank 0, which must not exit before the others have read the errors."""
    store.set(f"newest/known/{rank}", "")
    for other in range(world if rank == 0 else 0):
        store.get(f"newest/known/{other}")


def candidates(asked: str) -> Dict:
    """Latest first; those that crashed the process twice while loading come last."""
    if os.path.exists(os.path.join(asked, "manifest.json")):
        return {"paths": [asked], "doubtful": []}
    found = [
        path
        for name in ("manifest.json", "rank-*.safetensors")
        for path in glob.glob(os.path.join(glob.escape(asked), "**", "step-*", name), recursive=True)
    ]
    if step_in(asked) >= 0 and glob.glob(os.path.join(glob.escape(asked), "rank-*.safetensors")):
        found.append(os.path.join(asked, "manifest.json"))
    paths = sorted({os.path.dirname(path) for path in found}, key=step_in, reverse=True)
    paths = [path for path in paths if step_in(path) >= 0]
    crashes = {path: loading.times_crashed(path) for path in paths}
    doubtful = [path for path in paths if crashes[path] >= 2]
    if len(doubtful) == len(paths):
        return {"paths": paths, "doubtful": []}
    say = "{}: its checksums are correct, but {} processes have ended while they loaded it"
    return {
        "paths": [path for path in paths if path not in doubtful] + doubtful,
        "doubtful": [(path, say.format(path, crashes[path])) for path in doubtful],
    }


def step_in(path: str) -> int:
    found = re.match(r"step-(\d+)\Z", os.path.basename(os.path.normpath(path)))
    return int(found[1]) if found else -1


def before(path: str, weights_only: bool, rank: int, store) -> str:
    """The latest complete checkpoint before a corrupt one."""
    step, beside = step_in(path), os.path.dirname(os.path.normpath(path))
    if rank == 0 and step >= 0:
        names = sorted((name for name in os.listdir(beside or ".") if 0 <= step_in(name) < step), key=step_in, reverse=True)
        earlier = (os.path.join(beside, name) for name in names)
        whole = next((path for path in earlier if not damages(path, 0, 1, weights_only)), None)
        store.set("before", f"; the previous checkpoint is complete: {whole}" if whole else "")
    return store.get("before").decode() if step >= 0 else ""


def damages(
    path: str, rank: int = 0, world: int = 1, weights_only: bool = False, alive: Callable[[], None] = lambda: None
) -> List[str]:
    """Errors in the files that this rank verifies, tensor by tensor."""
    try:
        manifest = read_manifest(path)
    except Damaged as error:
        return [str(error)] if rank == 0 else []
    shards, wrong = Shards(path, manifest), []
    for name, entry in manifest["tensors"].items():
        if weights_only and not name.startswith("param."):
            continue
        for part in entry["shards"]:
            if part["rank"] % world != rank:
                continue
            try:
                shards.values(part, name)
                alive()
            except Damaged as error:
                wrong.append(f"tensor {name}: {error}" if f"tensor {name}" not in str(error) else str(error))
    for reader in shards.readers.values():
        reader.file.close()
    return wrong + (_texts(path, manifest) if rank == 0 else [])


def _texts(path: str, manifest: Dict) -> List[str]:
    wrong = []
    for name in TEXTS:
        if name not in manifest["files"]:
            continue
        try:
            with open(os.path.join(path, name), "rb") as file:
                if sum_of(file.read()) != manifest["files"][name]:
                    wrong.append(f"{os.path.join(path, name)} is corrupt: its CRC-32 is not the one in the manifest")
        except OSError as error:
            wrong.append(f"{os.path.join(path, name)} cannot be read: {error.strerror}")
    return wrong


def in_short(wrong: List[str]) -> str:
    return wrong[0] + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
