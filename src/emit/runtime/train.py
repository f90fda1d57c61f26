"""
A run: every rank starts here. Reads the folder it lies in, makes its groups, trains, and reports a line of JSON a step.
"""
import argparse
import json
import math
import os
import time
from datetime import timedelta
from typing import Dict, Optional

import torch
import torch.distributed as dist

from . import attention, checkpoint
from .comm import Groups
from .data import batches_of
from .here import Here
from .mesh import Mesh
from .stage import Stage
from .watchdog import Watchdog


def arguments(folder: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains the program in this folder; started by torchrun.")
    parser.add_argument("--steps", type=int, help="steps, instead of the run's")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--precision", choices=["plan", "f64"], default="plan", help="f64: everything in double")
    parser.add_argument("--timeout", type=float, default=300, help="seconds without progress before a rank gives up")
    parser.add_argument("--attention", default="", help="of PyTorch's ops on a GPU: cudnn, flash or math; else the first that works")
    parser.add_argument("--no-compile", action="store_true", help="run segments as they are written")
    parser.add_argument("--save-every", type=int, default=0, help="steps between checkpoints; 0: none")
    parser.add_argument("--checkpoints", default=os.path.join(folder, "checkpoints"), help="where they are written")
    parser.add_argument("--resume", help="a checkpoint to go on from, as if nothing had happened")
    parser.add_argument("--init", default=default_init(folder), help="a checkpoint whose weights to start from, at step 1")
    parser.add_argument("--metrics", default=os.path.join(folder, "metrics.jsonl"), help="a line of JSON a step")
    return parser.parse_args()


def read_json(folder: str, name: str) -> Dict:
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def default_init(folder: str) -> Optional[str]:
    """Weights that were emitted with the program."""
    init = os.path.join(folder, "init")
    return init if os.path.isdir(init) else None


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


class Trainer:
    """One rank of a run, ready to step."""

    def __init__(self, folder: str, rank: int, device, precision="plan", compiled=False, seconds=300.0, groups=None):
        self.program = read_json(folder, "program.json")
        self.settings = read_json(folder, "run.json")
        mesh = Mesh(self.program["mesh"])
        backend = "nccl" if device.type == "cuda" else "gloo"
        made = Groups(mesh, rank, self.program["groups"], backend, timedelta(seconds=seconds), groups)
        data = batches_of(self.settings, folder)
        self.here = Here(mesh, rank, made, device, dtypes_of(precision), data, self.settings["seed"])
        self.stage = Stage(folder, self.program, self.here, compiled)
        self.stage.initialise()
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
        self.stage.run(step, lr)
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
        }

    def where(self) -> str:
        kind, *rest = self.stage.at
        here = self.here
        if kind == "call":
            what = f"{rest[0]} of {rest[1] or 'the step'}" + (f", microbatch {rest[2]}" if rest[2] >= 0 else "")
        elif kind in ("send", "recv"):
            what = f"{kind} {rest[2]}"
        else:
            what = " ".join([kind, *(str(item) for item in rest[:1])])
        waiting = f", waiting for {here.waiting_for}" if here.waiting_for else ""
        return f"step {here.step + 1}: {what}{waiting}"


def meet(rank: int, world: int, backend: str, timeout: timedelta) -> None:
    """All ranks, or the names of those that did not come."""
    store = dist.TCPStore(
        os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29400")), world,
        is_master=rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        timeout=timeout, wait_for_workers=False,
    )
    store = dist.PrefixStore(f"lockstep/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    store.set(f"here/{rank}", "1")
    try:
        store.wait([f"here/{other}" for other in range(world)], timeout)
    except Exception:
        missing = [other for other in range(world) if not store.check([f"here/{other}"])]
        raise RuntimeError(f"rendezvous: after {timeout.total_seconds():g} s ranks {missing} of {world} are missing")
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)


def main(script: str) -> None:
    folder = os.path.dirname(os.path.abspath(script))
    options = arguments(folder)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    trainer = None
    watchdog = Watchdog(rank, lambda: trainer.where() if trainer else "the start", options.timeout)
    try:
        trainer = start(folder, rank, world, options)
        resume(trainer, options)
        train(trainer, options, watchdog)
    except BaseException as error:  # also an interrupt: nobody ends without a word
        watchdog.quiet = True
        report(error, watchdog)
        # Peers may be waiting for this rank in a collective: leave at once, so that the launcher ends them.
        os._exit(1)
    watchdog.quiet = True
    dist.destroy_process_group()


def start(folder: str, rank: int, world: int, options: argparse.Namespace) -> Trainer:
    expected = read_json(folder, "program.json")["world"]
    if world != expected:
        raise RuntimeError(f"the program is for {expected} ranks, but torchrun started {world}")
    cuda = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        attention.choose(device, options.attention)
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    meet(rank, world, "nccl" if cuda else "gloo", timedelta(seconds=options.timeout))
    compiled = cuda and not options.no_compile
    return Trainer(folder, rank, device, options.precision, compiled, options.timeout)


def resume(trainer: Trainer, options: argparse.Namespace) -> None:
    if options.resume:
        trainer.first = trainer.load(options.resume)
    elif options.init:
        trainer.load(options.init, weights_only=True)


def train(trainer: Trainer, options: argparse.Namespace, watchdog: Watchdog) -> None:
    reports = trainer.here.rank == trainer.program["reporter"]
    for step in range(trainer.first, options.steps or trainer.settings["steps"]):
        record = trainer.step(step)
        watchdog.beat()
        if options.save_every and (step + 1) % options.save_every == 0:
            trainer.save(options.checkpoints, step + 1)
            watchdog.beat()
        if not reports:
            continue
        line = json.dumps(record)
        print(line, flush=True)
        with open(options.metrics, "a") as file:
            file.write(line + "\n")
        if not math.isfinite(record["loss"]):
            raise RuntimeError(f"the loss of step {step + 1} is {record['loss']}; try a smaller lr, a warm-up, or clip")


def report(error: BaseException, watchdog: Watchdog) -> None:
    if isinstance(error, KeyboardInterrupt):
        return
    what = str(error).strip().split("\n")[0] or type(error).__name__
    if isinstance(error, getattr(torch.cuda, "OutOfMemoryError", ())):
        what = f"out of memory: {what}"
    watchdog.say(f"{what}\n  at {watchdog.place(error)}")
    if os.environ.get("LOCKSTEP_DEBUG"):
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__)
