"""
GEMM autotuning on a GPU: PyTorch takes the first algorithm of cuBLASLt's heuristic. Training runs at the power limit, where the
algorithm that needs the least power is the fastest, and for some shapes that is another. The first GEMM of each shape times all
candidates and keeps the best.
"""
import ctypes
import sys
import time
from typing import Callable, Dict, List, Optional, Tuple

import torch

# Candidates per shape; the seconds of a first timing; the number of the best that are compared, in turns. Before each timing the GPU runs
# into its power limit.
MAX_CANDIDATES, SHORT_SECONDS = 16, 0.005
FINALISTS, ROUNDS, SETTLE_SECONDS, TIMED_SECONDS = 5, 3, 0.03, 0.06
WORKSPACE = 32 << 20

# cuBLASLt attributes, compute types and dtypes.
TRANSPOSED_A, TRANSPOSED_B, MAX_WORKSPACE = 3, 4, 1
COMPUTE_F32, TYPES = 68, {torch.float32: 0, torch.bfloat16: 14}


class Candidate(ctypes.Structure):
    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    ]


class Gemm:
    """A GEMM of one shape and layout, with or without `add`, and the algorithm selected for it."""

    def __init__(self, library: "Library", a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, add: Optional[torch.Tensor]):
        self.library = library
        self.beta = ctypes.c_float(0 if add is None else 1)
        # cuBLAS is column-major: it computes the transpose, with b first.
        (self.b, b_transposed), (self.a, a_transposed), (self.out, _) = (library.layout(x) for x in (b, a, out))
        self.descriptor = library.created("cublasLtMatmulDescCreate", ctypes.c_int(COMPUTE_F32), ctypes.c_int(TYPES[torch.float32]))
        for attribute, transposed in ((TRANSPOSED_A, b_transposed), (TRANSPOSED_B, a_transposed)):
            library.set("cublasLtMatmulDescSetAttribute", self.descriptor, attribute, ctypes.c_int(transposed))
        algorithms = [candidate.algorithm for candidate in library.candidates(self)]
        self.algorithm = algorithms[fastest([lambda one=one: self.run(a, b, out, add, one) for one in algorithms])]

    def run(self, a, b, out, add, algorithm=None) -> None:
        pointer = lambda x: ctypes.c_void_p(x.data_ptr())  # noqa: E731
        stream = ctypes.c_void_p(torch.cuda.current_stream(a.device).cuda_stream)
        self.library.call(
            "cublasLtMatmul", self.library.handle, self.descriptor, ctypes.byref(ctypes.c_float(1)), pointer(b), self.b, pointer(a),
            self.a, ctypes.byref(self.beta), pointer(out if add is None else add), self.out, pointer(out), self.out,
            ctypes.byref(algorithm or self.algorithm), pointer(self.library.workspace), ctypes.c_size_t(WORKSPACE), stream,
        )


class Library:
    """cuBLASLt, as loaded by PyTorch."""

    def __init__(self, device):
        with open("/proc/self/maps") as maps:
            path = next(line.split()[-1] for line in maps if "libcublasLt.so" in line)
        self.functions = ctypes.CDLL(path)
        self.handle = self.created("cublasLtCreate")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=device)
        self.preference = self.created("cublasLtMatmulPreferenceCreate")
        self.set("cublasLtMatmulPreferenceSetAttribute", self.preference, MAX_WORKSPACE, ctypes.c_size_t(WORKSPACE))
        self.gemms: Dict[Tuple, Gemm] = {}

    def call(self, name: str, *arguments) -> None:
        status = getattr(self.functions, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} ended with status {status}")

    def created(self, name: str, *arguments) -> ctypes.c_void_p:
        created = ctypes.c_void_p()
        self.call(name, ctypes.byref(created), *arguments)
        return created

    def set(self, name: str, of: ctypes.c_void_p, attribute: int, value) -> None:
        self.call(name, of, ctypes.c_int(attribute), ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def layout(self, x: torch.Tensor):
        """The layout of a row- or column-major matrix; and whether it is column-major."""
        columns = x.stride(1) != 1
        rows, length, stride = (*x.shape, x.stride(1)) if columns else (x.shape[1], x.shape[0], x.stride(0))
        # PyTorch allows any stride for a dim of size 1; cuBLASLt requires at least the number of elements.
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(length), ctypes.c_int64(max(stride, rows))
        return self.created("cublasLtMatrixLayoutCreate", ctypes.c_int(TYPES[x.dtype]), *sizes), columns

    def candidates(self, gemm: Gemm) -> List[Candidate]:
        found, count = (Candidate * MAX_CANDIDATES)(), ctypes.c_int()
        self.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle, gemm.descriptor, gemm.b, gemm.a, gemm.out, gemm.out,
            self.preference, ctypes.c_int(MAX_CANDIDATES), found, ctypes.byref(count),
        )
        return list(found)[: count.value]

    def gemm(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, add: Optional[torch.Tensor]) -> None:
        a, b = (x if _is_aligned(x) else x.clone(memory_format=torch.contiguous_format) for x in (a, b))
        if add is not None and not (add.is_contiguous() and _is_aligned(add)):
            add = add.clone(memory_format=torch.contiguous_format)
        key = (a.shape, a.stride(), b.shape, b.stride(), out.dtype, add is None)
        if key not in self.gemms:
            self.gemms[key] = Gemm(self, a, b, out, add)
        self.gemms[key].run(a, b, out, add)


