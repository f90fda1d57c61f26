/** lockstep emit: the program of a job as a folder of PyTorch, for torchrun, Slurm and Kubernetes. */
import { join } from 'node:path'
import { counted, showBytes, worldOf } from '../../base/index.js'
import { scheduleOf } from '../../compile/index.js'
import { devicesPerNode, heldBytes } from '../../emit/index.js'
import { formOf, type Job } from '../../plan/index.js'
import { printSchedule } from '../../schedule/index.js'
import { beginningOf, beginningWarnings } from '../../train/index.js'
import { type EmittedFolder, writeEmitted } from '../files/emit-folder.js'
import { writeFolder } from '../files/folder-record.js'
import { withItsTokenizer } from '../files/load.js'
import { jobsOfRanks } from '../files/other-ranks.js'
import { type Loaded, tryProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { countProblems, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import type { Ranks } from '../text/ranks.js'
import { expectedOn } from './simulate.js'

export interface EmitOptions {
  readonly out: string
  readonly steps?: number
  readonly seed?: number
  readonly init?: string
  readonly adapters?: string
  readonly also?: Ranks
  readonly cluster?: string
  readonly devices?: number
  readonly scheduleCsv?: boolean
  readonly force?: boolean
  readonly json?: boolean
}

export async function emitCommand(path: string, options: EmitOptions, io: Io): Promise<number> {
  const { loaded, problems } = await tryProgram(path, io)
  if (!loaded) {
    if (options.json) io.out(`${JSON.stringify({ ok: false, problems }, null, 2)}\n`)
    else io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
    return 1
  }
  if (!options.json) io.err(showProblems(problems, io, path))
  const changed = { ...loaded, job: withOptions(loaded.job, options) }
  const written = await withProgress(io, async watcher => {
    if (options.scheduleCsv) return writeSchedule(changed, options.out, io)
    const { cluster, devices } = options
    const on = cluster === undefined ? undefined : { cluster, ...(devices && { devices }) }
    const expected = on && (await expectedOn(changed.program, on, io, watcher))
    const beginning = beginningOf(options, io, changed.job)
    if (beginning && !options.json) io.err(showProblems(beginningWarnings(beginning, changed.job), io, path))
    const others = options.also ? jobsOfRanks(changed.job, options.also) : []
    const loaded = { ...changed, job: withItsTokenizer(changed.job, beginning, io) }
    const { out: folder, force: replaces } = options
    return writeEmitted(loaded, { path, folder, beginning, carries: true, expected, others, replaces, io, watcher })
  })
  io.out(options.json ? `${JSON.stringify({ ok: true, ...written }, null, 2)}\n` : told(changed, written, options))
  return 0
}

export const withOptions = (job: Job, { steps, seed }: Pick<EmitOptions, 'steps' | 'seed'>): Job => ({
  ...job,
  training: { ...job.training, ...(steps === undefined ? {} : { steps }), ...(seed === undefined ? {} : { seed }) },
})

function writeSchedule({ job, schedule }: Loaded, folder: string, io: Io): Pick<EmittedFolder, 'folder' | 'files'> {
  writeFolder(folder, { 'schedule.csv': printSchedule(schedule ?? scheduleOf(job.plan)) }, { io, keeps: true })
  return { folder, files: ['schedule.csv'] }
}

function told({ job, program }: Loaded, written: Partial<EmittedFolder>, options: EmitOptions): string {
  const { out: folder } = options
  if (options.scheduleCsv) return `wrote ${join(folder, 'schedule.csv')}\n`
  const { files = [], data } = written
  const world = worldOf(program.mesh)
  const held = heldBytes(program)
  const most = Math.max(...held)
  return [
    `wrote ${files.length} files to ${folder}: ${counted(program.streams.length, 'pipeline stage')}, ${counted(world, 'rank')}`,
    isSynthetic(job) ? syntheticLine : `data: ${data}`,
    `largest memory: stage ${held.indexOf(most)}, tensors of ${showBytes(most)} per rank in PyTorch`,
    `next: cd ${folder} && ${startOf(world)}`,
    '',
  ].join('\n')
}

const isSynthetic = ({ data }: Job): boolean => data === undefined || formOf(data) === 'synthetic'

const syntheticLine = 'data: SYNTHETIC, generated from the seed; set data.source to train on your own'

/** The command for as many ranks as one node has GPUs, or for several nodes. */
function startOf(world: number): string {
  if (world <= devicesPerNode) return 'sh launch.sh   (without GPUs: --device cpu)'
  const nodes = Math.ceil(world / devicesPerNode)
  const perNode = `NNODES=${nodes} NODE_RANK=n MASTER_ADDR=host sh launch.sh`
  return `sbatch slurm.sbatch   (${nodes} nodes)\nwithout Slurm, on each node: ${perNode}`
}
