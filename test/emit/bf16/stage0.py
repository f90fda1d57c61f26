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
    tokens = here.load("tokens", (here.microbatch * 8 + here.at("dp") * 4, 0), (4, 4), "i32")
    return (tokens,)


def load_labels(here):
    """Data: load labels."""
    labels = here.load("labels", (here.microbatch * 8 + here.at("dp") * 4, 0), (4, 4), "i32")
    return (labels,)


def count(here, labels, count):
    """What the loss is divided by: count."""
    counted = ops.count_labels(labels)
    count = ops.accumulate_(count, counted)
    return (count,)


def sum_count(here, count):
    """Summed over those who hold a part: sum count."""
    count_reduced = here.all_reduce_(count, "dp")
    count_reduced = here.wait(count_reduced)
    return (count_reduced,)


def gather_embed_layers_head(
    here,
    embed_tokens, layers_norm1_gain, layers_attn_q, layers_attn_k, layers_attn_v, layers_attn_out,
    layers_norm2_gain, layers_mlp_gate, layers_mlp_up, layers_mlp_down, head_norm_gain, head_out,
):
    """Parameters made whole: gather embed, layers, head."""
    gathered = here.gather_all_(
        [embed_tokens, layers_norm1_gain, layers_attn_q, layers_attn_k, layers_attn_v, layers_attn_out, layers_norm2_gain, layers_mlp_gate, layers_mlp_up, layers_mlp_down, head_norm_gain, head_out],
        "dp",
    )
    return (gathered,)


def embed_F(here, tokens, param_tokens):
    """Forward: embed.F."""
    embedded = ops.embed(tokens, param_tokens)
    return (embedded,)


def layers_F(here, x, norm1_gain, attn_q, attn_k, attn_v, attn_out, norm2_gain, mlp_gate, mlp_up, mlp_down):
    """Forward: layers.F."""
    norm1, x_scale = ops.rms_norm_and_scale(x, norm1_gain, eps=1e-5)
    q = ops.contract("b s e, e k g d -> b s k g d", norm1, attn_q)
    q_rope = ops.rope(q, theta=10000)
    k = ops.contract("b s e, e k d -> b s k d", norm1, attn_k)
    k_rope = ops.rope(k, theta=10000)
    v = ops.contract("b s e, e k d -> b s k d", norm1, attn_v)
    attention, attention_lse = ops.attention(q_rope, k_rope, v)
    add = ops.contract("b s k g d, k g d e -> b s e", attention, attn_out, plus=x)
    norm2, add_scale = ops.rms_norm_and_scale(add, norm2_gain, eps=1e-5)
    gate = ops.contract("b s e, e f -> b s f", norm2, mlp_gate)
    up = ops.contract("b s e, e f -> b s f", norm2, mlp_up)
    swiglu = ops.swiglu(gate, up)
    add_1 = ops.contract("b s f, f e -> b s e", swiglu, mlp_down, plus=add)
    return (
        add_1,
        norm1, q_rope, k_rope, v, attention, attention_lse, add, norm2, gate, up, swiglu,
        x_scale, add_scale,
    )


def head_FB(here, labels, x, norm_gain, out, grad_out, grad_norm_gain, loss, count):
    """Backward: head.FB."""
    norm, x_scale = ops.rms_norm_and_scale(x, norm_gain, eps=1e-5)
    loss_2, d_norm, d_out = ops.cross_entropy(norm, out, labels, count, dtype="f32")
    loss = ops.accumulate_(loss, loss_2)
    grad_out = ops.accumulate_(grad_out, d_out)
    d_x, d_norm_gain = ops.rms_norm_grads(d_norm, x, norm_gain, x_scale)
    grad_norm_gain = ops.accumulate_(grad_norm_gain, d_norm_gain)
    return (d_x, grad_out, grad_norm_gain, loss)


