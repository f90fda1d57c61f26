"""Ops by PyTorch autograd in f64: JSON cases on stdin, results and gradients on stdout.

A case has an op, operands with named dims, and the gradients of its results. Every operand is brought to the
canonical order of its dims, so that nothing here depends on the order the case happens to have.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F

torch.set_num_threads(1)


def to(x, have, want):
    """x with dims `have`, as a tensor with dims `want`: permuted, size 1 where it lacks one."""
    x = x.permute([have.index(name) for name in want if name in have])
    for at, name in enumerate(want):
        if name not in have:
            x = x.unsqueeze(at)
    return x


def contract(op, ins, outs):
    names = sorted({name for _, dims in ins for name in dims} | set(outs[0]))
    letter = {name: chr(97 + i) for i, name in enumerate(names)}
    word = lambda dims: ''.join(letter[name] for name in dims)
    return [torch.einsum(f'{word(ins[0][1])},{word(ins[1][1])}->{word(outs[0])}', ins[0][0], ins[1][0])]


def elementwise(f):
    return lambda op, ins, outs: [f(op, *[to(x, dims, outs[0]) for x, dims in ins])]


def sum_to(op, ins, outs):
    x, dims = ins[0]
    missing = [name for name in dims if name not in outs[0]]
    return [to(x, dims, outs[0] + missing).flatten(len(outs[0])).sum(-1)]


def norm(op, ins, outs):
    (x, dims), (gain, inner) = ins[0], ins[1]
    rows = [name for name in dims if name not in inner]
    x = to(x, dims, rows + inner)
    if op['kind'] == 'layerNorm':
        y = F.layer_norm(x, gain.shape, gain, to(*ins[2], inner), op['eps'])
    elif hasattr(F, 'rms_norm'):  # torch 2.4
        y = F.rms_norm(x, gain.shape, gain, op['eps'])
    else:
        y = x * (x.pow(2).mean(list(range(-gain.dim(), 0)), keepdim=True) + op['eps']).rsqrt() * gain
    return [to(y, rows + inner, outs[0])]


def rotation(width, theta, scaling):
    """Frequencies, and what a turned pair grows by, as transformers works them out (modeling_rope_utils.py)."""
    period = theta ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    if scaling is None:
        return 1 / period, 1.0
    fast, slow = 1 / period, 1 / (scaling['factor'] * period)
    if scaling['kind'] == 'linear':
        return slow, 1.0
    if scaling['kind'] == 'llama3':
        waves = 2 * math.pi * period
        smooth = (scaling['original'] / waves - scaling['low']) / (scaling['high'] - scaling['low'])
        mixed = (1 - smooth) * slow + smooth * fast
        long, short = waves > scaling['original'] / scaling['low'], waves < scaling['original'] / scaling['high']
        return torch.where(long, slow, torch.where(short, fast, mixed)), 1.0
    dim = lambda turns: width * math.log(scaling['original'] / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = max(math.floor(dim(scaling['fast'])), 0), min(math.ceil(dim(scaling['slow'])), width - 1)
    ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / (high - low if high > low else 0.001)).clamp(0, 1)
    mscale = lambda m: 0.1 * m * math.log(scaling['factor']) + 1
    return slow * ramp + fast * (1 - ramp), mscale(scaling['scale']) / mscale(scaling['scaleAll'])


def join(op, ins, outs):
    rows = [name for name in outs[0] if name != 'both']
    parts = [to(x, dims, rows + [name for name in dims if name not in rows]) for x, dims in ins]
    shape = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return [to(torch.cat([part.expand(*shape, part.shape[-1]) for part in parts], -1), rows + ['both'], outs[0])]


def rope(op, ins, outs):
    want = [name for name in ins[0][1] if name not in ('seq', 'headDim')] + ['seq', 'headDim']
    x = to(*ins[0], want)
    length, depth = x.shape[-2:]
    frequency, growth = rotation(depth, op['theta'], op.get('scaling'))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    if len(ins) > 1:  # positions in documents
        angle = to(*ins[1], want[:-1])[..., None] * frequency
    point = torch.view_as_complex(torch.stack(x.chunk(2, -1), -1).contiguous()) * torch.polar(torch.full_like(angle, growth), angle)
    return [to(torch.cat([point.real, point.imag], -1), want, outs[0])]


def attention(op, ins, outs):
    want = ['batch', 'kvHeads', 'group', 'seq', 'headDim']
    value = want[:-1] + ['vHeadDim' if 'vHeadDim' in ins[2][1] else 'headDim']
    q, k, v = [to(x, dims, names) for (x, dims), names in zip(ins, (want, want, value))]
    k, v = k.expand(*q.shape), v.expand(*q.shape[:-1], v.shape[-1])
    scale = op.get('scale', 1 / math.sqrt(q.shape[-1]))
    length = q.shape[3]
    distance = torch.arange(length)[:, None] - torch.arange(length)
    seen = (distance >= 0) & (distance < op.get('window', length))
    if len(ins) > 3:  # positions in documents
        seen = seen & (distance <= to(*ins[3], want[:-1])[..., None])
    scores = (q @ k.mT * scale).masked_fill(~seen, -math.inf)
    if hasattr(F, 'scaled_dot_product_attention') and 'scale' not in op:  # torch 2.0; a scale from 2.1 on
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    else:
        out = scores.softmax(-1) @ v
    return [to(out, value, outs[0]), to(scores.logsumexp(-1), want[:-1], outs[1])]


def token_loss(op, ins, outs):
    (logits, dims), (labels, tokens) = ins
    rows = to(logits, dims, tokens + ['vocab']).flatten(0, -2)
    labels = labels.flatten().long()
    return [F.cross_entropy(rows, labels.masked_fill(labels < 0, -100), reduction='sum')]


def embed(op, ins, outs):
    (ids, rows), (table, dims) = ins
    return [to(F.embedding(ids.long(), to(table, dims, ['vocab', 'embed'])), rows + ['embed'], outs[0])]


OPS = {
    'contract': contract,
    'add': elementwise(lambda op, *xs: sum(xs)),
    'mul': elementwise(lambda op, a, b: a * b),
    'scale': elementwise(lambda op, x: x * op['by']),
    'sumTo': sum_to,
    'gelu': elementwise(lambda op, x: F.gelu(x, approximate='tanh' if op['approximate'] else 'none')),
    'swiglu': elementwise(lambda op, gate, up: F.silu(gate) * up),
    'layerNorm': norm,
    'rmsNorm': norm,
    'join': join,
    'rope': rope,
    'attention': attention,
    'embed': embed,
    'tokenLoss': token_loss,
    'squaredError': lambda op, ins, outs: [F.mse_loss(ins[0][0], to(*ins[1], ins[0][1]), reduction='sum')],
}


def optimizer(case):
    """Several steps of torch.optim on given gradients, clipped by torch."""
    op, lr = case['op'], case['lr']
    param = torch.tensor(case['param'], dtype=torch.float64, requires_grad=True)
    if op['kind'] == 'adamw':
        made = torch.optim.AdamW([param], lr=lr, betas=(op['beta1'], op['beta2']), eps=op['eps'], weight_decay=op['weightDecay'])
    else:
        made = torch.optim.SGD([param], lr=lr, momentum=op['momentum'], weight_decay=op['weightDecay'])
    for grad in case['grads']:
        param.grad = torch.tensor(grad, dtype=torch.float64)
        if op['clip'] > 0:
            torch.nn.utils.clip_grad_norm_([param], op['clip'])
        made.step()
    return {'param': param.tolist()}


def run(case):
    if 'param' in case:
        return optimizer(case)
    ins = [
        (torch.tensor(x['values'], dtype=torch.float64).reshape(x['sizes']).requires_grad_(), x['names'])
        for x in case['ins']
    ]
    outs = OPS[case['op']['kind']](case['op'], ins, case['outs'])
    total = sum((out.flatten() * torch.tensor(d, dtype=torch.float64)).sum() for out, d in zip(outs, case['douts']))
    grads = torch.autograd.grad(total, [x for x, _ in ins], allow_unused=True)
    return {
        'outs': [out.flatten().tolist() for out in outs],
        'grads': [None if g is None else g.flatten().tolist() for g in grads],
    }


print(json.dumps([run(case) for case in json.load(sys.stdin)]))
