"""Low-rank gradient compression (PowerSGD, Vogels et al., 2019): orthonormalization, and the error-feedback residual."""
import torch

from .optimizer import _each

LEAST_LEFT = 2.0**-20


def deduct_(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return out.sub_(value.reshape(out.shape))


def become_(state, following, verdict: torch.Tensor):
    """The state after this step, if the step is applied."""
    for each, new in _each(state, following):
        each.copy_(torch.where(verdict, new.reshape(each.shape), each))
    return state


def gram_schmidt(x: torch.Tensor, sizes, drawn=None) -> torch.Tensor:
    """
    Gram-Schmidt on the columns of each matrix, twice for accuracy. A column that depends on the others becomes 0, or is replaced by the
    sample in `drawn`. The host never synchronizes to find out which.
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