def layers_B(
    here,
    d_x_out, x,
    mlp_down, mlp_up, mlp_gate, norm2_gain, attn_out, attn_v, attn_k, attn_q, norm1_gain,
    swiglu, gate, up, norm2, add, attention, q_rope, k_rope, v, attention_lse, norm1,
    grad_mlp_down, grad_mlp_up, grad_mlp_gate, grad_norm2_gain, grad_attn_out, grad_attn_v, grad_attn_k,
    grad_attn_q, grad_norm1_gain,
    add_scale, x_scale,
):
    """Backward: layers.B."""
    d_swiglu = ops.contract("b s e, f e -> b s f", d_x_out, mlp_down)
    d_mlp_down = ops.contract("b s f, b s e -> f e", swiglu, d_x_out, dtype="f32")
    grad_mlp_down = ops.accumulate_(grad_mlp_down, d_mlp_down)
    d_gate, d_up = ops.swiglu_grad(d_swiglu, gate, up)
    d_mlp_up = ops.contract("b s e, b s f -> e f", norm2, d_up, dtype="f32")
    grad_mlp_up = ops.accumulate_(grad_mlp_up, d_mlp_up)
    d_norm2_1 = ops.contract("b s f, e f -> b s e", d_gate, mlp_gate)
    d_mlp_gate = ops.contract("b s e, b s f -> e f", norm2, d_gate, dtype="f32")
    grad_mlp_gate = ops.accumulate_(grad_mlp_gate, d_mlp_gate)
    d_norm2_sum = ops.contract("b s f, e f -> b s e", d_up, mlp_up, plus=d_norm2_1)
    d_add_sum, d_norm2_gain = ops.rms_norm_grads(d_norm2_sum, add, norm2_gain, add_scale, plus=d_x_out)
    grad_norm2_gain = ops.accumulate_(grad_norm2_gain, d_norm2_gain)
    d_attention = ops.contract("b s e, k g d e -> b s k g d", d_add_sum, attn_out)
    d_attn_out = ops.contract("b s k g d, b s e -> k g d e", attention, d_add_sum, dtype="f32")
    grad_attn_out = ops.accumulate_(grad_attn_out, d_attn_out)
    d_q_rope, d_k_rope, d_v = ops.attention_grad(d_attention, q_rope, k_rope, v, attention, attention_lse)
    d_norm1 = ops.contract("b s k d, e k d -> b s e", d_v, attn_v)
    d_attn_v = ops.contract("b s e, b s k d -> e k d", norm1, d_v, dtype="f32")
    grad_attn_v = ops.accumulate_(grad_attn_v, d_attn_v)
    d_k = ops.rope(d_k_rope, theta=10000, inverse=True)
    d_norm1_1 = ops.contract("b s k d, e k d -> b s e", d_k, attn_k)
    d_attn_k = ops.contract("b s e, b s k d -> e k d", norm1, d_k, dtype="f32")
    grad_attn_k = ops.accumulate_(grad_attn_k, d_attn_k)
    d_q = ops.rope(d_q_rope, theta=10000, inverse=True)
    d_norm1_2 = ops.contract("b s k g d, e k g d -> b s e", d_q, attn_q)
    d_attn_q = ops.contract("b s e, b s k g d -> e k g d", norm1, d_q, dtype="f32")
    grad_attn_q = ops.accumulate_(grad_attn_q, d_attn_q)
    d_norm1_sum = d_norm1 + d_norm1_1 + d_norm1_2
    d_x_sum, d_norm1_gain = ops.rms_norm_grads(d_norm1_sum, x, norm1_gain, x_scale, plus=d_add_sum)
    grad_norm1_gain = ops.accumulate_(grad_norm1_gain, d_norm1_gain)
    return (
        d_x_sum,
        grad_mlp_down, grad_mlp_up, grad_mlp_gate, grad_norm2_gain, grad_attn_out, grad_attn_v, grad_attn_k,
        grad_attn_q, grad_norm1_gain,
    )


def embed_B(here, tokens, d_x_out, grad_tokens):
    """Backward: embed.B."""
    d_tokens_1 = ops.embed_grad(tokens, d_x_out, rows=32)
    grad_tokens = ops.accumulate_(grad_tokens, d_tokens_1)
    return (grad_tokens,)


def reduce_head_layers_embed(
    here,
    head_out, head_norm_gain, layers_mlp_down, layers_mlp_up, layers_mlp_gate, layers_norm2_gain,
    layers_attn_out, layers_attn_v, layers_attn_k, layers_attn_q, layers_norm1_gain, embed_tokens,
):
    """Summed over those who hold a part: reduce head, layers, embed."""
    scattered = here.scatter_all_(
        [head_out, head_norm_gain, layers_mlp_down, layers_mlp_up, layers_mlp_gate, layers_norm2_gain, layers_attn_out, layers_attn_v, layers_attn_k, layers_attn_q, layers_norm1_gain, embed_tokens],
        "dp",
    )
    return (scattered,)


def sum_loss(here, loss):
    """Summed over those who hold a part: sum loss."""
    loss_reduced = here.all_reduce_(loss, "dp")
    loss_reduced = here.wait(loss_reduced)
    return (loss_reduced,)


def norm(here, grad, normSquared):
    """Norm of the gradient: norm embed.tokens and 11 more, in lists."""
    grad = here.own(grad, "dp")
    normSquared = ops.add_squares_(normSquared, grad)
    return (normSquared,)


def sum_normSquared(here, normSquared):
    """Summed over those who hold a part: sum normSquared."""
    normSquared_reduced = here.all_reduce_(normSquared, "dp")
    normSquared_reduced = here.wait(normSquared_reduced)
    return (normSquared_reduced,)


def load_lr(here):
    """Data: load lr."""
    lr = here.load("lr")
    return (lr,)


def update(here, lr, param, grad, master, m, v, normSquared, taken):
    """Optimizer: update embed.tokens and 11 more, in lists."""
    grad = here.own(grad, "dp")
    param = here.own(param, "dp")
    master, m, v = ops.adamw_(
        master, m, v, grad, verdict=here.verdict(normSquared), lr=lr, taken=taken, betas=(0.9, 0.95),
        eps=1e-8, decay=0, scale=here.clip(1, normSquared), rounded=param,
    )
    return (master, m, v)


def take(here, normSquared, taken):
    """Optimizer: take."""
    taken = ops.take_(taken, here.verdict(normSquared))
    return (taken,)
