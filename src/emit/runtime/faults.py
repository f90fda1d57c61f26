"""
Fault injection: shows before production what a run does when a rank dies, hangs, is slow, computes NaN or loses a message.
`--fault KIND:key=value,...`, as in lockstep train; steps count from 1, and calls from 0 in the schedule of stageN.json. A fault happens
once: a restarted run reads the list of those that have happened.
"""
import errno
import fnmatch
import glob
import json
import math
import os
import signal
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Optional

import torch

from . import checkpoint, offload

# Required and optional keys of each kind.
KEYS = {
    "kill": (("rank", "step"), ("at",)),
    "stall": (("rank", "step"), ("at", "seconds")),
    "slow": (("rank", "factor"), ("from", "to")),
    "lr": (("factor",), ("from", "to")),
    "nan": (("rank", "step"), ("at", "transient")),
    "flip": (("rank", "step", "parameter"), ("index", "bit")),
    "lose": (("rank", "step"), ("at",)),
    "full-disk": ((), ("step",)),
    "damage": (("file",), ("step",)),
}
WORDS = ("parameter", "file")
NUMBERS = ("factor", "seconds")


class Fault(NamedTuple):
    text: str
    kind: str
    values: Dict

    def has(self, key: str, default=None):
        return self.values.get(key, default)


def parse(text: str) -> Fault:
    kind, _, rest = text.partition(":")
    if kind not in KEYS:
        raise ValueError(f"unknown fault {kind!r}; use one of {', '.join(KEYS)}")
    required, optional = KEYS[kind]
    values: Dict = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in (*required, *optional):
            raise ValueError(f"{text}: {part!r} is not one of {', '.join(f'{name}=' for name in (*required, *optional))}")
        values[key] = _parse_value(text, key, value)
    missing = [key for key in required if key not in values]
    if missing:
        raise ValueError(f"{text}: {missing[0]}= is missing")
    return Fault(text, kind, values)


def _parse_value(text: str, key: str, value: str):
    if key in WORDS:
        return value
    try:
        number = float(value) if key in NUMBERS else int(value)
    except ValueError:
        number = -1
    least = 1 if key in ("factor", "step", "from", "to") else 0
    if not (least <= number < math.inf):
        raise ValueError(f"{text}: {key}={value} is not {'a number' if key in NUMBERS else 'an integer'} of at least {least}")
    return number


