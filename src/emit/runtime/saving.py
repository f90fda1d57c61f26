"""
The folder that a run saves to. It belongs to one lineage of runs: rank 0 locks it. A run that starts before the last checkpoint there
is refused, since it would mix its checkpoints with those of another run.
"""
import errno
import json
import os
import re
import shutil
import sys
import uuid
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

import torch.distributed as dist

from .hashes import Replicas
from .lock import Lock, Refused
from .writer import Writer

# Files of a checkpoint besides its tensors, if the run has them.
TEXTS = (
    "job.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def steps_in(folder: str) -> List[int]:
    """Steps of the checkpoints in a folder."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    complete = [name for name in names if os.path.exists(os.path.join(folder, name, "manifest.json"))]
    return [int(found[1]) for found in (re.match(r"step-(\d+)\Z", name) for name in complete) if found]


class Keep(NamedTuple):
    """Retention: the last N checkpoints of this run and those it resumes, and those of every M-th step (0: none)."""

    last: int
    every: int = 0


class StartState(NamedTuple):
    """What a run resumes from: its step, the lineage of runs (latest first), and newer corrupt checkpoints."""

    start_step: int = 0
    lineage: Sequence[str] = ()
    corrupt: Sequence[str] = ()


class Saving:
    """`source` is the folder of the program. Created by all ranks together."""

    def __init__(
        self, folder: str, source: str, start_state: StartState, rank: int, store: dist.Store,
        keep: Optional[Keep] = None, asynchronous: bool = False, alive: Callable[[], None] = lambda: None,
    ):
        self.folder, self.keep = folder, keep
        # A hundred names are enough to show which checkpoints exist.
        self.lineage = list(start_state.lineage)[:100]
        self.lock: Optional[Lock] = None
        # Set if replicas are compared.
        self.replicas: Optional[Replicas] = None
        self.texts = texts_of(source)
        if rank == 0:
            reply = self._open(start_state)
            store.set("saving", json.dumps(reply))
        else:
            reply = json.loads(store.get("saving"))
        if "refused" in reply:
            raise Refused(reply["refused"])
        self.run: str = reply["run"]
        self.writer = Writer(store, asynchronous, alive)

    def _open(self, start_state: StartState) -> Dict:
        run = str(uuid.uuid4())
        try:
            self.lock = Lock(self.folder, run)
            corrupt = {os.path.realpath(path) for path in start_state.corrupt}
            rename_corrupt(self.folder, [path for path in corrupt if os.path.dirname(path) == os.path.realpath(self.folder)], run)
            require_no_later(self.folder, start_state.start_step)
            remove_partial(self.folder)
        except (Refused, OSError) as error:
            self.close()
            return {"refused": str(error)}
        return {"run": run}

    def prune(self, latest: int) -> None:
        """Deletes checkpoints of this lineage by the retention policy. The newest was read back by the ranks that wrote it."""
        if not self.keep:
            return
        lineage_runs = {self.run, *self.lineage}
        steps = sorted((step for step in steps_in(self.folder) if step <= latest and self._run_of(step) in lineage_runs), reverse=True)
        # If the disk is too full for another checkpoint, those that it would replace are deleted now.
        full = shutil.disk_usage(self.folder).free < self._bytes_of(latest)
        for step in steps[max(1, self.keep.last - full) :]:
            if self.keep.every and step % self.keep.every == 0:
                continue
            if self.replicas and self.replicas.needs(step, steps):
                continue
            self._remove(step)

    def remove_after(self, after: int) -> None:
        """Removes checkpoints of this run after a step, because their state is suspect. On rank 0, while nothing is being written."""
        for step in steps_in(self.folder):
            if step > after and self._run_of(step) == self.run:
                self._remove(step)

    def _remove(self, step: int) -> None:
        path = os.path.join(self.folder, name_of(step))
        # A partial checkpoint must not have the name of a complete one.
        removed = f"{path}.{self.run}.removed"
        os.rename(path, removed)
        shutil.rmtree(removed)

    def _bytes_of(self, step: int) -> int:
        path = os.path.join(self.folder, name_of(step))
        return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))

    def _run_of(self, step: int) -> Optional[str]:
        try:
            with open(os.path.join(self.folder, name_of(step), "manifest.json"), "rb") as file:
                return json.load(file)["run"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def close(self) -> None:
        if self.lock:
            self.lock.release()


def rename_corrupt(folder: str, corrupt: List[str], run: str) -> None:
    """Renames corrupt checkpoints, so that this run can reuse their names; no data is lost."""
    for path in corrupt:
        renamed = f"{path}.{run}.damaged"
        os.rename(path, renamed)
        print(f"lockstep: {path}, which is corrupt, was renamed to {renamed}", file=sys.stderr)


def remove_partial(folder: str) -> None:
    """Deletes partial checkpoints of runs that were killed: only the run that has the lock writes."""
    for name in os.listdir(folder):
        if re.match(r"step-\d+\.[\w-]+\.(?:partial|removed)\Z", name):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def require_no_later(folder: str, start_step: int) -> None:
    later = [step for step in steps_in(folder) if step > start_step]
    if not later:
        return
    last = name_of(max(later))
    hint = f"resume with --resume {os.path.join(folder, last)}, or set another folder with --save"
    if start_step == 0:
        start = "this run would start at step 1"
        raise Refused(f"{folder} has checkpoints of another run, the latest is {last}; {start}; {hint}")
    raise Refused(f"{folder} has {last} of another run, which is later than step {start_step}, where this run resumes; {hint}")


def texts_of(source: str) -> Dict[str, str]:
    """Files needed to use the weights later: the job, the tokenizer if there is one, generation settings."""
    texts = {}
    for name in TEXTS:
        path = os.path.join(source, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                texts[name] = file.read()
    return texts


def write_text(path: str, text: str) -> None:
    with open(path, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Flushes directory entries to disk; some systems do not support that."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EPERM, errno.EACCES):
            raise
    finally:
        os.close(number)
