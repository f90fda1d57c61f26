#!/usr/bin/env python3
"""Measures what an accelerator reaches, for `lockstep calibrate --read`: matmul, attention, memory-bound kernels,
launches, host copies and, under torchrun, collectives. Needs PyTorch and nothing else.

    python measure.py --out measured.json                       one GPU, about two minutes
    torchrun --nproc-per-node 8 measure.py --out measured.json  also NCCL
    python measure.py --device cpu --quick --out measured.json  tries the script itself

Inputs are random numbers (zeros take less power and look faster), the device is warmed up first, and what is read is
rotated over more memory than its caches hold. A time is the median of several runs.
"""
import argparse
import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CACHE = 192 << 20  # more than any second-level cache of today


class Clock:
    """Seconds of one call, by the device's own clock where it has one."""

    def __init__(self, device, quick):
        self.device, self.cuda = device, device.type == "cuda"
        self.repeats, self.target = (3, 2e-3) if quick else (7, 12e-3)

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def elapsed(self, run):
        if not self.cuda:
            start = time.perf_counter()
            run()
            return time.perf_counter() - start
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def time(self, calls, graph=True):
        """`calls` are the same work on different memory, one after the other."""
        for call in calls[:2]:
            call()
        self.sync()
        run = (self.captured(calls) if graph and self.cuda else None) or (lambda: [call() for call in calls])
        run()
        self.sync()
        once = max(self.elapsed(run), 1e-7)
        times = max(1, min(200, round(self.target / once)))

        def many():
            for _ in range(times):
                run()

        return statistics.median(self.elapsed(many) for _ in range(self.repeats)) / times / len(calls)

    def captured(self, calls):
        """A graph of the calls: the host then cannot be what is slow."""
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for call in calls[:2]:
                    call()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for call in calls:
                    call()
            return graph.replay
        except RuntimeError:
            self.sync()
            return None


