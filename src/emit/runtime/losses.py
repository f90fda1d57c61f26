"""
Cross entropy where forward and backward of a model's last block follow each other: the product with the classes, the loss and
its gradients, for a few tokens at a time, so that the logits of all of them never exist at once.
"""
from typing import Optional

import torch

from . import products
from .dtypes import DTYPES
from .optimizer import wide

# Bytes of logits at a time: fewer tokens would spend more on adding up the gradient of the classes.
MOST = 1 << 30


def owned(ids: torch.Tensor, first: int, count: int):
    """Which of them a rank owns that has `count` from `first` on, and their places there."""
    row = ids - first
    mine = (row >= 0) & (row < count)
    return mine, torch.where(mine, row, torch.zeros_like(row))


def sum_exp(logits: torch.Tensor, greatest: torch.Tensor) -> torch.Tensor:
    return torch.exp(wide(logits) - greatest.unsqueeze(-1)).sum(-1)


def pick(logits: torch.Tensor, labels: torch.Tensor, first: Optional[int] = None) -> torch.Tensor:
    """The logit of each label; 0 where another rank owns it or the label is ignored."""
    mine, row = owned(labels, first or 0, logits.shape[-1])
    return wide(logits.gather(-1, row.unsqueeze(-1)).squeeze(-1)) * mine


def token_loss(greatest, sums, picked, labels) -> torch.Tensor:
    loss = torch.log(sums) + greatest - picked
    return torch.where(labels >= 0, loss, torch.zeros_like(loss)).sum()


def token_loss_grad(logits, greatest, sums, labels, count, first: Optional[int] = None) -> torch.Tensor:
    """(softmax - onehot) / count, 0 where the label is ignored."""
    share = torch.where(labels >= 0, 1 / count, torch.zeros_like(sums))
    softmax = torch.exp(wide(logits) - greatest.unsqueeze(-1)) * (share / sums).unsqueeze(-1)
    classes = torch.arange(logits.shape[-1], device=logits.device) + (first or 0)
    onehot = classes == labels.unsqueeze(-1)
    return (softmax - onehot * share.unsqueeze(-1)).to(logits.dtype)


def cross_entropy(x, table, labels, count, first: Optional[int] = None, dtype: Optional[str] = None, here=None, group: str = ""):
    """
    The loss of x [tokens, embed] over the classes of a table [classes, embed], and the gradients of both. `group` are the ranks
    that own the other classes; `dtype` is what the table's gradient is in, where that is not what goes in.
    """
    rows, ids = x.flatten(0, -2), labels.flatten()
    parts = -(-rows.shape[0] * table.shape[0] * x.element_size() // MOST)
    size = -(-rows.shape[0] // parts)
    wanted = x.dtype if dtype is None or x.dtype == torch.float64 else DTYPES[dtype]
    # Summed up over all tokens, and rounded once: by the product, where there is one.
    exact = wanted if parts == 1 else torch.promote_types(x.dtype, torch.float32)
    loss, slopes, d_table = 0.0, [], None
    for part, of in zip(rows.split(size), ids.split(size)):
        logits = products.mm(part if d_table is None else _after(part, d_table), table.t())
        greatest = _greatest(logits) if here is None else here.wait(here.all_reduce_(_greatest(logits), group, "max"))
        sums = _sums(logits, greatest, of, first)
        sums, picked = (sums if here is None else here.wait(here.all_reduce_(sums, group))).unbind(0)
        loss = loss + token_loss(greatest, sums, picked, of)
        slope = token_loss_grad(logits, greatest, sums, of, count, first)
        slopes.append(products.mm(slope, table))
        d_table = products.mm(slope.t(), part, exact, plus=d_table)
    return loss, torch.cat(slopes).view_as(x), d_table.to(wanted)


def _copy(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _after(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """x, not before the other is there: torch.compile puts work in an order of its own, and would make all logits first."""
    return torch.ops.lockstep.after(x, other) if x.is_cuda and hasattr(torch.library, "custom_op") else x


if hasattr(torch.library, "custom_op"):
    torch.library.custom_op("lockstep::after", _copy, mutates_args=()).register_fake(_copy)


def _greatest(logits: torch.Tensor) -> torch.Tensor:
    return wide(logits.amax(-1))


def _sums(logits, greatest, labels, first: Optional[int]) -> torch.Tensor:
    return torch.stack((sum_exp(logits, greatest), pick(logits, labels, first)))
