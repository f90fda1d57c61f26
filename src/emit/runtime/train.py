"""A run: every rank starts here, meets the others, trains, and ends with a word about why if it must."""
import argparse
import json
import math
import os
import re
import sys
import traceback
from datetime import timedelta
from typing import Dict, Optional, Tuple

import torch
import torch.distributed as dist

from . import attention, products, stage
from .lock import Refused
from .safetensors import Damaged
from .saving import Saving
from .stopping import Skipped, Stopped, Stopping
from .tensorboard import TensorBoard
from .trainer import Trainer, read_json
from .watchdog import EXIT_PEER_LOST, Watchdog


def arguments(folder: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains the program in this folder; started by torchrun.")
    parser.add_argument("--steps", type=int, help="steps, instead of the run's")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--precision", choices=["plan", "f64"], default="plan", help="f64: everything in double")
    parser.add_argument("--timeout", type=float, default=300, help="seconds without progress before a rank gives up")
    parser.add_argument("--rendezvous", type=float, default=600, help="seconds in which all ranks must have come")
    parser.add_argument("--attention", default="", help="on a GPU: cudnn, flash or math; else the first that works")
    parser.add_argument("--no-compile", action="store_true", help="run segments as they are written")
    parser.add_argument("--tune", action="store_true", help="try more kernels before the first step, for faster ones after")
    parser.add_argument(
        "--same-bits", action="store_true", help="on a GPU: no choice of kernels by time, so that every run has the same bits"
    )
    parser.add_argument("--no-graph", action="store_true", help="on one GPU: run call by call, not as a CUDA graph")
    parser.add_argument("--save", help="a folder: write a checkpoint there after the last step")
    parser.add_argument(
        "--save-every", type=int, default=0,
        help="and after every so many steps (into checkpoints/, where --save names no other folder)",
    )
    parser.add_argument("--resume", help="resume from a checkpoint of any plan, or from the last one in a folder")
    parser.add_argument("--init", default=default_init(folder), help="a checkpoint whose weights to start with, at step 1")
    parser.add_argument(
        "--record-choices", help="a new file: what tokens chose, a line a step, which data.choices repeats; segments run as written"
    )
    parser.add_argument("--metrics", default=os.path.join(folder, "metrics.jsonl"), help="a line of JSON a step")
    parser.add_argument("--tensorboard", help="a folder: event files for TensorBoard")
    options = parser.parse_args()
    if options.save_every and not options.save:
        options.save = os.path.join(folder, "checkpoints")
    return options


def default_init(folder: str) -> Optional[str]:
    """Weights that were emitted with the program."""
    init = os.path.join(folder, "init")
    return init if os.path.isdir(init) else None


def meet(rank: int, world: int, backend: str, timeout: timedelta):
    """All ranks, or the names of those that did not come. Returns the store they share."""
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
        missing = [other for other in range(world) if not has_come(store, other)]
        raise RuntimeError(f"rendezvous: after {timeout.total_seconds():g} s ranks {missing} of {world} are missing")
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    return store


def has_come(store, rank: int) -> bool:
    if hasattr(store, "check"):
        return store.check([f"here/{rank}"])
    try:  # PyTorch 1 can only wait
        store.wait([f"here/{rank}"], timedelta(milliseconds=50))
        return True
    except RuntimeError:
        return False


def main(script: str) -> None:
    folder = os.path.dirname(os.path.abspath(script))
    options = arguments(folder)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    watchdog = Watchdog(rank, options.timeout, saves=bool(options.save))
    try:
        trainer, store = start(folder, rank, world, options, watchdog)
        watchdog.watch(trainer)
        begin(trainer, folder, options, store)
        train(trainer, options)
    except BaseException as error:  # also an interrupt: nobody ends without a word
        watchdog.quiet = True
        code = report(error, watchdog)
        watchdog.close()
        # Peers may be waiting for this rank in a collective: leave at once, so that the launcher ends them.
        os._exit(code)
    watchdog.quiet = True
    watchdog.close()
    dist.destroy_process_group()


# Beside the time-out, for what a start takes on a busy machine.
START_SECONDS = 20


def start(folder: str, rank: int, world: int, options: argparse.Namespace, watchdog: Watchdog) -> Tuple:
    """The rank, and the store it shares with the others."""
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
    store = meet(rank, world, "nccl" if cuda else "gloo", timedelta(seconds=options.rendezvous))
    watchdog.enter(f"the start of {world} ranks: making their groups", options.timeout + START_SECONDS)
    # PyTorch 1 has no compiler.
    compiled = cuda and not options.no_compile and not options.record_choices and hasattr(torch, "compile")
    products.choosing = not options.same_bits
    if options.tune:
        stage.COMPILE["options"] = {"coordinate_descent_tuning": True}
    # Later than the watchdog, which has more to say.
    patience = timedelta(seconds=2 * options.timeout + 60)
    recorded = cuda and world == 1 and not options.no_graph and not options.record_choices
    return Trainer(folder, rank, device, options.precision, compiled, recorded, patience), store


def begin(trainer: Trainer, folder: str, options: argparse.Namespace, store) -> None:
    """Where the run starts, and where it saves."""
    trainer.settings["steps"] = options.steps or trainer.settings["steps"]
    asked, weights_only = options.resume or options.init, not options.resume
    found = trainer.find(asked, weights_only) if asked else None
    if found and not weights_only:
        trainer.first = found[1]["step"]
    if options.save:
        trainer.saving = Saving(options.save, folder, trainer.first, trainer.here.rank, store)
        trainer.stopping = Stopping(trainer.here.device, trainer.here.mesh.world)
    if options.record_choices:
        trainer.record_choices(options.record_choices, store)
    if found:
        trainer.load(*found, weights_only)
    if trainer.first >= trainer.settings["steps"] and trainer.here.rank == 0:
        taken, steps = trainer.first, trainer.settings["steps"]
        say = f"the checkpoint has taken {taken} steps, the run has {steps}: nothing is left to train; try --steps"
        print(f"lockstep: {say}", file=sys.stderr)


def train(trainer: Trainer, options: argparse.Namespace) -> None:
    reports = trainer.here.rank == trainer.program["reporter"]
    steps, evaluation = trainer.settings["steps"], trainer.settings.get("evaluation")
    board = TensorBoard(options.tensorboard, trainer.first + 1) if reports and options.tensorboard else None
    for step in range(trainer.first + 1, steps + 1):
        record = trainer.step(step - 1)
        # Before the others write: what they would save is of no use. A step that was skipped has changed nothing.
        if reports and "skipped" not in record and not math.isfinite(record["loss"]):
            raise RuntimeError(f"the loss of step {step} is {record['loss']}; try a smaller lr, a warm-up, or clip")
        if evaluation and is_due(step, steps, evaluation["every"]):
            record["evalLoss"] = trainer.evaluate()
        stop = trainer.stopping.agreed() if trainer.stopping else 0
        if options.save and (stop or is_due(step, steps, options.save_every)):
            record["checkpoint"] = trainer.save(step)
        if reports:
            tell(record, trainer.position(step)["data"], options.metrics)
            if board:
                board.step(record)
        if trainer.overflows():
            raise least_scale(trainer, step)
        if trainer.skips >= trainer.settings["mostSkips"]:
            raise too_many_skips(trainer, step)
        if stop and step < steps:
            raise Stopped(stop, step)
    if trainer.stopping:
        trainer.stopping.close()


def too_many_skips(trainer: Trainer, step: int) -> Skipped:
    """All ranks know of it. The first says so before any of them ends."""
    if trainer.here.rank == 0:
        first = step - trainer.skips + 1
        which = f"steps {first} to {step} were" if step > first else f"step {step} was"
        norm = trainer.stage.result("normSquared").item()
        why = trainer.why(math.sqrt(norm) if norm >= 0 else math.nan)
        left = f"parameters and optimizer are as step {first - 1} left them"
        hint = "try a smaller lr, a warm-up, or clip, look at the data of these steps, or allow more (mostSkips)"
        print(f"lockstep: {which} skipped: {why}; {left}; {hint}", file=sys.stderr, flush=True)
    dist.barrier()
    return Skipped()


def least_scale(trainer: Trainer, step: int) -> Skipped:
    """All ranks know of it: nothing is left to make gradients smaller."""
    if trainer.here.rank == 0:
        why = f"the gradients of step {step} are not finite, and the loss scale is at its minimum, {trainer.before['scale']:.9g}"
        hint = "they overflow by themselves: try a smaller lr, a warm-up, or clip, or bf16, which has the range of f32"
        print(f"lockstep: {why}; {hint}", file=sys.stderr, flush=True)
    dist.barrier()
    return Skipped()


def is_due(step: int, steps: int, every: int) -> bool:
    return step == steps or (every > 0 and step % every == 0)


def tell(record: Dict, cursor: Dict, metrics: str) -> None:
    # JSON has no word for what is not finite.
    said = {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in record.items()}
    print(json.dumps(said), flush=True)
    with open(metrics, "a") as file:
        file.write(json.dumps({**said, "cursor": cursor}) + "\n")


def report(error: BaseException, watchdog: Watchdog) -> int:
    """Says what was wrong. Returns what to exit with: a rank that has lost a peer is not the one to blame."""
    lost = peer_was_lost(error)
    if isinstance(error, Stopped):
        watchdog.trainer.stopping.close()
        if watchdog.rank == 0:
            print(f"lockstep: {error}, which is saved", file=sys.stderr)
        return error.code
    if isinstance(error, Skipped):
        return 1
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, Refused) and watchdog.rank != 0):
        return EXIT_PEER_LOST
    what = str(error).strip().split("\n")[0] or type(error).__name__
    if isinstance(error, getattr(torch.cuda, "OutOfMemoryError", ())):
        what = out_of_memory(what, watchdog.trainer)
    watchdog.say(f"{what}\n  at {watchdog.place(error)}")
    if os.environ.get("LOCKSTEP_DEBUG"):
        traceback.print_exception(type(error), error, error.__traceback__)
    return EXIT_PEER_LOST if lost else 1


