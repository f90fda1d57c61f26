/** What `lockstep bench` is called with. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { either, parseBytes } from '../../base/index.js'
import { type BenchOp, benchOps } from '../../engine/native/group/bench-ops.js'
import type { CollectivesOptions } from '../commands/bench.js'
import type { BenchKernelsOptions } from '../commands/bench-kernels.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

const kernelTargets = ['native', 'vectors', 'wasm', 'wasm-plain'] as const
export type KernelTarget = (typeof kernelTargets)[number]

export const tokenTypes = ['f32', 'bf16', 'f16'] as const
export type TokenType = (typeof tokenTypes)[number]

export function register(bench: Command, io: Io, done: (code: number) => void): void {
  bench.description('Benchmarks the kernels and collectives of this machine.')
  bench
    .command('collectives')
    .summary('time, algbw and busbw of collectives, as nccl-tests reports them')
    .description(
      'Runs every collective on threads of this machine and checks the results. Operands are rewritten before each operation.\n' +
        '"copy" is the upper limit: all ranks copy the same number of bytes at the same time.',
    )
    .option('--ranks <n>', 'number of ranks (threads)', ranks, 2)
    .option('--sizes <list>', 'sizes, such as 16Ki,1Mi,64Mi', sizes, sizes('16Ki,256Ki,1Mi,16Mi,64Mi'))
    .option('--ops <list>', `some of ${benchOps.join(', ')}`, ops, [...benchOps])
    .option('--kernels <kind>', 'auto, native or wasm', kernels, 'auto')
    .option('--repeats <n>', 'operations to time per collective and size', integer)
    .option('--json', 'one JSON object per line')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep bench collectives --ranks 2 --sizes 1Mi,64Mi --ops all-reduce,copy\n\nExit code 0: all results right, 1: some were wrong, 2: usage error.',
    )
    .action(async (options: CollectivesOptions) => {
      const { benchCollectivesCommand } = await import('../commands/bench.js')
      done(await benchCollectivesCommand(options, io))
    })
  registerKernels(bench, io, done)
}

function registerKernels(bench: Command, io: Io, done: (code: number) => void): void {
  bench
    .command('kernels')
    .description('GFLOP/s and GB/s of each kernel on one core, on the shapes of a small GPT')
    .option('--kernels <targets>', `some of ${kernelTargets.join(',')} (default: all)`)
    .option('--only <text>', 'only kernels whose name contains this text')
    .option('--ms <time>', 'milliseconds to measure each kernel (default: 100)')
    .addOption(
      new Option('--dtype <name>', 'type of tokens and parameters; 16-bit types are compared with f32').choices(
        tokenTypes,
      ),
    )
    .option('--roofline', 'compare each kernel with its compute or memory limit, measured alternately')
    .option('--json', 'one JSON object per kernel and target')
    .addHelpText(
      'after',
      `
Each kernel is compared with the reference before it is timed. Times are CPU times. GB/s counts
each operand read once and each result written once. --roofline divides by the lower bound: a copy
of as many bytes, or the kernel's FLOPs at the rate of an in-cache matmul.

When kernels are built or first loaded, they are autotuned: register tiles of the matmul, cache
block sizes and all-reduce copy loops are timed alternately. The first one within 5 % of the best
median wins; the GFLOP/s shown are of its best run. The result is cached until the CPU or the kernels change. LOCKSTEP_VARIANT=NAME,... overrides it.

Example:
  lockstep bench kernels --kernels native --only matmul

Exit code 0: fine, 1: a kernel is wrong, 2: usage error.`,
    )
    .action(async (options: BenchKernelsOptions) => {
      const { benchKernels } = await import('../commands/bench-kernels.js')
      done(await benchKernels(options, io))
    })
}

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
