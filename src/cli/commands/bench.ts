/** lockstep bench: how fast this machine's kernels and collectives are. Races against other software are in bench/. */
import { showBytes, table } from '../../base/index.js'
import { type BenchOp, type BenchRow, benchCollectives, loadKernels, nativeMissing } from '../../engine/native/index.js'
import type { Io } from '../io.js'
import { withProgress } from '../text/progress.js'

export interface CollectivesOptions {
  readonly ranks: number
  readonly sizes: readonly number[]
  readonly ops: readonly BenchOp[]
  readonly kernels: 'auto' | 'native' | 'wasm'
  readonly repeats?: number
  readonly json?: boolean
}

export async function benchCollectivesCommand({ json, ...options }: CollectivesOptions, io: Io): Promise<number> {
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
