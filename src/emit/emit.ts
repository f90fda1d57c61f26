/**
 * Code generation: a program as a folder of PyTorch. Each pipeline stage has a module of straight-line functions and the schedule
 * that calls them; program.json and run.json describe mesh, parameters and run; launchers start it.
 * Pure: it returns paths and texts, which the caller writes.
 */
import { asPart, documentRanks, finish, partialAxes, rankAt, stateEntries, type Work, worldOf } from '../base/index.js'
import { type Group, masterFrame, type Param, type Program, resultPlaces, type Segment, traitsOf } from '../ir/index.js'
import { emitBucket, isBucket } from './buckets.js'
import { chooses, isGuarded } from './experts.js'
import { groupLabel, Unwritten } from './expressions.js'
import { functionsOf, type PythonFunction } from './functions.js'
import { type FusedParams, fusedParamsIn } from './fused-params.js'
import { launchers } from './launchers.js'
import { mergedHeads } from './merged-heads.js'
import { heldBytes } from './peak-memory.js'
import { plain } from './python.js'
import { readme } from './readme.js'
import type { Run } from './run.js'
import { placesOf, scheduleText } from './schedule.js'
import { emitSegment, type SegmentFunction } from './segment.js'
import { findingUsage, type Usage } from './usage.js'

/** File contents by path below the folder. */
export type Files = Readonly<Record<string, string>>

/**
 * Generates a PyTorch run: files by path. `runtime` is the text of the files of src/emit/runtime, by name;
 * `evaluation` the forward-only program of the same job; `earlier` the programs of steps before the last phase, by the
 * name of their phase; `others` programs for other numbers of ranks, of which train.py takes the one that fits.
 */
export const emit = (
  program: Program,
  run: Run,
  runtime: Files,
  evaluation?: Program,
  earlier?: Earlier,
  others?: readonly Programs[],
): Files => finish(emitting(program, run, runtime, evaluation, earlier, others))

/** The generated modules and schedules of a program alone, without launchers and configuration. */
export const emitProgram = (program: Program): Files => finish(writingPlan({ program }))

export type Earlier = Readonly<Record<string, Program>>

/** All programs of one plan. */
export interface Programs {
  readonly program: Program
  readonly evaluation?: Program | undefined
  readonly earlier?: Earlier
}

export function* emitting(
  compiled: Program,
  run: Run,
  runtime: Files,
  evaluation?: Program,
  earlier: Earlier = {},
  others: readonly Programs[] = [],
): Work<Files> {
  const program = mergedHeads(compiled)
  const share = 1 / (1 + others.length)
  const trains = yield* asPart(0, share, writingPlan({ program: compiled, evaluation, earlier }))
  const folders: Record<string, string> = {}
  for (const [i, other] of others.entries()) {
    const files = yield* asPart(share * (i + 1), share * (i + 2), writingPlan(other))
    Object.assign(folders, below(`ranks-${worldOf(other.program.mesh)}`, files))
  }
  const { job, tokenizer, texts, ...settings } = run
  const worlds = others.map(other => worldOf(other.program.mesh))
  return {
    'README.md': readme(program, run, worlds),
    'train.py': entry,
    'run.json': `${JSON.stringify(settings, null, 2)}\n`,
    'job.json': `${JSON.stringify(job, null, 2)}\n`,
    ...(tokenizer === undefined ? {} : { 'tokenizer.json': tokenizer }),
    ...texts,
    ...trains,
    ...folders,
    ...below('runtime', runtime),
    ...launchers(run, worldOf(program.mesh)),
  }
}

function* writingPlan({ program: compiled, evaluation, earlier = {} }: Programs): Work<Files> {
  const program = mergedHeads(compiled)
  const beside = fusedParamsIn(program)
  const trains = yield* asPart(0, evaluation ? 0.8 : 1, writingProgram(program, beside))
  const evaluates = evaluation && (yield* asPart(0.8, 1, writingProgram(evaluation, fusedParamsIn(evaluation, beside))))
  return { ...trains, ...(evaluates && below('evaluation', evaluates)), ...earlierSteps(earlier, program, beside) }
}

/** Folders of programs that work on what the last one works on: it must lie alike in all of them. */
function earlierSteps(earlier: Earlier, last: Program, beside: FusedParams): Files {
  const folders = Object.entries(earlier).map(([phase, compiled]) => {
    const program = mergedHeads(compiled)
    const lies = fusedParamsIn(program, beside)
    if (lies.names.size !== beside.names.size || !isKeptAlike(program, last))
      throw new Error(`internal: steps of ${phase} keep parameters in another way`)
    return below(phase, finish(writingProgram(program, lies)))
  })
  return Object.assign({}, ...folders)
}

const isKeptAlike = (a: Program, b: Program): boolean =>
  JSON.stringify(a.params.map(placesKept)) === JSON.stringify(b.params.map(placesKept))

const placesKept = ({ name, kept, state, keptInside, apart, frames }: Param) => [
  ...[name, kept, state, keptInside, apart],
  Object.entries(frames).map(([pp, { states }]) => [pp, Object.keys(states)]),
]

