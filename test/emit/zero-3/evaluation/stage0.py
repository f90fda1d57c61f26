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


def input_F(here, x, in_):
    """Forward: input.F."""
    in_gathered = here.all_gather(in_, "dp", dim=0)
    in_gathered = here.wait(in_gathered)
    in_1 = ops.contract("b s a, a e -> b s e", x, in_gathered)
    return (in_1,)


def layers_F(here, x, up, up_bias, down, down_bias):
    """Forward: layers.F."""
    up_gathered = here.all_gather(up, "dp", dim=0)
    up_bias_gathered = here.all_gather(up_bias, "dp", dim=0)
    down_gathered = here.all_gather(down, "dp", dim=0)
    down_bias_gathered = here.all_gather(down_bias, "dp", dim=0)
    up_gathered = here.wait(up_gathered)
    up_1 = ops.contract("b s e, e f -> b s f", x, up_gathered)
    up_bias_gathered = here.wait(up_bias_gathered)
    add = up_1 + up_bias_gathered
    gelu = ops.gelu(add, approximate=False)
    down_gathered = here.wait(down_gathered)
    down_1 = ops.contract("b s f, f e -> b s e", gelu, down_gathered)
    down_bias_gathered = here.wait(down_bias_gathered)
    add_1 = down_1 + down_bias_gathered
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
