"""
Pipeline rank 0 of 1: embed, layers.0, head.

Written by lockstep: change the job, not this file. Every function is a segment of the program, every line one of
its instructions; stage0.json says when each is called and with which tensors. Tensors are as one rank holds
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
    """Start of the step: begin embed.tokens and 11 more, in lists."""
    grad = ops.nothing(grad)
    return (grad,)


def load_tokens(here):
    """Data: load tokens."""
    tokens = here.load("tokens", (here.microbatch * 8, 0), (8, 4), "i32")
    return (tokens,)


def load_labels(here):
    """Data: load labels."""
    labels = here.load("labels", (here.microbatch * 8, 0), (8, 4), "i32")
    return (labels,)


def count(here, labels, count):
    """What the loss is divided by: count."""
    counted = ops.count_labels(labels)
    count = ops.accumulate_(count, counted)
    return (count,)


def embed_F(here, tokens, param_tokens):
    """Forward: embed.F."""
    embedded = ops.embed(tokens, param_tokens, first=here.at("tp") * 16)
    embedded_scattered = here.reduce_scatter(embedded, "tp", dim=1)
    embedded_scattered = here.wait(embedded_scattered)
    return (embedded_scattered,)


def layers_F(here, x, norm1_gain, attn_q_k_v, attn_out, norm2_gain, mlp_gate_up, mlp_down):
    """Forward: layers.F."""
    norm1, x_scale = ops.rms_norm_and_scale(x, norm1_gain, eps=1e-5)
    norm1_gathered = here.all_gather(norm1, "tp", dim=1)
    norm1_gathered = here.wait(norm1_gathered)
    q_k_v = ops.contract("b s e, e n -> b s n", norm1_gathered, attn_q_k_v)
    q_rope, k_rope, v = ops.turned_apart(q_k_v, ((1, 2, 4), (1, 4), (1, 4)), 2, theta=10000)
    attention, attention_lse = ops.attention(q_rope, k_rope, v)
    attended = ops.contract("b s k g d, k g d e -> b s e", attention, attn_out)
    attended_scattered = here.reduce_scatter(attended, "tp", dim=1)
    attended_scattered = here.wait(attended_scattered)
    add = x + attended_scattered
    norm2, add_scale = ops.rms_norm_and_scale(add, norm2_gain, eps=1e-5)
    norm2_gathered = here.all_gather(norm2, "tp", dim=1)
    norm2_gathered = here.wait(norm2_gathered)
    gate_up = ops.contract("b s e, e n -> b s n", norm2_gathered, mlp_gate_up)
    gate, up = ops.apart(gate_up, (8,), (8,))
    swiglu = ops.swiglu(gate, up)
    down = ops.contract("b s f, f e -> b s e", swiglu, mlp_down)
    down_scattered = here.reduce_scatter(down, "tp", dim=1)
    down_scattered = here.wait(down_scattered)
    add_1 = add + down_scattered
    return (
        add_1,
        norm1, q_rope, k_rope, v, attention, attention_lse, add, norm2, gate, up, swiglu,
        x_scale, add_scale,
    )


def head_FB(here, labels, x, norm_gain, out, grad_out, grad_norm_gain, loss, count):
    """Backward: head.FB."""
    norm, x_scale = ops.rms_norm_and_scale(x, norm_gain, eps=1e-5)
    norm_gathered = here.all_gather(norm, "tp", dim=1)
    norm_gathered = here.wait(norm_gathered)
    loss_2, d_norm, d_out = ops.cross_entropy(
        norm_gathered, out, labels, count, first=here.at("tp") * 16, here=here, group="tp",
    )
    loss = ops.accumulate_(loss, loss_2)
    d_norm_scattered = here.reduce_scatter(d_norm, "tp", dim=1)
    grad_out = ops.accumulate_(grad_out, d_out)
    d_norm_scattered = here.wait(d_norm_scattered)
    d_x, d_norm_gain = ops.rms_norm_grads(d_norm_scattered, x, norm_gain, x_scale)
    grad_norm_gain = ops.accumulate_(grad_norm_gain, d_norm_gain)
    return (d_x, grad_out, grad_norm_gain, loss)


def layers_B(
    here,
    d_x_out, x,
    mlp_down, mlp_gate_up, norm2_gain, attn_out, attn_q_k_v, norm1_gain,
    norm2, swiglu, gate, up, add, norm1, attention, q_rope, k_rope, v, attention_lse,
    grad_mlp_down, grad_mlp_gate_up, grad_norm2_gain, grad_attn_out, grad_attn_q_k_v, grad_norm1_gain,
    add_scale, x_scale,
):
    """Backward: layers.B."""
    d_x_out_gathered = here.all_gather(d_x_out, "tp", dim=1)
    norm2_gathered = here.all_gather(norm2, "tp", dim=1)
    d_x_out_gathered = here.wait(d_x_out_gathered)
    d_swiglu = ops.contract("b s e, f e -> b s f", d_x_out_gathered, mlp_down)
    d_mlp_down = ops.contract("b s f, b s e -> f e", swiglu, d_x_out_gathered)
    grad_mlp_down = ops.accumulate_(grad_mlp_down, d_mlp_down)
    d_gate_up = ops.swiglu_grad_beside(d_swiglu, gate, up)
    norm2_gathered = here.wait(norm2_gathered)
    d_mlp_gate_up = ops.contract("b s e, b s n -> e n", norm2_gathered, d_gate_up)
    grad_mlp_gate_up = ops.accumulate_(grad_mlp_gate_up, d_mlp_gate_up)
    d_norm2_sum = ops.contract("b s n, e n -> b s e", d_gate_up, mlp_gate_up)
    d_norm2_sum_scattered = here.reduce_scatter(d_norm2_sum, "tp", dim=1)
    d_norm2_sum_scattered = here.wait(d_norm2_sum_scattered)
    d_add_sum, d_norm2_gain = ops.rms_norm_grads(
        d_norm2_sum_scattered, add, norm2_gain, add_scale, plus=d_x_out,
    )
    grad_norm2_gain = ops.accumulate_(grad_norm2_gain, d_norm2_gain)
    d_add_sum_gathered = here.all_gather(d_add_sum, "tp", dim=1)
    norm1_gathered = here.all_gather(norm1, "tp", dim=1)
    d_add_sum_gathered = here.wait(d_add_sum_gathered)
    d_attention = ops.contract("b s e, k g d e -> b s k g d", d_add_sum_gathered, attn_out)
    d_attn_out = ops.contract("b s k g d, b s e -> k g d e", attention, d_add_sum_gathered)
    grad_attn_out = ops.accumulate_(grad_attn_out, d_attn_out)
    d_q_rope, d_k_rope, d_v = ops.attention_grad(d_attention, q_rope, k_rope, v, attention, attention_lse)
    norm1_gathered = here.wait(norm1_gathered)
    d_q_k_v = ops.turned_beside((d_q_rope, d_k_rope, d_v), (True, True, False), theta=10000, inverse=True)
    d_attn_q_k_v = ops.contract("b s e, b s n -> e n", norm1_gathered, d_q_k_v)
    grad_attn_q_k_v = ops.accumulate_(grad_attn_q_k_v, d_attn_q_k_v)
    d_norm1_sum = ops.contract("b s n, e n -> b s e", d_q_k_v, attn_q_k_v)
    d_norm1_sum_scattered = here.reduce_scatter(d_norm1_sum, "tp", dim=1)
    d_norm1_sum_scattered = here.wait(d_norm1_sum_scattered)
    d_x_sum, d_norm1_gain = ops.rms_norm_grads(d_norm1_sum_scattered, x, norm1_gain, x_scale, plus=d_add_sum)
    grad_norm1_gain = ops.accumulate_(grad_norm1_gain, d_norm1_gain)
    return (
        d_x_sum,
        grad_mlp_down, grad_mlp_gate_up, grad_norm2_gain, grad_attn_out, grad_attn_q_k_v, grad_norm1_gain,
    )


def reduce_head_layers(here, head_norm_gain, layers_norm2_gain, layers_norm1_gain):
    """Summed over those who hold a part: reduce head, layers."""
    summed = here.sum_all_([head_norm_gain, layers_norm2_gain, layers_norm1_gain], "tp")
    return (summed,)


def embed_B(here, tokens, d_x_out, grad_tokens):
    """Backward: embed.B."""
    d_x_out_gathered = here.all_gather(d_x_out, "tp", dim=1)
    d_x_out_gathered = here.wait(d_x_out_gathered)
    d_tokens_1 = ops.embed_grad(tokens, d_x_out_gathered, rows=16, first=here.at("tp") * 16)
    grad_tokens = ops.accumulate_(grad_tokens, d_tokens_1)
    return (grad_tokens,)


def norm(here, grad, normSquared):
    """Norm of the gradient: norm embed.tokens and 8 more, in lists."""
    normSquared = ops.add_squares_(normSquared, grad)
    return (normSquared,)


def norm_2(here, grad, normSquared):
    """Norm of the gradient: norm layers.norm1.gain and 2 more, in lists."""
    normSquared = ops.add_squares_(normSquared, grad, here.at("tp") == 0)
    return (normSquared,)


def sum_normSquared(here, normSquared):
    """Summed over those who hold a part: sum normSquared."""
    normSquared_reduced = here.all_reduce_(normSquared, "tp")
    normSquared_reduced = here.wait(normSquared_reduced)
    return (normSquared_reduced,)


def load_lr(here):
    """Data: load lr."""
    lr = here.load("lr")
    return (lr,)


def update(here, lr, param, grad, m, v, normSquared, taken):
    """Optimizer: update embed.tokens and 11 more, in lists."""
    param, m, v = ops.adamw_(
        param, m, v, grad, verdict=here.verdict(normSquared), lr=lr, taken=taken, betas=(0.9, 0.95), eps=1e-8,
        decay=0,
    )
    return (param, m, v)


def take(here, normSquared, taken):
    """Optimizer: take."""
    taken = ops.take_(taken, here.verdict(normSquared))
    return (taken,)
