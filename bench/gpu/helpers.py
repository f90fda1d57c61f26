"""
The runtime's helpers that take another way on a GPU, each against what it computes on a CPU, which the tests hold to the reference. Run by
conformance.py on a GPU, or on a simulated one. `HELPERS` has them by name; each raises where it differs, or where it takes the CPU's way.
"""
import functools
import importlib
import math
from types import SimpleNamespace
from typing import Callable, Dict

import torch
from torch.utils import _pytree as pytree

HELPERS: Dict[str, Callable] = {}
HALF = 2.0**-6  # of the largest element, where results are rounded to bf16


def helper(function: Callable) -> Callable:
    HELPERS[function.__name__.replace("_", " ")] = function
    return function


def cases(*values):
    """One helper for each of some values."""

    def each(function: Callable) -> Callable:
        for value in values:
            said = ", ".join(value) if isinstance(value, tuple) else value
            HELPERS[f"{function.__name__.replace('_', ' ')}: {said}"] = functools.partial(function, value)
        return function

    return each


class Bench:
    """What helpers are given: the device, whether it is a real GPU, and the runtime's modules by name."""

    def __init__(self, device, simulated: bool):
        self.device, self.simulated = device, simulated
        self.generator = torch.Generator().manual_seed(1)

    def __getattr__(self, name: str):
        return importlib.import_module(f"runtime.{name}")

    def numbers(self, *sizes: int, dtype=torch.bfloat16) -> torch.Tensor:
        return torch.randn(sizes, generator=self.generator).to(dtype)

    def same(self, function: Callable, *operands, bound: float = HALF, compiled: bool = True, clean: Callable = lambda x: x) -> None:
        """On the CPU and on the device, as written and compiled. Operands that it changes count as results."""
        ways = [("cpu", function), (self.device, function)] + [(self.device, torch.compile(function, dynamic=False))] * compiled
        made = []
        for device, way in ways:
            given = pytree.tree_map(lambda x: x.clone().to(device) if isinstance(x, torch.Tensor) else x, operands)
            given = pytree.tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, given)
            result = clean(way(*given))
            made.append([x.detach().cpu().double() for x in pytree.tree_leaves((result, given)) if isinstance(x, torch.Tensor)])
        for other in made[1:]:
            near(other, made[0], bound)


def near(actual, expected, bound: float) -> None:
    assert len(actual) == len(expected), f"{len(actual)} results, not {len(expected)}"
    for i, (a, b) in enumerate(zip(actual, expected)):
        assert a.shape == b.shape, f"result {i} is {tuple(a.shape)}, not {tuple(b.shape)}"
        if a.numel() == 0:
            continue
        assert bool((a.isfinite() | ~b.isfinite()).all()), f"result {i} is not finite"
        finite = b.isfinite()
        off = (a - b)[finite].abs().max() if finite.any() else torch.zeros(())
        assert float(off) <= bound * max(1e-6, float(b[finite].abs().max())), f"result {i} is {float(off):.1e} off"


def called(module, name: str, calls: list):
    """Counts what takes the way that is meant."""
    function = getattr(module, name)

    def counted(*args, **kwargs):
        calls.append(name)
        return function(*args, **kwargs)

    setattr(module, name, counted)
    return lambda: setattr(module, name, function)


class Takes:
    """The body must call a function of a module."""

    def __init__(self, module, name: str):
        self.module, self.name, self.calls = module, name, []

    def __enter__(self):
        self.back = called(self.module, self.name, self.calls)

    def __exit__(self, kind, *_):
        self.back()
        assert kind is not None or self.calls, f"{self.module.__name__}.{self.name} was not called: the CPU's way was taken"


@helper
def gradients_of_swiglu(bench: Bench) -> None:
    dy, both = bench.numbers(2, 3, 40), bench.numbers(2, 3, 80)
    split = lambda x: x.split(40, -1)  # noqa: E731  (rows that lie apart)
    with Takes(bench.kernels, "_launch"):
        bench.same(lambda dy, both: bench.kernels.swiglu_grad_cat(dy, *split(both)), dy, both)
        bench.same(lambda dy, both: bench.kernels.swiglu_and_grad_cat(dy, *split(both)), dy, both)


