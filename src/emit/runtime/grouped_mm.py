"""
Grouped GEMMs of MoE layers: rows are sorted by expert, and only the device knows how many each has. On a GPU in bf16 one kernel reads
the counts there; elsewhere the host reads them and loops over experts. Rows behind the last are padding: never read, and undefined in
results.
"""
import torch

from .optimizer import upcast

# Whether torch._grouped_mm was found to work here.
has_kernel = False

# The same for torch._scaled_grouped_mm.
has_fp8_kernel = False

# Whether the host has waited for the GPU to read counts: such a step cannot be captured.
host_synced = False


def gemm(rows: torch.Tensor, counts: torch.Tensor, w: torch.Tensor, transposed: bool) -> torch.Tensor:
    """[row, in] and [expert, in, out], or [expert, out, in] if transposed."""
    return torch.ops.lockstep.grouped_gemm(rows, counts, w, transposed) if HAS_CUSTOM_OPS else _gemm(rows, counts, w, transposed)


def weight_grad(rows: torch.Tensor, drows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """[expert, in, out]: weight gradient per expert, accumulated in FP32; the grouped kernel rounds it to bf16."""
    return torch.ops.lockstep.grouped_gemm_weight_grad(rows, drows, counts) if HAS_CUSTOM_OPS else _weight_grad(rows, drows, counts)


def gemm_fp8(
    rows: torch.Tensor, counts: torch.Tensor, w: torch.Tensor, by_rows: torch.Tensor, by_w: torch.Tensor, transposed: bool,
    dtype: torch.dtype,
) -> torch.Tensor:
    """
    FP8 with one scale per operand: one kernel if both are E4M3 and it works here, else a bf16 grouped GEMM of the quantized values.
    Padding rows are zero.
    """
    if has_fp8_kernel and rows.dtype == w.dtype == torch.float8_e4m3fn and all(n % 16 == 0 for n in w.shape[1:]):
        w_rows = w.contiguous() if transposed else w.view(torch.uint8).transpose(1, 2).contiguous().view(w.dtype)
        scales = by_rows.float().expand(rows.shape[0]), by_w.float().expand(w_rows.shape[0], w_rows.shape[1])
        ends = _ends(counts, len(rows))
        made = torch._scaled_grouped_mm(
            rows.contiguous(), w_rows.transpose(1, 2), *[scale.contiguous() for scale in scales], offs=ends, out_dtype=torch.bfloat16
        )
        return zero_padding(made, counts).to(dtype)
    product = gemm(rows.bfloat16(), counts, w.bfloat16(), transposed).float() * (by_rows * by_w)
    return zero_padding(product, counts).to(dtype)


def zero_padding(rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Zeroes padding rows."""
    is_padding = torch.arange(rows.shape[0], device=rows.device) >= counts.sum()
    return rows.masked_fill(is_padding.unsqueeze(1), 0)


def _gemm(rows: torch.Tensor, counts: torch.Tensor, w: torch.Tensor, transposed: bool) -> torch.Tensor:
    if _fit(rows, w):
        w = _aligned(w)
        return torch._grouped_mm(_aligned(rows), w.transpose(1, 2) if transposed else w, offs=_ends(counts, len(rows)))
    out = rows.new_zeros(rows.shape[0], w.shape[1] if transposed else w.shape[2])
    for section, weight in zip(_slices(counts), w):
        out[section] = rows[section] @ (weight.t() if transposed else weight)
    return out


def _gemm_like(rows, counts, w, transposed: bool) -> torch.Tensor:
    return rows.new_empty(rows.shape[0], w.shape[1] if transposed else w.shape[2])


def _weight_grad(rows: torch.Tensor, drows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    if _fit(rows, drows):
        out = torch._grouped_mm(_aligned(rows).t(), _aligned(drows), offs=_ends(counts, len(rows)))
        return out.masked_fill_((counts == 0).reshape(-1, 1, 1), 0) if _leaves_empty_uninitialized(rows) else out
    out = _weight_grad_like(rows, drows, counts)
    for section, sums in zip(_slices(counts), out):
        sums.copy_(upcast(rows[section]).t() @ upcast(drows[section]))
    return out


def _weight_grad_like(rows, drows, counts) -> torch.Tensor:
    like = rows if _fit(rows, drows) else upcast(rows[:0])
    return like.new_empty(counts.shape[0], rows.shape[1], drows.shape[1])


# As custom ops, which torch.compile does not trace; PyTorch 1 has no compiler.
HAS_CUSTOM_OPS = hasattr(torch.library, "custom_op")
if HAS_CUSTOM_OPS:
    for _name, _function, _fake in (
        ("grouped_gemm", _gemm, _gemm_like), ("grouped_gemm_weight_grad", _weight_grad, _weight_grad_like)
    ):
        torch.library.custom_op(f"lockstep::{_name}", _function, mutates_args=()).register_fake(_fake)


def _leaves_empty_uninitialized(x: torch.Tensor) -> bool:
    """Kernels for GPUs newer than Hopper leave the output of an expert without rows uninitialized (pytorch#172439)."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device)[0] > 9


def _fit(*operands: torch.Tensor) -> bool:
    """bf16, with rows of a multiple of 16 bytes."""
    return has_kernel and all(x.dtype == torch.bfloat16 and x.shape[-1] % 8 == 0 for x in operands)


def _aligned(x: torch.Tensor) -> torch.Tensor:
    fits = x.is_contiguous() and x.data_ptr() % 16 == 0
    return x if fits else x.clone(memory_format=torch.contiguous_format)


def _ends(counts: torch.Tensor, capacity: int) -> torch.Tensor:
    """Cumulative counts. Rows beyond the capacity fail the step later; they are clamped here."""
    return counts.cumsum(0, dtype=torch.int32).clamp(max=capacity)


def _slices(counts: torch.Tensor):
    global host_synced
    host_synced = host_synced or counts.is_cuda
    first = 0
    for count in counts.tolist():
        yield slice(first, first + count)
        first += count


def start(device: torch.device) -> None:
    """Selects the grouped kernel if it agrees with the loop: with rows, with none, and with padding behind the last."""
    global has_kernel, has_fp8_kernel, host_synced
    has_kernel, has_fp8_kernel = False, False
    if device.type != "cuda" or not hasattr(torch, "_grouped_mm"):
        return
    generator = torch.Generator(device).manual_seed(1)
    shapes = (96, 64), (96, 32), (3, 64, 32)
    rows, drows, w = (torch.randn(shape, generator=generator, device=device).bfloat16() for shape in shapes)
    rows[80:], drows[80:] = torch.nan, torch.nan
    counts = torch.tensor([33, 0, 47], device=device)

    def results():
        made = _gemm(rows, counts, w, False)[:80], _gemm(drows, counts, w, True)[:80], _weight_grad(rows, drows, counts)
        return [x.float() for x in made]

    expected = results()
    try:
        has_kernel = True
        has_kernel = all(bool((a - b).abs().max() <= 0.02 * b.abs().max()) for a, b in zip(results(), expected))
    except (RuntimeError, NotImplementedError, TypeError):
        has_kernel = False
    has_fp8_kernel = hasattr(torch, "_scaled_grouped_mm") and _fp8_agrees(rows, counts, w)
    host_synced = False


def _fp8_agrees(rows: torch.Tensor, counts: torch.Tensor, w: torch.Tensor) -> bool:
    """Whether the FP8 kernel agrees with the bf16 GEMM of the same values."""
    global has_fp8_kernel
    quantized, scale = (rows.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)), torch.tensor(0.5, device=rows.device)
    of_w = [(quantized[0], quantized[1], False), (quantized[0], quantized[1].view(torch.uint8).transpose(1, 2).contiguous().view(quantized[1].dtype), True)]

    def results():
        return [gemm_fp8(a, counts, b, scale, scale, is_transposed, torch.bfloat16)[:80].float() for a, b, is_transposed in of_w]

    expected = results()
    try:
        has_fp8_kernel = True
        return all(bool((a - b).abs().max() <= 0.02 * b.abs().max()) for a, b in zip(results(), expected))
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    finally:
        has_fp8_kernel = False
