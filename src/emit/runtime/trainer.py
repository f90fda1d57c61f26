"""The training loop of one rank: loads the program and data of its folder, runs steps, evaluates and saves."""
import json
import math
import os
import sys
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Dict, List, Optional, Tuple

import torch

from . import checkpoint, newest
from .choices import ChoiceFile
from .comm import Groups, all_here
from .data import batches_of
from .dead import Units
from .dtypes import DTYPES
from .evaluation import Judge
from .faults import Faults
from .graph import Recorded
from .hashes import Replicas
from .here import Here
from .loading import loading
from .looking import frames_kept, look
from .lock import Refused
from .mesh import Mesh
from .profile import Profile, gpu
from .saving import Saving
from .spikes import Norms
from .spoken import phrase
from .stage import Stage
from .stopping import Stopping


def read_json(folder: str, name: str) -> Dict:
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


FALLS = {
    "linear": lambda progress: 1 - progress,
    "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
    "exponential": lambda progress: 2 * 0.5**progress - 1,
    "minus-sqrt": lambda progress: 1 - math.sqrt(progress),
}


def lr_at(rate: Dict, steps: int, step: int) -> float:
    """The learning rate of a step: warmup to lr, then the schedule's decay to minLr."""
    lr, least, kind, warmup = rate["lr"], rate["minLr"], rate["kind"], rate["warmup"]
    end = rate.get("decaySteps", steps)
    if step < warmup:
        first = rate.get("warmupFrom")
        return lr * (step + 1) / warmup if first is None else first + (lr - first) * step / warmup
    if kind == "constant":
        return lr
    if step > end:
        return least
    if kind == "inverse-sqrt":
        return max(least, lr * math.sqrt(max(1, warmup) / max(1, step)))
    cooldown = min(end, rate.get("cooldown", math.ceil(end / 10)))
    start, fall = (end - cooldown, rate.get("cooldownShape", "linear")) if kind == "wsd" else (warmup, kind)
    progress = min(1, max(0, step - start) / max(1, end - start))
    return least + (lr - least) * FALLS[fall](progress)


def dtypes_of(precision: str) -> Dict[str, torch.dtype]:
    """Floating-point dtypes by name. In an f64 run all of them are f64."""
    wide = precision == "f64"
    return {name: torch.float64 if wide and dtype.is_floating_point else dtype for name, dtype in DTYPES.items()}


def not_saved(outcome: Dict) -> Dict:
    """A checkpoint that could not be written, as an event."""
    said = {"step": outcome["step"], "event": "saveFailed", "severity": "warning", "numbers": {}}
    advice = "the run continues, and retries at the next checkpoint"
    path, error = outcome["path"], str(outcome["error"])
    words = phrase("saveFailed/path", path=path, why=error)
    return {**said, "message": f"cannot write {path}: {error}", "advice": advice, **words}


def memory(device) -> Dict:
    """Peak memory of the CUDA caching allocator, and its retries (fragmentation), since the run began."""
    if device.type != "cuda":
        return {}
    return {"peakBytes": torch.cuda.max_memory_allocated(), "allocationRetries": torch.cuda.memory_stats(device).get("num_alloc_retries", 0)}


HOUR = timedelta(hours=1)
# Steps before timings are representative: the first ones compile and capture.
FAMILIAR = 3


