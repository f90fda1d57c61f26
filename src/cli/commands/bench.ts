/** lockstep bench: how fast this machine's kernels and collectives are. Races against other software are in bench/. */
import { type Command, InvalidArgumentError } from 'commander'
import { either, parseBytes, showBytes, table } from '../../base/index.js'
import {
  type BenchOp,
  type BenchRow,
  benchCollectives,
  benchOps,
  loadKernels,
  nativeMissing,
} from '../../engine/native/index.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'
import { withProgress } from '../text/progress.js'
import { registerBenchKernels } from './bench-kernels.js'

interface CollectivesOptions {
  readonly ranks: number
  readonly sizes: readonly number[]
  readonly ops: readonly BenchOp[]
  readonly kernels: 'auto' | 'native' | 'wasm'
  readonly repeats?: number
  readonly json?: boolean
}

export function registerBench(program: Command, io: Io, done: (code: number) => void): void {
  const bench = program
    .command('bench')
    .summary('measure this machine')
    .description('Measures what this machine can do.')
  bench
    .command('collectives')
    .summary('time, algbw and busbw of collectives, in the form of nccl-tests')
    .description(
      'Runs every collective on threads of this machine, operands rewritten before each operation, results checked.\n' +
        '"copy" is the limit: every rank copies as many bytes at the same time.',
    )
    .option('--ranks <n>', 'threads that take part', ranks, 2)
    .option('--sizes <list>', 'sizes, such as 16Ki,1Mi,64Mi', sizes, sizes('16Ki,256Ki,1Mi,16Mi,64Mi'))
    .option('--ops <list>', `some of ${benchOps.join(', ')}`, ops, [...benchOps])
    .option('--kernels <kind>', 'auto, native or wasm', kernels, 'auto')
    .option('--repeats <n>', 'operations timed of each kind and size', integer)
    .option('--json', 'one JSON object per line')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep bench collectives --ranks 2 --sizes 1Mi,64Mi --ops all-reduce,copy\n\nExit code 0: all results right, 1: some were wrong, 2: usage error.',
    )
    .action(async (options: CollectivesOptions) => done(await collectives(options, io)))
  registerBenchKernels(bench, io, done)
}

async function collectives({ json, ...options }: CollectivesOptions, io: Io): Promise<number> {
  const missing = nativeMissing()
  if (options.kernels === 'native' && missing) {
    io.err(`bench: there are no native kernels: ${missing}\n`)
    return 1
  }
  const rows = await withProgress(io, progress => {
    progress.expect({ 'timing collectives': 1 })
    return progress.run(
      'timing collectives',
      timing(options, row => json && io.out(`${JSON.stringify(row)}\n`)),
    )
  })
  if (!json) {
    io.out(`${options.ranks} ranks, ${loadKernels(options.kernels).description}; bandwidth in GB/s\n\n`)
    io.out(`${table(['operation', 'size', 'time (us)', 'algbw', 'busbw', 'wrong'], rows.map(cellsOf))}\n`)
  }
  return rows.every(({ wrong }) => wrong === 0) ? 0 : 1
}

async function* timing(options: CollectivesOptions, tell: (row: BenchRow) => void) {
  const rows: BenchRow[] = []
  yield 0
  for await (const row of benchCollectives(options)) {
    rows.push(row)
    tell(row)
    yield rows.length / (options.ops.length * options.sizes.length)
  }
  return rows
}

const cellsOf = ({ op, bytes, seconds, algbw, busbw, wrong }: BenchRow): (string | number)[] => [
  ...[op, showBytes(bytes), (seconds * 1e6).toFixed(1), algbw.toFixed(2), busbw.toFixed(2), wrong],
]

function ranks(text: string): number {
  const n = integer(text)
  if (n < 1 || n > 64) throw new InvalidArgumentError('expected 1 to 64 ranks.')
  return n
}

function sizes(text: string): number[] {
  return text.split(',').map(word => {
    const bytes = parseBytes(word)
    if (bytes === undefined || bytes < 4 || bytes > 2 ** 30)
      throw new InvalidArgumentError(`${word} is not a size from 4 bytes to 1 GiB.`)
    return bytes
  })
}

function ops(text: string): BenchOp[] {
  const words = text.split(',')
  const unknown = words.find(word => !(benchOps as readonly string[]).includes(word))
  if (unknown !== undefined) throw new InvalidArgumentError(`${unknown} is not ${either(benchOps)}.`)
  return words as BenchOp[] // each is one of them
}

function kernels(text: string): 'auto' | 'native' | 'wasm' {
  if (text === 'auto' || text === 'native' || text === 'wasm') return text
  throw new InvalidArgumentError('expected auto, native or wasm.')
}