class Faults:
    """The faults of one rank."""

    def __init__(self, texts: List[str], folder: str, rank: int, restarts: int):
        self.rank = rank
        # Rank 0 does those of files, except that on a full disk every rank's writes fail; the learning rate is that of all ranks.
        everyones = {"full-disk": rank, "lr": rank, "damage": 0}
        parsed = [parse(text) for text in texts]
        self.mine = [fault for fault in parsed if fault.has("rank", everyones.get(fault.kind)) == rank]
        self.record = os.path.join(folder, f"faults-{rank}.json")
        self.happened: List[str] = []
        if os.path.exists(self.record):
            if restarts:
                with open(self.record) as file:
                    self.happened = json.load(file)
            else:
                os.remove(self.record)

    def due(self, step: int, *kinds: str) -> List[Fault]:
        """Pending faults of this step or an earlier one."""
        return [
            fault for fault in self.mine
            if fault.kind in kinds and fault.text not in self.happened and fault.has("step", 1) <= step
        ]

    def happens(self, fault: Fault) -> None:
        """Recorded before the fault: a rank that is killed cannot record it afterwards."""
        print(f"lockstep: rank {self.rank}: injected fault: {fault.text}", file=sys.stderr, flush=True)
        self.happened.append(fault.text)
        with open(self.record, "w") as file:
            file.write(json.dumps(self.happened))
            file.flush()
            os.fsync(file.fileno())

    def factor(self, step: int, kind: str) -> float:
        """The product over all faults that last over this step."""
        now = [f for f in self.mine if f.kind == kind and f.has("from", 1) <= step <= f.has("to", math.inf)]
        return math.prod(fault.has("factor") for fault in now)

    def around(self, stage, step: int) -> Optional[Callable[[int, Callable], None]]:
        """A hook around every call of this step, if a fault needs one."""
        due = [fault for fault in self.due(step, "kill", "stall", "nan", "lose") if fault.has("step") == step]
        factor = self.factor(step, "slow")
        if not due and factor == 1:
            return None

        def run(i: int, call: Callable[[], None]) -> None:
            now = [fault for fault in due if fault.text not in self.happened and i >= self._place(fault, stage)]
            for fault in now:
                if fault.kind in ("kill", "stall"):
                    self._end_or_wait(fault)
            lost = next((fault for fault in now if fault.kind == "lose"), None)
            if lost and self._lose(lost, stage):
                return
            started = time.perf_counter()
            call()
            if factor > 1:
                if stage.ctx.device.type == "cuda":
                    torch.cuda.synchronize(stage.ctx.device)
                time.sleep((factor - 1) * (time.perf_counter() - started))
            for fault in now:
                if fault.kind == "nan" and stage.poison():
                    self.happens(fault)

        return run

    def again(self, stage, step: int) -> Optional[Callable[[int, Callable], None]]:
        """The same for a replay of the step: a fault that computes NaN repeats, unless it is to happen only once."""
        left = [f for f in self.mine if f.kind == "nan" and f.has("step") == step and f.text in self.happened and not f.has("transient", 0)]

        def run(i: int, call: Callable[[], None]) -> None:
            call()
            for fault in [fault for fault in left if i >= self._place(fault, stage)]:
                if stage.poison():
                    left.remove(fault)

        return run if left else None

    @staticmethod
    def _place(fault: Fault, stage) -> int:
        """The index of the call. By default a message is lost at the first send, and NaN is computed by the first call of a microbatch."""
        if fault.has("at") is not None or fault.kind not in ("lose", "nan"):
            return fault.has("at", 0)
        matches = (lambda row: row[0] == "send") if fault.kind == "lose" else (lambda row: row[0] == "call" and row[3] >= 0)
        return next((i for i, row in enumerate(stage.steps) if matches(row)), 0)

    def _end_or_wait(self, fault: Fault) -> None:
        self.happens(fault)
        if fault.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.has("seconds") is not None:
            time.sleep(fault.has("seconds"))
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _lose(self, fault: Fault, stage) -> bool:
        """True: the message of this call is not sent. If the call sends none, the next receive never completes."""
        self.happens(fault)
        if stage.at[0] == "send":
            stage.pending[stage.at[3]] = []
            return True
        stage.ctx.wait = lambda pending: _never(stage.ctx, pending.text)
        return False

    def after(self, trainer, step: int) -> None:
        """After a step."""
        for fault in self.due(step, "flip"):
            self.happens(fault)
            flip(trainer.stage, fault)

    def after_saving(self, trainer, step: int) -> None:
        """After the step's checkpoint, if there is one."""
        for fault in self.due(step, "damage"):
            if trainer.saving and damage(trainer.saving.folder, fault.has("file"), lambda: self.happens(fault)):
                return

    def before_saving(self, step: int) -> None:
        for fault in self.due(step, "full-disk"):
            self.happens(fault)
            fail_next_write()


def _never(ctx, text: str) -> None:
    ctx.waiting_for = text
    while True:
        time.sleep(60)


def flip(stage, fault: Fault) -> None:
    """Flips one bit of this rank's shard of a parameter, as the next step reads it."""
    param = next((param for param in stage.params if param["name"] == fault.has("parameter")), None)
    stored = stage.stored(param) if param else []
    if not stored:
        raise RuntimeError(f"{fault.text}: rank {stage.ctx.rank} holds no parameter {fault.has('parameter')}")
    with offload.writable(stage.local_shard_of(stored[0][0], param, stored[0][1])) as values:
        kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
        # A copy, since a view into a joined buffer cannot be flattened.
        bits = values.contiguous().view(-1).clone().view(kinds[values.element_size()])
        at, bit = fault.has("index", 0) % bits.numel(), fault.has("bit", 0) % (8 * values.element_size())
        top = bit == 8 * values.element_size() - 1
        bits[at] ^= -(1 << bit) if top else 1 << bit
        values.copy_(bits.view(values.dtype).view(values.shape))


def damage(folder: str, pattern: str, happens: Callable[[], None]) -> bool:
    """Flips one bit of the first matching file of the latest checkpoint, once there is one."""
    complete = sorted(glob.glob(os.path.join(glob.escape(folder), "step-*", "manifest.json")))
    names = sorted(os.listdir(os.path.dirname(complete[-1]))) if complete else []
    found = next((name for name in names if fnmatch.fnmatch(name, pattern)), None)
    if found is None:
        return False
    happens()
    with open(os.path.join(os.path.dirname(complete[-1]), found), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    return True


def fail_next_write() -> None:
    write = checkpoint.write

    def full(path: str, *_) -> None:
        checkpoint.write = write
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    checkpoint.write = full
