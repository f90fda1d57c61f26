"""A GPT trained by PyTorch over gloo, as a user would write it: fused query-key-value, SDPA, fused AdamW, DDP or FSDP.

usage: gpt.py folder ranks ddp|fsdp
The folder holds job.json (sizes, names, shapes, optimizer), weights.f32 and tokens.i32, written by bench/training.ts.
Requests, one line each:
  losses n    trains n steps from the first on and tells their losses
  time        trains one step; its seconds, those of the slowest rank, its loss, and the processor seconds of all ranks
"""
import json
import os
import subprocess
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

folder, ranks, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rank = int(os.environ.get('BENCH_RANK', 0))


class Block(nn.Module):
    def __init__(self, embed, heads, ffn, eps):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(embed, eps)
        self.qkv = nn.Linear(embed, 3 * embed)
        self.out = nn.Linear(embed, embed)
        self.norm2 = nn.LayerNorm(embed, eps)
        self.up = nn.Linear(embed, ffn)
        self.down = nn.Linear(ffn, embed)

    def forward(self, x):
        batch, seq, embed = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(embed, dim=2)
        q, k, v = (y.view(batch, seq, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, embed))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))


class Gpt(nn.Module):
    def __init__(self, layers, embed, heads, ffn, vocab, seq, eps):
        super().__init__()
        self.tokens = nn.Embedding(vocab, embed)
        self.positions = nn.Embedding(seq, embed)
        self.blocks = nn.ModuleList(Block(embed, heads, ffn, eps) for _ in range(layers))
        self.norm = nn.LayerNorm(embed, eps)
        self.head = nn.Linear(embed, vocab, bias=False)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def weights(job):
    """By Lockstep's names. Matrices come as [in, out]."""
    values = torch.from_numpy(numpy.fromfile(os.path.join(folder, 'weights.f32'), dtype=numpy.float32))
    named, at = {}, 0
    for param in job['params']:
        n = int(numpy.prod(param['sizes']))
        named[param['name']] = values[at:at + n].view(param['sizes'])
        at += n
    return named


def state(w, layers, embed):
    matrix = lambda x: x.reshape(embed, -1).t()
    found = {
        'tokens.weight': w['embed.tokens'],
        'positions.weight': w['embed.positions'],
        'norm.weight': w['head.norm.weight'],
        'norm.bias': w['head.norm.bias'],
        'head.weight': w['head.out'],
    }
    for i in range(layers):
        of = lambda name: w['layers.%d.%s' % (i, name)]
        block = {
            'qkv.weight': torch.cat([matrix(of('attn.' + n)) for n in 'qkv']),
            'qkv.bias': torch.cat([of('attn.' + n + '.bias').flatten() for n in 'qkv']),
            'out.weight': of('attn.out').reshape(-1, embed).t(),
            'out.bias': of('attn.out.bias'),
            'up.weight': matrix(of('mlp.up')),
            'up.bias': of('mlp.up.bias'),
            'down.weight': of('mlp.down').t(),
            'down.bias': of('mlp.down.bias'),
        }
        for norm in ('norm1', 'norm2'):
            block[norm + '.weight'], block[norm + '.bias'] = of(norm + '.weight'), of(norm + '.bias')
        found.update({'blocks.%d.%s' % (i, name): x for name, x in block.items()})
    return found


class Trainer:
    def __init__(self, job):
        c, o = job['config'], job['optimizer']
        self.job, self.step = job, 0
        self.tokens = torch.from_numpy(
            numpy.fromfile(os.path.join(folder, 'tokens.i32'), dtype=numpy.int32).astype(numpy.int64)
        ).view(-1, job['batch'], job['seq'] + 1)
        plain = Gpt(c['layers'], c['embed'], c['heads'], c['ffn'], c['vocab'], job['seq'], c['eps'])
        plain.load_state_dict(state(weights(job), c['layers'], c['embed']))
        self.model = split(plain)
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{'params': matrices, 'weight_decay': o['weightDecay']}, {'params': vectors, 'weight_decay': 0}]
        self.optimizer = torch.optim.AdamW(
            groups, lr=o['lr'], betas=(o['beta1'], o['beta2']), eps=o['eps'], fused=how == 'ddp'
        )

    def train(self):
        """One step: the seconds, the mean loss and the processor seconds."""
        part = self.job['batch'] // ranks
        batch = self.tokens[self.step % len(self.tokens), rank * part:(rank + 1) * part]
        dist.barrier()
        start, used = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        self.optimizer.step()
        seconds = torch.tensor(time.perf_counter() - start)
        sums = torch.stack([loss.detach() / ranks, torch.tensor(time.process_time() - used)])
        self.step += 1
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        dist.all_reduce(sums)
        return [seconds.item(), *sums.tolist()]


def split(model):
    if how == 'ddp':
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh('cpu', (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def serve(trainer, line):
    word, *rest = line.split()
    if word == 'losses':
        return [trainer.train()[1] for _ in range(int(rest[0]))]
    return trainer.train()


def main():
    # Rank 0 is this process; it starts the others and tells them what it is asked.
    others = [
        subprocess.Popen([sys.executable] + sys.argv, stdin=subprocess.DEVNULL, env={**os.environ, 'BENCH_RANK': str(i)})
        for i in range(1, ranks if rank == 0 else 1)
    ]
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method='file://' + os.path.join(folder, 'meeting-%s-%d' % (how, ranks)), rank=rank, world_size=ranks)
    with open(os.path.join(folder, 'job.json')) as file:
        trainer = Trainer(json.load(file))
    if rank == 0:
        print('ready', torch.__version__, flush=True)
    while True:
        asked = [(sys.stdin.readline() or 'end') if rank == 0 else None]
        dist.broadcast_object_list(asked)
        if asked[0].strip() == 'end':
            break
        numbers = serve(trainer, asked[0])
        if rank == 0:
            print('ok', *numbers, flush=True)
    dist.destroy_process_group()
    for other in others:
        other.wait()


main()
