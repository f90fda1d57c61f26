"""
Residuals of error feedback, from a checkpoint of one number of data ranks to another. Each rank has its own, and only their sum is
owed: residual i of the checkpoint is added to that of rank i mod n. So the same plan is given back what it had, more ranks begin with
zeros, and fewer share the rest.
"""
from typing import Callable, Dict, List

import torch


def sizes_of(dims: List[Dict]) -> List[int]:
    """Without how many residuals are stacked."""
    return [dim["size"] for dim in dims if dim["name"] != "addend"]


def stacked(dims: List[Dict]) -> int:
    """How many residuals are stacked; 0: the tensor is no stack."""
    return next((dim["size"] for dim in dims if dim["name"] == "addend"), 0)


def redistribute(
    box: Dict, own: int, held: int, target: torch.Tensor, read: Callable[[Dict, torch.Tensor], None]
) -> None:
    """`target` is the box of a stack of `own` residuals; the checkpoint has `held`, of which `read` reads a box."""
    block = {**box, "start": box["start"][1:], "shape": box["shape"][1:]} if own else box
    first, rows = (box["start"][0], target) if own else (0, target.unsqueeze(0))
    for rank, row in enumerate(rows, first):
        total = torch.zeros_like(row, dtype=torch.float64)
        for residual in range(rank, max(1, held), max(1, own)):
            values = torch.empty_like(row)
            if held:
                read({**block, "start": [residual, *block["start"]], "shape": [1, *block["shape"]]}, values.unsqueeze(0))
            else:
                read(block, values)
            total += values
        row.copy_(total)
