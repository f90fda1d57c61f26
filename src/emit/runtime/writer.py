"""
Asynchronous checkpointing: each rank copies its state, from a GPU to pinned memory, and a thread writes its file during the next steps.
Through the store rank 0 learns when all files are there, and renames the folder; all ranks read the outcome at their next step. At most
one checkpoint is written at a time.
"""
import json
import threading
import time
from typing import Callable, Dict, List, Optional

import torch
import torch.distributed as dist

from .lock import Refused
from .offload import DiskTensor, Storage
from .safetensors import NotFinite

# Polling interval of the store, in seconds.
POLL_SECONDS = 0.02


class NotSaved(Refused):
    """The last checkpoint of a run was not written. The message says why."""


class Writer:
    """The writer of one rank. `asynchronous`: writes in the background. `alive` is called during waits."""

    def __init__(self, store: dist.Store, asynchronous: bool, alive: Callable[[], None]):
        self.store, self.asynchronous, self.alive = store, asynchronous, alive
        self.thread: Optional[threading.Thread] = None
        # Outcomes of checkpoints since the last query.
        self.outcomes: List[Dict] = []
        # Why the last checkpoint was not written; empty: it was.
        self.error = ""
        # Buffers of the last copy, reused by the next.
        self.copies: Dict[str, torch.Tensor] = {}
        self.stream = None
        # How long the last checkpoint blocked training, in seconds.
        self.blocked_seconds = 0.0

    def start(self, task, own: Dict[str, Storage], device: torch.device) -> None:
        started = time.perf_counter()
        self.wait()
        # Tensors on disk may exceed memory: they are written as they are read.
        if not self.asynchronous or any(isinstance(values, DiskTensor) for values in own.values()):
            self._write(task, own, None)
        else:
            copies, event = self._copy(own, device)
            self.thread = threading.Thread(target=self._write, args=(task, copies, event), daemon=True, name="writer")
            self.thread.start()
        self.blocked_seconds = time.perf_counter() - started

    def wait(self) -> None:
        """Waits for the checkpoint that is being written."""
        while self.thread and self.thread.is_alive():
            self.thread.join(POLL_SECONDS)
            self.alive()
        self.thread = None

    def ended(self) -> List[Dict]:
        """Outcomes of completed writes. Raises if no later write could succeed."""
        results, self.outcomes = self.outcomes, []
        for outcome in results:
            if outcome["lasting"]:
                raise (NotFinite if outcome["lasting"] == NotFinite.__name__ else Refused)(outcome["error"])
        return results

    def finish(self) -> List[Dict]:
        """The same, after the last write. Raises if that checkpoint was not written."""
        results = self.ended()
        if self.error:
            raise NotSaved(f"the last checkpoint could not be written: {self.error}")
        return results

    def _copy(self, own: Dict[str, torch.Tensor], device: torch.device):
        """A snapshot of the state, and the event to wait for before it is read."""
        cuda = device.type == "cuda"
        for name, values in own.items():
            last = self.copies.get(name)
            if last is None or last.shape != values.shape or last.dtype != values.dtype:
                self.copies[name] = torch.empty(values.shape, dtype=values.dtype, pin_memory=cuda)
        copies = {name: self.copies[name] for name in own}
        if not cuda:
            for name, values in own.items():
                copies[name].copy_(values.detach())
            return copies, None
        self.stream = self.stream or torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            for name, values in own.items():
                copies[name].copy_(values.detach(), non_blocking=True)
                if values.is_cuda:
                    values.record_stream(self.stream)
            event = torch.cuda.Event()
            event.record(self.stream)
        # The next step waits for the copy before it changes state; the host continues.
        torch.cuda.current_stream(device).wait_event(event)
        return copies, event

    def _write(self, task, own: Dict[str, Storage], event) -> None:
        try:
            self._write_all(task, own, event)
        except Exception as error:  # the store is gone, because rank 0 is
            self._end(task, {"error": _describe(error), "lasting": ""})

    def _write_all(self, task, own: Dict[str, Storage], event) -> None:
        if event is not None:
            event.synchronize()
        self._report(f"saved/{task.step}/{task.rank}", lambda: task.write_own(own))
        if task.rank == 0:
            self._report(f"saved/{task.step}", lambda: self._seal(task))
        self._end(task, self._wait_for(f"saved/{task.step}"))

    def _end(self, task, outcome: Dict) -> None:
        self.error = outcome["error"]
        self.outcomes.append({"step": task.step, "path": task.final, **outcome})

    def _seal(self, task) -> None:
        try:
            # Waits for all ranks: a late one would write into a folder that is gone.
            results = [self._wait_for(f"saved/{task.step}/{rank}") for rank in range(task.world)]
            for outcome in results:
                if outcome["error"]:
                    raise Failed(outcome)
            task.seal()
        except Exception:
            task.abandon()
            raise

    def _report(self, key: str, work) -> None:
        outcome = {"error": "", "lasting": ""}
        try:
            work()
        except Failed as error:
            outcome = error.outcome
        except Exception as error:
            lasting = type(error).__name__ if isinstance(error, (NotFinite, Refused)) else ""
            outcome = {"error": _describe(error), "lasting": lasting}
        self.store.set(key, json.dumps(outcome))

    def _wait_for(self, key: str) -> Dict:
        while not _has(self.store, key):
            time.sleep(POLL_SECONDS)
            if not self.asynchronous:
                self.alive()
        return json.loads(self.store.get(key))


class Failed(Exception):
    """The error of another rank."""

    def __init__(self, outcome: Dict):
        super().__init__(outcome["error"])
        self.outcome = outcome


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _has(store, key: str) -> bool:
    if hasattr(store, "check"):
        return store.check([key])
    return True  # PyTorch 1 can only wait, and `get` does