def peer_was_lost(error: BaseException) -> bool:
    """gloo, NCCL and the store say it in many ways."""
    ours = isinstance(error, (Damaged, Refused))
    words = r"connection|broken pipe|peer|socket|nccl|timed? ?out|heartbeat"
    return isinstance(error, RuntimeError) and not ours and re.search(words, str(error), re.IGNORECASE) is not None


def out_of_memory(what: str, trainer: Optional[Trainer]) -> str:
    """What was asked for, what the program needs, what there is, and what would help."""
    asked = re.search(r"to allocate ([\d.]+ \w+)", what)
    parts = ["out of memory" + (f": {asked[1]} more were asked for" if asked else "")]
    if trainer is None:
        return f"{parts[0]} before the first step"
    needs = trainer.program["memory"][trainer.stage.pp]["held"]
    cuda = trainer.here.device.type == "cuda"
    has = torch.cuda.get_device_properties(trainer.here.device).total_memory if cuda else math.inf
    parts.append(f"the program needs {needs / 2**30:.1f} GiB" + (f", the GPU has {has / 2**30:.1f}" if cuda else ""))
    if needs < 0.95 * has:
        parts.append("is somebody else on this device?")
    else:
        parts.append("more microbatches, more recomputed, or more ranks (tp, pp, zero) need less; lockstep plan finds one")
    return "; ".join(parts)