class Trainer:
    """One rank, ready to run steps. `folder` has settings and data; `programs` has the plan, if that is another folder."""

    def __init__(
        self, folder: str, rank: int, device, precision="plan", compiled=False, recorded=False, patience=HOUR, groups=None,
        programs: str = "",
    ):
        self.settings = read_json(folder, "run.json")
        programs = programs or folder
        self._folder, self._programs, self._compiled, self._recorded = folder, programs, compiled, recorded
        self.program = read_json(programs, "program.json")
        mesh = Mesh(self.program["mesh"])
        backend = "nccl" if device.type == "cuda" else "gloo"
        made = Groups(mesh, rank, self.program["groups"], backend, patience, groups)
        self.data = batches_of(self.settings, folder, self.program.get("documentRanks", 1))
        self.here = Here(mesh, rank, made, device, dtypes_of(precision), self.data, self.settings["seed"])
        self.phase = (self.settings["globalBatch"], False)
        self.stage = Stage(programs, self.program, self.here, compiled)
        self.stage.initialise()
        made.open(rank, device)
        # A single rank can capture its step as a CUDA graph.
        self.runner = Recorded(self.stage) if recorded else self.stage
        self.first = 0
        # Applied steps, and consecutive skipped steps.
        self.taken, self.skips = 0, 0
        # Scalars that persist across steps, now and before the last step.
        self.scalars = self.before = dict(self.stage.starts)
        # Statistics of gradient norms, if spikes are skipped.
        self.norms = Norms() if self.settings.get("spikes") == "skip" else None
        self.limit = math.inf
        # Dead-unit detection, if the optimizer state allows it.
        self.units = Units(self.settings["units"]) if "units" in self.settings else None
        self.saving: Optional[Saving] = None
        # Corrupt checkpoints that were skipped: path and error.
        self.passed: List[Tuple[str, str]] = []
        self.begun = ""
        self.stopping: Optional[Stopping] = None
        # Replica comparison, if enabled.
        self.replicas: Optional[Replicas] = None
        self.choices: Optional[ChoiceFile] = None
        # The validation program, loaded when it is first needed.
        self.judge: Optional[Judge] = None
        self.judging = False
        # Injected faults, if any.
        self.faults: Optional[Faults] = None
        # The profiler, for every N-th step.
        self.profile: Optional[Profile] = None
        # Steps, saves and evaluations of this program so far.
        self.plays = self.saves = self.judgements = 0

    def _grow(self, step: int) -> None:
        """
        Switches programs when the batch size ramps up or gradient compression begins. The new program takes over all persistent state.
        """
        batch, _ = self.data.sizes.at(step)
        waiting = step < self.settings.get("compressFrom", 0)
        if (batch, waiting) == self.phase:
            return
        self.phase, self.plays = (batch, waiting), 0
        last = self.phase == (self.settings["globalBatch"], False)
        name = f"plain-{batch}" if waiting else f"batch-{batch}"
        folder = self._programs if last else os.path.join(self._programs, name)
        self.program = read_json(folder, "program.json")
        here, made = self.here, self.here.groups
        groups = Groups(here.mesh, here.rank, self.program["groups"], made.backend, made.timeout, made.made)
        self.here = Here(here.mesh, here.rank, groups, here.device, here.dtypes, self.data, here.seed)
        self.here.records = here.records
        done = self.stage.done
        self.stage = Stage(folder, self.program, self.here, self._compiled, self.stage, goes_on=True)
        self.stage.done = done + 1
        groups.open(here.rank, here.device)
        self.runner = Recorded(self.stage) if self._recorded else self.stage

    def record_choices(self, path: str, store) -> None:
        """From now on every step records the routing of its tokens."""
        repeated = self.settings.get("choices")
        if repeated:
            raise Refused(f"routing is replayed from {repeated}: nothing is chosen; leave data.routing out")
        if not self.program.get("chooses"):
            raise Refused("the model has no experts to choose; record nothing")
        self.choices = ChoiceFile(path, self.first, self.here.rank, store)
        self.here.records = True

    def position(self, step: int) -> Dict:
        """Training progress after `step` steps, as checkpoints store it."""
        data = {**self.data.cursor(step), "fingerprint": self.settings["fingerprint"]}
        return {"step": step, "seed": self.settings["seed"], "data": data}

    def save(self, step: int) -> str:
        self.stage.at = ["save", f"the checkpoint of step {step}"]
        self.saves += 1
        if self.faults:
            self.faults.before_saving(step)
        told = {"scalars": self.stage.scalars(), **({"norms": self.norms.position()} if self.norms else {})}
        return checkpoint.save(self.saving, self.program, self.stage, {**self.position(step), **told})

    def find(self, asked: str, store, weights_only: bool = False) -> newest.Found:
        """The checkpoint to resume from. Collective: each rank verifies some of the files."""
        self.stage.at = ["find", f"the checkpoint {asked}"]
        found = newest.find(asked, self.here.rank, self.here.mesh.world, store, weights_only, self.alive)
        self.begun, self.passed = found.folder, found.passed
        if self.here.rank == 0:
            for _, text in found.passed:
                print(f"lockstep: {text}; {found.folder} is used instead", file=sys.stderr, flush=True)
        if not weights_only:
            checkpoint.require_continuation(found.folder, found.manifest, self.position(found.manifest["step"]))
        return found

    def passed_over(self) -> List[Dict]:
        """Corrupt checkpoints newer than the one the run resumes from, as events."""
        say = {"step": 0, "event": "checkpointDamaged", "severity": "warning", "numbers": {}}
        used = {"advice": f"{self.begun} is used instead"}
        words = [phrase("checkpointDamaged/begin", why=text, path=self.begun) for _, text in self.passed]
        return [{**say, "message": text, **used, **said} for (_, text), said in zip(self.passed, words)]

    def ended_saves(self) -> Tuple[Optional[str], List[Dict]]:
        """The latest checkpoint completed since the last call, and failed writes as events. Raises if later writes would fail too."""
        outcomes = self.saving.writer.ended() if self.saving else []
        written = [one["path"] for one in outcomes if not one["error"]]
        return (written[-1] if written else None), [not_saved(one) for one in outcomes if one["error"]]

    def wait_saving(self) -> None:
        """Waits until the last checkpoint is written or has failed. Collective."""
        if self.saving:
            self.stage.at = ["save", "the last checkpoint"]
            self.saving.writer.wait()
            # No rank exits while another reads the result from the store.
            all_here()

    def finish_saving(self) -> List[Dict]:
        """Waits for the last checkpoint and returns failed writes as events. Raises on all ranks if it was not written."""
        self.wait_saving()
        return [not_saved(one) for one in self.saving.writer.finish() if one["error"]] if self.saving else []

    def alive(self) -> None:
        """Reports progress outside the schedule to the watchdog."""
        self.stage.done += 1

    @torch.no_grad()
    def load(self, folder: str, manifest: Dict, weights_only: bool = False) -> None:
        self.stage.at = ["load", f"the checkpoint {folder}"]
        with loading(folder, self.here.rank):
            checkpoint.load(folder, manifest, self.program, self.stage, weights_only)
        self.scalars = self.stage.scalars()
        self.taken = int(self.scalars["taken"])
        if self.norms and not weights_only and "norms" in manifest:
            self.norms.load(manifest["norms"])

    @torch.no_grad()
    def evaluate(self) -> Optional[float]:
        """The validation loss with the current parameters, on ranks that have it. Changes no state."""
        if self.judge is None:
            program, made = read_json(self._programs, "evaluation/program.json"), self.here.groups
            groups = Groups(self.here.mesh, self.here.rank, program["groups"], made.backend, made.timeout, made.made)
            self.judge = Judge(self._folder, self._programs, program, self.settings, self.stage, groups, self._compiled)
        self.judging = True
        loss = self.judge.loss()
        self.judging = False
        self.judgements += 1
        return loss

    def lr(self, taken: int) -> float:
        return lr_at(self.settings["learningRate"], self.settings["steps"], taken)

    def _told(self, lr: float) -> Dict[str, float]:
        """The scalars of the next step."""
        if self.norms is None:
            return {"lr": lr}
        self.limit = self.norms.limit()
        return {"lr": lr, "limit": self.limit}

    def why(self, norm: float) -> Tuple[str, Dict]:
        """Why a step with this gradient norm is skipped, as text and as a message template."""
        seen = f"{norm:.3g}"
        if math.isfinite(norm) and norm * norm >= self.limit:
            most = f"{math.sqrt(self.limit):.3g}"
            text = f"grad norm {seen} is a spike: expected below {most}, from earlier steps"
            return text, phrase("skipped/spike", norm=seen, limit=most)
        limit = self.settings.get("skipAbove")
        if math.isfinite(norm) and limit is not None:
            return f"grad norm {seen} >= {limit:g}", phrase("skipped/above", norm=seen, limit=f"{limit:g}")
        was, scale = self.before.get("scale"), self.scalars.get("scale")
        if was == scale:
            return "grad norm is NaN or Inf", phrase("skipped/not-finite")
        before, now = f"{was:.9g}", f"{scale:.9g}"
        return f"grad norm is NaN or Inf, loss scale {before} -> {now}", phrase("skipped/scale", before=before, now=now)

    def overflows(self) -> bool:
        """Whether the last step overflowed with the loss scale already at its minimum."""
        least = self.settings.get("leastScale")
        if self.skips == 0 or least is None or self.before["scale"] != least or self.before["hysteresis"] > 1:
            return False
        return not math.isfinite(self.stage.result("normSquared").item())

    @torch.no_grad()
    def step(self, step: int) -> Dict:
        """Runs one step. Returns its metrics on ranks that have them: loss, token count, grad norm."""
        self._grow(step)
        run, lr, before = self.settings, self.lr(self.taken), self.taken
        lr *= self.faults.factor(step + 1, "lr") if self.faults else 1
        started = time.perf_counter()
        self.stage.around = self.faults and self.faults.around(self.stage, step + 1)
        profile = self.profile if self.profile and self.profile.is_due(step + 1) else None
        # A CUDA graph is timed as a unit.
        parts = profile is not None and self.runner is self.stage
        with profile.measuring(self.stage) if parts else nullcontext():
            self.runner.run(step, self._told(lr))
        self.plays += 1
        measured = {} if profile is None else profile.record(self.here) if parts else gpu(self.here.device)
        if self.choices:
            self.choices.write(step, self.here.chosen, self.data)
        # All ranks have the same count, and end together after too many skipped steps.
        self.before, self.scalars = self.scalars, self.stage.scalars()
        self.taken = int(self.scalars["taken"])
        skipped = self.taken == before
        spike = self.norms is not None and self.norms.passed(self.stage.result("normSquared").item(), self.limit, not skipped)
        self.skips = self.skips + 1 if skipped and not spike else 0
        dead = self.units.after(self.stage, step + 1, skipped) if self.units else None
        names = {"loss": "loss", "counted": "count", "gradientNorm": "normSquared"}
        results = {key: self.stage.result(name) for key, name in names.items()}
        if any(value is None for value in results.values()):
            return {}
        loss, count, norm = (results[key].item() for key in names)
        terms = self.stage.result("terms")
        seconds = time.perf_counter() - started
        tokens = self.phase[0] * run["seq"] / seconds
        norm = math.sqrt(norm) if norm >= 0 else math.nan
        return {
            "step": step + 1,
            "loss": loss / count + (0 if terms is None else terms.item()),
            **({"globalBatch": self.phase[0]} if "batchRamp" in run else {}),
            "gradientNorm": norm,
            **({"normLimit": math.sqrt(self.limit)} if math.isfinite(self.limit) else {}),
            "lr": lr,
            "taken": self.taken,
            **({"skipped": self.why(norm)[0]} if skipped else {}),
            **({"scale": self.before["scale"]} if "scale" in self.before else {}),
            "counted": count,
            "seconds": seconds,
            "tokensPerSecond": tokens,
            "flopsPerSecond": tokens * run["flopsPerToken"],
            **({"dead": dead} if dead else {}),
            **measured,
            **memory(self.here.device),
        }

    @torch.no_grad()
    def whence(self, step: int) -> Optional[Dict]:
        """NaN tracing: where the NaN or Inf of a skipped step appeared first, as an event. Collective."""
        # A dynamic loss scaler overflows on purpose.
        if self.skips != 1 or "growth" in self.before:
            return None
        norm = self.stage.result("normSquared").item()
        if math.isfinite(norm):
            return None
        # A captured step keeps using the frames of its capture.
        with frames_kept(self.stage) if self.runner is not self.stage else nullcontext():
            try:
                found = look(self.stage, step - 1, self.here.told, self.faults and self.faults.again(self.stage, step))
            except getattr(torch.cuda, "OutOfMemoryError", ()):
                if self.here.mesh.world > 1:
                    raise
                return None  # the CUDA graph's memory pool leaves no room for the replay
            again = self.stage.result("normSquared").item()
        say = {"step": step, "event": "notFinite", "severity": "error", "numbers": {"gradientNorm": norm}}
        if found is not None:
            return {**say, **found.event()}
        if math.isfinite(again):
            text = "a replay of the step is finite: the cause was neither the data nor the program"
            advice = "suspect the hardware of a rank: intermittent memory or core errors"
            return {**say, "message": text, "advice": advice, **phrase("notFinite/once")}
        advice = "try a smaller lr, a warmup, or clip, and check the data of this step"
        message = "the first NaN or Inf appears in the reduction of gradients or in the grad norm"
        return {**say, "message": message, "advice": advice, **phrase("notFinite/sum")}

    def progress(self) -> int:
        """A progress counter for the watchdog."""
        return self.stage.done + (self.judge.stage.done if self.judge else 0)

    def call(self) -> Tuple[str, bool]:
        """The call that the rank is executing, and whether it was executed before."""
        judging = self.judging and self.judge
        kind, *rest = (self.judge.stage if judging else self.stage).at
        if kind in ("save", "load"):
            return kind, self.saves > 1
        familiar = self.judgements > 0 if judging else self.plays > FAMILIAR
        return f"{'judging ' if judging else ''}{kind} {rest[:3]}", familiar

    def where(self) -> str:
        """The current position as text."""
        stage = self.judge.stage if self.judging and self.judge else self.stage
        kind, *rest = stage.at
        here = stage.here
        if kind == "call":
            what = f"{rest[0]} of {rest[1] or 'the step'}" + (f", microbatch {rest[2]}" if rest[2] >= 0 else "")
        elif kind == "each":
            what = f"{rest[0]} of {len(rest[1])} parameters"
        elif kind in ("send", "recv"):
            what = f"{kind} {rest[2]}"
        else:
            what = " ".join([kind, *(str(item) for item in rest[:1])])
        awaited = here.awaited()
        waiting = f", waiting for {awaited}" if awaited else ""
        when = f"batch {here.step + 1} of the evaluation after step" if self.judging else "step"
        return f"{when} {self.here.step + 1}: {what}{waiting}"
