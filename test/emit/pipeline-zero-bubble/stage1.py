"""
Pipeline rank 1 of 2: layers.1, head.

Written by lockstep: change the job, not this file. Every function is a segment of the program, every line one of
its instructions; stage1.json says when each is called and with which tensors. Tensors are as one rank holds
them. here is the rank: its place on the mesh, its peers, the step it is at.
"""
from runtime import ops


def clear_loss(here, loss):
    """Start of the step: clear loss."""
    loss = ops.zero_(loss)
    return (loss,)


def clear_count(here, count):
    """Start of the step: clear count."""
    count = ops.zero_(count)
    return (count,)


def clear_normSquared(here, normSquared):
    """Start of the step: clear normSquared."""
    normSquared = ops.zero_(normSquared)
    return (normSquared,)


def begin(here, grad):
    """Start of the step: begin layers.norm1.gain and 10 more, in lists."""
    grad = ops.nothing(grad)
    return (grad,)


def load_labels(here):
    """Data: load labels."""
    labels = here.load("labels", (here.microbatch * 4, 0), (4, 4), "i32")
    return (labels,)


def count(here, labels, count):
    """What the loss is divided by: count."""
    counted = ops.count_labels(labels)
    count = ops.accumulate_(count, counted)
    return (count,)


def layers_F(here, x, norm1_gain, attn_q_k_v, attn_out, norm2_gain, mlp_gate_up, mlp_down):
    """Forward: layers.F."""
    norm1, x_scale = ops.rms_norm_and_scale(x, norm1_gain, eps=1e-5)
    q_k_v = ops.contract("b s e, e n -> b s n", norm1, attn_q_k_v)
    q_rope, k_rope, v = ops.turned_apart(q_k_v, ((2, 2, 4), (2, 4), (2, 4)), 2, theta=10000)
    attention, attention_lse = ops.attention(q_rope, k_rope, v)
    add = ops.contract("b s k g d, k g d e -> b s e", attention, attn_out, plus=x)
    norm2, add_scale = ops.rms_norm_and_scale(add, norm2_gain, eps=1e-5)
    gate_up = ops.contract("b s e, e n -> b s n", norm2, mlp_gate_up)
    gate, up = ops.apart(gate_up, (16,), (16,))
    swiglu = ops.swiglu(gate, up)
    add_1 = ops.contract("b s f, f e -> b s e", swiglu, mlp_down, plus=add)
    return (
        add_1,
        norm1, q_rope, k_rope, v, attention, attention_lse, add, norm2, gate, up, swiglu,
        x_scale, add_scale,
    )


def head_F(here, labels, x, norm_gain, out, loss):
    """Forward: head.F."""
    norm, x_scale = ops.rms_norm_and_scale(x, norm_gain, eps=1e-5)
    logits = ops.contract("b s e, v e -> b s v", norm, out)
    max = logits.amax(2)
    sumExp = ops.sum_exp(logits, max)
    picked = ops.pick(logits, labels)
    loss_2 = ops.token_loss(max, sumExp, picked, labels)
    loss = ops.accumulate_(loss, loss_2)
    return (norm, logits, max, sumExp, loss, x_scale)


def head_I(here, labels, x, out, norm_gain, logits, max, sumExp, count, x_scale):
    """Gradient of the input: head.I."""
    d_logits = ops.token_loss_grad(logits, max, sumExp, labels, count)
    d_norm = ops.contract("b s v, v e -> b s e", d_logits, out)
    d_x = ops.rms_norm_input_grad(d_norm, x, norm_gain, x_scale)
    return (d_x, d_logits, d_norm)


def layers_I(
    here,
    d_x_out, x,
    mlp_down, mlp_gate_up, norm2_gain, attn_out, attn_q_k_v, norm1_gain,
    gate, up, add, q_rope, k_rope, v, attention, attention_lse,
    add_scale, x_scale,
):
    """Gradient of the input: layers.I."""
    d_swiglu = ops.contract("b s e, f e -> b s f", d_x_out, mlp_down)
    d_gate_up = ops.swiglu_grad_beside(d_swiglu, gate, up)
    d_gate, d_up = ops.apart(d_gate_up, (16,), (16,))
    d_norm2_sum = ops.contract("b s n, e n -> b s e", d_gate_up, mlp_gate_up)
    d_add = ops.rms_norm_input_grad(d_norm2_sum, add, norm2_gain, add_scale)
    d_add_sum = d_x_out + d_add
    d_attention = ops.contract("b s e, k g d e -> b s k g d", d_add_sum, attn_out)
    d_q_rope, d_k_rope, d_v = ops.attention_grad(d_attention, q_rope, k_rope, v, attention, attention_lse)
    d_k = ops.rope(d_k_rope, theta=10000, inverse=True)
    d_q = ops.rope(d_q_rope, theta=10000, inverse=True)
    d_q_k_v = ops.beside(d_q, d_k, d_v, after=2)
    d_norm1_sum = ops.contract("b s n, e n -> b s e", d_q_k_v, attn_q_k_v)
    d_x = ops.rms_norm_input_grad(d_norm1_sum, x, norm1_gain, x_scale)
    d_x_sum = d_add_sum + d_x
    return (d_x_sum, d_gate, d_up, d_norm2_sum, d_add_sum, d_v, d_k, d_q, d_norm1_sum)


