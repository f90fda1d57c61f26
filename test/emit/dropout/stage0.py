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
    """Start of the step: begin embed.tokens and 19 more, in lists."""
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


def embed_F(here, tokens, param_tokens, positions):
    """Forward: embed.F."""
    embedded = ops.embed(tokens, param_tokens, first=here.at("tp") * 16)
    embedded_reduced = here.all_reduce_(embedded, "tp")
    embedded_reduced = here.wait(embedded_reduced)
    add = embedded_reduced + positions
    dropout = ops.dropout(
        add, 0.1,
        here.kept(0.1, "dropout2", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), (8, 4, 8)),
    )
    return (dropout,)


def layers_F(
    here,
    x,
    norm1_gain, norm1_bias, attn_q_k_v, attn_q_bias, attn_k_bias, attn_v_bias, attn_out, attn_out_bias,
    norm2_gain, norm2_bias, mlp_up, mlp_up_bias, mlp_down, mlp_down_bias,
):
    """Forward: layers.F."""
    norm1 = ops.layer_norm(x, norm1_gain, norm1_bias, eps=1e-5)
    q_k_v = ops.contract("b s e, e n -> b s n", norm1, attn_q_k_v)
    q, k, v = ops.apart(q_k_v, (1, 1, 4), (1, 4), (1, 4))
    add = q + attn_q_bias
    add_1 = k + attn_k_bias
    add_2 = v + attn_v_bias
    attention, attention_lse = ops.attention(
        add, add_1, add_2, dropout=0.1,
        kept=here.kept(0.1, "attention7", (here.microbatch * 8 + here.at("dp") * 4, here.at("tp") * 1, 0, 0, 0), (4, 1, 1, 4, 4), (8, 2, 1, 4, 4)),
    )
    attended = ops.contract("b s k g d, k g d e -> b s e", attention, attn_out)
    attended_reduced = here.all_reduce_(attended, "tp")
    attended_reduced = here.wait(attended_reduced)
    add_3 = attended_reduced + attn_out_bias
    dropout = ops.dropout(
        add_3, 0.1,
        here.kept(0.1, "dropout10", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), (8, 4, 8)),
    )
    add_4 = x + dropout
    norm2 = ops.layer_norm(add_4, norm2_gain, norm2_bias, eps=1e-5)
    up = ops.contract("b s e, e f -> b s f", norm2, mlp_up)
    add_5 = up + mlp_up_bias
    gelu = ops.gelu(add_5, approximate=True)
    down = ops.contract("b s f, f e -> b s e", gelu, mlp_down)
    down_reduced = here.all_reduce_(down, "tp")
    down_reduced = here.wait(down_reduced)
    add_6 = down_reduced + mlp_down_bias
    dropout_1 = ops.dropout(
        add_6, 0.1,
        here.kept(0.1, "dropout18", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), (8, 4, 8)),
    )
    add_7 = add_4 + dropout_1
    return (add_7, norm1, add, add_1, add_2, attention, attention_lse, add_4, norm2, add_5, gelu)


def head_FB(
    here,
    labels,
    x,
    norm_gain, norm_bias, embed_tokens,
    grad_embed_tokens, grad_norm_gain, grad_norm_bias,
    loss, count,
):
    """Backward: head.FB."""
    norm = ops.layer_norm(x, norm_gain, norm_bias, eps=1e-5)
    loss_2, d_norm, d_embed_tokens = ops.cross_entropy(
        norm, embed_tokens, labels, count, first=here.at("tp") * 16, here=here, group="tp",
    )
    loss = ops.accumulate_(loss, loss_2)
    d_norm_reduced = here.all_reduce_(d_norm, "tp")
    grad_embed_tokens = ops.accumulate_(grad_embed_tokens, d_embed_tokens)
    d_norm_reduced = here.wait(d_norm_reduced)
    d_x = ops.layer_norm_input_grad(d_norm_reduced, x, norm_gain, eps=1e-5)
    d_norm_gain, d_norm_bias = ops.layer_norm_weight_grad(d_norm_reduced, x, eps=1e-5)
    grad_norm_gain = ops.accumulate_(grad_norm_gain, d_norm_gain)
    grad_norm_bias = ops.accumulate_(grad_norm_bias, d_norm_bias)
    return (d_x, grad_embed_tokens, grad_norm_gain, grad_norm_bias, loss)


