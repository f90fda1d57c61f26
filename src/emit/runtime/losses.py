"""
Chunked linear cross entropy: LM head, loss and gradients of a few tokens at a time, so that the full logits never exist. The forward
and backward of the last block follow each other, so the gradients of a chunk are computed with its loss.
"""
from typing import Optional

import torch

from . import products
from .dtypes import DTYPES
from .optimizer import wide

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Bytes of logits per chunk: smaller chunks would spend more time on accumulating the gradient of the LM head.
MOST = 1 << 30
# Logits per block of the Triton kernel.
BLOCK = 4096


def owned(ids: torch.Tensor, first: int, count: int):
    """Which ids belong to this rank's shard of `count` rows from `first` on, and their local indices."""
    row = ids - first
    mine = (row >= 0) & (row < count)
    return mine, torch.where(mine, row, torch.zeros_like(row))


def sum_exp(logits: torch.Tensor, greatest: torch.Tensor) -> torch.Tensor:
    return torch.exp(wide(logits) - greatest.unsqueeze(-1)).sum(-1)


def pick(logits: torch.Tensor, labels: torch.Tensor, first: Optional[int] = None) -> torch.Tensor:
    """The logit of each label; 0 if another rank has it or the label is ignored."""
    mine, row = owned(labels, first or 0, logits.shape[-1])
    return wide(logits.gather(-1, row.unsqueeze(-1)).squeeze(-1)) * mine


def token_loss(greatest, sums, picked, labels) -> torch.Tensor:
    loss = torch.log(sums) + greatest - picked
    return torch.where(labels >= 0, loss, torch.zeros_like(loss)).sum()


def token_loss_grad(logits, greatest, sums, labels, count, first: Optional[int] = None) -> torch.Tensor:
    """(softmax - onehot) / count, 0 if the label is ignored."""
    share = torch.where(labels >= 0, 1 / count, torch.zeros_like(sums))
    softmax = torch.exp(wide(logits) - greatest.unsqueeze(-1)) * (share / sums).unsqueeze(-1)
    classes = torch.arange(logits.shape[-1], device=logits.device) + (first or 0)
    onehot = classes == labels.unsqueeze(-1)
    return (softmax - onehot * share.unsqueeze(-1)).to(logits.dtype)


def cross_entropy(x, table, labels, count, first: Optional[int] = None, dtype: Optional[str] = None, here=None, group: str = ""):
    """
    Loss of x [tokens, embed] with an LM head [classes, embed], and the gradients of both. `group`: the ranks of a vocab-parallel head;
    `dtype`: of the head's gradient, by default that of the operands.
    """
    rows, ids = x.flatten(0, -2), labels.flatten()
    parts = -(-rows.shape[0] * table.shape[0] * x.element_size() // MOST)
    size = -(-rows.shape[0] // parts)
    wanted = x.dtype if dtype is None or x.dtype == torch.float64 else DTYPES[dtype]
    # Accumulated over all tokens and rounded once; by the GEMM itself, if it can.
    exact = wanted if parts == 1 else torch.promote_types(x.dtype, torch.float32)
    loss, slopes, d_table = 0.0, [], None
    for part, of in zip(rows.split(size), ids.split(size)):
        logits = products.mm(part if d_table is None else _after(part, d_table), table.t())
        lost, slope = _one_pass(logits, of, count) if here is None else _with_others(logits, of, count, first, here, group)
        loss = loss + lost
        slopes.append(products.mm(slope, table))
        d_table = products.mm(slope.t(), part, exact, plus=d_table)
    return loss, torch.cat(slopes).view_as(x), d_table.to(wanted)


def _with_others(logits, labels, count, first, here, group: str):
    """Vocab-parallel cross entropy (Megatron-LM, Shoeybi et al., 2019): the loss and its gradient by the logits."""
    greatest = here.wait(here.all_reduce_(_greatest(logits), group, "max"))
    sums, picked = here.wait(here.all_reduce_(_sums(logits, greatest, labels, first), group)).unbind(0)
    return token_loss(greatest, sums, picked, labels), token_loss_grad(logits, greatest, sums, labels, count, first)


def _one_pass(logits, labels, count):
    """The same with the full vocabulary here. On a GPU the gradient overwrites the logits; torch.compile would read them three times."""
    if triton is not None and logits.is_cuda and logits.dtype == torch.bfloat16 and logits.is_contiguous():
        return torch.ops.lockstep.token_losses_(logits, labels, (1 / count).float()).sum(), logits
    greatest = _greatest(logits)
    sums, picked = _sums(logits, greatest, labels, None).unbind(0)
    return token_loss(greatest, sums, picked, labels), token_loss_grad(logits, greatest, sums, labels, count)


def _copy(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _after(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """x, ordered after `other`: torch.compile reorders work, and would compute all logits first."""
    return torch.ops.lockstep.after(x, other) if x.is_cuda and hasattr(torch.library, "custom_op") else x


if hasattr(torch.library, "custom_op"):
    torch.library.custom_op("lockstep::after", _copy, mutates_args=()).register_fake(_copy)


def _greatest(logits: torch.Tensor) -> torch.Tensor:
    return wide(logits.amax(-1))


def _sums(logits, greatest, labels, first: Optional[int]) -> torch.Tensor:
    return torch.stack((sum_exp(logits, greatest), pick(logits, labels, first)))


def _losses(logits: torch.Tensor, labels: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.float32)


def _token_losses_(logits: torch.Tensor, labels: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Loss per token. Overwrites the logits with share * (softmax - onehot), 0 if the label is ignored."""
    losses, width = _losses(logits, labels, share), logits.shape[1]
    _softmax_slopes[(logits.shape[0],)](logits, labels, share, losses, width, BLOCK=min(BLOCK, triton.next_power_of_2(width)), num_warps=8)
    return losses


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _softmax_slopes(logits, labels, share, losses, width, BLOCK: tl.constexpr):
        token = tl.program_id(0).to(tl.int64)
        row, label, column = logits + token * width, tl.load(labels + token), tl.arange(0, BLOCK)
        # Online softmax: every lane has its own max and sum; the second read of the row hits the cache.
        top, total = tl.full((BLOCK,), -3.0e38, tl.float32), tl.zeros((BLOCK,), tl.float32)
        for first in range(0, width, BLOCK):
            inside = first + column < width
            x = tl.load(row + first + column, mask=inside, other=float("-inf"), eviction_policy="evict_last").to(tl.float32)
            higher = tl.maximum(top, x)
            total = total * tl.exp(top - higher) + tl.exp(x - higher)
            top = higher
        greatest = tl.max(top)
        whole = tl.sum(total * tl.exp(top - greatest))
        counts = label >= 0
        picked = tl.load(row + tl.where(counts, label, 0)).to(tl.float32)
        tl.store(losses + token, tl.where(counts, tl.log(whole) + greatest - picked, 0.0))
        each = tl.where(counts, tl.load(share), 0.0)
        tl.debug_barrier()  # no lane writes before the label's logit was read
        for first in range(0, width, BLOCK):
            inside = first + column < width
            x = tl.load(row + first + column, mask=inside, eviction_policy="evict_first").to(tl.float32)
            slope = tl.exp(x - greatest) * (each / whole) - tl.where(first + column == label, each, 0.0)
            tl.store(row + first + column, slope.to(logits.dtype.element_ty), mask=inside, eviction_policy="evict_first")

    torch.library.custom_op("lockstep::token_losses_", _token_losses_, mutates_args=("logits",)).register_fake(_losses)
else:
    triton = None
