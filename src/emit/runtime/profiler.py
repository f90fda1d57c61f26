"""
Step profiler, every N-th step (`--profile-every`): compute, communication and waiting per rank, and the bandwidth of each collective.
In a profiled step collectives start when all ranks have arrived and are synchronous, so the step is slower but shows the time of each
collective alone. Collectives across pipeline stages are unchanged, since a stage may have to send before another arrives. Other steps
cost nothing.
"""
import subprocess
import time
from contextlib import contextmanager
from typing import Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from . import comm, flat_buffers, moe_dispatch
from .context import Context
from .measured import Measured, memory_of

CATEGORIES = ("compute", "communication", "waiting", "bubble")
# Phases of calls whose compute time is reported separately.
WORK = {**dict.fromkeys("FIWB", "passes"), "update": "updates"}


class Done:
    """A completed collective."""

    def wait(self) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


class TimedCollectives:
    """Replaces torch.distributed while a step is profiled; passes everything else through."""

    def __init__(self, ctx: Context, groups: Dict[int, comm.Group]):
        self.ctx, self.groups = ctx, groups
        # By ranks of the group: the seconds this rank waited for the others, per collective.
        self.waits: Dict[Tuple[int, ...], List[float]] = {}
        self.network: Dict[str, float] = {}
        # By kind, group and bytes: the seconds of each call.
        self.times: Dict[Tuple[str, str, int], List[float]] = {}
        self.communication = self.waiting = 0.0

    def __getattr__(self, name: str):
        if name == "_coalescing_manager":  # one by one
            raise AttributeError(name)
        return getattr(dist, name)

    def all_reduce(self, x, op=dist.ReduceOp.SUM, group=None, async_op=False):
        return self._timed("all-reduce", x, group, lambda: dist.all_reduce(x, op, group, async_op=async_op))

    def all_gather(self, into, x, group=None, async_op=False):
        return self._timed("all-gather", x, group, lambda: dist.all_gather(into, x, group, async_op=async_op), len(into))

    def all_gather_into_tensor(self, into, x, group=None, async_op=False):
        return self._timed("all-gather", into, group, lambda: dist.all_gather_into_tensor(into, x, group, async_op))

    def reduce_scatter_tensor(self, into, x, op=dist.ReduceOp.SUM, group=None, async_op=False):
        return self._timed("reduce-scatter", x, group, lambda: dist.reduce_scatter_tensor(into, x, op, group, async_op))

    def all_to_all_single(self, into, x, *sizes, group=None, async_op=False, **more):
        start = lambda: dist.all_to_all_single(into, x, *sizes, group=group, async_op=async_op, **more)  # noqa: E731
        return self._timed("all-to-all", x, group, start)

    def _timed(self, kind: str, x: torch.Tensor, group, start: Callable, times: int = 1):
        if id(group) not in self.groups:
            return start()
        label, ranks = self.groups[id(group)].label, self.groups[id(group)].ranks
        began = now(self.ctx.device)
        comm.barrier(group)
        arrived = now(self.ctx.device)
        clock = Clock(self.ctx.device)
        work = start()
        if work is not None:
            work.wait()
        seconds = clock.stop()
        ended = now(self.ctx.device)
        self.waiting += arrived - began
        self.communication += ended - arrived
        self.waits.setdefault(tuple(ranks), []).append(arrived - began)
        along = label if label in self.ctx.mesh.sizes else "mesh"
        self.network[along] = self.network.get(along, 0.0) + ended - arrived
        self.times.setdefault((kind, label, times * x.numel() * x.element_size()), []).append(seconds)
        return Done()


class Clock:
    """A timer. On a GPU by events, after an idle kernel that hides the launch overhead of what is timed."""

    IDLE_CYCLES = 400_000

    def __init__(self, device: torch.device):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device.type == "cuda" else []
        if self.events:
            torch.cuda._sleep(self.IDLE_CYCLES)
            self.events[0].record()
        self.began = time.perf_counter()

    def stop(self) -> float:
        if not self.events:
            return time.perf_counter() - self.began
        self.events[1].record()
        self.events[1].synchronize()
        return self.events[0].elapsed_time(self.events[1]) / 1e3


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


CALLS = ("call", "each", "start")


