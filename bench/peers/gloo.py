"""gloo through PyTorch: the collectives, one process a rank.

usage: gloo.py ranks meeting-file
Requests, one line each, as in mpi.c:
  answer operation bytes       the digest of every rank's result
  time operation bytes runs    seconds of one run, the best of so many; operands are rewritten before each
"""
import os
import subprocess
import sys
import time

import numpy
import torch
import torch.distributed as dist

ranks, meeting = int(sys.argv[1]), sys.argv[2]
me = int(os.environ.get('BENCH_RANK', 0))


def whole_numbers(n):
    """As in numbers.ts."""
    i = numpy.arange(n, dtype=numpy.uint32)
    hashed = (i * numpy.uint32(2654435761) + numpy.uint32(me * 40503)) * numpy.uint32(2246822519)
    return torch.from_numpy((hashed >> numpy.uint32(26)).astype(numpy.float32))


def digest(x):
    return float((x.double() * (1 + torch.arange(len(x)) % 251)).sum())


def send_recv(x, out):
    """Round the ring."""
    ops = [dist.P2POp(dist.isend, x, (me + 1) % ranks), dist.P2POp(dist.irecv, out, (me - 1) % ranks)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


OPERATIONS = {
    'all-reduce': lambda x, out: dist.all_reduce(x),
    'all-gather': dist.all_gather_into_tensor,
    'reduce-scatter': dist.reduce_scatter_tensor,
    'all-to-all': dist.all_to_all_single,
    'send-recv': send_recv,
}


def tensors(operation, n):
    """Operand and result."""
    sizes = {'all-gather': (n // ranks, n), 'reduce-scatter': (n, n // ranks)}.get(operation, (n, n))
    x, out = whole_numbers(sizes[0]), torch.zeros(sizes[1])
    return x, x if operation == 'all-reduce' else out


def run(operation, x, out):
    call = OPERATIONS[operation]
    call(x, out) if operation in ('all-reduce', 'send-recv') else call(out, x)


def answer(operation, n):
    x, out = tensors(operation, n)
    run(operation, x, out)
    found = [torch.zeros(1, dtype=torch.float64) for _ in range(ranks)]
    dist.all_gather(found, torch.tensor([digest(out)], dtype=torch.float64))
    return [value.item() for value in found]


def timed(operation, n, runs):
    x, out = tensors(operation, n)
    times = []
    for i in range(runs):
        x.fill_(me + i)
        dist.barrier()
        start = time.perf_counter()
        run(operation, x, out)
        took = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        times.append(took.item())
    return [min(times)]


def serve(line):
    word, operation, size, *runs = line.split()
    n = int(size) // 4
    return answer(operation, n) if word == 'answer' else timed(operation, n, int(runs[0]))


def main():
    # Rank 0 is this process; it starts the others and tells them what it is asked.
    others = [
        subprocess.Popen([sys.executable] + sys.argv, stdin=subprocess.DEVNULL, env={**os.environ, 'BENCH_RANK': str(i)})
        for i in range(1, ranks if me == 0 else 1)
    ]
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method='file://' + meeting, rank=me, world_size=ranks)
    if me == 0:
        print('ready', torch.__version__, flush=True)
    while True:
        asked = [(sys.stdin.readline() or 'end') if me == 0 else None]
        dist.broadcast_object_list(asked)
        if asked[0].strip() == 'end':
            break
        numbers = serve(asked[0])
        if me == 0:
            print('ok', *(repr(x) for x in numbers), flush=True)
    dist.destroy_process_group()
    for other in others:
        other.wait()


main()
