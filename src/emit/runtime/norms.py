"""
RMSNorm (Zhang and Sennrich, 2019) and its gradients. With Triton, norm and scale are one pass over rows in registers, and so are both
gradients with the residual: torch.compile reads rows twice, and writes partial sums of the weight gradient for every few rows.
"""
from typing import Optional, Sequence, Tuple

import torch

from .optimizer import upcast

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Maximum row width that stays in registers.
MAX_WIDTH = 8192


def last_dims(dims: int) -> Sequence[int]:
    return tuple(range(-dims, 0))


def leading_dims(x: torch.Tensor, dims: int) -> Sequence[int]:
    return tuple(range(x.dim() - dims))


def rms_scale(x: torch.Tensor, eps: float, dims: int = 1) -> torch.Tensor:
    """1 / RMS of each row; the backward reuses it."""
    return torch.rsqrt(upcast(x).square().mean(last_dims(dims), keepdim=True) + eps)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (upcast(x) * scale * weight).to(x.dtype)


def rms_norm_and_scale(x: torch.Tensor, weight: torch.Tensor, eps: float, dims: int = 1) -> Tuple[torch.Tensor, torch.Tensor]:
    if dims == 1 and _use_triton(x, weight):
        return torch.ops.lockstep.rms_norm(x, weight, eps)
    scale = rms_scale(x, eps, dims)
    return rms_norm(x, weight, scale), scale


def rms_norm_input_grad(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    xhat = upcast(x) * scale
    g = upcast(dy) * weight
    return (scale * (g - xhat * (g * xhat).mean(last_dims(weight.dim()), keepdim=True))).to(dy.dtype)


def rms_norm_weight_grad(dy: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, dims: int = 1) -> torch.Tensor:
    return (upcast(dy) * (upcast(x) * scale)).sum(leading_dims(x, dims))


def rms_norm_grads(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, add: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Gradients of x and of the weight; `add` is added to the former (the residual's gradient)."""
    if weight.dim() == 1 and _use_triton(x, weight, dy, *([] if add is None else [add])):
        dx, sums = torch.ops.lockstep.rms_norm_grads(dy, x, weight, scale, add)
        return dx, sums.sum(0)
    dx = rms_norm_input_grad(dy, x, weight, scale)
    return dx if add is None else add + dx, rms_norm_weight_grad(dy, x, scale, weight.dim())


def _use_triton(x, weight, *others: torch.Tensor) -> bool:
    """Contiguous rows of one half-precision dtype."""
    like = all([each.shape == x.shape and each.dtype == torch.bfloat16 and each.is_contiguous() for each in (x, *others)])
    return triton is not None and x.is_cuda and like and x.shape[-1] <= MAX_WIDTH and weight.is_contiguous()


def _programs(x: torch.Tensor) -> int:
    """Number of Triton programs, one partial weight gradient each: as many as the GPU runs at once."""
    width = x.shape[-1]
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count
    return max(1, min(x.numel() // width, processors * (4 if width <= 2048 else 2)))


def _norm_like(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    (out, scale), width = _norm_like(x, weight, eps), x.shape[-1]
    _norm_kernel[(x.numel() // width,)](
        x, weight, out, scale, width, eps, BLOCK=triton.next_power_of_2(width), num_warps=4 if width <= 2048 else 8
    )
    return out, scale


def _grads_like(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, add: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((_programs(x), x.shape[-1]), dtype=torch.float32)


def _grads(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, add: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, torch.Tensor]:
    (dx, sums), width = _grads_like(dy, x, weight, scale, add), x.shape[-1]
    _grad_kernel[(sums.shape[0],)](
        dy, x, weight, scale, x if add is None else add, dx, sums, x.numel() // width, width,
        ADD=add is not None, BLOCK=triton.next_power_of_2(width), num_warps=8 if width <= 2048 else 16,
    )
    return dx, sums


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _norm_kernel(x, weight, out, scale, width, eps, BLOCK: tl.constexpr):
        row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        inside = column < width
        value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
        by = 1 / tl.sqrt(tl.sum(value * value) / width + eps)
        tl.store(scale + row, by)
        weight_row = tl.load(weight + column, mask=inside).to(tl.float32)
        tl.store(out + row * width + column, (value * by * weight_row).to(out.dtype.element_ty), mask=inside)

    @triton.jit
    def _grad_kernel(dy, x, weight, scale, add, dx, sums, rows, width, ADD: tl.constexpr, BLOCK: tl.constexpr):
        column = tl.arange(0, BLOCK)
        inside = column < width
        weight_row = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for row in range(tl.program_id(0), rows, tl.num_programs(0)):
            offset = row.to(tl.int64) * width + column
            by = tl.load(scale + row)
            dy_row = tl.load(dy + offset, mask=inside, other=0.0).to(tl.float32)
            xhat_row = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32) * by
            if ADD:
                add_row = tl.load(add + offset, mask=inside, other=0.0).to(tl.float32)
            total += dy_row * xhat_row
            dy_row *= weight_row
            result = by * (dy_row - xhat_row * (tl.sum(dy_row * xhat_row) / width))
            if ADD:
                result += add_row
            tl.store(dx + offset, result.to(dx.dtype.element_ty), mask=inside)
        tl.store(sums + tl.program_id(0) * width + column, total, mask=inside)

    torch.library.custom_op("lockstep::rms_norm", _norm, mutates_args=()).register_fake(_norm_like)
    torch.library.custom_op("lockstep::rms_norm_grads", _grads, mutates_args=()).register_fake(_grads_like)
else:
    triton = None