def _is_aligned(x: torch.Tensor) -> bool:
    """The algorithms require contiguous rows or columns, and addresses that are multiples of 256."""
    return 1 in x.stride() and x.data_ptr() % 256 == 0


def fastest(options: List[Callable[[], None]]) -> int:
    """Index of the fastest. Only the best of a short timing are compared: it is too short to reach the power limit."""
    for option in options:
        option()  # the first call loads the kernel
    seconds(options[0], SETTLE_SECONDS)
    short_times = [seconds(option, SHORT_SECONDS) for option in options]
    best = sorted(range(len(options)), key=lambda i: short_times[i])[:FINALISTS]
    total = dict.fromkeys(best, 0.0)
    for i in best * ROUNDS:
        seconds(options[i], SETTLE_SECONDS)
        total[i] += seconds(options[i], TIMED_SECONDS)
    return min(best, key=lambda i: total[i])


def seconds(option: Callable[[], None], min_seconds: float) -> float:
    """Seconds per call, over at least `min_seconds` seconds of calls."""
    started, calls, more = time.perf_counter(), 0, 1
    while True:
        for _ in range(more):
            option()
        torch.cuda.synchronize()
        calls, past = calls + more, time.perf_counter() - started
        if past >= min_seconds:
            return past / calls
        more = max(1, int(calls * (min_seconds - past) / past))


# torch.mm with bf16 operands and FP32 output.
HAS_OUT_DTYPE = "dtype" in torch.ops.aten.mm.overloads()

# Set by `start`; None: GEMMs are PyTorch's.
library: Optional[Library] = None

# Timings may select another algorithm in the next run, which changes the last bits (`--same-bits`). Ranks that share a GPU do not tune:
# each would time the others' work, and some algorithms fault when processes take turns (Xid 13 on an H200, CUDA 13.0).
autotune = True


def start(device: torch.device) -> None:
    """Enables tuning for half-precision GEMMs, if possible."""
    global library
    if not autotune or library is not None or device.type != "cuda" or not hasattr(torch.library, "custom_op"):
        return
    torch.mm(*[torch.zeros(8, 8, device=device, dtype=torch.bfloat16)] * 2)  # loads cuBLASLt
    try:
        library = Library(device)
    except (StopIteration, OSError, AttributeError, RuntimeError) as error:
        print(f"lockstep: matmul algorithms are left to PyTorch: {error or 'no cuBLASLt'}", file=sys.stderr, flush=True)


def mm(
    a: torch.Tensor, b: torch.Tensor, dtype: Optional[torch.dtype] = None, add: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """a b, accumulated in FP32, + plus; `dtype` is that of the result, by default that of the operands."""
    if library is not None and a.dtype == torch.bfloat16 and (add is None or add.dtype == (dtype or a.dtype)):
        return torch.ops.lockstep.gemm(a, b, dtype or a.dtype, add)
    gemm = torch.mm(a, b) if dtype in (None, a.dtype) else _mm_upcast(a, b, dtype)
    return gemm if add is None else add + gemm


def _mm_upcast(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half-precision operands, FP32 result: the sum is rounded once (twice by older releases on a GPU)."""
    if not a.is_cuda:
        return torch.mm(a.to(dtype), b.to(dtype))
    return torch.mm(a, b, out_dtype=dtype) if HAS_OUT_DTYPE else torch.mm(a, b).to(dtype)


def _gemm(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, add: Optional[torch.Tensor]) -> torch.Tensor:
    out = _out_like(a, b, dtype, add)
    library.gemm(a, b, out, add)
    return out


def _out_like(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, add: Optional[torch.Tensor]) -> torch.Tensor:
    return torch.empty((a.shape[0], b.shape[1]), dtype=dtype, device=a.device)


if hasattr(torch.library, "custom_op"):
    torch.library.custom_op("lockstep::gemm", _gemm, mutates_args=()).register_fake(_out_like)
