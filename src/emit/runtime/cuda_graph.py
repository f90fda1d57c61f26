"""
CUDA graph capture of a step: captured once, then replayed, so that the GPU never waits for Python. Inputs that change per step (data,
lr, step number) are static tensors, which are filled before each replay.
"""
import sys
from typing import Dict

import torch

from . import grouped_mm, varlen

# Eager steps before the capture: compilers and libraries select their kernels in them.
WARM = 2


class CapturedStep:
    """Runs a stage eagerly for a few steps, then captures a step and replays it."""

    def __init__(self, stage):
        self.stage = stage
        self.graph = None
        self.ran = 0
        stage.ctx.reuse_inputs()

    def run(self, step: int, step_scalars: Dict[str, float]) -> None:
        self.stage.ctx.start(step, step_scalars)
        if self.ran == WARM:
            self._capture()
        self.ran += 1
        if self.graph is None:
            self.stage.run_schedule()
            return
        self.stage.at = ["replay", "of the recorded step"]
        self.graph.replay()
        self.stage.done += 1
        self.stage.ctx.prefetch()

    def _capture(self) -> None:
        """Captures only: the step is computed by the replay that follows."""
        if grouped_mm.host_synced or self.stage.capacity_check_at is not None:
            return _log("the host reads the number of tokens per expert")
        if self.stage.on_host:
            return _log("tensors are offloaded to the host")
        if varlen.host_synced:
            return _log("the host reads document boundaries")
        self.stage.free_gradients()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.stage.run_schedule()
        except RuntimeError as error:
            return _log(str(error).strip().split("\n")[0])
        self.graph = graph
        # The capture has its own memory pool, so the caching allocator's is released.
        torch.cuda.empty_cache()


def _log(why: str) -> None:
    print(f"lockstep: no CUDA graph: {why}", file=sys.stderr, flush=True)
