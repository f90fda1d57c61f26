"""Gradients that travel as two factors: columns made orthonormal, and what is left over for the next step."""
import torch

from .optimizer import _each

LEAST_LEFT = 2.0**-20


def deduct_(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return out.sub_(value.reshape(out.shape))


def become_(state, following, verdict: torch.Tensor):
    """What a state is in the next step, if this one is taken."""
    for each, new in _each(state, following):
        each.copy_(torch.where(verdict, new.reshape(each.shape), each))
    return state


def gram_schmidt(x: torch.Tensor, sizes, drawn=None) -> torch.Tensor:
    """
    Matrices whose columns are made orthonormal one after the other, twice, because rounding leaves something the first time. Of a column that
    is nearly a sum of others nothing is left, or what was drawn for it. No host waits for which that is.
    """
    matrices = x.reshape(sizes)
    drawn = None if drawn is None else drawn.to(matrices)
    made = []
    for k in range(matrices.size(2)):
        column = _beside(made, matrices[:, :, k])
        if drawn is not None:
            column = torch.where((column == 0).all(1, keepdim=True), _beside(made, drawn[:, :, k]), column)
        made.append(column)
    return torch.stack(made, 2).reshape(x.shape)


def _beside(others, column: torch.Tensor) -> torch.Tensor:
    length = torch.linalg.vector_norm(column, dim=1, keepdim=True)
    for _ in range(2):
        for other in others:
            column = column - (other * column).sum(1, keepdim=True) * other
    left = torch.linalg.vector_norm(column, dim=1, keepdim=True)
    return torch.where((left <= LEAST_LEFT * length) & length.isfinite(), torch.zeros_like(column), column / left)
