"""
Every operator of the program in PyTorch, with forward and backward written out. The reference is Lockstep's interpreter, and the tests
compare each op with it. A trailing underscore marks in-place ops, as in PyTorch: the first operands are modified.
"""
from typing import Optional, Sequence

import torch
import torch.nn.functional as F

from .attention import attention, attention_grad, attention_merge  # noqa: F401  (emitted code calls them as ops.attention...)
from .codes import abs_max, coded, quantize, scaled_contract, scaled_expert_contract, scaled_expert_weight_grad, track_, turned  # noqa: F401
from .contract import apart, beside, contract  # noqa: F401
from .dtypes import DTYPES
from .experts import *  # noqa: F401,F403
from .factors import become_, deduct_, gram_schmidt  # noqa: F401
from .kernels import swiglu_and_grad_beside, swiglu_grad, swiglu_grad_beside  # noqa: F401
from .losses import cross_entropy, owned, pick, sum_exp, token_loss, token_loss_grad  # noqa: F401
from .norms import last, leading, rms_norm, rms_norm_and_scale, rms_norm_grads, rms_norm_input_grad  # noqa: F401
from .norms import rms_norm_weight_grad, rms_scale  # noqa: F401
from .optimizer import accumulate_max_  # noqa: F401
from .optimizer import accumulate_, adafactor_, adafactor_squares, adamw_, add_squares_, factor_squares  # noqa: F401
from .optimizer import average_, lamb_, lamb_squares, lion_, muon_, muon_mean  # noqa: F401
from .optimizer import nothing, sgd_, take_, wide, zero_  # noqa: F401
from .orthogonal import newton_schulz, newton_schulz_in_lines, stack, unstack  # noqa: F401
from .packing import pack, unpack  # noqa: F401
from .signs import blend_, pack_signs, unpack_signs  # noqa: F401
from .rope import rope, turned_apart, turned_beside  # noqa: F401
from .sparse import greatest, scatter  # noqa: F401
from .scaler import rescale_as_deepspeed_, rescale_as_megatron_, rescale_as_torch_, unscale_, weigh  # noqa: F401


def cast(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """Dtype cast. In an f64 run every floating-point dtype is f64."""
    return x if x.dtype == torch.float64 else x.to(DTYPES[dtype])


def copy(x, dtype: str):
    """A cast that always copies; of every tensor, if x is a list. Copies on the host of a GPU are pinned, since they are uploaded."""
    if isinstance(x, list):
        return [copy(each, dtype) for each in x]
    if x.device.type == "cpu" and torch.cuda.is_initialized():
        return torch.empty(x.shape, dtype=x.dtype if x.dtype == torch.float64 else DTYPES[dtype], pin_memory=True).copy_(x)
    return x.clone() if x.dtype == torch.float64 else x.to(DTYPES[dtype], copy=True)


def gelu(x: torch.Tensor, approximate: bool) -> torch.Tensor:
    return F.gelu(x, approximate="tanh" if approximate else "none")


def gelu_grad(dy: torch.Tensor, x: torch.Tensor, approximate: bool) -> torch.Tensor:
    return torch.ops.aten.gelu_backward(dy, x, approximate="tanh" if approximate else "none")


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def join(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Concatenates along the last dim. Dims of size 1 in one of the two are expanded first."""
    rows = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return torch.cat((a.expand(*rows, -1), b.expand(*rows, -1)), -1)


def join_grad(dout: torch.Tensor, sizes: Sequence[int], summed: Sequence[Sequence[int]] = ((), ())):
    """Gradients of the parts of a join with these widths; `summed`: for each part, the dims along which it was expanded."""
    parts = zip(dout.split(list(sizes), -1), summed)
    return tuple(wide(part).sum(dims).to(dout.dtype) if dims else part.contiguous() for part, dims in parts)


def layer_norm(x, gain, bias, eps: float, dims: int = 1) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-dims:], gain, bias, eps)


def _standardised(x: torch.Tensor, eps: float, dims: int):
    full = wide(x)
    variance, mean = torch.var_mean(full, last(dims), unbiased=False, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    return (full - mean) * scale, scale


def layer_norm_input_grad(dy, x, gain, eps: float, dims: int = 1) -> torch.Tensor:
    xhat, scale = _standardised(x, eps, dims)
    g = wide(dy) * gain
    mean = g.mean(last(dims), keepdim=True)
    return (scale * (g - mean - xhat * (g * xhat).mean(last(dims), keepdim=True))).to(dy.dtype)


def layer_norm_weight_grad(dy, x, eps: float, dims: int = 1):
    xhat, _ = _standardised(x, eps, dims)
    full = wide(dy)
    return (full * xhat).sum(leading(x, dims)), full.sum(leading(x, dims))


def dropout(x: torch.Tensor, rate: float, kept: torch.Tensor) -> torch.Tensor:
    """Dropout with the mask `kept`. The backward is the same function."""
    return torch.where(kept, x / (1 - rate), torch.zeros_like(x))


def embed(ids: torch.Tensor, table: torch.Tensor, first: Optional[int] = None) -> torch.Tensor:
    """Embedding lookup. In a vocab-parallel table this rank has rows from `first` on; ids of other ranks give 0."""
    if first is None:
        return F.embedding(ids, table)
    mine, row = owned(ids, first, table.shape[0])
    return F.embedding(row, table) * mine.unsqueeze(-1)


def embed_grad(ids: torch.Tensor, dout: torch.Tensor, rows: int, first: Optional[int] = None) -> torch.Tensor:
    if first is not None:
        mine, ids = owned(ids, first, rows)
        dout = dout * mine.unsqueeze(-1)
    return torch.ops.aten.embedding_dense_backward(wide(dout), ids, rows, -1, False)


def count_labels(labels: torch.Tensor) -> torch.Tensor:
    return (labels >= 0).sum()


def squared_error(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (wide(x) - target).square().sum()


def squared_error_grad(x: torch.Tensor, target: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return (2 * (wide(x) - target) / count).to(x.dtype)


def count_elements(target: torch.Tensor) -> int:
    return target.numel()
