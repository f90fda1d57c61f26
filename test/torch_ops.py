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


def rope(op, ins, outs):
    want = [name for name in ins[0][1] if name not in ('seq', 'headDim')] + ['seq', 'headDim']
    x = to(*ins[0], want)
    length, depth = x.shape[-2:]
    frequency = op['theta'] ** (-torch.arange(0, depth, 2, dtype=torch.float64) / depth)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    point = torch.view_as_complex(torch.stack(x.chunk(2, -1), -1).contiguous()) * torch.polar(torch.ones_like(angle), angle)
    return [to(torch.cat([point.real, point.imag], -1), want, outs[0])]


def attention(op, ins, outs):
    want = ['batch', 'kvHeads', 'group', 'seq', 'headDim']
    q, k, v = [to(x, dims, want) for x, dims in ins]
    k, v = k.expand(*q.shape), v.expand(*q.shape)
    length = q.shape[3]
    distance = torch.arange(length)[:, None] - torch.arange(length)
    seen = (distance >= 0) & (distance < op.get('window', length))
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)
    if hasattr(F, 'scaled_dot_product_attention'):  # torch 2.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    else:
        out = scores.softmax(-1) @ v
    return [to(out, want, outs[0]), to(scores.logsumexp(-1), want[:-1], outs[1])]


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
