"""
Optimizer steps. Operands are tensors, or lists with one tensor per parameter (foreach), which a GPU updates together. `lr` is a number,
or on a GPU a tensor, so that a CUDA graph can be replayed with another value. `applied_steps` is a tensor. So is `apply`: if it is
false the step is skipped, and every state is rewritten unchanged. The host never
synchronizes.
"""
import functools
import os
import shutil
from typing import Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .kernels import squared_norms
from .newton_schulz import MuonMomenta

# One tensor, or one per parameter (foreach).
Tensors = Union[torch.Tensor, List[torch.Tensor]]
Scalar = Union[float, torch.Tensor]


class Unset:
    """A zero gradient without memory: the first accumulation replaces it."""


def set_to_none(held):
    return [Unset() for _ in held] if isinstance(held, list) else Unset()


def accumulate_(total: Union[torch.Tensor, Unset], value: torch.Tensor) -> torch.Tensor:
    """Gradient accumulation: total += value, or value itself while total is Unset."""
    return value if isinstance(total, Unset) else total.add_(value)


def accumulate_max_(total: Union[torch.Tensor, Unset], value: torch.Tensor) -> torch.Tensor:
    """Running elementwise max, or value itself while total is Unset."""
    return value if isinstance(total, Unset) else torch.maximum(total, value, out=total)


def zero_(x: Tensors) -> Tensors:
    for each in _as_list(x):
        each.zero_()
    return x


def add_squares_(total: torch.Tensor, x: Tensors, is_counted: bool = True) -> torch.Tensor:
    """Adds the squared norm of x. If another rank counts x, adds 0, or NaN for NaN or Inf: every rank checks what it updates with."""
    times = 1 if is_counted else 0
    if total.is_cuda:
        return total.add_(squared_norms(_as_list(x), total.dtype) * times)
    for each in _as_list(x):
        total.add_(torch.linalg.vector_norm(upcast(each)).square() * times)
    return total


def count_applied_(applied_steps: torch.Tensor, apply: torch.Tensor) -> torch.Tensor:
    return applied_steps.add_(apply)


def adamw_(
    param: Tensors, m: Tensors, v: Tensors, grad: Tensors, apply: torch.Tensor, lr: Scalar, betas: Tuple[float, float],
    eps: float, weight_decay: float, applied_steps: Optional[torch.Tensor] = None, max_v: Optional[Tensors] = None,
    l2: bool = False, frozen: bool = False, scale: Optional[torch.Tensor] = None, model_param: Optional[Tensors] = None,
    rounding_bits: Optional[Callable[[int], torch.Tensor]] = None,
) -> Tuple[Tensors, ...]:
    """
    AdamW (Loshchilov and Hutter, 2019), or Adam with L2 decay if `l2`. `max_v` is the running max of v (AMSGrad). Without `applied_steps`
    there is no bias correction. `frozen`: v is constant, and `grad` is the new m (1-bit Adam, Tang et al., 2021). `scale` is the
    clipping factor, `model_param` the low-precision copy of the parameter, and draws(i) the samples for stochastic rounding of parameter i.
    """
    beta1, beta2 = betas
    if frozen:
        shrink, rate = _as_f32(1 - lr * weight_decay, param), _as_f32(lr, param)
        for i, tensors in enumerate(_each(param, m, v, _contiguous(grad), model_param)):
            _update("frozen_adam", (*tensors, rounding_bits and rounding_bits(i)), apply, shrink, rate, scale, eps)
        return param, m, v
    time = None if applied_steps is None else applied_steps.double() + 1
    unbiased = (1, 1) if time is None else (1 - beta1**time, 1 - beta2**time)
    numbers = (1 if l2 else 1 - lr * weight_decay, lr / unbiased[0], unbiased[1])
    shrink, rate, unbias = (_as_f32(x, param) for x in numbers)
    for i, tensors in enumerate(_each(param, m, v, max_v, _contiguous(grad), model_param)):
        if time is not None and rounding_bits is None and _is_fused(*tensors[:4]):
            _fused_adamw(*tensors, apply, float(lr), time, betas, eps, weight_decay, l2, scale)
            continue
        _update("adamw", (*tensors, rounding_bits and rounding_bits(i)), apply, shrink, rate, unbias, scale, weight_decay if l2 else None, beta1, beta2, eps)
    return (param, m, v) if max_v is None else (param, m, v, max_v)