def copies_of(clock, size, most):
    return max(1, min(most if clock.cuda else 2, -(-CACHE // max(1, size))))


def rounds(calls, least=8):
    """A graph of few calls is mostly start-up."""
    return calls * max(1, -(-least // len(calls)))


# ---- matmul -------------------------------------------------------------------------------------------------------

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32}


def matmul_shapes(quick):
    """[m x k] with [k x n], and how the operands lie: nt is a forward linear layer, nn its input gradient, tn its weight's."""
    if quick:
        return [(64, 64, 64, "nt"), (128, 256, 64, "nn"), (100, 77, 33, "tn")]
    squares = [(s, s, s, "nt") for s in (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)]
    by_k = [(4096, 4096, k, "nt") for k in (64, 128, 256, 512, 1024, 2048, 8192, 16384, 32768)]
    waves = [(128 * i, 4096, 4096, "nt") for i in (1, 2, 4, 6, 7, 8, 9, 10, 12, 14, 16, 17, 18, 20, 24, 25, 26)]
    small = [(m, n, 4096, "nt") for m, n in ((16, 4096), (64, 4096), (128, 1024), (256, 256), (512, 512), (64, 16384))]
    odd = [(4095, 4095, 4095, "nt"), (4097, 4097, 4097, "nt"), (1000, 1000, 1000, "nt"), (333, 777, 555, "nt"),
           (4096, 50257, 768, "nt"), (4096, 50304, 768, "nt"), (4100, 4096, 4096, "nt"), (4096, 4104, 4096, "nt")]
    layers = [(4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096), (4096, 128256),  # llama3-8b
              (8192, 1280), (1024, 8192), (8192, 7168), (3584, 8192),  # llama3-70b, tp 8
              (12288, 4608), (1536, 12288), (12288, 6144), (6144, 12288),  # gpt3-175b, tp 8
              (768, 2304), (768, 3072), (3072, 768), (2048, 8192)]  # gpt2, gpt 1.3b
    forward = [(t, n, k, "nt") for k, n in layers for t in ((2048, 8192) if n < 100000 else (2048, 4096))]
    backward = [s for k, n in layers[:4] + layers[5:9] + layers[13:15] for s in ((8192, k, n, "nn"), (n, k, 8192, "tn"))]
    return squares + by_k + waves + small + odd + forward + backward


def operands(m, n, k, layout, dtype, device):
    a = torch.randn(k, m, device=device).to(dtype).t() if layout[0] == "t" else torch.randn(m, k, device=device).to(dtype)
    b = torch.randn(n, k, device=device).to(dtype).t() if layout[1] == "t" else torch.randn(k, n, device=device).to(dtype)
    return a, b, torch.empty(m, n, device=device, dtype=dtype)


def time_matmul(clock, m, n, k, layout, precision):
    dtype = DTYPES[precision]
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    size = (m * k + k * n + m * n) * torch.tensor([], dtype=dtype).element_size()
    sets = [operands(m, n, k, layout, dtype, clock.device) for _ in range(copies_of(clock, size, 64))]
    return clock.time(rounds([lambda a=a, b=b, c=c: torch.mm(a, b, out=c) for a, b, c in sets], 4))


def time_fp8(clock, m, n, k):
    one = torch.ones((), device=clock.device)
    a = torch.randn(m, k, device=clock.device).to(torch.float8_e4m3fn)
    b = torch.randn(n, k, device=clock.device).to(torch.float8_e4m3fn).t()
    call = lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: E731
    return clock.time([call] * 4)


def measure_matmul(clock, quick):
    points = []

    def add(m, n, k, precision, layout, time_it):
        try:
            points.append(dict(m=m, n=n, k=k, precision=precision, layout=layout, seconds=time_it()))
        except (RuntimeError, AttributeError) as e:
            note(f"no {precision} matmul {m} x {n} x {k}: {str(e).splitlines()[0]}")

    for m, n, k, layout in matmul_shapes(quick):
        add(m, n, k, "bf16", layout, lambda: time_matmul(clock, m, n, k, layout, "bf16"))
    large = [(s, s, s) for s in ((64,) if quick else (1024, 4096, 8192))] + ([] if quick else [(8192, 28672, 4096)])
    for m, n, k in large:
        for precision in ("f16", "tf32", "f32"):
            add(m, n, k, precision, "nt", lambda: time_matmul(clock, m, n, k, "nt", precision))
        if clock.cuda:
            add(m, n, k, "fp8", "nt", lambda: time_fp8(clock, m, n, k))
    return points


def measure_sustained(clock, quick):
    """The same product for seconds on end: what is left when power and heat have their say."""
    size = 64 if quick else 8192
    a, b, c = operands(size, size, size, "nt", torch.bfloat16, clock.device)
    end, seconds = time.perf_counter() + (0.1 if quick else 6), []
    while time.perf_counter() < end:
        seconds.append(clock.elapsed(lambda: [torch.mm(a, b, out=c) for _ in range(20)]) / 20)
    return dict(m=size, n=size, k=size, precision="bf16", first=seconds[0], seconds=statistics.median(seconds[len(seconds) // 2 :]))


# ---- attention ----------------------------------------------------------------------------------------------------

ATTENTION_OPS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}


def attention_shapes(quick):
    """batch, heads, kvHeads, seq, headDim, causal"""
    if quick:
        return [(1, 2, 2, 64, 16, True)]
    return [(4, 32, 32, 4096, 64, True), (4, 32, 32, 2048, 128, True), (2, 32, 32, 4096, 128, True),
            (1, 32, 32, 8192, 128, True), (1, 16, 16, 16384, 128, True), (1, 8, 8, 32768, 128, True),
            (2, 8, 8, 4096, 128, True), (1, 8, 8, 8192, 128, True), (8, 16, 16, 1024, 64, True),
            (16, 12, 12, 1024, 64, True), (8, 16, 16, 2048, 64, True), (8, 12, 12, 512, 64, True),
            (2, 32, 8, 4096, 128, True), (2, 32, 32, 4096, 128, False), (4, 16, 16, 2048, 96, True)]


def measure_attention(clock, quick):
    points = []
    for op in ("flash", "cudnn") if clock.cuda else ("math",):
        for shape in attention_shapes(quick):
            try:
                for name, seconds in time_attention(clock, op, shape).items():
                    keys = ("batch", "heads", "kvHeads", "queries", "headDim", "causal")
                    points.append({"op": op, "pass": name, **dict(zip(keys, shape)), "keys": shape[3], "seconds": seconds})
            except RuntimeError as e:
                note(f"no {op} attention {shape}: {str(e).splitlines()[0]}")
    return points


def time_attention(clock, op, shape):
    batch, heads, kv_heads, seq, dim, causal = shape
    new = lambda h: torch.randn(batch, h, seq, dim, device=clock.device).to(torch.bfloat16).requires_grad_()  # noqa: E731
    q, k, v = new(heads), new(kv_heads), new(kv_heads)
    grad = torch.randn(batch, heads, seq, dim, device=clock.device).to(torch.bfloat16)
    options = {"enable_gqa": True} if heads != kv_heads else {}
    attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, **options)  # noqa: E731
    with sdpa_kernel(ATTENTION_OPS[op]):
        with torch.no_grad():
            forward = clock.time([attend] * 2)
        out = attend()
        back = lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)  # noqa: E731
        return {"forward": forward, "backward": clock.time([back] * 2, graph=False)}


# ---- what memory bounds -------------------------------------------------------------------------------------------

def memory_kernels(elements, device):
    """Name -> (bytes read and written, a call on fresh memory of that many bf16 elements)."""
    new = lambda: torch.randn(elements, device=device).to(torch.bfloat16)  # noqa: E731
    width = min(4096, elements)
    gain = torch.ones(width, device=device, dtype=torch.bfloat16)

    def copy():
        x, y = new(), new()
        return lambda: y.copy_(x)

    def add():
        x, y, z = new(), new(), new()
        return lambda: torch.add(x, y, out=z)

    def rms_norm():
        x = new().view(-1, width)
        return lambda: F.rms_norm(x, (width,), gain)

    def gelu():
        x, y = new(), new()
        return lambda: torch.ops.aten.gelu.out(x, out=y)

    return {"copy": (4 * elements, copy), "add": (6 * elements, add), "rmsNorm": (4 * elements, rms_norm), "gelu": (4 * elements, gelu)}


def measure_memory(clock, quick):
    points = []
    for power in (12, 16) if quick else range(12, 29, 2):
        for name, (size, make) in memory_kernels(2**power, clock.device).items():
            calls = [make() for _ in range(copies_of(clock, size, 32))]
            points.append(dict(kernel=name, bytes=size, seconds=clock.time(rounds(calls, 32 if power < 20 else 4))))
            del calls
    return points


def measure_adamw(clock, quick):
    """The optimizer as PyTorch fuses it: f32 weights, gradients and moments, 28 bytes read and written per element."""
    elements = 2**12 if quick else 2**27
    weight = torch.nn.Parameter(torch.randn(elements, device=clock.device))
    weight.grad = torch.randn(elements, device=clock.device)
    optimizer = torch.optim.AdamW([weight], lr=1e-5, fused=clock.cuda)
    return dict(kernel="adamw", bytes=28 * elements, seconds=clock.time([optimizer.step] * 2, graph=False))


def measure_launch(clock):
    """floor: a kernel that does nothing, in a graph; eager: one that PyTorch launches; sync: one that is waited for."""
    tiny = torch.zeros(16, device=clock.device)
    call = lambda: tiny.add_(1)  # noqa: E731
    floor = clock.time([call] * 200)
    start = time.perf_counter()
    for _ in range(2000):
        call()
    eager = (time.perf_counter() - start) / 2000
    clock.sync()
    start = time.perf_counter()
    for _ in range(200):
        call()
        clock.sync()
    return dict(floor=floor, eager=eager, sync=(time.perf_counter() - start) / 200)


def measure_host(clock, quick):
    if not clock.cuda:
        return []
    size = 2**20 if quick else 2**28
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device=clock.device)
    down = clock.time([lambda: device.copy_(host, non_blocking=True)], graph=False)
    up = clock.time([lambda: host.copy_(device, non_blocking=True)], graph=False)
    return [dict(direction="toDevice", bytes=size, seconds=down), dict(direction="toHost", bytes=size, seconds=up)]


# ---- one layer, to hold predictions against ------------------------------------------------------------------------

def measure_layers(clock, quick):
    """A Llama layer, eager: what the parts above must add up to."""
    shapes = [(1, 64, 32, 2, 64)] if quick else [(1, 4096, 4096, 32, 14336), (4, 2048, 4096, 32, 14336), (4, 2048, 2048, 16, 5504)]
    return [dict(zip(("batch", "seq", "embed", "heads", "ffn"), s)) | time_layer(clock, *s) for s in shapes]


def time_layer(clock, batch, seq, embed, heads, ffn):
    weight = lambda o, i: (torch.randn(o, i, device=clock.device) * i**-0.5).to(torch.bfloat16).requires_grad_()  # noqa: E731
    qkv, proj, up, down = weight(3 * embed, embed), weight(embed, embed), weight(2 * ffn, embed), weight(embed, ffn)
    gains = [torch.ones(embed, device=clock.device, dtype=torch.bfloat16, requires_grad=True) for _ in range(2)]
    x = torch.randn(batch, seq, embed, device=clock.device).to(torch.bfloat16).requires_grad_()
    grad = torch.randn_like(x)

    def forward():
        q, k, v = F.linear(F.rms_norm(x, (embed,), gains[0]), qkv).view(batch, seq, 3, heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, seq, embed)
        middle = x + F.linear(attended, proj)
        gate, rest = F.linear(F.rms_norm(middle, (embed,), gains[1]), up).chunk(2, -1)
        return middle + F.linear(F.silu(gate) * rest, down)

    out = forward()
    inputs = (x, qkv, proj, up, down, *gains)
    back = lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)  # noqa: E731
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return dict(forward=clock.time([forward] * 2, graph=False), backward=clock.time([back] * 2, graph=False))


# ---- collectives --------------------------------------------------------------------------------------------------

def measure_collectives(clock, quick):
    """Every kind, at 2, 4, ... and all ranks, by the bytes of the whole: what is reduced, or gathered."""
    world, rank = dist.get_world_size(), dist.get_rank()
    sizes = [2**p for p in ((12, 16) if quick else range(12, 31, 2))]
    counts = sorted({world} | {2**i for i in range(1, 12) if 2**i < world})
    groups = {n: dist.new_group(list(range(n))) for n in counts}
    points = []
    for n in counts:
        for size in sizes if rank < n else []:
            for kind, run in collectives(groups[n], n, rank, size, clock.device).items():
                points.append(dict(kind=kind, ranks=n, bytes=size, seconds=time_collective(clock, run, groups[n], size)))
        dist.barrier()
    return points


def collectives(group, n, rank, size, device):
    whole = torch.ones(size // 4 // n * n, device=device)
    other = torch.empty_like(whole)
    part = whole[: whole.numel() // n].clone()
    runs = {
        "all-reduce": lambda: dist.all_reduce(whole, group=group),
        "all-gather": lambda: dist.all_gather_into_tensor(other, part, group=group),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all-to-all": lambda: dist.all_to_all_single(other, whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
    }
    if device.type != "cuda":  # gloo has no more than these
        return {kind: runs[kind] for kind in ("all-reduce", "broadcast")}
    if n == 2:
        runs["send"] = lambda: dist.send(whole, 1, group=group) if rank == 0 else dist.recv(other, 0, group=group)
    return runs


def time_collective(clock, run, group, size):
    """Back to back; the number of rounds must be the same on every rank, so it follows from the size."""
    times = 5 if clock.device.type != "cuda" else max(5, min(50, (1 << 28) // size))

    def many():
        for _ in range(times):
            run()

    many()
    clock.sync()
    dist.barrier(group=group)
    return statistics.median(clock.elapsed(many) for _ in range(5)) / times


# ---- all of it ----------------------------------------------------------------------------------------------------

def note(text):
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr, flush=True)


def warm_up(clock, seconds):
    a = torch.randn(4096, 4096, device=clock.device).to(torch.bfloat16)
    end = time.perf_counter() + seconds
    while clock.cuda and time.perf_counter() < end:
        for _ in range(20):
            a @ a
        clock.sync()


def described(device):
    machine = dict(format="lockstep-measured/1", torch=torch.__version__, date=datetime.date.today().isoformat())
    if device.type != "cuda":
        return machine | dict(device="cpu", units=torch.get_num_threads())
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    held = total - free - torch.cuda.memory_reserved(device)
    return machine | dict(device=properties.name, units=properties.multi_processor_count, total=total, context=held,
                          cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", default="measured.json")
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--quick", action="store_true", help="few and small sizes: to try the script")
    args = options.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device is visible; --device cpu --quick tries the script without one")
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    device = torch.device(args.device, int(os.environ.get("LOCAL_RANK", "0"))) if args.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if several:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    torch.manual_seed(0)
    clock, began = Clock(device, args.quick), time.perf_counter()
    parts = {
        "launch": lambda: measure_launch(clock),
        "memory": lambda: [*measure_memory(clock, args.quick), measure_adamw(clock, args.quick)],
        "matmul": lambda: measure_matmul(clock, args.quick),
        "sustained": lambda: measure_sustained(clock, args.quick),
        "attention": lambda: measure_attention(clock, args.quick),
        "layers": lambda: measure_layers(clock, args.quick),
        "host": lambda: measure_host(clock, args.quick),
        **({"collectives": lambda: measure_collectives(clock, args.quick)} if several else {}),
    }
    warm_up(clock, 0.1 if args.quick else 3)
    result = described(device)
    for name, measure in parts.items():
        note(f"{time.perf_counter() - began:6.1f} s  {name}")
        result[name] = measure()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    result["took"] = time.perf_counter() - began
    if os.environ.get("RANK", "0") == "0":
        with open(args.out, "w") as file:
            json.dump(result, file, indent=1)
        note(f"{result['took']:6.1f} s  wrote {args.out}")
    if several:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