@cases(False, True)
def rotary_positions_side_by_side(inverse: bool, bench: Bench) -> None:
    parts = [bench.numbers(2, 3, heads, 16) for heads in (3, 2, 2)]
    turn = lambda *parts: bench.rope.rotary_cat(parts, [True, True, False], 50.0, inverse=inverse)  # noqa: E731
    with Takes(bench.kernels, "can_rotate"):
        bench.same(turn, *parts)


@helper
def rotary_positions_in_place(bench: Bench) -> None:
    joined = bench.numbers(2, 3, 7 * 16)
    turn = lambda x: bench.rope.split_rotary(x.clone(), [(3, 16), (2, 16), (2, 16)], 2, 50.0)  # noqa: E731
    with Takes(bench.kernels, "can_rotate"):
        bench.same(turn, joined)


@helper
def sum_of_squares_of_many_tensors(bench: Bench) -> None:
    kernels, large = bench.kernels, bench.kernels.LARGE
    tensors = [bench.numbers(n, dtype=dtype) for n, dtype in ((5000, torch.float32), (70, torch.float32), (5001, torch.bfloat16))]
    expected = sum(x.double().square().sum() for x in tensors)
    try:
        kernels.LARGE = 4096
        made = bench.optimizer.add_squares_(torch.zeros((), device=bench.device), [x.to(bench.device) for x in tensors])
    finally:
        kernels.LARGE = large
    near([made.cpu().double()], [expected], 1e-5)


@cases(24, 2304)
def rms_norm_and_its_gradients(width: int, bench: Bench) -> None:
    norms, x, dy, plus = bench.norms, bench.numbers(5, width), bench.numbers(5, width), bench.numbers(5, width)
    gain = bench.numbers(width, dtype=torch.float32)
    with Takes(norms, "_norm_like"):
        bench.same(lambda x, gain: norms.rms_norm_and_scale(x, gain, 1e-5), x, gain)
    scale = norms.rms_scale(x, 1e-5)
    with Takes(norms, "_grads_like"):
        bench.same(norms.rms_norm_grads, dy, x, gain, scale)
        bench.same(norms.rms_norm_grads, dy, x, gain, scale, plus)


@cases(1 << 30, 512)
def cross_entropy_of_the_last_block(most: int, bench: Bench) -> None:
    losses, before = bench.losses, bench.losses.MAX_CHUNK_BYTES
    x, table = bench.numbers(2, 5, 16), bench.numbers(40, 16)
    labels = torch.tensor([[3, 39, -1, 0, 7], [1, -1, 2, 3, 4]])
    try:
        losses.MAX_CHUNK_BYTES = most
        with Takes(losses, "_token_losses_" if bench.simulated else "_losses_like"):
            pass_ = lambda x, table, labels, count: losses.cross_entropy(x, table, labels, count, dtype="f32")  # noqa: E731
            bench.same(pass_, x, table, labels, torch.tensor(8), compiled=False)
    except AssertionError as error:
        if "was not called" not in str(error):
            raise
        bench.same(pass_, x, table, labels, torch.tensor(8))  # the op was made before it could be counted
    finally:
        losses.MAX_CHUNK_BYTES = before


@helper
def what_dropout_leaves(bench: Bench) -> None:
    rng = bench.rng
    asked = 0.3, (1, 2**33, 7), (2, 2, 70), (9, 2**34, 100), 2**32 - 3, "layer1.drop"
    assert rng._mask_agrees(bench.device), "the kernel does not draw what the formula says"
    made, expected = (rng.dropout_mask(*asked, torch.full((), 5, device=device)) for device in (bench.device, "cpu"))
    assert torch.equal(made.cpu(), expected)
    assert 0.5 < expected.double().mean() < 0.9


@helper
def what_rounds_by_chance(bench: Bench) -> None:
    rng = bench.rng
    index = torch.tensor([[0, 1, 7], [2**32 - 1, 2**32, 2**40 + 5]])
    assert rng._bits_agree(bench.device), "the kernel does not draw what the formula says"
    made, expected = (rng.rounding_bits(index.to(d), 9, "up", torch.full((), 5, device=d)) for d in (bench.device, "cpu"))
    assert torch.equal(made.cpu(), expected)


