"""
Checkpoints that are written while the run goes on. The ranks copy what they hold, to pinned memory where it is on a GPU, and a
thread of each writes its file. By the store they tell each other what became of theirs: the first rank names the folder when all
are there, and what became of it every rank knows at its next step. One is written at a time.
"""
import json
import threading
import time
from typing import Dict, List, Optional

import torch

from .lock import Refused
from .safetensors import NotFinite
from .spaces import Held, OnDisk

# How often the store is asked.
LOOK_SECONDS = 0.02


class NotSaved(Refused):
    """The last checkpoint of a run is not there. The message says why."""


class Writer:
    """Of one rank. `beside`: the run goes on meanwhile. `alive` is called while somebody waits."""

    def __init__(self, store, beside: bool, alive):
        self.store, self.beside, self.alive = store, beside, alive
        self.thread: Optional[threading.Thread] = None
        # What became of those that were started, since it was last asked.
        self.outcomes: List[Dict] = []
        # Why the last one is not there; empty: it is.
        self.error = ""
        # Memory of the last copy, which the next one uses again.
        self.copies: Dict[str, torch.Tensor] = {}
        self.stream = None
        # How long the run stood still for the last one.
        self.stood = 0.0

    def start(self, order, mine: Dict[str, Held], device: torch.device) -> None:
        started = time.perf_counter()
        self.wait()
        # What is on a disk is more than memory holds: it is written as it is read.
        if not self.beside or any(isinstance(values, OnDisk) for values in mine.values()):
            self._write(order, mine, None)
        else:
            copies, event = self._copy(mine, device)
            self.thread = threading.Thread(target=self._write, args=(order, copies, event), daemon=True, name="writer")
            self.thread.start()
        self.stood = time.perf_counter() - started

    def wait(self) -> None:
        """For the one that is being written."""
        while self.thread and self.thread.is_alive():
            self.thread.join(LOOK_SECONDS)
            self.alive()
        self.thread = None

    def ended(self) -> List[Dict]:
        """What became of those that have ended. Raises where no later one could be written either."""
        told, self.outcomes = self.outcomes, []
        for outcome in told:
            if outcome["lasting"]:
                raise (NotFinite if outcome["lasting"] == NotFinite.__name__ else Refused)(outcome["error"])
        return told

    def finish(self) -> List[Dict]:
        """The same, when the last one was waited for. Raises where that is not there."""
        told = self.ended()
        if self.error:
            raise NotSaved(f"the last checkpoint could not be written: {self.error}")
        return told

    def _copy(self, mine: Dict[str, torch.Tensor], device: torch.device):
        """As they are now, and what to wait for before they are read."""
        cuda = device.type == "cuda"
        for name, values in mine.items():
            last = self.copies.get(name)
            if last is None or last.shape != values.shape or last.dtype != values.dtype:
                self.copies[name] = torch.empty(values.shape, dtype=values.dtype, pin_memory=cuda)
        copies = {name: self.copies[name] for name in mine}
        if not cuda:
            for name, values in mine.items():
                copies[name].copy_(values.detach())
            return copies, None
        self.stream = self.stream or torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            for name, values in mine.items():
                copies[name].copy_(values.detach(), non_blocking=True)
                if values.is_cuda:
                    values.record_stream(self.stream)
            event = torch.cuda.Event()
            event.record(self.stream)
        # The next step may change what is copied when the copy is there; the host goes on.
        torch.cuda.current_stream(device).wait_event(event)
        return copies, event

    def _write(self, order, mine: Dict[str, Held], event) -> None:
        try:
            self._write_together(order, mine, event)
        except Exception as error:  # the store is gone, and with it the first rank
            self._end(order, {"error": _words(error), "lasting": ""})

    def _write_together(self, order, mine: Dict[str, Held], event) -> None:
        if event is not None:
            event.synchronize()
        self._tell(f"saved/{order.step}/{order.rank}", lambda: order.write_mine(mine))
        if order.rank == 0:
            self._tell(f"saved/{order.step}", lambda: self._seal(order))
        self._end(order, self._told(f"saved/{order.step}"))

    def _end(self, order, outcome: Dict) -> None:
        self.error = outcome["error"]
        self.outcomes.append({"step": order.step, "path": order.final, **outcome})

    def _seal(self, order) -> None:
        try:
            # All of them: whoever is late would write into a folder that is gone.
            told = [self._told(f"saved/{order.step}/{rank}") for rank in range(order.world)]
            for said in told:
                if said["error"]:
                    raise Failed(said)
            order.seal()
        except Exception:
            order.abandon()
            raise

    def _tell(self, key: str, work) -> None:
        said = {"error": "", "lasting": ""}
        try:
            work()
        except Failed as error:
            said = error.said
        except Exception as error:
            lasting = type(error).__name__ if isinstance(error, (NotFinite, Refused)) else ""
            said = {"error": _words(error), "lasting": lasting}
        self.store.set(key, json.dumps(said))

    def _told(self, key: str) -> Dict:
        while not _is_there(self.store, key):
            time.sleep(LOOK_SECONDS)
            if not self.beside:
                self.alive()
        return json.loads(self.store.get(key))


class Failed(Exception):
    """What another rank has said."""

    def __init__(self, said: Dict):
        super().__init__(said["error"])
        self.said = said


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _is_there(store, key: str) -> bool:
    if hasattr(store, "check"):
        return store.check([key])
    return True  # PyTorch 1 can only wait, and `get` does
