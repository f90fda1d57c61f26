"""Whole models in plain PyTorch, f64, gradients by autograd: JSON cases on stdin, results on stdout.

Written as a user of PyTorch would write them, from the papers and not from Lockstep's graphs. Weights are named and
shaped as Lockstep names and shapes them: [in, out], heads apart, a query head's group within its key-value head.
Runs on torch 1.13 and later.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def mlp(c, p, data):
    x = data['x'] @ p['input.in']
    for i in range(c['layers']):
        at = 'layers.%d.' % i
        x = x + F.gelu(x @ p[at + 'up'] + p[at + 'up.bias']) @ p[at + 'down'] + p[at + 'down.bias']
    return F.mse_loss(x, data['target'])


def attend(q, k, v, window=None):
    """Causal attention. q, k, v [batch, heads, seq, headDim]; fewer heads of k and v are shared by neighbouring ones of q."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    length = q.shape[2]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    if window is not None:
        mask = mask.triu(1 - window)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def project(x, weight, bias=None):
    """[batch, seq, embed] -> [batch, heads, seq, headDim]."""
    y = F.linear(x, weight.flatten(1).t(), None if bias is None else bias.flatten())
    return y.reshape(*y.shape[:-1], -1, weight.shape[-1]).transpose(1, 2)


def join(heads, weight):
    return heads.transpose(1, 2).flatten(2) @ weight.flatten(0, -2)


def token_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten().clamp(min=-1), ignore_index=-1)


def gpt(c, p, data):
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], p[name + '.gain'], p[name + '.bias'], c['eps'])
    x = F.embedding(data['tokens'], p['embed.tokens']) + p['embed.positions']
    for i in range(c['layers']):
        at = 'layers.%d.' % i
        y = norm(x, at + 'norm1')
        q, k, v = (project(y, p[at + 'attn.' + n], p[at + 'attn.' + n + '.bias']) for n in 'qkv')
        x = x + join(attend(q, k, v), p[at + 'attn.out']) + p[at + 'attn.out.bias']
        y = F.gelu(norm(x, at + 'norm2') @ p[at + 'mlp.up'] + p[at + 'mlp.up.bias'], approximate='tanh')
        x = x + y @ p[at + 'mlp.down'] + p[at + 'mlp.down.bias']
    table = p['embed.tokens'] if c['tied'] else p['head.out']
    return token_loss(F.linear(norm(x, 'head.norm'), table), data['labels'])


def rotate(x, theta):
    """Rotary positions by halves, as in Hugging Face's Llama."""
    length, width = x.shape[-2:]
    frequency = theta ** (-torch.arange(0, width, 2) / width)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency).repeat(1, 2)
    low, high = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-high, low], -1) * angle.sin()


def llama(c, p, data):
    norm = lambda x, name: x * (x.pow(2).mean(-1, keepdim=True) + c['eps']).rsqrt() * p[name + '.gain']
    x = F.embedding(data['tokens'], p['embed.tokens'])
    for i in range(c['layers']):
        at = 'layers.%d.' % i
        y = norm(x, at + 'norm1')
        q, k, v = (project(y, p[at + 'attn.' + n], p.get(at + 'attn.' + n + '.bias')) for n in 'qkv')
        if c['qkNorm']:
            q, k = norm(q, at + 'attn.q.norm'), norm(k, at + 'attn.k.norm')
        q, k = rotate(q, c['ropeTheta']), rotate(k, c['ropeTheta'])
        x = x + join(attend(q, k, v, c.get('window')), p[at + 'attn.out'])
        y = norm(x, at + 'norm2')
        x = x + (F.silu(y @ p[at + 'mlp.gate']) * (y @ p[at + 'mlp.up'])) @ p[at + 'mlp.down']
    table = p['embed.tokens'] if c['tied'] else p['head.out']
    return token_loss(F.linear(norm(x, 'head.norm'), table), data['labels'])


FAMILIES = {'mlp': mlp, 'gpt': gpt, 'llama': llama}


def optimizer_of(o, specs, p):
    groups = [
        {'params': [p[s['name']] for s in specs if s['decay'] == decay], 'weight_decay': o['weightDecay'] if decay else 0}
        for decay in (True, False)
    ]
    if o['kind'] == 'adamw':
        return torch.optim.AdamW(groups, lr=o['lr'], betas=(o['beta1'], o['beta2']), eps=o['eps'])
    return torch.optim.SGD(groups, lr=o['lr'], momentum=o['momentum'])


def tensor(given):
    dtype = torch.long if given['dtype'] == 'i32' else torch.float64
    return torch.tensor(given['values'], dtype=dtype).reshape(given['sizes'])


def train(case, run):
    """Every step's loss and gradients, and the parameters after the last."""
    config, specs = case['config'], case['params']
    p = {s['name']: tensor(s).requires_grad_() for s in specs}
    optimizer = optimizer_of(run['optimizer'], specs, p)
    steps = []
    for data in case['data']:
        optimizer.zero_grad()
        loss = FAMILIES[config['family']](config, p, {name: tensor(x) for name, x in data.items()})
        loss.backward()
        steps.append({'loss': loss.item(), 'gradients': {n: x.grad.flatten().tolist() for n, x in p.items()}})
        if run.get('clip') is not None:
            torch.nn.utils.clip_grad_norm_(list(p.values()), run['clip'])
        optimizer.step()
    return {'steps': steps, 'params': {n: x.detach().flatten().tolist() for n, x in p.items()}}


print(json.dumps([[train(case, run) for run in case['runs']] for case in json.load(sys.stdin)]))
