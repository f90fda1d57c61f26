"""
Trains an emitted folder twice on CPU: call by call, and as a rank that records its step does it, with a stand-in for
CUDA's graph: recording changes nothing, replaying plays the schedule. After every other step it is judged. emit_recorded.py
FOLDER STEPS: the losses of both, what is said of a step whose gradients are not finite, and the largest difference of a parameter, as JSON.
"""
import json
import sys
from contextlib import contextmanager

import torch

folder, steps = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, folder)

from runtime.faults import Faults  # noqa: E402
from runtime.context import Context  # noqa: E402
from runtime.nan_trace import buffers_restored  # noqa: E402
from runtime.trainer import Trainer  # noqa: E402

replays = []


class Graph:
    buffers = []

    def replay(self):
        """Writes where it was recorded to write, and knows nothing of frames."""
        replays.append(captured.ctx.step)
        with buffers_restored(captured.stage):
            captured.stage.run_schedule()
            made = [dict(frame) for frame in captured.stage.buffers]
        for frame, now in zip(self.buffers, made):
            for offset, tensor in frame.items():
                tensor.copy_(now[offset])


@contextmanager
def capturing(graph, **_):
    """A GPU computes nothing while it records."""
    before = [(t, t.clone()) for frame in captured.stage.buffers for t in frame.values() if isinstance(t, torch.Tensor)]
    yield
    graph.buffers = [dict(frame) for frame in captured.stage.buffers]
    for tensor, values in before:
        tensor.copy_(values)


def on_device(self, *asked, fetch=Context._fetch):
    """Numbers are tensors there."""
    value = fetch(self, *asked)
    return value if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=torch.float64)


def losses_of(trainer):
    """Of every step, and held out after every other. One makes a NaN."""
    trainer.faults = Faults([f"nan:rank=0,step={steps - 1}"], folder, 0, 0)
    return [
        (trainer.step(step)["loss"], trainer.trace_nan(step + 1), trainer.evaluate() if step % 2 else None) for step in range(steps)
    ]


plain = Trainer(folder, 0, torch.device("cpu"))
expected = losses_of(plain)

torch.cuda.CUDAGraph, torch.cuda.graph, Context._fetch = Graph, capturing, on_device
captured = Trainer(folder, 0, torch.device("cpu"), cuda_graph=True)
losses = losses_of(captured)
pairs = [(plain.stage.master(param), captured.stage.master(param)) for param in plain.program["params"]]
apart = max((a - b).abs().max().item() for a, b in pairs)
print(json.dumps({"expected": expected, "losses": losses, "apart": apart, "replays": replays}))
