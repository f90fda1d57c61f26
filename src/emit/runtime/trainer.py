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
import torch.distributed as dist

from . import checkpoint, latest
from .comm import Groups, barrier
from .context import Context
from .cuda_graph import CapturedStep
from .data import batches_of
from .dead_units import DeadUnits
from .dtypes import DTYPES
from .evaluation import Evaluator
from .faults import Faults
from .hashes import Replicas
from .loading import loading
from .lock import Refused
from .mesh import Mesh
from .messages import phrase
from .nan_trace import buffers_restored, trace
from .profiler import Profiler, gpu
from .routing_record import RoutingFile
from .saving import Saving
from .spikes import GradNormHistory
from .stage import Stage
from .stopping import Stopping


def read_json(folder: str, name: str) -> Dict:
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


DECAYS = {
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
    start, shape = (end - cooldown, rate.get("cooldownShape", "linear")) if kind == "wsd" else (warmup, kind)
    progress = min(1, max(0, step - start) / max(1, end - start))
    return least + (lr - least) * DECAYS[shape](progress)


def dtypes_of(precision: str) -> Dict[str, torch.dtype]:
    """Floating-point dtypes by name. In an f64 run all of them are f64."""
    is_f64 = precision == "f64"
    return {name: torch.float64 if is_f64 and dtype.is_floating_point else dtype for name, dtype in DTYPES.items()}


def not_saved(outcome: Dict) -> Dict:
    """A checkpoint that could not be written, as an event."""
    event_fields = {"step": outcome["step"], "event": "saveFailed", "severity": "warning", "numbers": {}}
    advice = "the run continues, and retries at the next checkpoint"
    path, error = outcome["path"], str(outcome["error"])
    words = phrase("saveFailed/path", path=path, why=error)
    return {**event_fields, "message": f"cannot write {path}: {error}", "advice": advice, **words}


def memory(device: torch.device) -> Dict:
    """Peak memory of the CUDA caching allocator, and its retries (fragmentation), since the run began."""
    if device.type != "cuda":
        return {}
    return {"peakBytes": torch.cuda.max_memory_allocated(), "allocationRetries": torch.cuda.memory_stats(device).get("num_alloc_retries", 0)}


HOUR = timedelta(hours=1)
# Steps before timings are representative: the first ones compile and capture.
WARMUP_STEPS = 3


class Trainer:
    """One rank, ready to run steps. `folder` has settings and data; `programs` has the plan, if that is another folder."""

    def __init__(
        self, folder: str, rank: int, device: torch.device, precision: str = "plan", compiled: bool = False,
        cuda_graph: bool = False, timeout: timedelta = HOUR, process_groups: Optional[Dict] = None, programs: str = "",
    ):
        self.settings = read_json(folder, "run.json")
        programs = programs or folder
        self._folder, self._programs, self._compiled, self._cuda_graph = folder, programs, compiled, cuda_graph
        self.program = read_json(programs, "program.json")
        mesh = Mesh(self.program["mesh"])
        backend = "nccl" if device.type == "cuda" else "gloo"
        groups = Groups(mesh, rank, self.program["groups"], backend, timeout, process_groups)
        self.data = batches_of(self.settings, folder, self.program.get("documentRanks", 1))
        self.ctx = Context(mesh, rank, groups, device, dtypes_of(precision), self.data, self.settings["seed"])
        self.phase = (self.settings["globalBatch"], False)
        self.stage = Stage(programs, self.program, self.ctx, compiled)
        self.stage.initialize()
        groups.connect(rank, device)
        # A single rank can capture its step as a CUDA graph.
        self.runner = CapturedStep(self.stage) if cuda_graph else self.stage
        self.first = 0
        # Applied steps, and consecutive skipped steps.
        self.applied_steps, self.skips = 0, 0
        # Scalars that persist across steps, now and before the last step.
        self.scalars = self.before = dict(self.stage.initial_scalars)
        # Statistics of gradient norms, if spikes are skipped.
        self.norms = GradNormHistory() if self.settings.get("spikes") == "skip" else None
        self.limit = math.inf
        # Dead-unit detection, if the optimizer state allows it.
        self.units = DeadUnits(self.settings["units"]) if "units" in self.settings else None
        self.saving: Optional[Saving] = None
        # Corrupt checkpoints that were skipped: path and error.
        self.skipped_corrupt: List[Tuple[str, str]] = []
        self.resumed_from = ""
        self.stopping: Optional[Stopping] = None
        # Replica comparison, if enabled.
        self.replicas: Optional[Replicas] = None
        self.routing_file: Optional[RoutingFile] = None
        # The validation program, loaded when it is first needed.
        self.evaluator: Optional[Evaluator] = None
        self.evaluating = False
        # Injected faults, if any.
        self.faults: Optional[Faults] = None
        # The profiler, for every N-th step.
        self.profile: Optional[Profiler] = None
        # Steps, saves and evaluations of this program so far.
        self.steps_run = self.saves = self.evaluations = 0

    def _switch_program(self, step: int) -> None:
        """
        Switches programs when the batch size ramps up or gradient compression begins. The new program takes over all persistent state.
        """
        batch, _ = self.data.sizes.at(step)
        waiting = step < self.settings.get("compressFrom", 0)
        if (batch, waiting) == self.phase:
            return
        self.phase, self.steps_run = (batch, waiting), 0
        last = self.phase == (self.settings["globalBatch"], False)
        name = f"plain-{batch}" if waiting else f"batch-{batch}"
        folder = self._programs if last else os.path.join(self._programs, name)
        self.program = read_json(folder, "program.json")
        ctx, old = self.ctx, self.ctx.groups
        groups = Groups(ctx.mesh, ctx.rank, self.program["groups"], old.backend, old.timeout, old.process_groups)
        self.ctx = Context(ctx.mesh, ctx.rank, groups, ctx.device, ctx.dtypes, self.data, ctx.seed)
        self.ctx.records_routing = ctx.records_routing
        done = self.stage.done
        self.stage = Stage(folder, self.program, self.ctx, self._compiled, self.stage, takes_over=True)
        self.stage.done = done + 1
        groups.connect(ctx.rank, ctx.device)
        self.runner = CapturedStep(self.stage) if self._cuda_graph else self.stage

    def record_routing(self, path: str, store: dist.Store) -> None:
        """From now on every step records the routing of its tokens."""
        replayed = self.settings.get("choices")
        if replayed:
            raise Refused(f"routing is replayed from {replayed}: nothing is chosen; leave data.routing out")
        if not self.program.get("chooses"):
            raise Refused("the model has no experts to route to; record nothing")
        self.routing_file = RoutingFile(path, self.first, self.ctx.rank, store)
        self.ctx.records_routing = True

    def position(self, step: int) -> Dict:
        """Training progress after `step` steps, as checkpoints store it."""
        data = {**self.data.cursor(step), "fingerprint": self.settings["fingerprint"]}
        return {"step": step, "seed": self.settings["seed"], "data": data}

    def save(self, step: int) -> str:
        self.stage.at = ["save", f"the checkpoint of step {step}"]
        self.saves += 1
        if self.faults:
            self.faults.before_saving(step)
        extra = {"scalars": self.stage.scalars(), **({"norms": self.norms.position()} if self.norms else {})}
        return checkpoint.save(self.saving, self.program, self.stage, {**self.position(step), **extra})

    def find(self, asked: str, store: dist.Store, weights_only: bool = False) -> latest.LatestCheckpoint:
        """The checkpoint to resume from. Collective: each rank verifies some of the files."""
        self.stage.at = ["find", f"the checkpoint {asked}"]
        found = latest.find(asked, self.ctx.rank, self.ctx.mesh.world, store, weights_only, self.alive)
        self.resumed_from, self.skipped_corrupt = found.folder, found.skipped
        if self.ctx.rank == 0:
            for _, text in found.skipped:
                print(f"lockstep: {text}; {found.folder} is used instead", file=sys.stderr, flush=True)
        if not weights_only:
            checkpoint.require_continuation(found.folder, found.manifest, self.position(found.manifest["step"]))
        return found

    def skipped_checkpoints(self) -> List[Dict]:
        """Corrupt checkpoints newer than the one the run resumes from, as events."""
        event = {"step": 0, "event": "checkpointDamaged", "severity": "warning", "numbers": {}}
        used = {"advice": f"{self.resumed_from} is used instead"}
        words = [phrase("checkpointDamaged/begin", why=text, path=self.resumed_from) for _, text in self.skipped_corrupt]
        return [{**event, "message": text, **used, **event_fields} for (_, text), event_fields in zip(self.skipped_corrupt, words)]

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
            barrier()

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
        with loading(folder, self.ctx.rank):
            checkpoint.load(folder, manifest, self.program, self.stage, weights_only)
        self.scalars = self.stage.scalars()
        self.applied_steps = int(self.scalars["taken"])
        if self.norms and not weights_only and "norms" in manifest:
            self.norms.load(manifest["norms"])

    @torch.no_grad()
    def evaluate(self) -> Optional[float]:
        """The validation loss with the current parameters, on ranks that have it. Changes no state."""
        if self.evaluator is None:
            program, old = read_json(self._programs, "evaluation/program.json"), self.ctx.groups
            groups = Groups(self.ctx.mesh, self.ctx.rank, program["groups"], old.backend, old.timeout, old.process_groups)
            self.evaluator = Evaluator(self._folder, self._programs, program, self.settings, self.stage, groups, self._compiled)
        self.evaluating = True
        loss = self.evaluator.loss()
        self.evaluating = False
        self.evaluations += 1
        return loss

    def lr(self, applied_steps: int) -> float:
        return lr_at(self.settings["learningRate"], self.settings["steps"], applied_steps)

    def _step_scalars(self, lr: float) -> Dict[str, float]:
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
        self._switch_program(step)
        run, lr, before = self.settings, self.lr(self.applied_steps), self.applied_steps
        lr *= self.faults.factor(step + 1, "lr") if self.faults else 1
        started = time.perf_counter()
        self.stage.around = self.faults and self.faults.around(self.stage, step + 1)
        profile = self.profile if self.profile and self.profile.is_due(step + 1) else None
        # A CUDA graph is timed as a unit.
        parts = profile is not None and self.runner is self.stage
        with profile.measuring(self.stage) if parts else nullcontext():
            self.runner.run(step, self._step_scalars(lr))
        self.steps_run += 1
        measured = {} if profile is None else profile.record(self.ctx) if parts else gpu(self.ctx.device)
        if self.routing_file:
            self.routing_file.write(step, self.ctx.routing, self.data)
        # All ranks have the same count, and end together after too many skipped steps.
        self.before, self.scalars = self.scalars, self.stage.scalars()
        self.applied_steps = int(self.scalars["taken"])
        skipped = self.applied_steps == before
        spike = self.norms is not None and self.norms.record(self.stage.result("normSquared").item(), self.limit, not skipped)
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
            "taken": self.applied_steps,
            **({"skipped": self.why(norm)[0]} if skipped else {}),
            **({"scale": self.before["scale"]} if "scale" in self.before else {}),
            "counted": count,
            "seconds": seconds,
            "tokensPerSecond": tokens,
            "flopsPerSecond": tokens * run["flopsPerToken"],
            **({"dead": dead} if dead else {}),
            **measured,
            **memory(self.ctx.device),
        }

    @torch.no_grad()
    def trace_nan(self, step: int) -> Optional[Dict]:
        """NaN tracing: where the NaN or Inf of a skipped step appeared first, as an event. Collective."""
        # A dynamic loss scaler overflows on purpose.
        if self.skips != 1 or "growth" in self.before:
            return None
        norm = self.stage.result("normSquared").item()
        if math.isfinite(norm):
            return None
        # A captured step keeps using the buffers of its capture.
        with buffers_restored(self.stage) if self.runner is not self.stage else nullcontext():
            try:
                found = trace(self.stage, step - 1, self.ctx.step_scalars, self.faults and self.faults.again(self.stage, step))
            except getattr(torch.cuda, "OutOfMemoryError", ()):
                if self.ctx.mesh.world > 1:
                    raise
                return None  # the CUDA graph's memory pool leaves no room for the replay
            again = self.stage.result("normSquared").item()
        event = {"step": step, "event": "notFinite", "severity": "error", "numbers": {"gradientNorm": norm}}
        if found is not None:
            return {**event, **found.event()}
        if math.isfinite(again):
            text = "a replay of the step is finite: the cause was neither the data nor the program"
            advice = "suspect the hardware of a rank: intermittent memory or core errors"
            return {**event, "message": text, "advice": advice, **phrase("notFinite/once")}
        advice = "try a smaller lr, a warmup, or clip, and check the data of this step"
        message = "the first NaN or Inf appears in the reduction of gradients or in the grad norm"
        return {**event, "message": message, "advice": advice, **phrase("notFinite/sum")}

    def progress(self) -> int:
        """A progress counter for the watchdog."""
        return self.stage.done + (self.evaluator.stage.done if self.evaluator else 0)

    def call(self) -> Tuple[str, bool]:
        """The call that the rank is executing, and whether it was executed before."""
        evaluating = self.evaluating and self.evaluator
        kind, *rest = (self.evaluator.stage if evaluating else self.stage).at
        if kind in ("save", "load"):
            return kind, self.saves > 1
        has_run = self.evaluations > 0 if evaluating else self.steps_run > WARMUP_STEPS
        return f"{'evaluating ' if evaluating else ''}{kind} {rest[:3]}", has_run

    def where(self) -> str:
        """The current position as text."""
        stage = self.evaluator.stage if self.evaluating and self.evaluator else self.stage
        kind, *rest = stage.at
        ctx = stage.ctx
        if kind == "call":
            what = f"{rest[0]} of {rest[1] or 'the step'}" + (f", microbatch {rest[2]}" if rest[2] >= 0 else "")
        elif kind == "each":
            what = f"{rest[0]} of {len(rest[1])} parameters"
        elif kind in ("send", "recv"):
            what = f"{kind} {rest[2]}"
        else:
            what = " ".join([kind, *(str(item) for item in rest[:1])])
        first_pending = ctx.first_pending()
        waiting = f", waiting for {first_pending}" if first_pending else ""
        when = f"batch {ctx.step + 1} of the evaluation after step" if self.evaluating else "step"
        return f"{when} {self.ctx.step + 1}: {what}{waiting}"
