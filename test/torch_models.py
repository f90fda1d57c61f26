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
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], p[name + '.weight'], p[name + '.bias'], c['eps'])
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


def rotation(width, theta, scaling):
    """Frequencies, and what a turned pair grows by, as in transformers' modeling_rope_utils.py."""
    period = theta ** (torch.arange(0, width, 2) / width)
    if scaling is None:
        return 1 / period, 1.0
    fast, slow = 1 / period, 1 / (scaling['factor'] * period)
    if scaling['kind'] == 'linear':
        return slow, 1.0
    if scaling['kind'] == 'llama3':
        waves = 2 * math.pi * period
        smooth = (scaling['original'] / waves - scaling['low']) / (scaling['high'] - scaling['low'])
        return (1 - smooth.clamp(0, 1)) * slow + smooth.clamp(0, 1) * fast, 1.0
    dim = lambda turns: width * math.log(scaling['original'] / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = max(math.floor(dim(scaling['fast'])), 0), min(math.ceil(dim(scaling['slow'])), width - 1)
    ramp = ((torch.arange(width // 2) - low) / (high - low if high > low else 0.001)).clamp(0, 1)
    return slow * ramp + fast * (1 - ramp), mscale(scaling, 'scale') / mscale(scaling, 'scaleAll')


def mscale(scaling, which):
    return 0.1 * scaling[which] * math.log(scaling['factor']) + 1


def rotate(x, theta, scaling=None):
    """Rotary positions by halves, as in Hugging Face's Llama."""
    length, width = x.shape[-2:]
    frequency, growth = rotation(width, theta, scaling)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency).repeat(1, 2)
    low, high = x.chunk(2, -1)
    return growth * (x * angle.cos() + torch.cat([-high, low], -1) * angle.sin())


def latent(c, p, at, y, norm):
    """DeepSeek's attention: heads are read off latents, one rotated key serves all of them."""
    turn = lambda x: rotate(x, c['ropeTheta'], c.get('ropeScaling'))
    asked = norm(y @ p[at + 'q.down'], at + 'q.norm') if 'qLoraRank' in c['mla'] else y
    known = norm(y @ p[at + 'kv.down'], at + 'kv.norm')
    q = torch.cat([project(asked, p[at + 'q.plain']), turn(project(asked, p[at + 'q.rope']))], -1)
    shared = turn((y @ p[at + 'k.rope']).unsqueeze(1)).expand(-1, c['heads'], -1, -1)
    k = torch.cat([project(known, p[at + 'k.plain']), shared], -1)
    scaling = c.get('ropeScaling')
    grown = mscale(scaling, 'scaleAll') if scaling is not None and scaling['kind'] == 'yarn' else 1.0
    return attend(q * grown, k * grown, project(known, p[at + 'v']), c.get('window'))


def grouped(c, p, at, y, norm):
    q, k, v = (project(y, p[at + n], p.get(at + n + '.bias')) for n in 'qkv')
    if c['qkNorm']:
        q, k = norm(q, at + 'q.norm'), norm(k, at + 'k.norm')
    q, k = (rotate(x, c['ropeTheta'], c.get('ropeScaling')) for x in (q, k))
    return attend(q, k, v, c.get('window'))


def llama(c, p, data):
    norm = lambda x, name: x * (x.pow(2).mean(-1, keepdim=True) + c['eps']).rsqrt() * p[name + '.weight']
    x = F.embedding(data['tokens'], p['embed.tokens'])
    for i in range(c['layers']):
        at = 'layers.%d.' % i
        y = norm(x, at + 'norm1')
        attended = latent(c, p, at + 'attn.', y, norm) if 'mla' in c else grouped(c, p, at + 'attn.', y, norm)
        x = x + join(attended, p[at + 'attn.out'])
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