@helper
def codes_of_blocks_both_ways(bench: Bench) -> None:
    x = bench.numbers(2, 64, 256)
    x[0, 3] *= 1000
    blocks = ((1, 1, 128), (2, 64, 1))
    with Takes(bench.fp8, "_quantize_both_ways"):
        made = bench.fp8._quantize_both_ways(x.to(bench.device), "f8e4m3", blocks)
        assert made is not None, "the kernel was not taken"
        bench.fp8._quantize_both_ways(x, "f8e4m3", blocks)
    bytes_of = lambda made: [x.view(torch.uint8) if x.element_size() == 1 else x for x in made]  # noqa: E731
    bench.same(lambda x: bench.fp8.quantize_with_amax(x, "f8e4m3", blocks), x, bound=0, clean=bytes_of)


@helper
def codes_transposed(bench: Bench) -> None:
    codes = bench.numbers(70, 48).to(torch.float8_e4m3fn)
    bench.same(lambda x: bench.fp8.transpose_quantized(x, 1).view(torch.uint8), codes, bound=0, clean=lambda x: x)


def _coded(bench: Bench, x, form="f8e4m3", blocks=None):
    amax = bench.fp8.abs_max(x, blocks)
    return bench.fp8.quantize(x, amax, form, blocks), amax


@cases("tensors", "rows and squares", "gradients")
def scaled_products_of_codes(of: str, bench: Bench) -> None:
    a, b = bench.numbers(32, 512), bench.numbers(128, 512)
    blocks = ((1, 128), (128, 128)) if of == "rows and squares" else None
    forms = ("f8e5m2", "f8e4m3") if of == "gradients" else ("f8e4m3", "f8e4m3")
    (a, a_max), (b, b_max) = (_coded(bench, x, form, blocks and blocks[i]) for i, (x, form) in enumerate(zip((a, b), forms)))
    product = lambda *x: bench.fp8.scaled_einsum("b k, n k -> b n", *x, forms, "bf16", blocks)  # noqa: E731
    with Takes(bench.fp8, "_multiply"):
        bench.same(product, a, b, a_max, b_max)


@cases(False, True)
def products_of_experts(transposed: bool, bench: Bench) -> None:
    grouped_mm = bench.grouped_mm
    grouped_mm.start(bench.device)
    assert grouped_mm.has_kernel, "torch._grouped_mm was not found to work"
    rows, counts = bench.numbers(40, 32), torch.tensor([9, 0, 24])
    w = bench.numbers(3, 16, 32) if transposed else bench.numbers(3, 32, 16)
    bench.same(lambda *x: grouped_mm.gemm(*x, transposed)[:33], rows, counts, w)


@helper
def gradients_of_experts(bench: Bench) -> None:
    bench.grouped_mm.start(bench.device)
    rows, drows, counts = bench.numbers(40, 32), bench.numbers(40, 16), torch.tensor([9, 0, 24])
    rows[33:], drows[33:] = math.nan, math.nan
    grad = lambda rows, drows, counts: bench.grouped_mm.weight_grad(rows, drows, counts).bfloat16()  # noqa: E731
    bench.same(grad, rows, drows, counts, clean=lambda x: x)


@cases(False, True)
def codes_of_experts(transposed: bool, bench: Bench) -> None:
    grouped_mm, fp8, counts = bench.grouped_mm, bench.fp8, torch.tensor([9, 0, 24])
    grouped_mm.start(bench.device)
    assert grouped_mm.has_fp8_kernel, "torch._scaled_grouped_mm was not found to work"
    w = bench.numbers(3, 16, 32) if transposed else bench.numbers(3, 32, 16)
    (rows, rows_max), (w, w_max) = _coded(bench, bench.numbers(40, 32)), _coded(bench, w)
    forms = ("f8e4m3", "f8e4m3")
    product = lambda *x: fp8.scaled_grouped_gemm(*x, forms, "bf16", transposed)[:33]  # noqa: E731
    bench.same(product, rows, counts, w, rows_max, w_max, clean=lambda x: x)


