"""
What PyTorch takes from NVIDIA's libraries, for the CPU tensors of the simulated GPU, as documented: what the operands must be like, and
what comes out. Memory that a library leaves as it is holds NaN.
"""
import ctypes
import math
import warnings
from types import SimpleNamespace
from typing import Optional

import torch

from . import device


def _row(x: torch.Tensor) -> bool:
    return x.stride(-1) == 1


def _wants(condition: bool, what: str) -> None:
    if not condition:
        raise RuntimeError(what)


def _aligned(x: torch.Tensor) -> bool:
    """Rows, or columns, one after the other, each from a multiple of 16 bytes."""
    step = max(x.stride()[-2:])
    return 1 in x.stride()[-2:] and step * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0


def grouped_mm(a, b, offs=None, bias=None, out_dtype=None):
    """Rows of a group times its matrix, or for each group the product of its columns with its rows."""
    _wants(a.dtype == b.dtype == torch.bfloat16, "Expected mat_a and mat_b to be BFloat16")
    _wants(_aligned(a) and _aligned(b), "strides should be multiple of 16 bytes")
    _wants(offs is not None and offs.dtype == torch.int32, "Offsets have to be int32")
    ends = offs.tolist()
    slices = [slice(begin, end) for begin, end in zip([0, *ends], ends)]
    if b.dim() == 3:
        out = a.new_full((a.shape[0], b.shape[2]), math.nan)
        for own, matrix in zip(slices, b):
            out[own] = a[own].float() @ matrix.float()
        return out
    out = a.new_zeros((len(ends), a.shape[0], b.shape[1]))
    for each, own in zip(out, slices):
        each.copy_(a[:, own].float() @ b[own].float())
    return out


