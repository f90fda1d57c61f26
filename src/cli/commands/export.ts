/** lockstep export: a checkpoint, or a job, as another software reads it. */
import { showBytes } from '../../base/index.js'
import type { ForeignFramework } from '../../plan/index.js'
import { exportCheckpoint } from '../../train/index.js'
import type { ExportOptions as FolderOptions } from '../../weights/index.js'
import type { Io } from '../io.js'
import { showProblems } from '../text/problems.js'
import type { ExportTarget } from '../words/export.js'

export interface ExportOptions {
  readonly to: ExportTarget
  readonly out: string
  readonly dtype?: FolderOptions['dtype']
  readonly shard?: number
  readonly ema?: boolean
  readonly like?: string
  readonly release?: string
  readonly adapters?: 'merged' | 'separate'
  readonly json?: boolean
}

type Export = (path: string, options: ExportOptions, io: Io) => Promise<number>

/** A job as files of another framework. */
const filesFor =
  (to: ForeignFramework): Export =>
  async (path, options, io) => {
    const { exportFiles } = await import('./export-job.js')
    return exportFiles(path, to, options, io)
  }

const exports: Readonly<Record<ExportTarget, Export>> = {
  hf: exportFolder,
  megatron: filesFor('megatron'),
  deepspeed: filesFor('deepspeed'),
  accelerate: filesFor('accelerate'),
  torchtitan: filesFor('torchtitan'),
  nanotron: filesFor('nanotron'),
  picotron: filesFor('picotron'),
}

export const exportCommand: Export = (path, options, io) => exports[options.to](path, options, io)

async function exportFolder(path: string, options: ExportOptions, io: Io): Promise<number> {
  const { out, dtype, shard, ema, like, adapters, json } = options
  const written = exportCheckpoint(path, io, { out, dtype, shardBytes: shard, average: ema, like, adapters })
  const { files, modelType, tensors, bytes, warnings, from } = written
  if (json) {
    io.out(`${JSON.stringify({ ok: true, ...written }, null, 2)}\n`)
    return 0
  }
  io.err(showProblems(warnings, io, path))
  io.out(`wrote ${from} to ${out}: ${modelType}, ${tensors} tensors, ${showBytes(bytes)} in ${files.length} files\n`)
  return 0
}
