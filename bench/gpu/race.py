"""
The emitted program of a folder beside plain PyTorch, on one GPU, in one process: see README.md beside this file.
    python race.py FOLDER [--rounds 5] [--steps 5] [--attention cudnn] [--recompute] [--json FILE]
"""
import argparse
import gc
import json
import os
import statistics
import sys
import time

import torch

from plain import PlainTrainer


class Emitted:
    def __init__(self, folder, attention, mode):
        sys.path.insert(0, folder)
        from runtime import attention as ops
        from runtime import stage
        from runtime.trainer import Trainer

        if mode:
            stage.COMPILE_MODE = mode
        device = torch.device("cuda", 0)
        self.attention = ops.choose(device, attention)
        self.trainer = Trainer(folder, 0, device, compiled=True)
        self.at = 0

    def step(self, *_):
        self.trainer.stage.run(self.at, self.trainer.lr(self.at))
        self.at += 1
        return self.trainer.stage.scalar("loss") / self.trainer.stage.scalar("count")

    def copy_weights_to(self, model):
        """Both start from the same numbers."""
        named = {param["name"]: self.trainer.stage.master(param) for param in self.trainer.program["params"]}
        with torch.no_grad():
            model.tokens.weight.copy_(named["embed.tokens"])
            model.head.weight.copy_(named["head.out"])
            model.norm.weight.copy_(named["head.norm.gain"])
            for i, layer in enumerate(model.layers):
                of = lambda name: named[f"layers.{i}.{name}"]  # noqa: E731
                for norm in ("norm1", "norm2"):
                    getattr(layer, norm).weight.copy_(of(f"{norm}.gain"))
                for name in ("q", "k", "v"):
                    getattr(layer, name).weight.copy_(of(f"attn.{name}").flatten(1).t())
                layer.out.weight.copy_(of("attn.out").flatten(0, 2).t())
                for name in ("gate", "up", "down"):
                    getattr(layer, name).weight.copy_(of(f"mlp.{name}").t())


def sizes_of(program, run):
    """The model's sizes, read off its parameters."""
    dims = {param["name"]: [dim["size"] for dim in param["dims"]] for param in program["params"]}
    layers = 1 + max(int(name.split(".")[1]) for name in dims if name.startswith("layers."))
    embed, kv_heads, group, _ = dims["layers.0.attn.q"]
    vocab, ffn = dims["embed.tokens"][0], dims["layers.0.mlp.gate"][1]
    return dict(
        layers=layers, embed=embed, heads=kv_heads * group, kv_heads=kv_heads, ffn=ffn, vocab=vocab,
        seq=run["seq"], theta=10000.0,
    )


def flops_of(program, sizes):
    count = 0
    for param in program["params"]:
        elements = 1
        for dim in param["dims"]:
            elements *= dim["size"]
        count += 0 if param["name"] == "embed.tokens" else elements
    return 6 * count + 6 * sizes["layers"] * sizes["embed"] * sizes["seq"]


