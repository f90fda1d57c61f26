"""
The emitted program of a folder beside plain PyTorch, on one GPU, in one process: see README.md beside this file.
    python race.py FOLDER [--rounds 5] [--steps 5] [--rivals NAME...] [--recompute] [--profile] [--memory] [--json FILE]
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


RIVALS = ["plain, f32 weights", "plain, all bf16"]


class Emitted:
    def __init__(self, folder, attention="", inductor=(), graph=True):
        sys.path.insert(0, folder)
        from runtime import attention as ops
        from runtime import stage
        from runtime.trainer import Trainer

        if inductor:
            stage.COMPILE["options"] = {name: json.loads(value) for name, value in (each.split("=") for each in inductor)}
        device = torch.device("cuda", 0)
        self.attention = ops.choose(device, attention)
        self.trainer = Trainer(folder, 0, device, compiled=True, cuda_graph=graph)
        self.at = 0

    @torch.no_grad()
    def step(self, *_):
        self.trainer.runner.run(self.at, {"lr": self.trainer.lr(self.at)})
        self.at += 1
        return self.trainer.stage.result("loss") / self.trainer.stage.result("count")

    def copy_weights_to(self, model):
        """Both start from the same numbers."""
        named = {param["name"]: self.trainer.stage.master(param) for param in self.trainer.program["params"]}
        with torch.no_grad():
            model.tokens.weight.copy_(named["embed.tokens"])
            model.head.weight.copy_(named["head.out"])
            model.norm.weight.copy_(named["head.norm.weight"])
            for i, layer in enumerate(model.layers):
                of = lambda name: named[f"layers.{i}.{name}"]  # noqa: E731
                for norm in ("norm1", "norm2"):
                    getattr(layer, norm).weight.copy_(of(f"{norm}.weight"))
                for name in ("q", "k", "v"):
                    getattr(layer, name).weight.copy_(of(f"attn.{name}").flatten(1).t())
                layer.out.weight.copy_(of("attn.out").flatten(0, 2).t())
                feed = layer.feed
                if hasattr(feed, "router"):
                    feed.router.weight.copy_(of("mlp.router").t())
                for name in ("gate", "up", "down"):
                    if hasattr(feed, "router"):
                        getattr(feed, name).copy_(of(f"mlp.experts.{name}"))
                    else:
                        getattr(feed, name).weight.copy_(of(f"mlp.{name}").t())


def sizes_of(program, run, moe):
    """The model's sizes, read off its parameters."""
    dims = {param["name"]: [dim["size"] for dim in param["dims"]] for param in program["params"]}
    layers = 1 + max(int(name.split(".")[1]) for name in dims if name.startswith("layers."))
    embed, kv_heads, group, _ = dims["layers.0.attn.q"]
    vocab, ffn = dims["embed.tokens"][0], dims["layers.0.mlp.experts.gate" if moe else "layers.0.mlp.gate"][-1]
    return dict(
        layers=layers, embed=embed, heads=kv_heads * group, kv_heads=kv_heads, ffn=ffn, vocab=vocab,
        seq=run["seq"], theta=10000.0, **(dict(experts=moe["experts"], chosen=moe["topK"]) if moe else {}),
    )


def flops_of(program, sizes):
    count = 0
    for param in program["params"]:
        elements = 1
        for dim in param["dims"]:
            elements *= dim["size"]
        if ".experts." in param["name"]:
            elements = elements * sizes["chosen"] // sizes["experts"]
        count += 0 if param["name"] == "embed.tokens" else elements
    return 6 * count + 6 * sizes["layers"] * sizes["embed"] * sizes["seq"]


def seconds(contender, batches, steps):
    torch.cuda.synchronize()
    started = time.perf_counter()
    for i in range(steps):
        contender.step(*batches[i % len(batches)])
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps


class Memory:
    """What one contender takes of a GPU on which others lie: the peak of its tensors, and of what it asked the GPU for."""

    def __init__(self):
        self.before = _in_use()

    def entered(self):
        """The others may come: what was added by now is its own."""
        self.own = [now - before for now, before in zip(_in_use(), self.before)]

    def watch(self):
        self.before = [now - own for now, own in zip(_in_use(), self.own)]

    def peak(self):
        most = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        return [now - before for now, before in zip(most, self.before)]