@cases("whole", "window", "zigzag", "documents", "documents of a part")
def fused_attention(of: str, bench: Bench) -> None:
    """Forward and backward by the op that was chosen."""
    attention = bench.attention
    before = {name: getattr(attention, name) for name in ("chosen", "supports_windows", "chosen_for_shards", "chosen_for_documents")}
    q, k, v, dout = (bench.numbers(*sizes) for sizes in ((2, 32, 2, 2, 16), (2, 32, 2, 16), (2, 32, 2, 16), (2, 32, 2, 2, 16)))
    doc_positions = torch.arange(32).expand(2, 32) % torch.tensor([[9], [32]])
    part = lambda x: torch.cat((x[:, 8:16], x[:, 16:24]), 1)  # noqa: E731  (the second of two ranks, in zigzag)
    more = {"whole": {}, "window": {"window": 5}, "zigzag": {"query_first": 8}, "documents": {}, "documents of a part": {"query_first": 16}}[of]
    if of == "zigzag":
        q, dout = part(q), part(dout)
    if of == "documents of a part":
        q, dout, doc_positions = q[:, 16:], dout[:, 16:], doc_positions[:, 16:]

    def both_ways(q, k, v, dout, doc_positions):
        how = {**more, **({"doc_positions": doc_positions} if of.startswith("documents") else {})}
        out, lse = attention.attention(q, k, v, **how)
        return out, attention.attention_grad(dout, q, k, v, out, lse, **how)

    try:
        attention.choose(torch.device("cpu"), "math")
        expected = [x.double() for x in pytree.tree_leaves(both_ways(q, k, v, dout, doc_positions))]
        said = attention.choose(bench.device)
        assert said != "math" and attention.supports_windows, f"attention is {said}"
        assert attention.chosen_for_shards and attention.chosen_for_documents, "nothing does parts, or documents"
        name = {"documents": "forward", "documents of a part": "forward_segments", "zigzag": "forward_blocks"}.get(of, "forward")
        with Takes(bench.varlen if of.startswith("documents") else bench.fused_attention, name):
            made = both_ways(*[x.to(bench.device) for x in (q, k, v, dout, doc_positions)])
        near([x.cpu().double() for x in pytree.tree_leaves(made)], expected, 0.03)
    finally:
        for each, value in before.items():
            setattr(attention, each, value)


@helper
def symmetric_products_by_half(bench: Bench) -> None:
    newton_schulz = bench.newton_schulz
    x = bench.numbers(2, 256, 128) / 16
    expected = newton_schulz._bf16_step(x.to(bench.device))
    for shape in newton_schulz.CONFIGS[:2] if bench.simulated else newton_schulz.CONFIGS:
        near([newton_schulz._symmetric_step(x.to(bench.device), shape).cpu().double()], [expected.cpu().double()], 0.02)


@helper
def matrices_made_orthogonal(bench: Bench) -> None:
    # In bf16, of 300 such matrices the median is 0.06 off and the worst 0.13: the polynomial amplifies rounding.
    x = bench.numbers(3, 8, 6, dtype=torch.float32)
    bench.same(lambda x: bench.newton_schulz.newton_schulz(x, (3, 8, 6), 5, bf16=True), x, bound=0.2, compiled=False)


@cases("rows", "columns", "added to", "in f32")
def products_by_the_fastest_kernel(of: str, bench: Bench) -> None:
    gemm = bench.gemm
    gemm.start(bench.device)
    assert gemm.library is not None, "cuBLASLt was not found"
    a, b, plus = bench.numbers(24, 40), bench.numbers(40, 16), bench.numbers(24, 16, dtype=torch.float32)
    if of == "columns":
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    dtype = torch.float32 if of in ("added to", "in f32") else None
    added = plus if of == "added to" else None
    product = lambda a, b, plus: gemm.mm(a, b, dtype, plus)  # noqa: E731
    library, gemm.library = gemm.library, None
    expected = [product(a, b, added).double()]
    gemm.library = library
    on_device = [x if x is None else x.to(bench.device) for x in (a, b, added)]
    on_device = [x if x is None or i > 1 or of != "columns" else x.t().contiguous().t() for i, x in enumerate(on_device)]
    try:
        with Takes(gemm.Gemm, "run"):
            for way in (product, torch.compile(product, dynamic=False)):
                near([way(*on_device).cpu().double()], expected, HALF)
    finally:
        gemm.library = None


@cases("numbers", "files")
def copies_to_the_host_and_back(of: str, bench: Bench) -> None:
    mover = bench.offload.Offloader(bench.device)
    x = bench.numbers(300, dtype=torch.float32)
    on_device = x.to(bench.device)
    on_device.mul_(2)
    if of == "numbers":
        down = mover.to_host([on_device])
        down.wait()
        on_device.zero_()
        assert down.tensors[0].is_pinned() or bench.simulated
        up = mover.to_device(down.tensors)
    else:
        down = mover.to_disk([on_device])
        down.wait()
        up = mover.from_disk(down.tensors, "device")
    up.wait()
    near([up.tensors[0].cpu().double()], [2 * x.double()], 0)