const below = (folder: string, files: Files): Files =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${folder}/${name}`, text]))

function* writingProgram(program: Program, beside: FusedParams): Work<Files> {
  const usage = yield* asPart(0, 0.6, findingUsage(program))
  const places = program.streams.map(stream => placesOf(program, stream))
  const files: Record<string, string> = { 'program.json': programText(program) }
  for (const pp of program.streams.keys()) {
    yield 0.6 + (0.4 * pp) / program.streams.length
    const segments = segmentsOf(program, pp).map(segment => emitted(program, segment, usage.get(segment.name)!, beside))
    const functions = functionsOf(segments)
    files[`stage${pp}.py`] = moduleText(program, pp, functions)
    files[`stage${pp}.json`] = scheduleText(program, pp, functions, places, beside.rows(pp))
  }
  return files
}

/** The segments a stream calls, in the order it first calls them. */
function segmentsOf({ segments, streams }: Program, pp: number): Segment[] {
  const names = streams[pp].steps.flatMap(step => (step.kind === 'call' ? [step.segment] : []))
  return [...new Set(names)].map(name => segments[name])
}

function emitted(program: Program, segment: Segment, usage: Usage, beside: FusedParams): SegmentFunction {
  try {
    return isBucket(segment)
      ? emitBucket(segment, usage, beside.within(segment))
      : emitSegment(program, segment, usage, beside.uses(segment))
  } catch (e) {
    if (e instanceof Unwritten) throw new Error(`internal: ${segment.name} cannot be written: ${e.message}`)
    throw e
  }
}

const entry = `"""Starts this rank: torchrun --nproc_per_node=N train.py (launch.sh sets the numbers)."""
from runtime.train import main

if __name__ == "__main__":
    main(__file__)
`

function moduleText(program: Program, pp: number, functions: readonly PythonFunction[]): string {
  const blocks = program.blocks.filter(({ name }) => callsBlock(program, pp, name)).map(({ name }) => name)
  const head = [
    '"""',
    `Pipeline stage ${pp} of ${program.streams.length}: ${plain(runsOf(blocks))}.`,
    '',
    'Generated by Lockstep: edit the job, not this file. Each line is an operation or a collective;',
    `stage${pp}.json lists when each function is called and with which buffers. Shapes are those of one rank's shards.`,
    '`ctx` has the mesh coordinates of the rank, its collectives and the current step.',
    '"""',
    'from runtime import ops',
  ]
  return `${head.join('\n')}\n${functions.map(({ lines }) => `\n\n${lines.join('\n')}\n`).join('')}`
}

const callsBlock = ({ streams, blocks }: Program, pp: number, name: string): boolean =>
  streams[pp].steps.some(step => step.kind === 'call' && blocks[step.block]?.name === name)

/** 'embed, layers.0 ... layers.7' */
function runsOf(names: readonly string[]): string {
  const stem = (name: string | undefined) => name?.replace(/\d+$/, '')
  const kept = names.filter((name, i) => stem(name) !== stem(names[i - 1]) || stem(name) !== stem(names[i + 1]))
  return kept.map((name, i) => (i > 0 && stem(name) === stem(kept[i - 1]) ? `... ${name}` : name)).join(', ')
}

/** What every rank needs: the mesh, process groups in the order all ranks create them, parameters. */
function programText(program: Program): string {
  const { name, mesh, microbatches, params, inputs, results, scalars = {}, streams } = program
  const text = (value: unknown) => JSON.stringify(value)
  const list = (items: readonly unknown[]) => `[\n${items.map(item => `    ${text(item)}`).join(',\n')}\n  ]`
  const held = heldBytes(program)
  const arenas = streams.map(({ arena, peak }, pp) => ({ arena, held: held[pp], peak }))
  return `{
  "name": ${text(name)},
  "mesh": ${text(mesh.axes)},
  "world": ${worldOf(mesh)},
  "reporter": ${reporterOf(program)},
  "microbatches": ${microbatches},${isGuarded(program) ? '\n  "guarded": true,' : ''}${chooses(program) ? '\n  "chooses": true,' : ''}${mesh.zigzag?.documents ? `\n  "documentRanks": ${documentRanks(mesh)},` : ''}
  "groups": ${list(groupsOf(program))},
  "inputs": ${list(inputs)},
  "results": ${text(results)},
  "scalars": ${text(scalars)},
  "params": ${list(params.map(paramOf))},
  "memory": ${list(arenas)}
}
`
}

/** A master is apart from the states: it is what the parameter is rounded from, and is saved in its place. */
const paramOf = ({ frames, ...param }: Param) => ({
  ...param,
  frames: Object.fromEntries(
    Object.entries(frames).map(([pipeline, held]) => {
      const master = masterFrame(held)
      const states = Object.fromEntries(stateEntries(held.states).filter(([, frame]) => frame !== master))
      return [pipeline, { ...held, states, ...(master !== undefined && { master }) }]
    }),
  ),
})

/** The first rank that knows the loss. */
function reporterOf({ mesh, results }: Program): number {
  const [[pp]] = resultPlaces(results.loss)
  return rankAt(mesh, { pp })
}

function groupsOf({ params, segments }: Program): (Group & { readonly label: string })[] {
  const found = new Map<string, Group>()
  // Who adds up what a checkpoint is to hold.
  for (const { layout } of params.flatMap(({ apart = {} }) => Object.values(apart)))
    if (partialAxes(layout).length > 0) found.set(partialAxes(layout).join('+'), { axes: partialAxes(layout) })
  for (const { instrs } of Object.values(segments))
    for (const instr of instrs) {
      const { meets } = traitsOf(instr)
      if (meets) found.set(groupLabel(meets), meets)
    }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([label, group]) => ({ label, ...group }))
}