def _in_use():
    """Allocated and reserved bytes; peaks count from here."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def first_steps(contender, memory, batches):
    """Losses of four steps, and the peak of the last two: the emitted program is recorded in the third."""
    memory.watch()
    losses = [contender.step(*batch).item() for batch in batches[:2]]
    _in_use()
    losses += [contender.step(*batch).item() for batch in batches[2:4]]
    return losses, memory.peak()


def batches_of(emitted, run):
    data, sizes = emitted.trainer.ctx.data, (run["globalBatch"], run["seq"])
    return [tuple(data.shard(step, name, (0, 0), sizes).cuda() for name in ("tokens", "labels")) for step in range(4)]


def main():
    options = arguments()
    read = lambda name: json.load(open(os.path.join(options.folder, name)))  # noqa: E731
    program, run = read("program.json"), read("run.json")
    sizes = sizes_of(program, run, read("job.json")["model"].get("moe"))
    torch.set_float32_matmul_precision("high")
    contenders, memories, peaks, losses = {}, {}, {}, {}

    def enter(name, make):
        memories[name] = Memory()
        contenders[name] = make()
        memories[name].entered()
        return contenders[name]

    emitted = enter("emitted", lambda: Emitted(options.folder, options.attention, options.inductor, not options.no_graph))
    batches = batches_of(emitted, run)
    plain = dict(sizes=sizes, lr=run["learningRate"]["lr"], decay=0.1, clip=1.0, recompute=options.recompute)
    for name in options.rivals:
        rival = enter(name, lambda: PlainTrainer(**plain, bf16=name == RIVALS[1], device="cuda"))  # noqa: B023
        emitted.copy_weights_to(rival.model)
    for name, contender in contenders.items():
        losses[name], peaks[name] = first_steps(contender, memories[name], batches)
    times = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, contender in contenders.items():
            times[name].append(seconds(contender, batches, options.steps))
    tell(program, run, sizes, emitted, times, peaks, losses, options)
    if options.profile:
        for name, contender in contenders.items():
            profile(name, contender, batches)
    if options.memory:
        memory_by_function(emitted.trainer.stage)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="steps of a round")
    parser.add_argument("--attention", default="", help="cudnn, flash or math")
    parser.add_argument("--inductor", nargs="*", default=[], help="of torch.compile: coordinate_descent_tuning=true ...")
    parser.add_argument("--no-graph", action="store_true", help="the emitted program call by call, not as a CUDA graph")
    parser.add_argument("--recompute", action="store_true", help="the plain model recomputes every layer")
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=RIVALS)
    parser.add_argument("--profile", action="store_true", help="where the GPU's time goes, kernel by kernel")
    parser.add_argument("--memory", action="store_true", help="what each emitted function takes beside its results")
    parser.add_argument("--json", help="where to write the numbers")
    return parser.parse_args()


def profile(name, contender, batches):
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        contender.step(*batches[0])
        torch.cuda.synchronize()
    rows = sorted(recorded.key_averages(), key=lambda row: -row.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows)
    print(f"\n{name}: {total / 1e3:.1f} ms of kernels in a step")
    for row in rows[:40]:
        print(f"{row.self_device_time_total / 1e3:9.3f} ms {row.count:5d} x {row.key[:100]}")


@torch.no_grad()
def memory_by_function(stage):
    """Of a step call by call: per function the most that was allocated at once during a call, less what was before."""
    most = {}
    play = stage._call

    def measured(name, *rest):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        play(name, *rest)
        now = torch.cuda.memory_allocated()
        most[name] = max(most.get(name, (0, 0, 0)), (torch.cuda.max_memory_allocated(), before, now))

    stage._call = measured
    stage.run_schedule()
    del stage._call
    print(f"\n{'function':22}{'GB before':>12}{'peak':>9}{'after':>9}")
    for name, (peak, before, now) in sorted(most.items(), key=lambda item: -item[1][0]):
        print(f"{name:22}{before / 1e9:12.2f}{peak / 1e9:9.2f}{now / 1e9:9.2f}")


def tell(program, run, sizes, emitted, times, peaks, losses, options):
    tokens = run["globalBatch"] * run["seq"]
    flops = flops_of(program, sizes)
    device = torch.cuda.get_device_name()
    print(f"{device}, PyTorch {torch.__version__}, attention of the emitted program: {emitted.attention}")
    heads = f"{'ms a step':>12}{'(best)':>9}{'tokens/s':>11}{'TFLOP/s':>9}{'peak GB':>9}{'taken':>7}"
    print(f"{'':22}{heads}  losses of the first steps")
    rows = {}
    for name, each in times.items():
        median, best = statistics.median(each), min(each)
        rate = tokens / median
        peak, taken = peaks[name]
        rows[name] = dict(ms=1e3 * median, best=1e3 * best, tokens=rate, peak=peak, taken=taken, losses=losses[name])
        numbers = f"{1e3 * median:12.1f}{1e3 * best:9.1f}{rate:11.0f}{rate * flops / 1e12:9.0f}{peak / 1e9:9.1f}"
        numbers += f"{taken / 1e9:7.1f}"
        print(f"{name:22}{numbers}  {' '.join(f'{loss:.4f}' for loss in losses[name])}")
    planned = max(stage["held"] for stage in program["memory"])
    print(f"planned for the emitted program: {planned / 1e9:.1f} GB, measured {peaks['emitted'][0] / 1e9:.1f} GB")
    if "expected" in run:
        print(f"simulated: {1e3 * run['expected']['seconds']:.1f} ms a step on {run['expected']['cluster']}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(device=device, torch=torch.__version__, planned=planned, rows=rows), file, indent=1)


if __name__ == "__main__":
    main()
