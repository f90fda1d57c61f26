"""
Chunked linear cross entropy: LM head, loss and gradients of a few tokens at a time, so that the full logits never exist. The forward
and backward of the last block follow each other, so the gradients of a chunk are computed with its loss.
"""
from typing import Optional, Tuple

import torch

from . import gemm
from .dtypes import DTYPES
from .optimizer import upcast

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Bytes of logits per chunk: smaller chunks would spend more time on accumulating the gradient of the LM head.
MAX_CHUNK_BYTES = 1 << 30
# Logits per block of the Triton kernel.
BLOCK = 4096


def local_ids(ids: torch.Tensor, first: int, count: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Which ids belong to this rank's shard of `count` rows from `first` on, and their local indices."""
    row = ids - first
    is_local = (row >= 0) & (row < count)
    return is_local, torch.where(is_local, row, torch.zeros_like(row))


def sum_exp(logits: torch.Tensor, row_max: torch.Tensor) -> torch.Tensor:
    return torch.exp(upcast(logits) - row_max.unsqueeze(-1)).sum(-1)


def target_logit(logits: torch.Tensor, labels: torch.Tensor, first: Optional[int] = None) -> torch.Tensor:
    """The logit of each label; 0 if another rank has it or the label is ignored."""
    is_local, row = local_ids(labels, first or 0, logits.shape[-1])
    return upcast(logits.gather(-1, row.unsqueeze(-1)).squeeze(-1)) * is_local


def token_loss(row_max: torch.Tensor, sums: torch.Tensor, target: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    loss = torch.log(sums) + row_max - target
    return torch.where(labels >= 0, loss, torch.zeros_like(loss)).sum()


def token_loss_grad(
    logits: torch.Tensor, row_max: torch.Tensor, sums: torch.Tensor, labels: torch.Tensor, count: torch.Tensor,
    first: Optional[int] = None,
) -> torch.Tensor:
    """(softmax - onehot) / count, 0 if the label is ignored."""
    inv_count = torch.where(labels >= 0, 1 / count, torch.zeros_like(sums))
    softmax = torch.exp(upcast(logits) - row_max.unsqueeze(-1)) * (inv_count / sums).unsqueeze(-1)
    classes = torch.arange(logits.shape[-1], device=logits.device) + (first or 0)
    onehot = classes == labels.unsqueeze(-1)
    return (softmax - onehot * inv_count.unsqueeze(-1)).to(logits.dtype)


def cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, count: torch.Tensor, first: Optional[int] = None,
    dtype: Optional[str] = None, ctx=None, group: str = "",
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Loss of x [tokens, embed] with an LM head [classes, embed], and the gradients of both. `group`: the ranks of a vocab-parallel head;
    `dtype`: of the head's gradient, by default that of the operands.
    """
    rows, ids = x.flatten(0, -2), labels.flatten()
    chunks = -(-rows.shape[0] * weight.shape[0] * x.element_size() // MAX_CHUNK_BYTES)
    size = -(-rows.shape[0] // chunks)
    grad_dtype = x.dtype if dtype is None or x.dtype == torch.float64 else DTYPES[dtype]
    # Accumulated over all tokens and rounded once; by the GEMM itself, if it can.
    sum_dtype = grad_dtype if chunks == 1 else torch.promote_types(x.dtype, torch.float32)
    loss, d_x, d_weight = 0.0, [], None
    for chunk, chunk_labels in zip(rows.split(size), ids.split(size)):
        logits = gemm.mm(chunk if d_weight is None else _order_after(chunk, d_weight), weight.t())
        chunk_loss, d_logits = _full_vocab(logits, chunk_labels, count) if ctx is None else _vocab_parallel(logits, chunk_labels, count, first, ctx, group)
        loss = loss + chunk_loss
        d_x.append(gemm.mm(d_logits, weight))
        d_weight = gemm.mm(d_logits.t(), chunk, sum_dtype, add=d_weight)
    return loss, torch.cat(d_x).view_as(x), d_weight.to(grad_dtype)


def _vocab_parallel(logits, labels, count, first, ctx, group: str):
    """Vocab-parallel cross entropy (Megatron-LM, Shoeybi et al., 2019): the loss and its gradient by the logits."""
    row_max = ctx.wait(ctx.all_reduce_(_row_max(logits), group, "max"))
    sums, target = ctx.wait(ctx.all_reduce_(_sums(logits, row_max, labels, first), group)).unbind(0)
    return token_loss(row_max, sums, target, labels), token_loss_grad(logits, row_max, sums, labels, count, first)


def _full_vocab(logits, labels, count):
    """The same with the full vocabulary here. On a GPU the gradient overwrites the logits; torch.compile would read them three times."""
    if triton is not None and logits.is_cuda and logits.dtype == torch.bfloat16 and logits.is_contiguous():
        return torch.ops.lockstep.token_losses_(logits, labels, (1 / count).float()).sum(), logits
    row_max = _row_max(logits)
    sums, target = _sums(logits, row_max, labels, None).unbind(0)
    return token_loss(row_max, sums, target, labels), token_loss_grad(logits, row_max, sums, labels, count)


def _clone(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _order_after(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """x, ordered after `other`: torch.compile reorders work, and would compute all logits first."""
    return torch.ops.lockstep.after(x, other) if x.is_cuda and hasattr(torch.library, "custom_op") else x


if hasattr(torch.library, "custom_op"):
    torch.library.custom_op("lockstep::after", _clone, mutates_args=()).register_fake(_clone)


def _row_max(logits: torch.Tensor) -> torch.Tensor:
    return upcast(logits.amax(-1))


def _sums(logits, row_max, labels, first: Optional[int]) -> torch.Tensor:
    return torch.stack((sum_exp(logits, row_max), target_logit(logits, labels, first)))


def _losses_like(logits: torch.Tensor, labels: torch.Tensor, inv_count: torch.Tensor) -> torch.Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.float32)


def _token_losses_(logits: torch.Tensor, labels: torch.Tensor, inv_count: torch.Tensor) -> torch.Tensor:
    """Loss per token. Overwrites the logits with share * (softmax - onehot), 0 if the label is ignored."""
    losses, width = _losses_like(logits, labels, inv_count), logits.shape[1]
    _softmax_grad_kernel[(logits.shape[0],)](logits, labels, inv_count, losses, width, BLOCK=min(BLOCK, triton.next_power_of_2(width)), num_warps=8)
    return losses


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _softmax_grad_kernel(logits, labels, inv_count, losses, width, BLOCK: tl.constexpr):
        token = tl.program_id(0).to(tl.int64)
        row, label, column = logits + token * width, tl.load(labels + token), tl.arange(0, BLOCK)
        # Online softmax: every lane has its own max and sum; the second read of the row hits the cache.
        top, total = tl.full((BLOCK,), -3.0e38, tl.float32), tl.zeros((BLOCK,), tl.float32)
        for first in range(0, width, BLOCK):
            inside = first + column < width
            x = tl.load(row + first + column, mask=inside, other=float("-inf"), eviction_policy="evict_last").to(tl.float32)
            new_top = tl.maximum(top, x)
            total = total * tl.exp(top - new_top) + tl.exp(x - new_top)
            top = new_top
        row_max = tl.max(top)
        row_sum = tl.sum(total * tl.exp(top - row_max))
        is_counted = label >= 0
        target = tl.load(row + tl.where(is_counted, label, 0)).to(tl.float32)
        tl.store(losses + token, tl.where(is_counted, tl.log(row_sum) + row_max - target, 0.0))
        each = tl.where(is_counted, tl.load(inv_count), 0.0)
        tl.debug_barrier()  # no lane writes before the label's logit was read
        for first in range(0, width, BLOCK):
            inside = first + column < width
            x = tl.load(row + first + column, mask=inside, eviction_policy="evict_first").to(tl.float32)
            d_logits = tl.exp(x - row_max) * (each / row_sum) - tl.where(first + column == label, each, 0.0)
            tl.store(row + first + column, d_logits.to(logits.dtype.element_ty), mask=inside, eviction_policy="evict_first")

    torch.library.custom_op("lockstep::token_losses_", _token_losses_, mutates_args=("logits",)).register_fake(_losses_like)
else:
    triton = None