def _adamw(
    param, m, v, max_v, grad, model_param, rounding_bits, apply, shrink, rate, unbias, scale, weight_decay, beta1: float,
    beta2: float, eps: float,
) -> None:
    grad = _scaled(grad, scale) if weight_decay is None else _scaled(grad, scale) + weight_decay * upcast(param)
    # In half precision: computed in FP32, rounded once.
    mean = (upcast(m) * beta1).add_(grad, alpha=1 - beta1)
    square = (upcast(v) * beta2).addcmul_(grad, grad, value=1 - beta2)
    most = square if max_v is None else torch.maximum(upcast(max_v), square)
    value = (upcast(param) * shrink).sub_(rate * mean / ((most / unbias).sqrt_() + eps))
    _store((param, m, v, max_v), (value, mean, square, most), model_param, apply, rounding_bits)


def _frozen_adam(param, m, v, mean, model_param, rounding_bits, apply, shrink, rate, scale, eps: float) -> None:
    """1-bit Adam after the warmup: elements whose v is 0 had no gradient until v was frozen, so their m is set to 0."""
    square = upcast(v)
    mean = torch.where(square > 0, _scaled(mean, scale), 0)
    value = (upcast(param) * shrink).sub_(rate * mean / (square.sqrt() + eps))
    _store((param, m), (value, mean), model_param, apply, rounding_bits)


def _is_fused(param, *states) -> bool:
    """
    PyTorch's fused CPU kernel applies if all states have the parameter's dtype; in half precision it would round gradients twice. It
    ignores strides, so columns of a joined matrix (q next to k and v) must not be passed to it.
    """
    return (
        HAS_FUSED_CPU
        and param.device.type == "cpu"
        and param.dtype in (torch.float32, torch.float64)
        and all(x is None or (x.dtype == param.dtype and x.is_contiguous()) for x in (param, *states))
    )


def _fused_adamw(
    param, m, v, max_v, grad, model_param, apply, lr: float, time, betas, eps: float, weight_decay: float, l2: bool, scale,
) -> None:
    """In blocks, so that operands are still in the caches when they are scaled before and rounded after the kernel."""
    fused = torch._fused_adam_ if l2 else torch._fused_adamw_
    numbers = dict(lr=lr, beta1=betas[0], beta2=betas[1], eps=eps, weight_decay=weight_decay, amsgrad=max_v is not None, maximize=False)
    flags = dict(state_steps=[time.float()], found_inf=(~apply).float())
    for start in range(0, param.numel(), FUSED_BLOCK):
        p, mean, square, most, g, r = (x if x is None else x[start : start + FUSED_BLOCK] for x in (param, m, v, max_v, grad, model_param))
        g = _scaled(g, scale).to(p.dtype)
        fused([p], [g], [mean], [square], [] if most is None else [most], **flags, **numbers)
        if r is not None:
            r.copy_(p)


def sgd_(
    param: Tensors, grad: Tensors, apply: torch.Tensor, lr: Scalar, weight_decay: float,
    applied_steps: Optional[torch.Tensor] = None, m: Optional[Tensors] = None, momentum: float = 0.0, nesterov: bool = False,
    dampening: float = 0.0, scale: Optional[torch.Tensor] = None, model_param: Optional[Tensors] = None,
    rounding_bits: Optional[Callable[[int], torch.Tensor]] = None,
) -> Union[Tensors, Tuple[Tensors, Tensors]]:
    """SGD: m = momentum * m + grad + decay * param; param -= lr * m. Dampening scales all gradients but the first, as in PyTorch."""
    fresh = None if applied_steps is None else _as_f32(1.0 - (applied_steps > 0).double() * dampening, param)
    for i, tensors in enumerate(_each(param, m, _contiguous(grad), model_param)):
        _update("sgd", (*tensors, rounding_bits and rounding_bits(i)), apply, _as_f32(lr, param), weight_decay, momentum, nesterov, fresh, scale)
    return param if m is None else (param, m)


