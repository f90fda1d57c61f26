"""The entry point of every rank: rendezvous, training, and an error message if the run fails."""
import argparse
import math
import os
import re
import sys
import traceback
from datetime import timedelta
from typing import Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from . import attention, gemm, stage
from .comm import barrier
from .faults import Faults
from .hashes import Replicas, ReplicasDiffer
from .latest import AllCorrupt
from .lock import Refused
from .messages import phrase
from .metrics import Metrics, write_run
from .options import START_SECONDS, arguments
from .plans import plan_for
from .profiler import Profiler
from .safetensors import Corrupt
from .saving import Keep, Saving, StartState, steps_in
from .stopping import Skipped, Stopped, Stopping
from .tensorboard import TensorBoard
from .timeouts import Timeouts
from .trainer import Trainer
from .watchdog import EXIT_CORRUPT, EXIT_FINAL, EXIT_PEER_LOST, Watchdog


# Printed once at the start of a run on synthetic data; `data` of the job selects real data.
SYNTHETIC = "data: SYNTHETIC (generated from the seed). The job has no data.source; losses say nothing about your data."


def rendezvous(rank: int, world: int, backend: str, timeout: timedelta, device: torch.device) -> Tuple[dist.Store, int]:
    """Rendezvous of all ranks; raises with the missing ones. Returns the shared store and the number of ranks on this device."""
    store = dist.TCPStore(
        os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29400")), world,
        is_master=rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        timeout=timeout, wait_for_workers=False,
    )
    store = dist.PrefixStore(f"lockstep/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    name = name_of(device, rank)
    store.add(name, 1)
    store.set(f"here/{rank}", "1")
    try:
        store.wait([f"here/{other}" for other in range(world)], timeout)
    except Exception:
        missing = [other for other in range(world) if not has_arrived(store, other)]
        raise RuntimeError(f"rendezvous: after {timeout.total_seconds():g} s ranks {missing} of {world} are missing")
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    return store, store.add(name, 0)


def name_of(device: torch.device, rank: int) -> str:
    """A name unique to the device. Without a UUID each rank counts as having its own."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None) if device.type == "cuda" else None
    return f"device/{uuid or rank}"


def has_arrived(store: dist.Store, rank: int) -> bool:
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
    watchdog = Watchdog(rank, Timeouts(options.timeout), saves=bool(options.save))
    try:
        trainer, store = start(folder, rank, world, options, watchdog)
        if options.fault:
            trainer.faults = Faults(options.fault, folder, rank, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))
        trainer.profile = Profiler(options.profile_every, folder) if options.profile_every else None
        watchdog.watch(trainer)
        begin(trainer, folder, options, store)
        train(trainer, options, open_metrics(trainer, folder, options))
    except BaseException as error:  # also an interrupt: every rank reports why it ends
        watchdog.quiet = True
        code = report(error, watchdog)
        watchdog.close()
        # Peers may be waiting for this rank in a collective: leave at once, so that the launcher ends them.
        os._exit(code)
    watchdog.quiet = True
    watchdog.close()
    dist.destroy_process_group()


def start(folder: str, rank: int, world: int, options: argparse.Namespace, watchdog: Watchdog) -> Tuple:
    """This rank's trainer, and the store shared by all ranks."""
    programs = plan_for(folder, world)
    cuda = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        attention.choose(device, options.attention)
        # PyTorch's sign to dump outlives a restart in torchrun's store and stops the next run's exit; the watchdog says more.
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    # The store itself may never answer: without a launcher it runs on rank 0.
    watchdog.enter(f"the rendezvous of {world} ranks (is rank 0 there?)", options.rendezvous + START_SECONDS)
    store, sharing = rendezvous(rank, world, "nccl" if cuda else "gloo", timedelta(seconds=options.rendezvous), device)
    watchdog.enter(f"the start of {world} ranks: creating process groups", watchdog.timeouts.maximum + START_SECONDS)
    # PyTorch 1 has no compiler.
    compiled = cuda and not options.no_compile and not options.record_routing and hasattr(torch, "compile")
    # Replicas are bitwise equal only if they use the same kernels.
    gemm.autotune = not (options.same_bits or options.hash_every) and sharing == 1
    if options.tune:
        stage.COMPILE["options"] = {"coordinate_descent_tuning": True}
    # Longer than the watchdog's limit, whose message is more specific.
    timeout = timedelta(seconds=2 * watchdog.timeouts.maximum + 60)
    cuda_graph = cuda and world == 1 and not (options.no_graph or options.record_routing or options.fault)
    return Trainer(folder, rank, device, options.precision, compiled, cuda_graph, timeout, programs=programs), store


def begin(trainer: Trainer, folder: str, options: argparse.Namespace, store: dist.Store) -> None:
    """Loads the checkpoint to start from, and opens the one to save to."""
    trainer.settings["steps"] = options.steps or trainer.settings["steps"]
    found, weights_only = checkpoint_to_load(trainer, options, store)
    start_state = StartState(corrupt=[path for path, _ in trainer.skipped_corrupt])
    if found and not weights_only:
        trainer.first = found.manifest["step"]
        lineage = [found.manifest["run"], *found.manifest.get("line", [])]
        start_state = StartState(trainer.first, lineage, [path for path, _ in trainer.skipped_corrupt])
    if options.hash_every and trainer.ctx.mesh.world > 1:
        trainer.replicas = Replicas(trainer.first)
    if options.save:
        keep = Keep(options.keep, options.keep_every) if options.keep else None
        asynchronous = not options.save_sync
        trainer.saving = Saving(options.save, folder, start_state, trainer.ctx.rank, store, keep, asynchronous, trainer.alive)
        trainer.saving.replicas = trainer.replicas
        trainer.stopping = Stopping(trainer.ctx.device, trainer.ctx.mesh.world)
    if options.record_routing:
        trainer.record_routing(options.record_routing, store)
    if found:
        trainer.load(found.folder, found.manifest, weights_only)
    if trainer.first >= trainer.settings["steps"] and trainer.ctx.rank == 0:
        done, steps = trainer.first, trainer.settings["steps"]
        message = f"the checkpoint is at step {done} and the run ends at step {steps}: nothing left to train; raise --steps"
        print(f"lockstep: {message}", file=sys.stderr)


def checkpoint_to_load(trainer: Trainer, options: argparse.Namespace, store: dist.Store) -> Tuple:
    """The checkpoint to start from, if any, and whether only its weights are loaded."""
    own = options.elastic and steps_in(options.save)
    asked, weights_only = (options.resume or options.init, not options.resume)
    if not own:
        return (trainer.find(asked, store, weights_only) if asked else None), weights_only
    try:
        return trainer.find(options.save, store), False
    except AllCorrupt as error:
        # A user who starts a run reads the error; an automatic restart must continue without one.
        if "LOCKSTEP_RESTART" not in os.environ:
            raise
        trainer.skipped_corrupt = error.skipped
        trainer.resumed_from = asked or "the first step"
        if trainer.ctx.rank == 0:
            for _, text in error.skipped:
                print(f"lockstep: {text}", file=sys.stderr, flush=True)
            print(f"lockstep: no complete checkpoint in {options.save}: restarting from {trainer.resumed_from}", file=sys.stderr, flush=True)
        skipped = trainer.skipped_corrupt
        found = trainer.find(asked, dist.PrefixStore("restart", store), weights_only) if asked else None
        trainer.skipped_corrupt = skipped + (found.skipped if found else [])
        return found, weights_only


def open_metrics(trainer: Trainer, folder: str, options: argparse.Namespace) -> Optional[Metrics]:
    """On the rank that writes metrics; None on all others."""
    if trainer.ctx.rank != trainer.program["reporter"]:
        return None
    device, restarted = trainer.ctx.device, "LOCKSTEP_RESTART" in os.environ
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    if trainer.settings["data"]["kind"] != "tokens" and not restarted:
        print(SYNTHETIC, file=sys.stderr, flush=True)
    write_run(folder, trainer.ctx.mesh.world, name, trainer.settings.get("expected"), restarted)
    metrics = Metrics(options.metrics, TensorBoard(options.tensorboard, trainer.first + 1) if options.tensorboard else None)
    if restarted:
        metrics.restarted(trainer.first)
    metrics.events(trainer.skipped_checkpoints())
    return metrics


def train(trainer: Trainer, options: argparse.Namespace, metrics: Optional[Metrics]) -> None:
    steps, evaluation = trainer.settings["steps"], trainer.settings.get("evaluation")
    for step in range(trainer.first + 1, steps + 1):
        record = trainer.step(step - 1)
        # Before any rank saves: a state with a NaN loss is of no use. A skipped step has changed nothing.
        if metrics and "skipped" not in record and not math.isfinite(record["loss"]):
            template = phrase("notFinite/loss", loss=str(record["loss"]))
            metrics.event(step, "notFinite", "error", f"the loss is {record['loss']}", {"loss": record["loss"]}, **template)
            raise RuntimeError(f"the loss of step {step} is {record['loss']}; try a smaller lr, a warmup, or clip")
        trace_nan = trainer.trace_nan(step)
        if evaluation and is_due(step, steps, evaluation["every"]):
            record["evalLoss"] = trainer.evaluate()
        stop = trainer.stopping.agreed_signal() if trainer.stopping else 0
        events: List[Dict] = []
        if trainer.faults:
            trainer.faults.after(trainer, step)
        if trainer.replicas and step % options.hash_every == 0:
            events += trainer.replicas.compare(trainer.stage, step)
        if options.save and (stop or is_due(step, steps, options.save_every)):
            trainer.save(step)
            if stop or step == steps:
                trainer.wait_saving()
        written, unwritten = trainer.ended_saves()
        record.update({"checkpoint": written} if written else {})
        events += unwritten
        if trainer.faults:
            trainer.faults.after_saving(trainer, step)
        if metrics:
            metrics.step(record, trainer.position(step)["data"])
            if trainer.profile:
                trainer.profile.record_step(record)
            dead = trainer.units.event(step, record["dead"]) if "dead" in record else None
            metrics.events([*events, *(found for found in (trace_nan, dead) if found)])
            if "skipped" in record:
                severity = "note" if "scale" in record else "warning"
                norm = record["gradientNorm"]
                metrics.event(step, "skipped", severity, record["skipped"], {"gradientNorm": norm}, **trainer.why(norm)[1])
        ending = ends_after(trainer, step, stop, options.elastic)
        if ending or step == steps:
            events = trainer.finish_saving()
            if metrics:
                metrics.events(events)
        if isinstance(ending, ReplicasDiffer):
            remove_suspect_checkpoints(trainer)
        if ending:
            raise ending
    if trainer.stopping:
        trainer.stopping.close()
    if trainer.replicas and trainer.replicas.differ is not None:
        raise trainer.replicas.failure()


def remove_suspect_checkpoints(trainer: Trainer) -> None:
    """Removes checkpoints of a suspect state before any rank ends, since the run resumes from the latest one."""
    if trainer.saving and trainer.ctx.rank == 0:
        trainer.saving.remove_after(trainer.replicas.equal)
    barrier()


def ends_after(trainer: Trainer, step: int, stop: int, elastic: bool) -> Optional[Exception]:
    """Why a run ends before its last step; the same on all ranks."""
    if elastic and trainer.replicas and trainer.replicas.differ is not None:
        return trainer.replicas.failure()
    if trainer.overflows():
        return loss_scale_exhausted(trainer, step)
    if trainer.skips >= trainer.settings["mostSkips"]:
        return too_many_skips(trainer, step)
    return Stopped(stop, step) if stop and step < trainer.settings["steps"] else None


def too_many_skips(trainer: Trainer, step: int) -> Skipped:
    """All ranks agree; rank 0 reports before any rank ends."""
    if trainer.ctx.rank == 0:
        first = step - trainer.skips + 1
        which = f"steps {first} to {step} were" if step > first else f"step {step} was"
        norm = trainer.stage.result("normSquared").item()
        why, _ = trainer.why(math.sqrt(norm) if norm >= 0 else math.nan)
        left = f"parameters and optimizer state are unchanged since step {first - 1}"
        hint = "try a smaller lr, a warmup, or clip, check the data of these steps, or allow more (mostSkips)"
        print(f"lockstep: {which} skipped: {why}; {left}; {hint}", file=sys.stderr, flush=True)
    barrier()
    return Skipped()


def loss_scale_exhausted(trainer: Trainer, step: int) -> Skipped:
    """All ranks agree: the loss scale cannot be reduced further."""
    if trainer.ctx.rank == 0:
        why = f"the gradients of step {step} are NaN or Inf with the loss scale at its minimum, {trainer.before['scale']:.9g}"
        hint = "gradients overflow even unscaled: try a smaller lr, a warmup, or clip, or bf16, which has the range of f32"
        print(f"lockstep: {why}; {hint}", file=sys.stderr, flush=True)
    barrier()
    return Skipped()


def is_due(step: int, steps: int, every: int) -> bool:
    return step == steps or (every > 0 and step % every == 0)


def report(error: BaseException, watchdog: Watchdog) -> int:
    """Reports the error and returns the exit code. A rank that lost a peer has its own code, so that it is not blamed."""
    lost = peer_was_lost(error)
    if isinstance(error, Stopped):
        watchdog.trainer.stopping.close()
        if watchdog.rank == 0:
            print(f"lockstep: {error}; a checkpoint was written", file=sys.stderr)
        return error.code
    if isinstance(error, ReplicasDiffer):
        if watchdog.rank == 0:
            print(f"lockstep: {error}", file=sys.stderr, flush=True)
        return EXIT_CORRUPT
    if isinstance(error, Skipped):
        return EXIT_FINAL
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, Refused) and watchdog.rank != 0):
        return EXIT_PEER_LOST
    what = str(error).strip().split("\n")[0] or type(error).__name__
    if isinstance(error, getattr(torch.cuda, "OutOfMemoryError", ())):
        what = out_of_memory(what, watchdog.trainer)
    watchdog.say(f"{what}\n  at {watchdog.place(error)}")
    if os.environ.get("LOCKSTEP_DEBUG"):
        traceback.print_exception(type(error), error, error.__traceback__)
    return EXIT_PEER_LOST if lost else EXIT_FINAL if isinstance(error, Refused) else 1