def layers_B(
    here,
    d_x_out, x,
    mlp_down, mlp_up, norm2_gain, attn_out, attn_q_k_v, norm1_gain,
    gelu, add_5, norm2, add_4, attention, add, add_1, add_2, attention_lse, norm1,
    grad_mlp_down_bias, grad_mlp_down, grad_mlp_up_bias, grad_mlp_up, grad_norm2_gain, grad_norm2_bias,
    grad_attn_out_bias, grad_attn_out, grad_attn_v_bias, grad_attn_k_bias, grad_attn_q_bias, grad_attn_q_k_v,
    grad_norm1_gain, grad_norm1_bias,
):
    """Backward: layers.B."""
    d_add_6 = ops.dropout(
        d_x_out, 0.1,
        here.kept(0.1, "dropout18", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), (8, 4, 8)),
    )
    d_mlp_down_bias = d_add_6.sum((0, 1))
    grad_mlp_down_bias = ops.accumulate_(grad_mlp_down_bias, d_mlp_down_bias)
    d_gelu = ops.contract("b s e, f e -> b s f", d_add_6, mlp_down)
    d_mlp_down = ops.contract("b s f, b s e -> f e", gelu, d_add_6)
    grad_mlp_down = ops.accumulate_(grad_mlp_down, d_mlp_down)
    d_add_5 = ops.gelu_grad(d_gelu, add_5, approximate=True)
    d_mlp_up_bias = d_add_5.sum((0, 1))
    grad_mlp_up_bias = ops.accumulate_(grad_mlp_up_bias, d_mlp_up_bias)
    d_norm2 = ops.contract("b s f, e f -> b s e", d_add_5, mlp_up)
    d_norm2_reduced = here.all_reduce_(d_norm2, "tp")
    d_mlp_up = ops.contract("b s e, b s f -> e f", norm2, d_add_5)
    grad_mlp_up = ops.accumulate_(grad_mlp_up, d_mlp_up)
    d_norm2_reduced = here.wait(d_norm2_reduced)
    d_add_4 = ops.layer_norm_input_grad(d_norm2_reduced, add_4, norm2_gain, eps=1e-5)
    d_norm2_gain, d_norm2_bias = ops.layer_norm_weight_grad(d_norm2_reduced, add_4, eps=1e-5)
    grad_norm2_gain = ops.accumulate_(grad_norm2_gain, d_norm2_gain)
    grad_norm2_bias = ops.accumulate_(grad_norm2_bias, d_norm2_bias)
    d_add_4_sum = d_x_out + d_add_4
    d_add_3 = ops.dropout(
        d_add_4_sum, 0.1,
        here.kept(0.1, "dropout10", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), (8, 4, 8)),
    )
    d_attn_out_bias = d_add_3.sum((0, 1))
    grad_attn_out_bias = ops.accumulate_(grad_attn_out_bias, d_attn_out_bias)
    d_attention = ops.contract("b s e, k g d e -> b s k g d", d_add_3, attn_out)
    d_attn_out = ops.contract("b s k g d, b s e -> k g d e", attention, d_add_3)
    grad_attn_out = ops.accumulate_(grad_attn_out, d_attn_out)
    d_add, d_add_1, d_add_2 = ops.attention_grad(
        d_attention, add, add_1, add_2, attention, attention_lse, dropout=0.1,
        kept=here.kept(0.1, "attention7", (here.microbatch * 8 + here.at("dp") * 4, here.at("tp") * 1, 0, 0, 0), (4, 1, 1, 4, 4), (8, 2, 1, 4, 4)),
    )
    d_attn_v_bias = d_add_2.sum((0, 1))
    grad_attn_v_bias = ops.accumulate_(grad_attn_v_bias, d_attn_v_bias)
    d_attn_k_bias = d_add_1.sum((0, 1))
    grad_attn_k_bias = ops.accumulate_(grad_attn_k_bias, d_attn_k_bias)
    d_attn_q_bias = d_add.sum((0, 1))
    grad_attn_q_bias = ops.accumulate_(grad_attn_q_bias, d_attn_q_bias)
    d_add_add_1_add_2 = ops.beside(d_add, d_add_1, d_add_2, after=2)
    d_attn_q_k_v = ops.contract("b s e, b s n -> e n", norm1, d_add_add_1_add_2)
    grad_attn_q_k_v = ops.accumulate_(grad_attn_q_k_v, d_attn_q_k_v)
    d_norm1_sum = ops.contract("b s n, e n -> b s e", d_add_add_1_add_2, attn_q_k_v)
    d_norm1_sum_reduced = here.all_reduce_(d_norm1_sum, "tp")
    d_norm1_sum_reduced = here.wait(d_norm1_sum_reduced)
    d_x = ops.layer_norm_input_grad(d_norm1_sum_reduced, x, norm1_gain, eps=1e-5)
    d_norm1_gain, d_norm1_bias = ops.layer_norm_weight_grad(d_norm1_sum_reduced, x, eps=1e-5)
    grad_norm1_gain = ops.accumulate_(grad_norm1_gain, d_norm1_gain)
    grad_norm1_bias = ops.accumulate_(grad_norm1_bias, d_norm1_bias)
    d_x_sum = d_add_4_sum + d_x
    return (
        d_x_sum,
        grad_mlp_down_bias, grad_mlp_down, grad_mlp_up_bias, grad_mlp_up, grad_norm2_gain, grad_norm2_bias,
        grad_attn_out_bias, grad_attn_out, grad_attn_v_bias, grad_attn_k_bias, grad_attn_q_bias,
        grad_attn_q_k_v, grad_norm1_gain, grad_norm1_bias,
    )