def head_W(here, x, norm, d_logits, d_norm, grad_out, grad_norm_gain, x_scale):
    """Gradients of the weights: head.W."""
    d_out = ops.contract("b s e, b s v -> v e", norm, d_logits)
    grad_out = ops.accumulate_(grad_out, d_out)
    d_norm_gain = ops.rms_norm_weight_grad(d_norm, x, x_scale)
    grad_norm_gain = ops.accumulate_(grad_norm_gain, d_norm_gain)
    return (grad_out, grad_norm_gain)


def layers_W(
    here,
    d_x_out, x,
    swiglu, norm2, d_up, d_gate, d_norm2_sum, add, attention, d_add_sum, norm1, d_v, d_k, d_q, d_norm1_sum,
    grad_mlp_down, grad_mlp_gate_up, grad_norm2_gain, grad_attn_out, grad_attn_q_k_v, grad_norm1_gain,
    add_scale, x_scale,
):
    """Gradients of the weights: layers.W."""
    d_mlp_down = ops.contract("b s f, b s e -> f e", swiglu, d_x_out)
    grad_mlp_down = ops.accumulate_(grad_mlp_down, d_mlp_down)
    d_mlp_up = ops.contract("b s e, b s f -> e f", norm2, d_up)
    d_mlp_gate = ops.contract("b s e, b s f -> e f", norm2, d_gate)
    d_mlp_gate_up = ops.beside(d_mlp_gate, d_mlp_up, after=1)
    grad_mlp_gate_up = ops.accumulate_(grad_mlp_gate_up, d_mlp_gate_up)
    d_norm2_gain = ops.rms_norm_weight_grad(d_norm2_sum, add, add_scale)
    grad_norm2_gain = ops.accumulate_(grad_norm2_gain, d_norm2_gain)
    d_attn_out = ops.contract("b s k g d, b s e -> k g d e", attention, d_add_sum)
    grad_attn_out = ops.accumulate_(grad_attn_out, d_attn_out)
    d_attn_v = ops.contract("b s e, b s k d -> e k d", norm1, d_v)
    d_attn_k = ops.contract("b s e, b s k d -> e k d", norm1, d_k)
    d_attn_q = ops.contract("b s e, b s k g d -> e k g d", norm1, d_q)
    d_attn_q_k_v = ops.beside(d_attn_q, d_attn_k, d_attn_v, after=1)
    grad_attn_q_k_v = ops.accumulate_(grad_attn_q_k_v, d_attn_q_k_v)
    d_norm1_gain = ops.rms_norm_weight_grad(d_norm1_sum, x, x_scale)
    grad_norm1_gain = ops.accumulate_(grad_norm1_gain, d_norm1_gain)
    return (grad_mlp_down, grad_mlp_gate_up, grad_norm2_gain, grad_attn_out, grad_attn_q_k_v, grad_norm1_gain)


def norm(here, grad, normSquared):
    """Norm of the gradient: norm layers.norm1.gain and 10 more, in lists."""
    normSquared = ops.add_squares_(normSquared, grad)
    return (normSquared,)


def sum_normSquared(here, normSquared):
    """Summed over those who hold a part: sum normSquared."""
    normSquared_reduced = here.all_reduce_(normSquared, "pp")
    normSquared_reduced = here.wait(normSquared_reduced)
    return (normSquared_reduced,)


def load_lr(here):
    """Data: load lr."""
    lr = here.load("lr")
    return (lr,)


def update(here, lr, param, grad, m, v, normSquared, taken):
    """Optimizer: update layers.norm1.gain and 10 more, in lists."""
    param, m, v = ops.adamw_(
        param, m, v, grad, verdict=here.verdict(normSquared), lr=lr, taken=taken, betas=(0.9, 0.95), eps=1e-8,
        decay=0,
    )
    return (param, m, v)


def take(here, normSquared, taken):
    """Optimizer: take."""
    taken = ops.take_(taken, here.verdict(normSquared))
    return (taken,)