class Profiler:
    def __init__(self, every: int, folder: str):
        self.every, self.folder = every, folder
        self.timed: Optional[TimedCollectives] = None
        self.seconds = self.bubble = 0.0
        self.work: Dict[str, float] = {}
        self.measured = Measured()

    def is_due(self, step: int) -> bool:
        return step % self.every == 0

    @contextmanager
    def measuring(self, stage):
        """Profiles a step of the stage; keeps the calls' other hook, `stage.around`."""
        ctx, others = stage.ctx, stage.around
        timed = self.timed = TimedCollectives(ctx, groups_of(ctx))
        self.seconds = self.bubble = 0.0
        self.work = dict.fromkeys(("passes", "updates"), 0.0)

        def around(i: int, call: Callable[[], None]) -> None:
            began, apart = now(ctx.device), timed.waiting + timed.communication
            others(i, call) if others else call()
            seconds = now(ctx.device) - began
            self.seconds += seconds
            alone = seconds - (timed.waiting + timed.communication - apart)
            if stage.at[0] in ("wait", "recv"):
                self.bubble += alone
            work = WORK.get(stage.phases.get(stage.at[1])) if len(stage.at) > 1 and stage.at[0] in CALLS else None
            if work:
                self.work[work] += alone

        stage.around = around
        comm.dist = flat_buffers.dist = moe_dispatch.dist = timed
        try:
            yield
        finally:
            comm.dist = flat_buffers.dist = moe_dispatch.dist = dist
            stage.around = others

    def record_step(self, record: Dict) -> None:
        """On the reporting rank: adds a step to measured.json, which is written at profiled steps."""
        if "ranks" in record:
            self.measured.write(self.folder)
        else:
            self.measured.step(record["seconds"])

    def record(self, ctx: Context) -> Dict:
        """The profile of a step (collective): seconds per rank, fractions of the total, and bandwidths of this rank's collectives."""
        timed = self.timed
        compute = self.seconds - timed.communication - timed.waiting - self.bubble
        mine = {"compute": compute, "communication": timed.communication, "waiting": timed.waiting, "bubble": self.bubble}
        mine.update(network=timed.network, waits=timed.waits, seconds=self.seconds)
        mine.update(work=self.work, pp=ctx.mesh.coordinates(ctx.rank).get("pp", 0), memory=memory_of(ctx.device))
        every: List[Dict] = [mine] * ctx.mesh.world
        if ctx.mesh.world > 1:
            dist.all_gather_object(every, mine)
        self.measured.add(every)
        whole = sum(row[category] for row in every for category in CATEGORIES) or 1.0
        return {
            "shares": {category: sum(row[category] for row in every) / whole for category in CATEGORIES},
            "ranks": rank_times(every),
            "collectives": [rate_of(*key, seconds) for key, seconds in timed.times.items()],
            **gpu(ctx.device),
        }


def rank_times(every: List[Dict]) -> Dict:
    """In seconds, lists by rank; late: the time that others waited for this rank because it arrived last."""
    late = [0.0] * len(every)
    for ranks in {ranks for row in every for ranks in row["waits"]}:
        for waits in zip(*(every[rank]["waits"][ranks] for rank in ranks)):
            late[ranks[waits.index(min(waits))]] += sum(waits) - len(waits) * min(waits)
    compute = [row["compute"] for row in every]
    labels = sorted({label for row in every for label in row["network"]})
    return {
        "seconds": max(row["seconds"] for row in every),
        "compute": compute,
        "busy": compute,
        "network": {label: [row["network"].get(label, 0.0) for row in every] for label in labels},
        "waiting": [row["waiting"] for row in every],
        "late": late,
    }


def groups_of(ctx: Context) -> Dict[int, comm.Group]:
    """Groups within one pipeline stage, whose ranks run the same collectives in order, by id of the process group."""
    groups = ctx.groups.by_label.values()
    within_stage = [group for group in groups if len({ctx.mesh.coordinates(rank).get("pp", 0) for rank in group.ranks}) == 1]
    return {id(group.process_group): group for group in within_stage if group.size > 1}


def rate_of(kind: str, group: str, size: int, seconds: List[float]) -> Dict:
    least = min(seconds)
    return {"kind": kind, "group": group, "bytes": size, "calls": len(seconds), "seconds": sum(seconds), "bytesPerSecond": size / least}


def gpu(device: torch.device) -> Dict:
    """GPU utilization, and memory in use by all processes."""
    if device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info(device)
    busy = utilization(device)
    return {"gpu": {**({} if busy is None else {"utilisation": busy}), "usedBytes": total - free, "totalBytes": total}}


def utilization(device: torch.device) -> Optional[float]:
    try:
        return torch.cuda.utilization(device) / 100
    except Exception:  # no NVML bindings; nvidia-smi may exist
        asked = ["nvidia-smi", f"--id={device.index or 0}", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        try:
            return float(subprocess.run(asked, capture_output=True, text=True, timeout=10).stdout) / 100
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
