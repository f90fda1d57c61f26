"""
Triton kernels for elementwise work that torch.compile would run in two passes over memory. Each computes the formula next to it, which
is used everywhere else.
"""
from typing import List, Sequence, Tuple

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BLOCK = 1024
# Smaller tensors are not worth a kernel launch each.
LARGE = 1 << 20


def swiglu_grad(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    sigmoid = torch.sigmoid(gate)
    silu = gate * sigmoid
    return dy * up * (sigmoid + silu * (1 - sigmoid)), dy * silu


def swiglu_grad_cat(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Gradients of gate and up, concatenated along the last dim."""
    if _use_triton(dy, gate, up):
        return torch.ops.lockstep.swiglu_grad(dy, gate, up)[0]
    return torch.cat(swiglu_grad(dy, gate, up), -1)


def swiglu_and_grad_cat(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The same, and silu(gate) * up, recomputed."""
    if _use_triton(dy, gate, up):
        return torch.ops.lockstep.swiglu_and_grad(dy, gate, up)
    return torch.cat(swiglu_grad(dy, gate, up), -1), torch.nn.functional.silu(gate) * up


def _use_triton(*operands: torch.Tensor) -> bool:
    return triton is not None and all([x.is_cuda and x.dtype == torch.bfloat16 for x in operands])


def _rows(x: torch.Tensor) -> torch.Tensor:
    """[rows, width], with contiguous rows, whose stride may exceed the width."""
    rows = x.flatten(0, -2)
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _out_like(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    *rows, width = dy.shape
    return dy.new_empty((*rows, 2 * width)), dy.new_empty((*rows, width))


def _grad_like(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    return _out_like(dy, gate, up)[0], dy.new_empty(0)


def _launch(dy, gate, up, out, recomputed) -> None:
    dy, gate, up = _rows(dy), _rows(gate), _rows(up)
    rows, width = dy.shape
    _swiglu_grad_kernel[(rows, triton.cdiv(width, BLOCK))](
        dy, gate, up, out, recomputed, width, dy.stride(0), gate.stride(0), up.stride(0), RECOMPUTE=recomputed.numel() > 0, BLOCK=BLOCK
    )


def _swiglu_and_grad(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    out, recomputed = _out_like(dy, gate, up)
    _launch(dy, gate, up, out, recomputed)
    return out, recomputed


def _swiglu_grad_only(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    out, recomputed = _grad_like(dy, gate, up)
    _launch(dy, gate, up, out, recomputed)
    return out, recomputed


def can_rotate(parts: Sequence[torch.Tensor], half: int) -> bool:
    """Heads of one power-of-two dim."""
    return _use_triton(*parts) and half & (half - 1) == 0 and all([x.shape[-1] == 2 * half for x in parts])


def _rotary_cat_like(parts: List[torch.Tensor], rotated: List[bool], cos_sin: torch.Tensor, inverse: bool) -> torch.Tensor:
    """tensors are [batch, seq, heads, headDim], cos_sin is [cos or sin, seq, headDim / 2]."""
    batch, seq = parts[0].shape[:2]
    return parts[0].new_empty((batch, seq, sum([x.shape[2] * x.shape[3] for x in parts])))


def _rotary_cat(parts: List[torch.Tensor], rotated: List[bool], cos_sin: torch.Tensor, inverse: bool) -> torch.Tensor:
    out, column = _rotary_cat_like(parts, rotated, cos_sin, inverse), 0
    for x, is_rotated in zip(parts, rotated):
        x = x if x.stride(-1) == 1 else x.contiguous()
        batch, seq, heads, head_dim = x.shape
        _rotate_kernel[(batch * seq, triton.cdiv(heads, max(1, BLOCK // head_dim)))](
            x, out, cos_sin, seq, heads, column, out.shape[-1], x.stride(0), x.stride(1), x.stride(2),
            DIRECTION=(-1 if inverse else 1) * is_rotated, HALF=head_dim // 2, HEADS=max(1, BLOCK // head_dim),
        )
        column += heads * head_dim
    return out


def _rotate_(x: torch.Tensor, heads: int, head_dim: int, cos_sin: torch.Tensor) -> None:
    """In-place rotary embedding of joined [batch, seq, width]: rotates the first `heads` heads of each row."""
    batch, seq, width = x.shape
    each = max(1, BLOCK // head_dim)
    _rotate_kernel[(batch * seq, triton.cdiv(heads, each))](
        x, x, cos_sin, seq, heads, 0, width, seq * width, width, head_dim, DIRECTION=1, HALF=head_dim // 2, HEADS=each
    )


def squared_norms(tensors: List[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """The sum of squares of all elements, for the grad norm. torch._foreach_norm reaches half the memory bandwidth."""
    large = [x for x in tensors if triton is not None and dtype == torch.float32 and x.numel() >= LARGE and x.is_contiguous()]
    places = {id(x) for x in large}
    small = [x for x in tensors if id(x) not in places]
    sums = [torch.stack(torch._foreach_norm(small, 2, dtype=dtype)).square().sum()] if small else []
    if large:
        programs = 8 * torch.cuda.get_device_properties(large[0].device).multi_processor_count
        parts = torch.empty((len(large), programs), dtype=dtype, device=large[0].device)
        for x, into in zip(large, parts):
            _squares_kernel[(programs,)](x, into, x.numel(), BLOCK=4 * BLOCK, num_warps=8)
        sums.append(parts.sum())
    return torch.stack(sums).sum()


if triton is not None and hasattr(torch.library, "custom_op"):

    @triton.jit
    def _squares_kernel(x, into, count, BLOCK: tl.constexpr):
        total = tl.zeros((BLOCK,), tl.float32)
        for first in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
            place = first + tl.arange(0, BLOCK)
            value = tl.load(x + place, mask=place < count, other=0.0, eviction_policy="evict_first").to(tl.float32)
            total += value * value
        tl.store(into + tl.program_id(0), tl.sum(total))

    @triton.jit
    def _swiglu_grad_kernel(
        dy, gate, up, out, recomputed, width, dy_row, gate_row, up_row, RECOMPUTE: tl.constexpr, BLOCK: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = column < width
        grad = tl.load(dy + row * dy_row + column, mask=inside).to(tl.float32)
        x = tl.load(gate + row * gate_row + column, mask=inside).to(tl.float32)
        y = tl.load(up + row * up_row + column, mask=inside).to(tl.float32)
        sigmoid = tl.sigmoid(x)
        silu = x * sigmoid
        place = out + row * 2 * width + column
        tl.store(place, (grad * y * (sigmoid + silu * (1 - sigmoid))).to(out.dtype.element_ty), mask=inside)
        tl.store(place + width, (grad * silu).to(out.dtype.element_ty), mask=inside)
        if RECOMPUTE:
            tl.store(recomputed + row * width + column, (silu * y).to(recomputed.dtype.element_ty), mask=inside)

    @triton.jit
    def _rotate_kernel(
        x, out, cos_sin, seq, heads, column, width, batch_step, seq_step, head_step,
        DIRECTION: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr,
    ):
        token = tl.program_id(0).to(tl.int64)
        head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
        pair = tl.arange(0, HALF)[None, :]
        inside = (head < heads) & (pair < HALF)
        place = x + (token // seq) * batch_step + (token % seq) * seq_step + head * head_step + pair
        a = tl.load(place, mask=inside).to(tl.float32)
        b = tl.load(place + HALF, mask=inside).to(tl.float32)
        if DIRECTION != 0:
            angle = cos_sin + (token % seq) * HALF + pair
            cos, sin = tl.load(angle), DIRECTION * tl.load(angle + seq * HALF)
            a, b = a * cos - b * sin, b * cos + a * sin
        into = out + token * width + column + head * 2 * HALF + pair
        tl.store(into, a.to(out.dtype.element_ty), mask=inside)
        tl.store(into + HALF, b.to(out.dtype.element_ty), mask=inside)

    torch.library.custom_op("lockstep::rotate_", _rotate_, mutates_args=("x",))
    torch.library.custom_op("lockstep::rotary_cat", _rotary_cat, mutates_args=()).register_fake(_rotary_cat_like)
    torch.library.custom_op("lockstep::swiglu_grad", _swiglu_grad_only, mutates_args=()).register_fake(_grad_like)
    torch.library.custom_op("lockstep::swiglu_and_grad", _swiglu_and_grad, mutates_args=()).register_fake(_out_like)
else:
    triton = None
