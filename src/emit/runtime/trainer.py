"""One rank of a run: what it reads from its folder, a step of it, and what there is to say of it."""
import json
import math
import os
import time
from datetime import timedelta
from typing import Dict

import torch

from . import checkpoint
from .comm import Groups
from .data import batches_of
from .graph import Recorded
from .here import Here
from .mesh import Mesh
from .stage import Stage


def read_json(folder: str, name: str) -> Dict:
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def lr_at(rate: Dict, steps: int, step: int) -> float:
    """Up to lr over the warm-up, then constant, or down so that after the last step it would be minLr."""
    lr, warmup = rate["lr"], rate["warmup"]
    if step < warmup:
        return lr * (step + 1) / warmup
    progress = min(1, (step - warmup) / max(1, steps - warmup))
    left = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[rate["kind"]]
    floor = 0.0 if rate["kind"] == "constant" else rate["minLr"]
    return floor + (lr - floor) * left


def dtypes_of(precision: str) -> Dict[str, torch.dtype]:
    kinds = {"f32": torch.float32, "bf16": torch.bfloat16}
    return {**({name: torch.float64 for name in kinds} if precision == "f64" else kinds), "i32": torch.int64}


HOUR = timedelta(hours=1)


class Trainer:
    """One rank of a run, ready to step."""

    def __init__(
        self, folder: str, rank: int, device, precision="plan", compiled=False, recorded=False, patience=HOUR, groups=None
    ):
        self.program = read_json(folder, "program.json")
        self.settings = read_json(folder, "run.json")
        mesh = Mesh(self.program["mesh"])
        backend = "nccl" if device.type == "cuda" else "gloo"
        made = Groups(mesh, rank, self.program["groups"], backend, patience, groups)
        data = batches_of(self.settings, folder)
        self.here = Here(mesh, rank, made, device, dtypes_of(precision), data, self.settings["seed"])
        self.stage = Stage(folder, self.program, self.here, compiled)
        self.stage.initialise()
        # A rank that meets no other can replay its step from a recording.
        self.runner = Recorded(self.stage) if recorded else self.stage
        self.first = 0

    def save(self, folder: str, step: int) -> str:
        self.stage.at = ["save", f"the checkpoint of step {step}"]
        return checkpoint.save(folder, self.program, self.stage, step)

    @torch.no_grad()
    def load(self, folder: str, weights_only: bool = False) -> int:
        self.stage.at = ["load", f"the checkpoint {folder}"]
        return checkpoint.load(folder, self.program, self.stage, weights_only)

    def lr(self, step: int) -> float:
        return lr_at(self.settings["learningRate"], self.settings["steps"], step)

    @torch.no_grad()
    def step(self, step: int) -> Dict:
        """What there is to say of it, on ranks that know: the loss, the count, the norm."""
        run, lr = self.settings, self.lr(step)
        started = time.perf_counter()
        self.runner.run(step, lr)
        names = {"loss": "loss", "counted": "count", "gradientNorm": "normSquared"}
        scalars = {key: self.stage.scalar(name) for key, name in names.items()}
        if any(value is None for value in scalars.values()):
            return {}
        loss, count, norm = (scalars[key].item() for key in names)
        seconds = time.perf_counter() - started
        tokens = run["globalBatch"] * run["seq"] / seconds
        return {
            "step": step + 1,
            "loss": loss / count,
            "gradientNorm": math.sqrt(norm) if norm >= 0 else math.nan,
            "lr": lr,
            "counted": count,
            "seconds": seconds,
            "tokensPerSecond": tokens,
            "flopsPerSecond": tokens * run["flopsPerToken"],
            **({"peakBytes": torch.cuda.max_memory_allocated()} if self.here.device.type == "cuda" else {}),
        }

    def progress(self) -> int:
        """Grows with everything the rank does."""
        return self.stage.done

    def where(self) -> str:
        """What the rank is doing, in words."""
        kind, *rest = self.stage.at
        here = self.here
        if kind == "call":
            what = f"{rest[0]} of {rest[1] or 'the step'}" + (f", microbatch {rest[2]}" if rest[2] >= 0 else "")
        elif kind == "each":
            what = f"{rest[0]} of {len(rest[1])} parameters"
        elif kind in ("send", "recv"):
            what = f"{kind} {rest[2]}"
        else:
            what = " ".join([kind, *(str(item) for item in rest[:1])])
        waiting = f", waiting for {here.waiting_for}" if here.waiting_for else ""
        return f"step {here.step + 1}: {what}{waiting}"