# Of each optimizer: its function, how many states it has, and a call of it.
SETTINGS = dict(betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)
OPTIMIZERS = {
    "adamw": lambda o, p, s, g, d: o.adamw_(p, *s[:2], g, d.apply, d.lr, **SETTINGS, applied_steps=d.applied_steps, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "adamw, amsgrad": lambda o, p, s, g, d: o.adamw_(p, *s[:2], g, d.apply, d.lr, **SETTINGS, applied_steps=d.applied_steps, max_v=s[2], scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "adamw, coupled": lambda o, p, s, g, d: o.adamw_(p, *s[:2], g, d.apply, d.lr, **SETTINGS, applied_steps=d.applied_steps, l2=True, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "adamw, frozen": lambda o, p, s, g, d: o.adamw_(p, *s[:2], g, d.apply, d.lr, **SETTINGS, frozen=True, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "sgd": lambda o, p, s, g, d: o.sgd_(p, g, d.apply, d.lr, 0.1, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "sgd, momentum": lambda o, p, s, g, d: o.sgd_(p, g, d.apply, d.lr, 0.1, d.applied_steps, s[0], 0.9, True, 0.3, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "lion": lambda o, p, s, g, d: o.lion_(p, s[0], g, d.apply, d.lr, (0.9, 0.99), 0.1, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "muon": lambda o, p, s, g, d: o.muon_(p, s[0], g, d.apply, d.lr, s[1], 0.9, 0.1, 0.2, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits),
    "lamb": lambda o, p, s, g, d: o.lamb_(
        p, *s[:2], g, d.apply, d.lr, d.applied_steps, *o.lamb_squares(p, *s[:2], g, d.applied_steps, **SETTINGS, scale=d.scale), **SETTINGS, scale=d.scale, model_param=d.model_param, rounding_bits=d.rounding_bits
    ),
}
PRECISIONS = {
    "f32": (torch.float32, torch.float32, False),
    "bf16 with masters": (torch.float32, torch.float32, True),
    "bf16 without masters": (torch.bfloat16, torch.float32, False),
    "pure bf16": (torch.bfloat16, torch.bfloat16, False),
    "stochastic rounding": (torch.bfloat16, torch.bfloat16, False),
}


@cases(*[(optimizer, precision) for optimizer in OPTIMIZERS for precision in PRECISIONS])
def updates(which, bench: Bench) -> None:
    """Taken and skipped, by one kernel per parameter, lr as a tensor."""
    optimizer, (name, precision) = bench.optimizer, which
    of_param, of_state, masters = PRECISIONS[precision]
    param, grad = bench.numbers(6, 8, dtype=of_param), bench.numbers(6, 8, dtype=of_state)
    states = [bench.numbers(6, 8, dtype=of_state).abs() / 4 for _ in range(3)]
    index = torch.arange(48)

    def update(param, grad, model_param, apply, scale, applied_steps, *states):
        device = param.device
        lr = torch.full((), 0.05, dtype=torch.float64, device=device)
        rounding_bits = lambda i: bench.rng.rounding_bits(index.to(device), 7, "p", torch.full((), 4, device=device))  # noqa: E731
        data = SimpleNamespace(
            apply=apply, lr=lr if device.type == "cuda" else 0.05, scale=scale, applied_steps=applied_steps,
            model_param=model_param if masters else None, rounding_bits=rounding_bits if precision == "stochastic rounding" else None,
        )
        if name == "lamb":
            OPTIMIZERS[name](optimizer, param, states, grad, data)
        else:
            lists = [[x] for x in states]
            data.model_param = None if data.model_param is None else [data.model_param]
            OPTIMIZERS[name](optimizer, [param], lists, [grad], data)

    before = dict(optimizer.compiled)
    try:
        optimizer.compile_updates({"dynamic": False}, bench.device)
        for applied_steps in (True, False):
            more = (torch.tensor(applied_steps), torch.tensor(0.5), torch.tensor(3.0))
            operands = (param, grad, param.bfloat16(), *more, *states)
            bench.same(update, *operands, bound=2.0**-7 if of_param == torch.bfloat16 else 2e-5, compiled=False)
    finally:
        optimizer.compiled.clear()
        optimizer.compiled.update(before)


def run(name: str, bench: Bench) -> None:
    HELPERS[name](bench)
