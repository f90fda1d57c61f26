"""
Steps of emitted folders whose optimizer state lives on the host: losses, time of a step, how much of it the host updates and
how much it waits for copies, the peak of the GPU beside the planned one, the host's memory. See README.md beside this file.
    python offload.py FOLDER... [--steps 4]
"""
import argparse
import gc
import json
import os
import resource
import time

import torch

from race import Emitted


class Timed:
    """Adds up how long a method takes."""

    def __init__(self, stage, name, counts=lambda *_: True):
        self.seconds, self.counts = 0.0, counts
        method = getattr(stage, name)

        def call(*given):
            start = time.perf_counter()
            result = method(*given)
            self.seconds += (time.perf_counter() - start) if self.counts(*given) else 0.0
            return result

        setattr(stage, name, call)


def measured(folder, steps):
    begun = time.perf_counter()
    contender = Emitted(folder, graph=True)
    stage = contender.trainer.stage
    updates, waits = Timed(stage, "_each", lambda name, *_: name.startswith("update")), Timed(stage, "_wait")
    with open(os.path.join(folder, "program.json")) as file:
        planned = max(stage["held"] for stage in json.load(file)["memory"])
    print(f"{os.path.basename(folder)}: ready after {time.perf_counter() - begun:.1f} s", flush=True)
    torch.cuda.reset_peak_memory_stats()
    for step in range(steps):
        updates.seconds = waits.seconds = 0.0
        begun = time.perf_counter()
        loss = contender.step().item()
        took = time.perf_counter() - begun
        print(f"  step {step}: loss {loss:.5f}, {took:.3f} s, update {updates.seconds:.3f}, waits {waits.seconds:.3f}", flush=True)
    peak = torch.cuda.max_memory_allocated()
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"  peak {peak / 2**30:.2f} GiB, planned {planned / 2**30:.2f} ({100 * (planned / peak - 1):+.1f} %), host {host / 2**30:.1f} GiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    for folder in options.folders:
        measured(folder, options.steps)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