def embed_B(here, tokens, d_x_out, grad_positions, grad_tokens):
    """Backward: embed.B."""
    d_add = ops.dropout(
        d_x_out, 0.1,
        here.kept(0.1, "dropout2", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), (8, 4, 8)),
    )
    d_positions = d_add.sum(0)
    grad_positions = ops.accumulate_(grad_positions, d_positions)
    d_tokens_1 = ops.embed_grad(tokens, d_add, rows=16, first=here.at("tp") * 16)
    grad_tokens = ops.accumulate_(grad_tokens, d_tokens_1)
    return (grad_positions, grad_tokens)


def reduce_head_layers_embed(
    here,
    head_norm_gain, head_norm_bias, layers_mlp_down_bias, layers_mlp_down, layers_mlp_up_bias, layers_mlp_up,
    layers_norm2_gain, layers_norm2_bias, layers_attn_out_bias, layers_attn_out, layers_attn_v_bias,
    layers_attn_k_bias, layers_attn_q_bias, layers_attn_q, layers_norm1_gain, layers_norm1_bias,
    embed_positions, grad_embed_tokens,
):
    """Summed over those who hold a part: reduce head, layers, embed."""
    summed = here.sum_all_(
        [head_norm_gain, head_norm_bias, layers_mlp_down_bias, layers_mlp_down, layers_mlp_up_bias, layers_mlp_up, layers_norm2_gain, layers_norm2_bias, layers_attn_out_bias, layers_attn_out, layers_attn_v_bias, layers_attn_k_bias, layers_attn_q_bias, layers_attn_q, layers_norm1_gain, layers_norm1_bias, embed_positions, grad_embed_tokens],
        "dp",
    )
    return (summed,)


def sum_loss(here, loss):
    """Summed over those who hold a part: sum loss."""
    loss_reduced = here.all_reduce_(loss, "dp")
    loss_reduced = here.wait(loss_reduced)
    return (loss_reduced,)


def norm(here, grad, normSquared):
    """Norm of the gradient: norm embed.tokens and 10 more, in lists."""
    normSquared = ops.add_squares_(normSquared, grad, here.at("dp") == 0)
    return (normSquared,)


def norm_2(here, grad, normSquared):
    """Norm of the gradient: norm embed.positions and 8 more, in lists."""
    normSquared = ops.add_squares_(normSquared, grad, here.at("dp", "tp") == 0)
    return (normSquared,)


def sum_normSquared(here, normSquared):
    """Summed over those who hold a part: sum normSquared."""
    normSquared_reduced = here.all_reduce_(normSquared, "dp+tp")
    normSquared_reduced = here.wait(normSquared_reduced)
    return (normSquared_reduced,)


def load_lr(here):
    """Data: load lr."""
    lr = here.load("lr")
    return (lr,)


def update(here, lr, param, grad, m, v, normSquared, taken):
    """Optimizer: update embed.tokens and 19 more, in lists."""
    param, m, v = ops.adamw_(
        param, m, v, grad, verdict=here.verdict(normSquared), lr=lr, taken=taken, betas=(0.9, 0.95), eps=1e-8,
        decay=0,
    )
    return (param, m, v)


def take(here, normSquared, taken):
    """Optimizer: take."""
    taken = ops.take_(taken, here.verdict(normSquared))
    return (taken,)
