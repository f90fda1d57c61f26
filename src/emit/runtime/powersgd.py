"""Low-rank gradient compression (PowerSGD, Vogels et al., 2019): orthonormalization, and the error-feedback residual."""
from typing import Optional, Sequence

import torch

from .optimizer import Tensors, _each

MIN_REMAINDER = 2.0**-20


def subtract_(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return out.sub_(value.reshape(out.shape))


def copy_if_(state: Tensors, new: Tensors, apply: torch.Tensor) -> Tensors:
    """The state after this step, if the step is applied."""
    for each, value in _each(state, new):
        each.copy_(torch.where(apply, value.reshape(each.shape), each))
    return state


def gram_schmidt(x: torch.Tensor, sizes: Sequence[int], initial: Optional[torch.Tensor] = None) -> torch.Tensor:
    """
    Gram-Schmidt on the columns of each matrix, twice for accuracy. A column that depends on the others becomes 0, or is replaced by the
    sample in `initial`. The host never synchronizes to find out which.
    """
    matrices = x.reshape(sizes)
    initial = None if initial is None else initial.to(matrices)
    columns = []
    for k in range(matrices.size(2)):
        column = _orthogonalize(columns, matrices[:, :, k])
        if initial is not None:
            column = torch.where((column == 0).all(1, keepdim=True), _orthogonalize(columns, initial[:, :, k]), column)
        columns.append(column)
    return torch.stack(columns, 2).reshape(x.shape)


def _orthogonalize(others, column: torch.Tensor) -> torch.Tensor:
    length = torch.linalg.vector_norm(column, dim=1, keepdim=True)
    for _ in range(2):
        for other in others:
            column = column - (other * column).sum(1, keepdim=True) * other
    remainder = torch.linalg.vector_norm(column, dim=1, keepdim=True)
    return torch.where((remainder <= MIN_REMAINDER * length) & length.isfinite(), torch.zeros_like(column), column / remainder)