def peer_was_lost(error: BaseException) -> bool:
    """Whether a peer was lost: gloo, NCCL and the store each have their own wording."""
    ours = isinstance(error, (Corrupt, Refused))
    words = r"connection|broken pipe|peer|socket|nccl|timed? ?out|heartbeat"
    return isinstance(error, RuntimeError) and not ours and re.search(words, str(error), re.IGNORECASE) is not None


def out_of_memory(what: str, trainer: Optional[Trainer]) -> str:
    """An out-of-memory message: what was requested, what the program needs, what the GPU has, and what helps."""
    asked = re.search(r"to allocate ([\d.]+ \w+)", what)
    parts = ["out of memory" + (f" ({asked[1]} requested)" if asked else "")]
    if trainer is None:
        return f"{parts[0]} before the first step"
    needs = trainer.program["memory"][trainer.stage.pp]["held"]
    cuda = trainer.ctx.device.type == "cuda"
    has = torch.cuda.get_device_properties(trainer.ctx.device).total_memory if cuda else math.inf
    parts.append(f"the program needs {needs / 2**30:.1f} GiB" + (f", the GPU has {has / 2**30:.1f}" if cuda else ""))
    if needs < 0.95 * has:
        parts.append("is another process using this device?")
    else:
        parts.append("use more microbatches, more recomputation or more ranks (tp, pp, zero); lockstep plan finds a plan that fits")
    return "; ".join(parts)
