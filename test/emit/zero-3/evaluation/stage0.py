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


def gather_input(here, input_in):
    """Parameters made whole: gather input."""
    gathered = here.gather_all([input_in], "dp", [(8, 8,)])
    return (gathered,)


def gather_layers(here, layers_up, layers_up_bias, layers_down, layers_down_bias):
    """Parameters made whole: gather layers."""
    gathered = here.gather_all(
        [layers_up, layers_up_bias, layers_down, layers_down_bias], "dp", [(8, 16,), (16,), (16, 8,), (8,)],
    )
    return (gathered,)


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
    return (add_2,)


def loss_F(here, target, x, loss):
    """Forward: loss.F."""
    loss_2 = ops.squared_error(x, target)
    loss = ops.accumulate_(loss, loss_2)
    return (loss,)


def sum_loss(here, loss):
    """Summed over those who hold a part: sum loss."""
    loss_reduced = here.all_reduce_(loss, "dp")
    loss_reduced = here.wait(loss_reduced)
    return (loss_reduced,)
