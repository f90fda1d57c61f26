"""
Reshards error-feedback residuals to another number of data-parallel ranks. Residuals differ per rank, and only their sum matters:
residual i of the checkpoint is added to that of rank i mod n. So the same plan restores what it saved, additional ranks start with
zeros, and fewer ranks share the rest.
"""
from typing import Callable, Dict, List

import torch


def sizes_without_ranks(dims: List[Dict]) -> List[int]:
    """Sizes without the dim of stacked residuals."""
    return [dim["size"] for dim in dims if dim["name"] != "addend"]


def stacked_ranks(dims: List[Dict]) -> int:
    """The number of stacked residuals; 0: the tensor is not a stack."""
    return next((dim["size"] for dim in dims if dim["name"] == "addend"), 0)


def redistribute(
    box: Dict, own: int, saved: int, target: torch.Tensor, read: Callable[[Dict, torch.Tensor], None]
) -> None:
    """`target` is a box of a stack of `own` residuals; the checkpoint has `saved`, and `read` reads a box of it."""
    block = {**box, "start": box["start"][1:], "shape": box["shape"][1:]} if own else box
    first, rows = (box["start"][0], target) if own else (0, target.unsqueeze(0))
    for rank, row in enumerate(rows, first):
        total = torch.zeros_like(row, dtype=torch.float64)
        for residual in range(rank, max(1, saved), max(1, own)):
            values = torch.empty_like(row)
            if saved:
                read({**block, "start": [residual, *block["start"]], "shape": [1, *block["shape"]]}, values.unsqueeze(0))
            else:
                read(block, values)
            total += values
        row.copy_(total)
