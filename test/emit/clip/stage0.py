"""
Pipeline rank 0 of 1: input, layers.0, loss.

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
    """Start of the step: begin input.in and 4 more, in lists."""
    grad = ops.nothing(grad)
    return (grad,)


def load_x(here):
    """Data: load x."""
    x = here.load("x", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), "f32")
    return (x,)


def load_target(here):
    """Data: load target."""
    target = here.load("target", (here.microbatch * 8 + here.at("dp") * 4, 0, 0), (4, 4, 8), "f32")
    return (target,)


def count(here, target, count):
    """What the loss is divided by: count."""
    counted = ops.count_elements(target)
    count = ops.accumulate_(count, counted)
    return (count,)


def sum_count(here, count):
    """Summed over those who hold a part: sum count."""
    count_reduced = here.all_reduce_(count, "dp")
    count_reduced = here.wait(count_reduced)
    return (count_reduced,)


def input_F(here, x, in_):
    """Forward: input.F."""
    in_1 = ops.contract("b s a, a e -> b s e", x, in_)
    return (in_1,)


def layers_F(here, x, up, up_bias, down, down_bias):
    """Forward: layers.F."""
    up_1 = ops.contract("b s e, e f -> b s f", x, up)
    add = up_1 + up_bias
    gelu = ops.gelu(add, approximate=False)
    down_1 = ops.contract("b s f, f e -> b s e", gelu, down)
    add_1 = down_1 + down_bias
    add_2 = x + add_1
    return (add_2, add, gelu)


def loss_F(here, target, x, loss):
    """Forward: loss.F."""
    loss_2 = ops.squared_error(x, target)
    loss = ops.accumulate_(loss, loss_2)
    return (loss,)


def loss_B(here, target, x, count):
    """Backward: loss.B."""
    d_x = ops.squared_error_grad(x, target, count)
    return (d_x,)


def layers_B(here, d_x_out, x, down, up, gelu, add, grad_down_bias, grad_down, grad_up_bias, grad_up):
    """Backward: layers.B."""
    d_down_bias = d_x_out.sum((0, 1))
    grad_down_bias = ops.accumulate_(grad_down_bias, d_down_bias)
    d_gelu = ops.contract("b s e, f e -> b s f", d_x_out, down)
    d_down = ops.contract("b s f, b s e -> f e", gelu, d_x_out)
    grad_down = ops.accumulate_(grad_down, d_down)
    d_add = ops.gelu_grad(d_gelu, add, approximate=False)
    d_up_bias = d_add.sum((0, 1))
    grad_up_bias = ops.accumulate_(grad_up_bias, d_up_bias)
    d_up = ops.contract("b s e, b s f -> e f", x, d_add)
    grad_up = ops.accumulate_(grad_up, d_up)
    d_x_sum = ops.contract("b s f, e f -> b s e", d_add, up, plus=d_x_out)
    return (d_x_sum, grad_down_bias, grad_down, grad_up_bias, grad_up)


def input_B(here, x, d_x_out, in_, grad_in):
    """Backward: input.B."""
    d_x = ops.contract("b s e, a e -> b s a", d_x_out, in_)
    d_in = ops.contract("b s a, b s e -> a e", x, d_x_out)
    grad_in = ops.accumulate_(grad_in, d_in)
    return (grad_in,)


def reduce_layers_input(here, layers_down_bias, layers_down, layers_up_bias, layers_up, input_in):
    """Summed over those who hold a part: reduce layers, input."""
    summed = here.sum_all_([layers_down_bias, layers_down, layers_up_bias, layers_up, input_in], "dp")
    return (summed,)


def sum_loss(here, loss):
    """Summed over those who hold a part: sum loss."""
    loss_reduced = here.all_reduce_(loss, "dp")
    loss_reduced = here.wait(loss_reduced)
    return (loss_reduced,)


def norm(here, grad, normSquared):
    """Norm of the gradient: norm input.in and 4 more, in lists."""
    normSquared = ops.add_squares_(normSquared, grad, here.at("dp") == 0)
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


def update(here, lr, param, grad, m, v, normSquared, taken):
    """Optimizer: update input.in and 4 more, in lists."""
    param, m, v = ops.adamw_(
        param, m, v, grad, verdict=here.verdict(normSquared), lr=lr, taken=taken, betas=(0.9, 0.95), eps=1e-8,
        decay=0, scale=here.clip(1, normSquared),
    )
    return (param, m, v)


def take(here, normSquared, taken):
    """Optimizer: take."""
    taken = ops.take_(taken, here.verdict(normSquared))
    return (taken,)
