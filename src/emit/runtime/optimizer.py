"""
What happens to parameters once a step. Operands are tensors, or lists with one for each parameter: a GPU is given all of
them at once. lr and step are numbers, or on a GPU tensors, so that a recorded step can be told new ones.
"""
import torch


class Nothing:
    """A gradient that is 0 so far. Its memory is kept: the first addend will take its place."""

    def __init__(self, held):
        self.held = held.held if isinstance(held, Nothing) else held


def nothing(held):
    return [Nothing(each) for each in held] if isinstance(held, list) else Nothing(held)


def accumulate_(total, value: torch.Tensor):
    """total += value, and where total is nothing yet, value itself."""
    return value if isinstance(total, Nothing) else total.add_(value)


def zero_(x):
    for each in _listed(x):
        each.zero_()
    return x


def copy_(into, x):
    """Rounded, where `into` is of less precision."""
    if _listed(into)[0].is_cuda:
        torch._foreach_copy_(_listed(into), _listed(x))
        return into
    for target, source in zip(_listed(into), _listed(x)):
        target.copy_(source)
    return into


def add_squares_(total: torch.Tensor, x) -> torch.Tensor:
    if total.is_cuda:
        norms = torch._foreach_norm(_listed(x), 2, dtype=total.dtype)
        return total.add_(torch.stack(norms).square().sum())
    for each in _listed(x):
        total.add_(torch.linalg.vector_norm(wide(each)).square())
    return total


def adamw_(param, m, v, grad, lr, step, betas, eps: float, decay: float, scale=None):
    """Decoupled weight decay; step counts from 0; scale is what clipping multiplies gradients by."""
    beta1, beta2 = betas
    shrink, rate, unbias = (
        _number(x) for x in (1 - lr * decay, lr / (1 - beta1 ** (step + 1)), 1 - beta2 ** (step + 1))
    )
    for each in zip(_listed(param), _listed(m), _listed(v), _listed(grad)):
        adamw_one(*(x.view(-1) for x in each[:3]), each[3].reshape(-1), shrink, rate, unbias, scale, beta1, beta2, eps)
    return param, m, v


def _adamw(param, m, v, grad, shrink, rate, unbias, scale, beta1: float, beta2: float, eps: float) -> None:
    grad = wide(grad) if scale is None else wide(grad) * scale
    # In half precision every result is worked out in full and rounded once.
    mean = wide(m).mul_(beta1).add_(grad, alpha=1 - beta1)
    square = wide(v).mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    value = wide(param).mul_(shrink).sub_(rate * mean / ((square / unbias).sqrt_() + eps))
    for into, result in ((param, value), (m, mean), (v, square)):
        _stored(into, result)


# One kernel for all that happens to an element, where there is a compiler.
adamw_one = _adamw


def compile_updates() -> None:
    global adamw_one
    # One variant for each size of a parameter.
    torch._dynamo.config.cache_size_limit = max(64, torch._dynamo.config.cache_size_limit)
    adamw_one = torch.compile(_adamw, dynamic=False)


def sgd_(param, m, grad, lr, decay: float, momentum: float = 0.0, scale=None):
    """m = momentum * m + grad + decay * param; param -= lr * m."""
    params = _listed(param)
    moments = [None] * len(params) if m is None else _listed(m)
    for p, moment, g in zip(params, moments, _listed(grad)):
        value = wide(p)
        direction = (wide(g) if scale is None else wide(g) * scale) + decay * value
        if moment is not None:
            direction = wide(moment).mul_(momentum).add_(direction)
            _stored(moment, direction)
        _stored(p, value.sub_(lr * direction))
    return param, m


def wide(x: torch.Tensor) -> torch.Tensor:
    """In f32 at least: what sums and statistics are taken in."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _listed(x):
    return x if isinstance(x, list) else [x]


def _number(x):
    """Worked out in double; a kernel that has many elements to do takes it in single."""
    return x.float() if isinstance(x, torch.Tensor) else x


def _stored(into: torch.Tensor, value: torch.Tensor) -> None:
    if into is not value:
        into.copy_(value)
