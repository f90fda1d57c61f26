"""
Every operator of the program in PyTorch, with forward and backward written out. The reference is Lockstep's interpreter, and the tests
compare each op with it. A trailing underscore marks in-place ops, as in PyTorch: the first operands are modified.
"""
from typing import Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

from .attention import attention, attention_grad, attention_merge  # noqa: F401  (generated code calls ops.attention)
from .dtypes import DTYPES
from .einsum import cat, einsum, split  # noqa: F401
from .fp8 import abs_max, quantize, quantize_with_amax, scaled_einsum, scaled_grouped_gemm, scaled_grouped_gemm_weight_grad, transpose_quantized, update_scale_  # noqa: F401
from .int8 import dequantize_int8, quantize_int8  # noqa: F401
from .kernels import swiglu_and_grad_cat, swiglu_grad, swiglu_grad_cat  # noqa: F401
from .losses import cross_entropy, local_ids, sum_exp, target_logit, token_loss, token_loss_grad  # noqa: F401
from .moe import *  # noqa: F401,F403
from .newton_schulz import newton_schulz, newton_schulz_flat, stack, unstack  # noqa: F401
from .norms import last_dims, leading_dims, rms_norm, rms_norm_and_scale, rms_norm_grads, rms_norm_input_grad  # noqa: F401
from .norms import rms_norm_weight_grad, rms_scale  # noqa: F401
from .onebit import onebit_momentum_, pack_signs, unpack_signs  # noqa: F401
from .optimizer import accumulate_max_  # noqa: F401
from .optimizer import accumulate_, adafactor_, adafactor_squares, adamw_, add_squares_, factored_squares  # noqa: F401
from .optimizer import ema_update_, lamb_, lamb_squares, lion_, muon_, muon_momentum  # noqa: F401
from .optimizer import count_applied_, set_to_none, sgd_, upcast, zero_  # noqa: F401
from .powersgd import copy_if_, gram_schmidt, subtract_  # noqa: F401
from .rope import rope, rotary_cat, split_rotary  # noqa: F401
from .scaler import mask_above_limit, rescale_as_deepspeed_, rescale_as_megatron_, rescale_as_torch_, unscale_  # noqa: F401
from .topk import compress_topk, decompress_topk  # noqa: F401


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


def cat_broadcast(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Concatenates along the last dim. Dims of size 1 in one of the two are expanded first."""
    rows = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return torch.cat((a.expand(*rows, -1), b.expand(*rows, -1)), -1)


def cat_broadcast_grad(dout: torch.Tensor, sizes: Sequence[int], sum_dims: Sequence[Sequence[int]] = ((), ())) -> Tuple[torch.Tensor, ...]:
    """Gradients of the operands, with these widths; `sum_dims`: for each operand, the dims along which it was expanded."""
    pieces = zip(dout.split(list(sizes), -1), sum_dims)
    return tuple(upcast(piece).sum(dims).to(dout.dtype) if dims else piece.contiguous() for piece, dims in pieces)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, dims: int = 1) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-dims:], weight, bias, eps)


def _standardized(x: torch.Tensor, eps: float, dims: int):
    full = upcast(x)
    variance, mean = torch.var_mean(full, last_dims(dims), unbiased=False, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    return (full - mean) * scale, scale


def layer_norm_input_grad(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float, dims: int = 1) -> torch.Tensor:
    xhat, scale = _standardized(x, eps, dims)
    g = upcast(dy) * weight
    mean = g.mean(last_dims(dims), keepdim=True)
    return (scale * (g - mean - xhat * (g * xhat).mean(last_dims(dims), keepdim=True))).to(dy.dtype)


def layer_norm_weight_grad(dy: torch.Tensor, x: torch.Tensor, eps: float, dims: int = 1) -> Tuple[torch.Tensor, torch.Tensor]:
    xhat, _ = _standardized(x, eps, dims)
    full = upcast(dy)
    return (full * xhat).sum(leading_dims(x, dims)), full.sum(leading_dims(x, dims))


def dropout(x: torch.Tensor, rate: float, mask: torch.Tensor) -> torch.Tensor:
    """Dropout with a keep mask. The backward is the same function."""
    return torch.where(mask, x / (1 - rate), torch.zeros_like(x))


def embed(ids: torch.Tensor, table: torch.Tensor, first: Optional[int] = None) -> torch.Tensor:
    """Embedding lookup. In a vocab-parallel table this rank has rows from `first` on; ids of other ranks give 0."""
    if first is None:
        return F.embedding(ids, table)
    is_local, row = local_ids(ids, first, table.shape[0])
    return F.embedding(row, table) * is_local.unsqueeze(-1)


def embed_grad(ids: torch.Tensor, dout: torch.Tensor, rows: int, first: Optional[int] = None) -> torch.Tensor:
    if first is not None:
        is_local, ids = local_ids(ids, first, rows)
        dout = dout * is_local.unsqueeze(-1)
    return torch.ops.aten.embedding_dense_backward(upcast(dout), ids, rows, -1, False)


def count_labels(labels: torch.Tensor) -> torch.Tensor:
    return (labels >= 0).sum()


def squared_error(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (upcast(x) - target).square().sum()


def squared_error_grad(x: torch.Tensor, target: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return (2 * (upcast(x) - target) / count).to(x.dtype)


def count_elements(target: torch.Tensor) -> int:
    return target.numel()
