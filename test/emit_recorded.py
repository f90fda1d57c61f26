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
from runtime.here import Here  # noqa: E402
from runtime.looking import frames_kept  # noqa: E402
from runtime.trainer import Trainer  # noqa: E402

replays = []


class Graph:
    frames = []

    def replay(self):
        """Writes where it was recorded to write, and knows nothing of frames."""
        replays.append(recorded.here.step)
        with frames_kept(recorded.stage):
            recorded.stage.play()
            made = [dict(frame) for frame in recorded.stage.frames]
        for frame, now in zip(self.frames, made):
            for offset, tensor in frame.items():
                tensor.copy_(now[offset])


@contextmanager
def recording(graph, **_):
    """A GPU computes nothing while it records."""
    before = [(t, t.clone()) for frame in recorded.stage.frames for t in frame.values() if isinstance(t, torch.Tensor)]
    yield
    graph.frames = [dict(frame) for frame in recorded.stage.frames]
    for tensor, values in before:
        tensor.copy_(values)


def on_device(self, *asked, fetch=Here._fetch):
    """Numbers are tensors there."""
    value = fetch(self, *asked)
    return value if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=torch.float64)


def losses_of(trainer):
    """Of every step, and held out after every other. One makes a NaN."""
    trainer.faults = Faults([f"nan:rank=0,step={steps - 1}"], folder, 0, 0)
    return [
        (trainer.step(step)["loss"], trainer.whence(step + 1), trainer.evaluate() if step % 2 else None) for step in range(steps)
    ]


plain = Trainer(folder, 0, torch.device("cpu"))
expected = losses_of(plain)

torch.cuda.CUDAGraph, torch.cuda.graph, Here._fetch = Graph, recording, on_device
recorded = Trainer(folder, 0, torch.device("cpu"), recorded=True)
losses = losses_of(recorded)
pairs = [(plain.stage.master(param), recorded.stage.master(param)) for param in plain.program["params"]]
apart = max((a - b).abs().max().item() for a, b in pairs)
print(json.dumps({"expected": expected, "losses": losses, "apart": apart, "replays": replays}))
