/** The same collective on the same numbers, written for our engine and for torch.distributed. */
import type { CollectiveInput, Operation } from '../../../work/collectives.js'

type Line = (options: { readonly combine: string; readonly root: number; readonly n: number }) => string

const calls: Readonly<Record<Operation, Line>> = {
  broadcast: ({ root }) => `await group.broadcast(x, { root: ${root} })`,
  scatter: ({ root }) => `await group.scatter(x, out, { root: ${root} })`,
  gather: ({ root }) => `await group.gather(x, out, { root: ${root} })`,
  reduce: ({ root, combine }) => `await group.reduce(x, out, { root: ${root}, combine: '${combine}' })`,
  'all-gather': () => 'await group.allGather(x, out)',
  'reduce-scatter': ({ combine }) => `await group.reduceScatter(x, out, { combine: '${combine}' })`,
  'all-reduce': ({ combine }) => `await group.allReduce(x, { combine: '${combine}' })`,
  'all-to-all': () => 'await group.allToAll(x, out)',
  'send-recv': ({ root, n }) => `await group.sendRecv(x, out, { from: ${root}, to: ${(root + 1) % n} })`,
}

const inPlace: readonly Operation[] = ['broadcast', 'all-reduce']

/** Lengths of what a rank brings and gets. */
function lengths(op: Operation, n: number): readonly [number, number] {
  if (op === 'gather' || op === 'all-gather') return [1, n]
  return op === 'scatter' || op === 'reduce-scatter' ? [n, 1] : [n, n]
}

export function codeOf({ op, combine, root, x }: CollectiveInput): string {
  const n = x.length
  const [brought, got] = lengths(op, n)
  const rows = x.map(row => `[${row.slice(0, brought).join(', ')}]`)
  return [
    "import { createGroup } from 'lockstep/engine'",
    `const group = await createGroup(${n})`,
    `const x = group.tensor('f32', ${brought})`,
    ...(inPlace.includes(op) ? [] : [`const out = group.tensor('f32', ${got})`]),
    `const rows = [${rows.join(', ')}]`,
    'for (const [rank, row] of rows.entries()) group.write(rank, x, row)',
    calls[op]({ combine, root, n }),
    `for (const rank of rows.keys()) console.log(rank, group.read(rank, ${inPlace.includes(op) ? 'x' : 'out'}))`,
    'await group.stop()',
  ].join('\n')
}

const torchOps: Readonly<Record<string, string>> = { sum: 'SUM', min: 'MIN', max: 'MAX', mean: 'AVG' }

const torchCalls: Readonly<Record<Operation, Line>> = {
  broadcast: ({ root }) => `dist.broadcast(x, src=${root})`,
  scatter: ({ root }) => `dist.scatter(out, list(x.split(1)) if rank == ${root} else None, src=${root})`,
  gather: ({ root, n }) =>
    `parts = [torch.empty(1) for _ in range(${n})] if rank == ${root} else None\ndist.gather(x, parts, dst=${root})`,
  reduce: ({ root, combine }) => `dist.reduce(x, dst=${root}, op=dist.ReduceOp.${torchOps[combine]})`,
  'all-gather': () => 'dist.all_gather_into_tensor(out, x)',
  'reduce-scatter': ({ combine }) => `dist.reduce_scatter_tensor(out, x, op=dist.ReduceOp.${torchOps[combine]})`,
  'all-reduce': ({ combine }) => `dist.all_reduce(x, op=dist.ReduceOp.${torchOps[combine]})`,
  'all-to-all': () => 'dist.all_to_all_single(out, x)',
  'send-recv': ({ root, n }) =>
    `if rank == ${root}:\n    dist.send(x, dst=${(root + 1) % n})\nif rank == ${(root + 1) % n}:\n    dist.recv(out, src=${root})`,
}

export function pythonOf({ op, combine, root, x }: CollectiveInput): string {
  const n = x.length
  const [brought, got] = lengths(op, n)
  const rows = x.map(row => `[${row.slice(0, brought).join(', ')}]`)
  return [
    'import torch, torch.distributed as dist',
    'dist.init_process_group("nccl")',
    'rank = dist.get_rank()',
    'torch.cuda.set_device(rank)',
    'torch.set_default_device("cuda")',
    `x = torch.tensor([${rows.join(', ')}][rank], dtype=torch.float32)`,
    `out = torch.empty(${got})`,
    torchCalls[op]({ combine, root, n }),
  ].join('\n')
}
