"""
How many pieces torch.compile makes of each segment of emitted folders: what it cannot follow cuts a segment in two, and
less is fused; what changes from step to step compiles it anew. emit_compiled.py FOLDER...: for each a line of JSON, {function: pieces}
of two steps and of an evaluation.
"""
import json
import sys

import torch

NO_COMPILER = 77  # PyTorch 1
sys.path.insert(0, sys.argv[1])

from runtime import optimizer, stage  # noqa: E402
from runtime.trainer import Trainer  # noqa: E402

if not hasattr(torch, "compile"):
    sys.exit(NO_COMPILER)
pieces = {}


def counted(function, compiled):
    if not compiled:
        return function

    def count(graph, _):
        pieces[function.__name__] = pieces.get(function.__name__, 0) + 1
        return graph.forward

    return torch.compile(function, backend=count, dynamic=False)


stage._compiled = counted
optimizer.compile_updates = lambda *how: None  # no segment, and it would need a compiler
for folder in sys.argv[1:]:
    pieces.clear()
    trainer = Trainer(folder, 0, torch.device("cpu"), compiled=True)
    for step in range(2):  # the second must find everything compiled, whatever experts are chosen
        trainer.step(step)
    step = dict(pieces)
    pieces.clear()
    trainer.evaluate()
    print(json.dumps([step, pieces]))