def scaled_grouped_mm(a, b, scale_a, scale_b, offs=None, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    _wants(a.dtype == b.dtype == torch.float8_e4m3fn, "Expected inputs of E4M3 type")
    _wants(_row(a) and b.stride(-2) == 1, "Expected mat1 to be row-major and mat2 to be column-major")
    _wants(all(n % 16 == 0 for n in (a.shape[1], *b.shape[1:])), "Expected dims to be multiples of 16")
    _wants(scale_a.shape == a.shape[:1] and scale_b.shape == (b.shape[0], b.shape[2]), "scale_a or scale_b of another shape")
    _wants(scale_a.is_contiguous() and scale_b.is_contiguous() and scale_a.dtype == torch.float32, "scales must be contiguous f32")
    out = a.new_full((a.shape[0], b.shape[2]), math.nan, dtype=out_dtype)
    begin = 0
    for end, matrix, scale in zip(offs.tolist(), b, scale_b):
        out[begin:end] = a[begin:end].float() @ matrix.float() * scale_a[begin:end, None] * scale
        begin = end
    return out


def mm_wider(a, b, out_dtype):
    """Of half precision, summed in f32 and left there."""
    _wants(a.dtype == b.dtype and out_dtype in (a.dtype, torch.float32), "out_dtype must be that of the inputs, or f32")
    return a.to(out_dtype) @ b.to(out_dtype)


BLOCK = 128


def scaled_mm(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    """Codes by rows times codes by columns; one scale each, one for each row and column, or for blocks of 128 of what is summed."""
    _wants(_row(a) and b.stride(0) == 1, "mat1 must be row-major, mat2 column-major")
    _wants(a.dtype != torch.float8_e5m2 or b.dtype != torch.float8_e5m2, "multiplication of two Float8_e5m2 matrices is not supported")
    _wants(a.shape[1] % 16 == 0 and b.shape[1] % 16 == 0, "trailing dimension must be divisible by 16")
    full = _numbers(a, scale_a, 0) @ _numbers(b.t(), scale_b.t(), 1).t()
    return full.to(out_dtype)


def _numbers(codes: torch.Tensor, scales: torch.Tensor, side: int) -> torch.Tensor:
    rows, depth = codes.shape
    if scales.numel() == 1:
        return codes.float() * scales.float()
    _wants(scales.dtype == torch.float32, "scales must be f32")
    if scales.shape == (rows, 1):
        return codes.float() * scales
    across = depth // BLOCK
    _wants(depth % BLOCK == 0 and scales.shape in ((rows, across), (rows // BLOCK, across)), f"scales of {tuple(scales.shape)}")
    if scales.shape[0] == rows:
        _wants(scales.stride(0) == 1, "scales of 1 x 128 blocks must be outer-dim-major")
    else:
        _wants(across % 4 == 0 and scales.stride(1) == 1, "scales of 128 x 128 blocks must lie in rows of a multiple of 4")
    table = scales.repeat_interleave(rows // scales.shape[0], 0).repeat_interleave(BLOCK, 1)
    return codes.float() * table


def _scores(q, k, scale, causal, left=None, right=None):
    """[heads, queries, keys]: the last query stands at the last key."""
    scores = torch.einsum("qhd,khd->hqk", q.double(), k.double()) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    ahead = torch.arange(k.shape[0]) - torch.arange(q.shape[0])[:, None] - (k.shape[0] - q.shape[0])
    hidden = ahead > 0 if causal else torch.zeros_like(ahead, dtype=torch.bool)
    if left is not None and left >= 0:
        hidden = hidden | (ahead < -left)
    if right is not None and right >= 0:
        hidden = hidden | (ahead > right)
    return scores.masked_fill(hidden, -math.inf)


def _attend(q, k, v, scale, causal, left, right):
    """Of one sequence [tokens, heads, d]; keys may have fewer heads."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = _scores(q, k, scale, causal, left, right)
    lse = torch.logsumexp(scores, -1)
    p = torch.exp(scores - lse.masked_fill(lse.isinf(), 0).unsqueeze(-1))
    return torch.einsum("hqk,khd->qhd", p, v.double()).to(q.dtype), lse.float()


def _slopes(dout, q, k, v, out, lse, scale, causal, left, right):
    """By the log of the sum that it is given, as the kernels do."""
    group, heads = q.shape[1] // k.shape[1], k.shape[1]
    k, v = (x.repeat_interleave(group, 1).double() for x in (k, v))
    by = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    p = torch.exp(_scores(q, k, scale, causal, left, right) - lse.double().masked_fill(lse.isinf(), 0).unsqueeze(-1))
    dp = torch.einsum("qhd,khd->hqk", dout.double(), v)
    ds = p * (dp - (dout.double() * out.double()).sum(-1).t().unsqueeze(-1)) * by
    dq, dk = torch.einsum("hqk,khd->qhd", ds, k), torch.einsum("hqk,qhd->khd", ds, q.double())
    dv = torch.einsum("hqk,qhd->khd", p, dout.double())
    dk, dv = (x.view(x.shape[0], heads, group, -1).sum(2) for x in (dk, dv))
    return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)


def _served(q, v) -> None:
    _wants(q.dtype in (torch.bfloat16, torch.float16), "attention only supports fp16 and bf16 data type")
    _wants(q.shape[-1] % 8 == 0 and q.shape[-1] == v.shape[-1], "head sizes must be a multiple of 8, and the same")


def flash_forward(
    q, k, v, cum_q, cum_k, max_q, max_k, dropout, causal, debug, *, scale=None, window_size_left=None, window_size_right=None, **_
):
    _served(q, v)
    how = scale, causal, window_size_left, window_size_right
    made = [_attend(*part, *how) for part in _segments(cum_q, cum_k, q, k, v)]
    join, lay = (torch.stack, 0) if cum_q is None else (torch.cat, 1)
    nothing = torch.zeros(2, dtype=torch.int64).view(torch.uint64)
    return join([out for out, _ in made]), join([lse for _, lse in made], lay), nothing, nothing[:1], torch.zeros(0)


def flash_backward(
    dout, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, dropout, causal, state, offset, *, scale=None, window_size_left=None,
    window_size_right=None,
):
    _served(q, v)
    how = scale, causal, window_size_left, window_size_right
    sums = list(lse) if cum_q is None else [lse[:, a:b] for a, b in zip(cum_q.tolist(), cum_q.tolist()[1:])]
    parts = zip(_segments(cum_q, cum_k, dout, k), _segments(cum_q, cum_k, q, k, v), _segments(cum_q, cum_k, out, k), sums)
    made = [_slopes(d, *part, o, each, *how) for (d, _), part, (o, _), each in parts]
    return tuple((torch.stack if cum_q is None else torch.cat)([one[i] for one in made]) for i in range(3))


def _segments(cum_q, cum_k, of_queries, *of_keys):
    if cum_q is None:
        return list(zip(of_queries, *of_keys))
    _wants(cum_q.dtype == cum_k.dtype == torch.int32, "cu_seqlens must have dtype int32")
    (begins, keys) = (x.tolist() for x in (cum_q, cum_k))
    queries = [of_queries[a:b] for a, b in zip(begins, begins[1:])]
    return [(q, *[x[a:b] for x in of_keys]) for q, a, b in zip(queries, keys, keys[1:])]


def cudnn_forward(q, k, v, bias, compute_lse, dropout=0.0, causal=False, debug=False, *, scale=None):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    _wants(bool(compute_lse), "the log of the sum was not asked for")
    _wants(not causal or q.shape[1] == k.shape[1], "causal over as many queries as keys")
    _served(q, v)
    made = [_attend(*part, scale, causal, None, None) for part in zip(q, k, v)]
    out, lse = (torch.stack([one[i] for one in made]) for i in range(2))
    nothing = torch.zeros((), dtype=torch.int64)
    return out.transpose(1, 2), lse.unsqueeze(-1), None, None, q.shape[1], k.shape[1], nothing, nothing, torch.zeros(0)


def cudnn_backward(dout, q, k, v, out, lse, state, offset, bias, cum_q, cum_k, max_q, max_k, dropout, causal, *, scale=None):
    _wants(lse.dim() == 4, "the log of the sum has a dim of one behind the others")
    dout, q, k, v, out = (x.transpose(1, 2) for x in (dout, q, k, v, out))
    made = [_slopes(*part, scale, causal, None, None) for part in zip(dout, q, k, v, out, lse.squeeze(-1))]
    return tuple(torch.stack([one[i] for one in made]).transpose(1, 2) for i in range(3))


class CuBlasLt:
    """The functions of cuBLASLt that `products` calls, by their documentation: matrices are counted along columns."""

    def __init__(self):
        self.things, self.calls, self.algorithms = {}, 0, []

    def __getattr__(self, name: str):
        raise AttributeError(f"cuBLASLt has no {name}")

    def _new(self, made, **what) -> int:
        key = len(self.things) + 1
        self.things[key] = SimpleNamespace(transposed={3: 0, 4: 0}, **what)
        made._obj.value = key
        return 0

    def cublasLtCreate(self, made):
        return self._new(made)

    def cublasLtMatmulPreferenceCreate(self, made):
        return self._new(made)

    def cublasLtMatmulDescCreate(self, made, sums, scales):
        return self._new(made, sums=sums.value, scales=scales.value)

    def cublasLtMatrixLayoutCreate(self, made, kind, rows, columns, step):
        dtype = {0: torch.float32, 14: torch.bfloat16}[kind.value]
        return self._new(made, dtype=dtype, rows=rows.value, columns=columns.value, step=step.value) if step.value >= rows.value else 7

    def cublasLtMatmulPreferenceSetAttribute(self, preference, what, value, size):
        return 0 if what.value == 1 and size.value == 8 else 7

    def cublasLtMatmulDescSetAttribute(self, how, what, value, size):
        self.things[how.value].transposed[what.value] = value._obj.value
        return 0 if what.value in (3, 4) and size.value == 4 else 7

    def cublasLtMatmulAlgoGetHeuristic(self, handle, how, a, b, c, d, preference, most, found, count):
        for i in range(3):
            found[i].algorithm[0] = i + 1
        count._obj.value = 3
        return 0

    def _matrix(self, pointer, layout):
        bits = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_char * (layout.dtype.itemsize * layout.step * layout.columns)))
        line = torch.frombuffer(bits.contents, dtype=layout.dtype)
        return line.as_strided((layout.rows, layout.columns), (1, layout.step))

    def cublasLtMatmul(self, handle, how, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, workspace, size, stream):
        self.calls += 1
        self.algorithms.append(algorithm._obj[0])
        how = self.things[how.value]
        a, b, c, d = (self._matrix(x, self.things[layout.value]) for x, layout in ((a, of_a), (b, of_b), (c, of_c), (d, of_d)))
        a, b = (x.t() if how.transposed[which] else x for x, which in ((a, 3), (b, 4)))
        if a.shape[1] != b.shape[0] or (a.shape[0], b.shape[1]) != tuple(d.shape):
            return 7
        product = alpha._obj.value * (a.float() @ b.float())
        d.copy_(product if beta._obj.value == 0 else product + beta._obj.value * c.float())
        return 0


library: Optional[torch.library.Library] = None


def start() -> None:
    global library
    library = torch.library.Library("aten", "IMPL")
    kernels = dict(
        _grouped_mm=grouped_mm, _scaled_grouped_mm=scaled_grouped_mm, _scaled_mm=scaled_mm, _flash_attention_forward=flash_forward,
        _flash_attention_backward=flash_backward, _scaled_dot_product_cudnn_attention=cudnn_forward,
        _scaled_dot_product_cudnn_attention_backward=cudnn_backward, **{"mm.dtype": mm_wider},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some have a kernel for CPUs already
        for name, kernel in kernels.items():
            library.impl(name, kernel, "CPU", allow_override=True)


def give_gemms(gemm) -> CuBlasLt:
    """cuBLASLt for the runtime's module `gemm`, whose clock says that the second of its candidates is the fastest."""
    functions = CuBlasLt()
    gemm.Library.__init__ = lambda self, on: _opened(gemm, self, on, functions)
    run = gemm.Gemm.run

    def on_inner(self, a, b, out, add, algorithm=None):
        launch = lambda: _outside(run, self, a, b, out, add, algorithm)  # noqa: E731
        tensors = [device.on_host(x) for x in (a, b, out, add) if x is not None]
        device.used([x for x in tensors if x is not tensors[2]], [tensors[2]])
        if device.state.capturing is not None:
            with device.outside():
                device.state.capturing.kernel(launch, tensors)
        else:
            launch()

    gemm.Gemm.run = on_inner
    gemm.fastest = lambda ways: [way() for way in ways] and 1
    return functions


def _outside(run, self, *operands):
    with device.outside():
        run(self, *[device.on_host(x) for x in operands])


def _opened(gemm, self, on, functions) -> None:
    self.functions, self.gemms = functions, {}
    self.handle = self.created("cublasLtCreate")
    self.workspace = torch.empty(16, dtype=torch.uint8)
    self.preference = self.created("cublasLtMatmulPreferenceCreate")
    self.set("cublasLtMatmulPreferenceSetAttribute", self.preference, gemm.MAX_WORKSPACE, ctypes.c_size_t(gemm.WORKSPACE))
