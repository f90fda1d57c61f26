"""
Predicted against measured: emitted folders one after the other on one GPU, the time of a step beside what `lockstep emit
--cluster` wrote into run.json, the peak of memory beside what was planned. See README.md beside this file.
    python predict.py FOLDER... [--rounds 3] [--steps 5] [--json FILE]
"""
import argparse
import gc
import json
import os
import statistics
import traceback

import torch

from race import Emitted, Memory, first_steps, seconds


def measured(folder, options):
    memory = Memory()
    contender = Emitted(folder, graph=not options.no_graph)
    memory.entered()
    _, (peak, taken) = first_steps(contender, memory, [()] * 4)
    each = [seconds(contender, [()], options.steps) for _ in range(options.rounds)]
    recorded = getattr(contender.trainer.runner, "graph", None) is not None
    return dict(seconds=statistics.median(each), best=min(each), peak=peak, taken=taken, recorded=recorded)


def told(folder, row):
    with open(os.path.join(folder, "program.json")) as file:
        planned = max(stage["held"] for stage in json.load(file)["memory"])
    with open(os.path.join(folder, "run.json")) as file:
        expected = json.load(file).get("expected", {}).get("seconds", float("nan"))
    row.update(expected=expected, planned=planned)
    off = lambda predicted, real: f"{100 * (predicted / real - 1):+6.1f} %"  # noqa: E731
    name = os.path.basename(os.path.normpath(folder))
    print(
        f"{name:28}{1e3 * expected:10.1f}{1e3 * row['seconds']:10.1f} {off(expected, row['seconds'])}"
        f"{planned / 1e9:10.2f}{row['peak'] / 1e9:10.2f} {off(planned, row['peak'])}{row['taken'] / 1e9:9.2f}"
        f"{'' if row['recorded'] else '  call by call'}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="steps of a round")
    parser.add_argument("--no-graph", action="store_true", help="call by call, not as a CUDA graph")
    parser.add_argument("--json", help="where to write the numbers, after each folder")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; ms a step, GB at the peak, GB asked of the GPU")
    print(f"{'':28}{'predicted':>10}{'measured':>10} {'':8}{'planned':>10}{'measured':>10} {'':8}{'taken':>9}", flush=True)
    rows = {}
    for folder in options.folders:
        try:
            rows[folder] = measured(folder, options)
            told(folder, rows[folder])
        except Exception:
            # One that fails must not cost the others their turn.
            print(f"{folder}: failed\n{traceback.format_exc()}", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(dict(device=torch.cuda.get_device_name(), torch=torch.__version__, rows=rows), file, indent=1)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
