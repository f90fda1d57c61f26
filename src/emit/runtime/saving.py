"""
The folder a run saves into. It belongs to one line of runs: its first rank locks it, and a run that begins before the last
checkpoint there would mix its own with those of another run, so it is refused.
"""
import json
import os
import re
import uuid
from typing import Dict, List, Optional

from .lock import Lock, Refused


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def steps_in(folder: str) -> List[int]:
    """Of the checkpoints that lie in a folder."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    whole = [name for name in names if os.path.exists(os.path.join(folder, name, "manifest.json"))]
    return [int(found[1]) for found in (re.match(r"step-(\d+)\Z", name) for name in whole) if found]


class Saving:
    """`source` is the folder of the program; `taken` the number of steps the run begins after. All ranks make one together."""

    def __init__(self, folder: str, source: str, taken: int, rank: int, store):
        self.folder = folder
        self.lock: Optional[Lock] = None
        self.texts = texts_of(source)
        if rank == 0:
            told = self._open(taken)
            store.set("saving", json.dumps(told))
        else:
            told = json.loads(store.get("saving"))
        if "refused" in told:
            raise Refused(told["refused"])
        self.run: str = told["run"]

    def _open(self, taken: int) -> Dict:
        run = str(uuid.uuid4())
        try:
            self.lock = Lock(self.folder, run)
            require_no_later(self.folder, taken)
        except (Refused, OSError) as error:
            self.close()
            return {"refused": str(error)}
        return {"run": run}

    def close(self) -> None:
        if self.lock:
            self.lock.release()


def require_no_later(folder: str, taken: int) -> None:
    later = [step for step in steps_in(folder) if step > taken]
    if not later:
        return
    last = name_of(max(later))
    hint = f"resume with --resume {os.path.join(folder, last)}, or name another folder with --save"
    if taken == 0:
        start = "this run would start at step 1"
        raise Refused(f"{folder} holds checkpoints of another run, the last of them {last}; {start}; {hint}")
    raise Refused(f"{folder} holds {last} of another run, which is later than step {taken} that this run resumes from; {hint}")


def texts_of(source: str) -> Dict[str, str]:
    """What is needed to use the weights later: the job, and the tokenizer where the job has one."""
    texts = {}
    for name in ("job.json", "tokenizer.json"):
        path = os.path.join(source, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                texts[name] = file.read()
    return texts
