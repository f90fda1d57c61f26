"""
Dynamic loss scaling, following PyTorch's, Megatron's or DeepSpeed's scaler: the scale moves by whether the grad norm of a step is
finite. All state is in one-element tensors on the device; the host never synchronizes.
"""
from typing import Tuple, Union

import torch

from .optimizer import Tensors

MAX_F32 = torch.finfo(torch.float32).max


def unscale_(x: Tensors, scale: torch.Tensor) -> Tensors:
    """x / scale, in place: one tensor, or a list of them."""
    inverse = (1 / scale.double()).to(scale.dtype)
    for each in x if isinstance(x, list) else [x]:
        each.mul_(inverse)
    return x


def _scaled(scale: torch.Tensor, by: float) -> torch.Tensor:
    """Rounded once to f32, the dtype of the scale."""
    return (scale.double() * by).float().to(scale.dtype)


def _scaled_f32(scale: torch.Tensor, by: float) -> torch.Tensor:
    """With a factor rounded to f32, as in Megatron."""
    return (scale.float() * by).to(scale.dtype)


def _copy_all(before, after):
    return tuple(x.copy_(value) for x, value in zip(before, after))


def mask_above_limit(norm_squared: torch.Tensor, limit: Union[float, torch.Tensor]) -> torch.Tensor:
    """The squared grad norm, or, if it is finite but at or above the limit, the largest f32: skipped, but not as an overflow."""
    return torch.where((norm_squared < limit) | ~torch.isfinite(norm_squared), norm_squared, MAX_F32)


def rescale_as_torch_(
    scale: torch.Tensor, growth: torch.Tensor, is_finite: torch.Tensor, growth_factor: float, backoff_factor: float,
    growth_interval: int,
) -> Tuple[torch.Tensor, ...]:
    grows = is_finite & (growth + 1 >= growth_interval)
    grown = _scaled(scale, growth_factor)
    grown = torch.where(grown <= MAX_F32, grown, scale)
    new_scale = torch.where(is_finite, torch.where(grows, grown, scale), _scaled(scale, backoff_factor))
    return _copy_all((scale, growth), (new_scale, torch.where(is_finite & ~grows, growth + 1, torch.zeros_like(growth))))


def rescale_as_megatron_(
    scale: torch.Tensor, growth: torch.Tensor, hysteresis: torch.Tensor, is_finite: torch.Tensor, growth_factor: float,
    backoff_factor: float, growth_interval: int, min_scale: float, max_hysteresis: int,
) -> Tuple[torch.Tensor, ...]:
    grows = is_finite & (growth + 1 >= growth_interval)
    new_hysteresis = torch.where(is_finite, torch.where(grows, torch.full_like(hysteresis, max_hysteresis), hysteresis), hysteresis - 1)
    backed_off = torch.where(new_hysteresis <= 0, _scaled_f32(scale, backoff_factor).clamp(min=min_scale), scale)
    new_scale = torch.where(is_finite, torch.where(grows, _scaled_f32(scale, growth_factor), scale), backed_off)
    new_growth = torch.where(is_finite & ~grows, growth + 1, torch.zeros_like(growth))
    return _copy_all((scale, growth, hysteresis), (new_scale, new_growth, new_hysteresis))


def rescale_as_deepspeed_(
    scale: torch.Tensor, growth: torch.Tensor, hysteresis: torch.Tensor, is_finite: torch.Tensor, growth_factor: float,
    growth_interval: int, min_scale: float, max_hysteresis: int, consecutive: int,
) -> Tuple[torch.Tensor, ...]:
    """growth counts clean steps since the last overflow."""
    grows = is_finite & (growth >= growth_interval)
    backs_off = ~is_finite & ((hysteresis == 1) | (max_hysteresis == 1))
    refills = is_finite if consecutive else grows
    spent = torch.where(is_finite | backs_off, hysteresis, hysteresis - 1)
    new_hysteresis = torch.where(refills, torch.full_like(hysteresis, max_hysteresis), spent)
    backed_off = torch.where(backs_off, _scaled(scale, 1 / growth_factor).clamp(min=min_scale), scale)
    new_scale = torch.where(grows, _scaled(scale, growth_factor), backed_off)
    zero = torch.zeros_like(growth)
    new_growth = torch.where(is_finite, torch.where(grows, zero, growth) + 1, zero)
    return _copy_all((scale, growth, hysteresis), (new_scale, new_growth, new_hysteresis))
