"""
CUDA graph capture of a step: captured once, then replayed, so that the GPU never waits for Python. Inputs that change per step (data,
lr, step number) are static tensors, which are filled before each replay.
"""
import sys
from typing import Dict

import torch

from . import documents, grouped

# Eager steps before the capture: compilers and libraries select their kernels in them.
WARM = 2


class Recorded:
    """Runs a stage eagerly for a few steps, then captures a step and replays it."""

    def __init__(self, stage):
        self.stage = stage
        self.graph = None
        self.ran = 0
        stage.here.keep_loaded()

    def run(self, step: int, told: Dict[str, float]) -> None:
        self.stage.here.start(step, told)
        if self.ran == WARM:
            self._record()
        self.ran += 1
        if self.graph is None:
            self.stage.play()
            return
        self.stage.at = ["replay", "of the recorded step"]
        self.graph.replay()
        self.stage.done += 1
        self.stage.here.read_ahead()

    def _record(self) -> None:
        """Captures only: the step is computed by the replay that follows."""
        if grouped.asked or self.stage.guarded_until is not None:
            return _say("the host reads the number of tokens per expert")
        if self.stage.on_host:
            return _say("tensors are offloaded to the host")
        if documents.asked:
            return _say("the host reads document boundaries")
        self.stage.forget_gradients()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.stage.play()
        except RuntimeError as error:
            return _say(str(error).strip().split("\n")[0])
        self.graph = graph
        # The capture has its own memory pool, so the caching allocator's is released.
        torch.cuda.empty_cache()


def _say(why: str) -> None:
    print(f"lockstep: no CUDA graph: {why}", file=sys.stderr, flush=True)
