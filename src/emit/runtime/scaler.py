"""
Dynamic loss scaling, following PyTorch's, Megatron's or DeepSpeed's scaler: the scale moves by whether the grad norm of a step is
finite. All state is in one-element tensors on the device; the host never synchronizes.
"""
import torch

MOST = torch.finfo(torch.float32).max


def unscale_(x, scale: torch.Tensor):
    """x / scale, in place: one tensor, or a list of them."""
    inverse = (1 / scale.double()).to(scale.dtype)
    for each in x if isinstance(x, list) else [x]:
        each.mul_(inverse)
    return x


def _times(scale: torch.Tensor, by: float) -> torch.Tensor:
    """Rounded once to f32, the dtype of the scale."""
    return (scale.double() * by).float().to(scale.dtype)


def _times_f32(scale: torch.Tensor, by: float) -> torch.Tensor:
    """With a factor rounded to f32, as in Megatron."""
    return (scale.float() * by).to(scale.dtype)


def _moved(before, after):
    return tuple(x.copy_(value) for x, value in zip(before, after))


def weigh(norm_squared, limit):
    """The squared grad norm, or, if it is finite but at or above the limit, the largest f32: skipped, but not as an overflow."""
    return torch.where((norm_squared < limit) | ~torch.isfinite(norm_squared), norm_squared, MOST)


def rescale_as_torch_(scale, growth, clean, factor, backoff, interval):
    grows = clean & (growth + 1 >= interval)
    grown = _times(scale, factor)
    grown = torch.where(grown <= MOST, grown, scale)
    moved = torch.where(clean, torch.where(grows, grown, scale), _times(scale, backoff))
    return _moved((scale, growth), (moved, torch.where(clean & ~grows, growth + 1, torch.zeros_like(growth))))


def rescale_as_megatron_(scale, growth, hysteresis, clean, factor, backoff, interval, least, full):
    grows = clean & (growth + 1 >= interval)
    left = torch.where(clean, torch.where(grows, torch.full_like(hysteresis, full), hysteresis), hysteresis - 1)
    fallen = torch.where(left <= 0, _times_f32(scale, backoff).clamp(min=least), scale)
    moved = torch.where(clean, torch.where(grows, _times_f32(scale, factor), scale), fallen)
    counted = torch.where(clean & ~grows, growth + 1, torch.zeros_like(growth))
    return _moved((scale, growth, hysteresis), (moved, counted, left))


def rescale_as_deepspeed_(scale, growth, hysteresis, clean, factor, interval, least, full, consecutive):
    """growth counts clean steps since the last overflow."""
    grows = clean & (growth >= interval)
    falls = ~clean & ((hysteresis == 1) | (full == 1))
    refills = clean if consecutive else grows
    spent = torch.where(clean | falls, hysteresis, hysteresis - 1)
    left = torch.where(refills, torch.full_like(hysteresis, full), spent)
    fallen = torch.where(falls, _times(scale, 1 / factor).clamp(min=least), scale)
    moved = torch.where(grows, _times(scale, factor), fallen)
    zero = torch.zeros_like(growth)
    counted = torch.where(clean, torch.where(grows, zero, growth) + 1, zero)
    return _moved((scale, growth, hysteresis), (moved, counted, left))