def _sgd(param, m, grad, model_param, rounding_bits, apply, lr, weight_decay: float, momentum: float, nesterov: bool, fresh, scale) -> None:
    value = upcast(param)
    grad = _scaled(grad, scale) + weight_decay * value
    mean = grad if m is None else (upcast(m) * momentum).add_(grad if fresh is None else grad * fresh)
    value = value - lr * (grad + momentum * mean if nesterov else mean)
    _store((param, m), (value, mean), model_param, apply, rounding_bits)


def lion_(
    param: Tensors, m: Tensors, grad: Tensors, apply: torch.Tensor, lr: Scalar, betas: Tuple[float, float], weight_decay: float,
    scale: Optional[torch.Tensor] = None, model_param: Optional[Tensors] = None,
    rounding_bits: Optional[Callable[[int], torch.Tensor]] = None,
) -> Tuple[Tensors, Tensors]:
    """Lion (Chen et al., 2023): param -= lr * (sign(beta1 * m + (1 - beta1) * grad) + decay * param); m is an EMA with beta2."""
    beta1, beta2 = betas
    shrink, rate = _as_f32(1 - lr * weight_decay, param), _as_f32(lr, param)
    for i, tensors in enumerate(_each(param, m, _contiguous(grad), model_param)):
        _update("lion", (*tensors, rounding_bits and rounding_bits(i)), apply, shrink, rate, beta1, beta2, scale)
    return param, m


def _lion(param, m, grad, model_param, rounding_bits, apply, shrink, rate, beta1: float, beta2: float, scale) -> None:
    grad, past = _scaled(grad, scale), upcast(m)
    value = upcast(param) * shrink - rate * torch.sign(past * beta1 + grad * (1 - beta1))
    mean = past * beta2 + grad * (1 - beta2)
    _store((param, m), (value, mean), model_param, apply, rounding_bits)


def lamb_squares(
    param: torch.Tensor, m: torch.Tensor, v: torch.Tensor, grad: torch.Tensor, applied_steps: torch.Tensor,
    betas: Tuple[float, float], eps: float, weight_decay: float, scale: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, ...]:
    """For LAMB's trust ratio: squared norms of the parameter and of the coming update, over this rank's shard."""
    param, step = upcast(param), _lamb_step(param, m, v, grad, applied_steps, betas, eps, weight_decay, scale)[0]
    return tuple(torch.linalg.vector_norm(x).square() for x in (param, step))


def _lamb_step(param, m, v, grad, applied_steps, betas, eps: float, weight_decay: float, scale):
    (beta1, beta2), time, grad = betas, applied_steps.double() + 1, _scaled(grad.contiguous(), scale).view_as(param)
    unbias1, unbias2 = (_as_f32(1 - beta**time, param) for beta in betas)
    mean = upcast(m) * beta1 + grad * (1 - beta1)
    square = upcast(v) * beta2 + grad.square() * (1 - beta2)
    return mean / unbias1 / ((square / unbias2).sqrt() + eps) + weight_decay * upcast(param), mean, square