def seconds(contender, batches, steps):
    torch.cuda.synchronize()
    started = time.perf_counter()
    for i in range(steps):
        contender.step(*batches[i % len(batches)])
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="steps of a round")
    parser.add_argument("--attention", default="", help="cudnn, flash or math")
    parser.add_argument("--mode", default="", help="of torch.compile, for the emitted segments")
    parser.add_argument("--recompute", action="store_true", help="the plain model recomputes every layer")
    parser.add_argument("--only-emitted", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print the kernels of a step of each")
    parser.add_argument("--json", help="where to write the numbers")
    options = parser.parse_args()
    read = lambda name: json.load(open(os.path.join(options.folder, name)))  # noqa: E731
    program, run = read("program.json"), read("run.json")
    sizes = sizes_of(program, run)
    torch.set_float32_matmul_precision("high")

    resident = lambda: torch.cuda.memory_allocated()  # noqa: E731
    contenders, peaks, losses = {}, {}, {}

    def enter(name, make):
        gc.collect()
        torch.cuda.empty_cache()
        before = resident()
        torch.cuda.reset_peak_memory_stats()
        contenders[name] = make()
        losses[name] = [contenders[name].step(*batches[i % len(batches)]).item() for i in range(3)]
        torch.cuda.reset_peak_memory_stats()
        contenders[name].step(*batches[0])
        torch.cuda.synchronize()
        peaks[name] = torch.cuda.max_memory_allocated() - before

    emitted = Emitted(options.folder, options.attention, options.mode)
    data = emitted.trainer.here.data
    batches = [
        tuple(data.part(step, name, (0, 0), (run["globalBatch"], run["seq"])).cuda() for name in ("tokens", "labels"))
        for step in range(4)
    ]
    if not options.only_emitted:
        plain = dict(sizes=sizes, lr=run["learningRate"]["lr"], decay=0.1, clip=1.0, recompute=options.recompute)

        def rival(bf16):
            trainer = PlainTrainer(**plain, bf16=bf16, device="cuda")
            emitted.copy_weights_to(trainer.model)
            return trainer

        enter("plain, f32 weights", lambda: rival(False))
        enter("plain, all bf16", lambda: rival(True))
    contenders["emitted"] = emitted
    losses["emitted"] = [emitted.step().item() for _ in range(3)]
    torch.cuda.reset_peak_memory_stats()
    emitted.step()
    torch.cuda.synchronize()
    # Beside it lie the others: its own is what it holds between steps, and what a step adds to that.
    held = sum(t.numel() * t.element_size() for frame in emitted.trainer.stage.frames for t in tensors_in(frame))
    peaks["emitted"] = torch.cuda.max_memory_allocated() - resident() + held

    times = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, contender in contenders.items():
            times[name].append(seconds(contender, batches, options.steps))
    tell(program, run, sizes, emitted, times, peaks, losses, options)
    if options.profile:
        for name, contender in contenders.items():
            print(f"\n{name}\n{kernels_of(contender, batches[0])}")


def kernels_of(contender, batch):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        contender.step(*batch)
        torch.cuda.synchronize()
    return profile.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=90)


def tensors_in(frame):
    for value in frame.values():
        value = getattr(value, "held", value)
        if isinstance(value, torch.Tensor):
            yield value


def tell(program, run, sizes, emitted, times, peaks, losses, options):
    tokens = run["globalBatch"] * run["seq"]
    flops = flops_of(program, sizes)
    device = torch.cuda.get_device_name()
    print(f"{device}, PyTorch {torch.__version__}, attention of the emitted program: {emitted.attention}")
    heads = f"{'ms a step':>12}{'(best)':>9}{'tokens/s':>11}{'TFLOP/s':>9}{'peak GB':>9}"
    print(f"{'':22}{heads}  losses of the first steps")
    rows = {}
    for name, each in times.items():
        median, best = statistics.median(each), min(each)
        rate = tokens / median
        rows[name] = dict(ms=1e3 * median, best=1e3 * best, tokens=rate, peak=peaks[name], losses=losses[name])
        numbers = f"{1e3 * median:12.1f}{1e3 * best:9.1f}{rate:11.0f}{rate * flops / 1e12:9.0f}{peaks[name] / 1e9:9.1f}"
        print(f"{name:22}{numbers}  {' '.join(f'{loss:.4f}' for loss in losses[name])}")
    planned = max(stage["arena"] for stage in program["memory"])
    print(f"planned for the emitted program: {planned / 1e9:.1f} GB, measured {peaks['emitted'] / 1e9:.1f} GB")
    if "expected" in run:
        print(f"simulated: {1e3 * run['expected']['secondsPerStep']:.1f} ms a step on {run['expected']['cluster']}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(device=device, torch=torch.__version__, planned=planned, rows=rows), file, indent=1)


if __name__ == "__main__":
    main()
