"""
RMSNorm (Zhang and Sennrich, 2019) and its gradients. With Triton, norm and scale are one pass over rows in registers, and so are both
gradients with the residual: torch.compile reads rows twice, and writes partial sums of the weight gradient for every few rows.
"""
from typing import Optional, Sequence, Tuple

import torch

from .optimizer import wide

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Maximum row width that stays in registers.
WIDEST = 8192


def last(dims: int) -> Sequence[int]:
    return tuple(range(-dims, 0))


def leading(x: torch.Tensor, dims: int) -> Sequence[int]:
    return tuple(range(x.dim() - dims))


def rms_scale(x: torch.Tensor, eps: float, dims: int = 1) -> torch.Tensor:
    """1 / RMS of each row; the backward reuses it."""
    return torch.rsqrt(wide(x).square().mean(last(dims), keepdim=True) + eps)


def rms_norm(x, gain, scale) -> torch.Tensor:
    return (wide(x) * scale * gain).to(x.dtype)


def rms_norm_and_scale(x, gain, eps: float, dims: int = 1) -> Tuple[torch.Tensor, torch.Tensor]:
    if dims == 1 and _is_for_kernels(x, gain):
        return torch.ops.lockstep.rms_norm(x, gain, eps)
    scale = rms_scale(x, eps, dims)
    return rms_norm(x, gain, scale), scale


def rms_norm_input_grad(dy, x, gain, scale) -> torch.Tensor:
    xhat = wide(x) * scale
    g = wide(dy) * gain
    return (scale * (g - xhat * (g * xhat).mean(last(gain.dim()), keepdim=True))).to(dy.dtype)


def rms_norm_weight_grad(dy, x, scale, dims: int = 1) -> torch.Tensor:
    return (wide(dy) * (wide(x) * scale)).sum(leading(x, dims))


def rms_norm_grads(dy, x, gain, scale, plus: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """Gradients of x and of the weight; `plus` is added to the former (the residual's gradient)."""
    if gain.dim() == 1 and _is_for_kernels(x, gain, dy, *([] if plus is None else [plus])):
        slope, sums = torch.ops.lockstep.rms_norm_grads(dy, x, gain, scale, plus)
        return slope, sums.sum(0)
    slope = rms_norm_input_grad(dy, x, gain, scale)
    return slope if plus is None else plus + slope, rms_norm_weight_grad(dy, x, scale, gain.dim())


def _is_for_kernels(x, gain, *others: torch.Tensor) -> bool:
    """Contiguous rows of one half-precision dtype."""
    like = all([each.shape == x.shape and each.dtype == torch.bfloat16 and each.is_contiguous() for each in (x, *others)])
    return triton is not None and x.is_cuda and like and x.shape[-1] <= WIDEST and gain.is_contiguous()


def _programs(x: torch.Tensor) -> int:
    """Number of Triton programs, one partial weight gradient each: as many as the GPU runs at once."""
    width = x.shape[-1]
    units = torch.cuda.get_device_properties(x.device).multi_processor_count
    return max(1, min(x.numel() // width, units * (4 if width <= 2048 else 2)))


def _norm_result(x: torch.Tensor, gain: torch.Tensor, eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


def _norm(x: torch.Tensor, gain: torch.Tensor, eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    (out, scale), width = _norm_result(x, gain, eps), x.shape[-1]
    _rows[(x.numel() // width,)](
        x, gain, out, scale, width, eps, BLOCK=triton.next_power_of_2(width), num_warps=4 if width <= 2048 else 8
    )
    return out, scale


def _grads_result(
    dy: torch.Tensor, x: torch.Tensor, gain: torch.Tensor, scale: torch.Tensor, plus: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((_programs(x), x.shape[-1]), dtype=torch.float32)


def _grads(
    dy: torch.Tensor, x: torch.Tensor, gain: torch.Tensor, scale: torch.Tensor, plus: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, torch.Tensor]:
    (slope, sums), width = _grads_result(dy, x, gain, scale, plus), x.shape[-1]
    _slopes[(sums.shape[0],)](
        dy, x, gain, scale, x if plus is None else plus, slope, sums, x.numel() // width, width,
        PLUS=plus is not None, BLOCK=triton.next_power_of_2(width), num_warps=8 if width <= 2048 else 16,
    )
    return slope, sums


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _rows(x, gain, out, scale, width, eps, BLOCK: tl.constexpr):
        row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        inside = column < width
        value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
        by = 1 / tl.sqrt(tl.sum(value * value) / width + eps)
        tl.store(scale + row, by)
        weight = tl.load(gain + column, mask=inside).to(tl.float32)
        tl.store(out + row * width + column, (value * by * weight).to(out.dtype.element_ty), mask=inside)

    @triton.jit
    def _slopes(dy, x, gain, scale, plus, slope, sums, rows, width, PLUS: tl.constexpr, BLOCK: tl.constexpr):
        column = tl.arange(0, BLOCK)
        inside = column < width
        weight = tl.load(gain + column, mask=inside, other=0.0).to(tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for row in range(tl.program_id(0), rows, tl.num_programs(0)):
            place = row.to(tl.int64) * width + column
            by = tl.load(scale + row)
            given = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
            unit = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) * by
            if PLUS:
                rest = tl.load(plus + place, mask=inside, other=0.0).to(tl.float32)
            total += given * unit
            given *= weight
            result = by * (given - unit * (tl.sum(given * unit) / width))
            if PLUS:
                result += rest
            tl.store(slope + place, result.to(slope.dtype.element_ty), mask=inside)
        tl.store(sums + tl.program_id(0) * width + column, total, mask=inside)

    torch.library.custom_op("lockstep::rms_norm", _norm, mutates_args=()).register_fake(_norm_result)
    torch.library.custom_op("lockstep::rms_norm_grads", _grads, mutates_args=()).register_fake(_grads_result)
else:
    triton = None