def lamb_(
    param: torch.Tensor, m: torch.Tensor, v: torch.Tensor, grad: torch.Tensor, apply: torch.Tensor, lr: Scalar,
    applied_steps: torch.Tensor, param_squared: torch.Tensor, step_squared: torch.Tensor, betas: Tuple[float, float], eps: float,
    weight_decay: float, always_adapt: bool = False, scale: Optional[torch.Tensor] = None,
    model_param: Optional[torch.Tensor] = None, rounding_bits: Optional[Callable[[int], torch.Tensor]] = None,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """LAMB (You et al., 2020): Adam's update with weight decay, scaled by the trust ratio |param| / |update| of the full parameter."""
    step, mean, square = _lamb_step(param, m, v, grad, applied_steps, betas, eps, weight_decay, scale)
    lengths = param_squared / step_squared
    known = (param_squared > 0) & (step_squared > 0) & (weight_decay != 0 or always_adapt)
    trust = torch.where(known, lengths.sqrt(), torch.ones_like(lengths))
    value = upcast(param) - _as_f32(lr, param) * trust * step
    _store((param, m, v), (value, mean, square), model_param, apply, rounding_bits and rounding_bits(0))
    return param, m, v


def muon_momentum(
    m: Tensors, grad: Tensors, momentum: float, nesterov: bool, scale: Optional[torch.Tensor] = None,
) -> Union[torch.Tensor, MuonMomenta]:
    """Muon's momentum of one parameter; of a list, a `MuonMomenta` that computes each on demand."""
    if isinstance(m, list):
        how = (momentum, nesterov, scale)
        normalize = compiled.get(("normalize", m[0].device.type), _normalize)
        put, alone = ([functools.partial(one, *pair, *how) for pair in zip(m, grad)] for one in (_write_momentum, muon_momentum))
        return MuonMomenta(put, alone, m[0], normalize)
    kernel = compiled.get(("muon_momentum", m.device.type), _muon_momentum)
    return kernel(m, grad.contiguous().view_as(m), momentum, nesterov, scale)


def _muon_momentum(m, grad, momentum: float, nesterov: bool, scale) -> torch.Tensor:
    grad = _scaled(grad, scale)
    mean = upcast(m) * momentum + grad * (1 - momentum)
    return mean * momentum + grad * (1 - momentum) if nesterov else mean


def _write_momentum(m, grad, momentum: float, nesterov: bool, scale, into) -> torch.Tensor:
    """Writes the momentum into `into`; returns the squared norm of each matrix."""
    kernel = compiled.get(("write_momentum", m.device.type), _write_momentum_into)
    return kernel(into, m.view(into.shape), grad.reshape(into.shape), momentum, nesterov, scale)


def _write_momentum_into(into, m, grad, momentum: float, nesterov: bool, scale) -> torch.Tensor:
    mean = _muon_momentum(m, grad, momentum, nesterov, scale)
    into.copy_(mean)
    return mean.square().sum((-2, -1))


def _normalize(stack, squared_norms) -> None:
    """Normalizes each matrix to Frobenius norm 1."""
    stack.copy_(stack / squared_norms.sqrt().clamp(min=1e-7))


def muon_(
    param: Tensors, m: Tensors, grad: Tensors, apply: torch.Tensor, lr: Scalar, direction: Tensors, momentum: float,
    weight_decay: float, lr_scale: float = 1.0, scale: Optional[torch.Tensor] = None, model_param: Optional[Tensors] = None,
    rounding_bits: Optional[Callable[[int], torch.Tensor]] = None,
) -> Tuple[Tensors, Tensors]:
    """Muon (Jordan et al., 2024): param -= lr * (stretch * direction + decay * param); m is an EMA of gradients."""
    numbers = (apply, _as_f32(lr, param), momentum, weight_decay, lr_scale, scale)
    if isinstance(param, list):
        kept = model_param or [None] * len(param)
        for i, (update, each, mean, grad_of, copy) in enumerate(zip(direction, param, m, grad, kept)):
            each, mean, copy = (None if x is None else x.view(update.shape) for x in (each, mean, copy))
            _update("muon", (each, mean, grad_of.reshape(update.shape), update, copy, rounding_bits and rounding_bits(i)), *numbers)
        return param, m
    flat = [None if x is None else x.view(-1) for x in (param, m, grad.contiguous(), direction.contiguous(), model_param)]
    _update("muon", (*flat, rounding_bits and rounding_bits(0)), *numbers)
    return param, m


def _muon(
    param, m, grad, direction, model_param, rounding_bits, apply, rate, momentum: float, weight_decay: float, lr_scale: float,
    scale,
) -> None:
    mean = upcast(m) * momentum + _scaled(grad, scale) * (1 - momentum)
    value = upcast(param) - rate * (lr_scale * upcast(direction) + weight_decay * upcast(param))
    _store((param, m), (value, mean), model_param, apply, rounding_bits)


def ema_update_(ema: Tensors, value: Tensors, apply: torch.Tensor, applied_steps: torch.Tensor, decay: float) -> Tensors:
    """EMA weights: ema = decay * ema + (1 - decay) * value; at the first applied step, value."""
    decays = _as_f32((applied_steps > 0).double() * decay, ema)
    for each, new in _each(ema, value):
        each.copy_(torch.where(apply, decays * each + (1 - decays) * new, each))
    return ema


# Functions that reduce over full parameters: torch.compile fuses the elementwise work into one pass.
reductions: Dict[str, Callable] = {}


def _compiled_reduction(function: Callable) -> Callable:
    name = function.__name__
    reductions[name] = function

    @functools.wraps(function)
    def found(operand, /, *rest, **named):
        return compiled.get((name, operand.device.type), function)(operand, *rest, **named)

    return found


@_compiled_reduction
def factored_squares(
    grad: torch.Tensor, sizes: Sequence[int], rows: int, columns: int, first: int = 0, scale: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Adafactor's factored second moment: mean squares over columns, over rows and over both, of matrices of `rows` x `columns`. A rank
    computes its contribution, of the local `sizes`; `first` is the offset of its shard in the flattened matrices.
    """
    each, height, width = sizes
    square = _as_rows(_scaled(grad.contiguous(), scale).square(), sizes, first)
    from_row = first // width
    of_rows = square.new_zeros(each * height)
    of_rows[from_row : from_row + square.size(0)] = square.sum(1)
    of_columns = square.new_zeros(each, width)
    of_columns.index_add_(0, _experts_of(square, sizes, first), square) if each > 1 else of_columns.copy_(square.sum(0, keepdim=True))
    return of_rows / columns, of_columns.view(-1) / rows, of_rows.view(each, height).sum(1) / (rows * columns)


def _as_rows(x: torch.Tensor, sizes, first: int) -> torch.Tensor:
    """A shard of flattened matrices as rows, without the shard's padding; a partial first or last row is zero-padded."""
    each, height, width = sizes
    x = x.reshape(-1)[: max(0, each * height * width - first)]
    before = first % width
    return torch.nn.functional.pad(x, (before, -(before + x.numel()) % width)).view(-1, width)


def _experts_of(rows: torch.Tensor, sizes, first: int) -> torch.Tensor:
    return torch.arange(first // sizes[2], first // sizes[2] + rows.size(0), device=rows.device) // sizes[1]


@_compiled_reduction
def adafactor_squares(
    param: torch.Tensor, grad: torch.Tensor, applied_steps: torch.Tensor, beta2_decay: float, eps1: float,
    scale: Optional[torch.Tensor] = None, **held,
) -> Tuple[torch.Tensor, ...]:
    """For Adafactor: squared norms of the parameter and of the coming update, over this rank's shard."""
    step, _ = _adafactor_step(param, grad, applied_steps, beta2_decay, eps1, scale, **held)
    return tuple(torch.linalg.vector_norm(x).square() for x in (upcast(param), step))


def _adafactor_step(
    param, grad, applied_steps, beta2_decay: float, eps1: float, scale, v=None, rows=None, columns=None, mean=None,
    row_means=None, column_means=None, mean_square=None, sizes=None, first: int = 0
):
    """g / sqrt(V), and the second moments after this step."""
    grad = _scaled(grad.contiguous(), scale).view(-1)
    weight = _as_f32((applied_steps.double() + 1) ** beta2_decay, param)
    if v is not None:
        square = (1 - weight) * v.view(-1) + weight * grad.square()
        return (grad / square.clamp(min=eps1 * eps1).sqrt()).view_as(param), (square.view_as(v),)
    kept = tuple((1 - weight) * old + weight * new.view_as(old) for old, new in zip((rows, columns, mean), (row_means, column_means, mean_square)))
    each, height, width = sizes
    rows, columns, mean = (x.reshape(-1) for x in kept)
    held = _as_rows(grad, sizes, first)
    at = first // width
    scaled = (rows.view(each, height) / mean.clamp(min=eps1).view(each, 1)).view(-1)[at : at + held.size(0)]
    across = columns.view(each, width)[_experts_of(held, sizes, first)] if each > 1 else columns.view(1, width)
    step = held / (scaled.view(-1, 1) * across).clamp(min=eps1 * eps1).sqrt()
    count = min(grad.numel(), max(0, each * height * width - first))
    step = step.view(-1)[first % width : first % width + count]
    return torch.nn.functional.pad(step, (0, grad.numel() - count)).view_as(param), kept


@_compiled_reduction
def adafactor_(
    param: torch.Tensor, grad: torch.Tensor, apply: torch.Tensor, lr: Scalar, applied_steps: torch.Tensor,
    param_squared: torch.Tensor, step_squared: torch.Tensor, beta2_decay: float, eps1: float, eps2: float,
    clip_threshold: float, elements: int, weight_decay: float, scale: Optional[torch.Tensor] = None,
    model_param: Optional[torch.Tensor] = None, **held,
) -> Tuple[torch.Tensor, ...]:
    """
    Adafactor (Shazeer and Stern, 2018): param -= lr * RMS(param) * g / sqrt(V). V of a matrix is rows x columns / mean; updates with an
    RMS above `clip_threshold` are clipped to it, and lr is at most 1 / sqrt(n) at step n.
    """
    step, kept = _adafactor_step(param, grad, applied_steps, beta2_decay, eps1, scale, **held)
    time = applied_steps.double() + 1
    of_param, of_step = ((x.double() / elements).sqrt() for x in (param_squared, step_squared))
    rate = of_param.clamp(min=eps2) * torch.clamp(time.rsqrt(), max=lr) / (of_step / clip_threshold).clamp(min=1)
    value = upcast(param) * _as_f32(1 - lr * weight_decay, param) - _as_f32(rate, param) * step
    into = [held["v"]] if "v" in held else [held[name] for name in ("rows", "columns", "mean")]
    _store((param, *into), (value, *kept), model_param, apply)
    return (param, *into)


# Elementwise updates, by optimizer.
plain = {"adamw": _adamw, "frozen_adam": _frozen_adam, "sgd": _sgd, "lion": _lion, "muon": _muon}
matrix_kernels = {"muon_momentum": _muon_momentum, "write_momentum": _write_momentum_into, "normalize": _normalize}
compiled: Dict = {}

# Whether PyTorch has a fused AdamW for CPU: since 2.4.
HAS_FUSED_CPU = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)
# Elements per call of that kernel.
FUSED_BLOCK = 2**21
# Elements per block on a host without compiled kernels: intermediate results stay in the caches.
CPU_BLOCK = 2**18


def _update(name: str, tensors, *numbers) -> None:
    """Updates all elements of a parameter at once or, if nothing is compiled for its device, block by block."""
    # Rounding samples are computed on the GPU, even if the parameter is on the host.
    tensors = [None if x is None else x.to(tensors[0].device).view(tensors[0].shape) for x in tensors]
    kernel = compiled.get((name, tensors[0].device.type))
    if kernel is not None:
        return kernel(*tensors, *numbers)
    for start in range(0, tensors[0].shape[0], CPU_BLOCK):
        plain[name](*[None if x is None else x[start : start + CPU_BLOCK] for x in tensors], *numbers)


def bitwise_reproducible_options() -> Dict:
    """
    torch.compile options for kernels that replicas run on the same values. Autotuning may pick different kernels on different ranks,
    which round differently, and replicas would drift apart.
    """
    from torch._inductor import config  # PyTorch 1 has no compiler

    known = {"deterministic": True} if hasattr(config, "deterministic") else {}
    return {"triton.autotune_pointwise": False, **known}


def compile_updates(how: Dict, device: torch.device, on_host: bool = False) -> None:
    """Compiles the update into one kernel for the device and one for the host. `how`: options of torch.compile."""
    # One variant per parameter size.
    torch._dynamo.config.cache_size_limit = max(64, torch._dynamo.config.cache_size_limit)
    how = {**how, "options": bitwise_reproducible_options()}
    compiled.update({(name, device.type): torch.compile(update, **how) for name, update in {**plain, **matrix_kernels, **reductions}.items()})
    # Host kernels are C++, which compiles slower than Triton: once for all sizes.
    if on_host and device.type != "cpu" and shutil.which(os.environ.get("CXX", "g++")):
        compiled.update({(name, "cpu"): torch.compile(update, dynamic=True) for name, update in plain.items()})


def _round(value: torch.Tensor, dtype: torch.dtype, rounding_bits) -> torch.Tensor:
    """Rounds to nearest, or stochastically: away from 0 if a 16-bit sample is below the truncated bits."""
    if rounding_bits is None or dtype != torch.bfloat16:
        return value.to(dtype)
    bits = value.float().contiguous().view(torch.int32)
    away = (rounding_bits.to(bits.device).view(bits.shape) < (bits & 0xFFFF)).int()
    return torch.where(value.isnan(), value.to(dtype), ((bits >> 16) + away).to(torch.int16).view(dtype))


def _scaled(grad: torch.Tensor, scale) -> torch.Tensor:
    return upcast(grad) if scale is None else upcast(grad) * scale


def upcast(x: torch.Tensor) -> torch.Tensor:
    """At least FP32, in which sums and statistics are computed."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _as_list(x):
    return x if isinstance(x, list) else [x]


def _each(*operands):
    """
    The tensors of each parameter, flattened, since updates are elementwise. Views into a joined buffer are not contiguous and keep
    their shape.
    """
    count = len(_as_list(operands[0]))
    lists = [[None] * count if x is None else _as_list(x) for x in operands]
    return ([None if x is None else x.view(_flat_shape(tensors)) for x in tensors] for tensors in zip(*lists))


def _flat_shape(tensors):
    return next((x.shape for x in tensors if x is not None and not x.is_contiguous()), (-1,))


def _contiguous(x):
    return [each.contiguous() for each in _as_list(x)]


def _as_f32(x, param):
    """Computed in f64; as a tensor it is converted to FP32, unless the parameter is f64."""
    double = _as_list(param)[0].dtype == torch.float64
    return x.float() if isinstance(x, torch.Tensor) and not double else x


def _store(into, values, model_param: Optional[torch.Tensor], apply: torch.Tensor, rounding_bits=None) -> None:
    """Writes the results, or the old values if the step is skipped. The first is the parameter; `rounded` is its low-precision copy."""
    bits_of_each = [rounding_bits] + [None] * len(values)
    kept = [
        None if x is None else torch.where(apply, _round(value, x.dtype, bits_of_value), x)
        for x, value, bits_of_value in zip(into, values, bits_of_each)
    ]
    if model_param is not None:
        # Rounded from the selected value: selecting between copies would be another read.
        model_param.copy_(kept[0])
    for x, value in zip(into, kept):
        if x is not None:
            x.copy_(value)
