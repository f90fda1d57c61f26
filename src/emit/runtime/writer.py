"""
Asynchronous checkpointing: each rank copies its state, from a GPU to pinned memory, and a thread writes its file during the next steps.
Through the store rank 0 learns when all files are there, and renames the folder; all ranks read the outcome at their next step. At most
one checkpoint is written at a time.
"""
import json
import threading
import time
from typing import Dict, List, Optional

import torch

from .lock import Refused
from .safetensors import NotFinite
from .spaces import Held, OnDisk

# Polling interval of the store, in seconds.
LOOK_SECONDS = 0.02


class NotSaved(Refused):
    """The last checkpoint of a run was not written. The message says why."""


class Writer:
    """The writer of one rank. `beside`: writes in the background. `alive` is called during waits."""

    def __init__(self, store, beside: bool, alive):
        self.store, self.beside, self.alive = store, beside, alive
        self.thread: Optional[threading.Thread] = None
        # Outcomes of checkpoints since the last query.
        self.outcomes: List[Dict] = []
        # Why the last checkpoint was not written; empty: it was.
        self.error = ""
        # Buffers of the last copy, reused by the next.
        self.copies: Dict[str, torch.Tensor] = {}
        self.stream = None
        # How long the last checkpoint blocked training, in seconds.
        self.stood = 0.0

    def start(self, order, mine: Dict[str, Held], device: torch.device) -> None:
        started = time.perf_counter()
        self.wait()
        # Tensors on disk may exceed memory: they are written as they are read.
        if not self.beside or any(isinstance(values, OnDisk) for values in mine.values()):
            self._write(order, mine, None)
        else:
            copies, event = self._copy(mine, device)
            self.thread = threading.Thread(target=self._write, args=(order, copies, event), daemon=True, name="writer")
            self.thread.start()
        self.stood = time.perf_counter() - started

    def wait(self) -> None:
        """Waits for the checkpoint that is being written."""
        while self.thread and self.thread.is_alive():
            self.thread.join(LOOK_SECONDS)
            self.alive()
        self.thread = None

    def ended(self) -> List[Dict]:
        """Outcomes of completed writes. Raises if no later write could succeed."""
        told, self.outcomes = self.outcomes, []
        for outcome in told:
            if outcome["lasting"]:
                raise (NotFinite if outcome["lasting"] == NotFinite.__name__ else Refused)(outcome["error"])
        return told

    def finish(self) -> List[Dict]:
        """The same, after the last write. Raises if that checkpoint was not written."""
        told = self.ended()
        if self.error:
            raise NotSaved(f"the last checkpoint could not be written: {self.error}")
        return told

    def _copy(self, mine: Dict[str, torch.Tensor], device: torch.device):
        """A snapshot of the state, and the event to wait for before it is read."""
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
        # The next step waits for the copy before it changes state; the host continues.
        torch.cuda.current_stream(device).wait_event(event)
        return copies, event

    def _write(self, order, mine: Dict[str, Held], event) -> None:
        try:
            self._write_together(order, mine, event)
        except Exception as error:  # the store is gone, because rank 0 is
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
            # Waits for all ranks: a late one would write into a folder that is gone.
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
    """The error of another rank."""

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
