"""
A step as one CUDA graph: recorded once, then replayed, so that the GPU never waits for Python. What changes from step to
step (data, lr, the step's number) lies in tensors that stay where they are, and is put there before the replay.
"""
import sys
from typing import Dict

import torch

from . import documents, grouped

# Steps that run call by call before one is recorded: in them compilers and libraries choose their kernels.
WARM = 2


class Recorded:
    """Runs a stage as it runs itself, only that after some steps it is a replay."""

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
        """Nothing is computed here: what was recorded must be replayed to happen."""
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
        # The recording has memory of its own: what the steps before it used is free.
        torch.cuda.empty_cache()


def _say(why: str) -> None:
    print(f"lockstep: no CUDA graph: {why}", file=sys.stderr, flush=True)
