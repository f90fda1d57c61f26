/** What a rank must hold: the lessons on the memory wall and on ZeRO. */
import { clusterOf, clusterPrices, type Program, rankTraffic, runOf, simulate, sizesOf, tallyOf } from 'lockstep'
import { type Bytes, type JobText, jobOf, peakOf, programOf, pythonOf, segmentLines, stateBytes } from './jobs.js'
import { type Live, liveOver } from './live.js'

/** Bytes of a parameter while it is trained: weight, gradient, and what Adam keeps. */
export const recipes = {
  '8': { precision: 'pure-bf16' },
  '12': { precision: 'bf16-no-masters', gradients: 'bf16' },
  '16': { precision: 'bf16', gradients: 'bf16' },
  '18': { precision: 'bf16' },
  f32: { precision: 'f32' },
} as const
export type Recipe = keyof typeof recipes

export interface WallInput {
  readonly model: string
  readonly recipe: Recipe
  readonly sequences: number
  readonly device: string
}

export interface WallAnswer {
  readonly bytes: Bytes
  readonly states: number
  readonly all: number
  readonly parameters: number
  readonly capacity: number
  /** Devices whose memory together would just hold the states. */
  readonly devices: number
  /** Of data parallelism over 1, 8 and 64 ranks: what all of them hold together. */
  readonly total: readonly { readonly ranks: number; readonly bytes: number }[]
  readonly job: JobText
}

const wallJob = ({ model, recipe, sequences }: WallInput, ranks = 1): JobText => ({
  model,
  training: { seq: 2048, globalBatch: sequences * ranks },
  plan: { ...recipes[recipe], ...(ranks > 1 && { dp: ranks }) },
})

export function wall(input: WallInput): WallAnswer {
  const job = wallJob(input)
  const bytes = peakOf(programOf(job))
  const states = stateBytes(bytes)
  const all = Object.values(bytes).reduce((sum, each) => sum + each, 0)
  const { memory } = clusterOf(input.device, 1).device
  const total = [1, 8, 64].map(ranks => {
    const peak = ranks === 1 ? bytes : peakOf(programOf(wallJob(input, ranks)))
    return { ranks, bytes: ranks * stateBytes(peak) }
  })
  const { parameters } = sizesOf(jobOf(job).model, 2048)
  return { bytes, states, all, parameters, capacity: memory, devices: Math.ceil(states / memory), total, job }
}

/** The update of one matrix: what it reads and writes is what has to be kept for it. */
export const updateLines = ({ recipe }: Pick<WallInput, 'recipe'>): readonly string[] =>
  segmentLines(
    programOf({
      model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
      training: { seq: 4, globalBatch: 1 },
      plan: recipes[recipe],
    }),
    name => name === 'update layers.up',
  )

/** Days of 300 billion tokens on one device, had it the memory. */
export function daysAlone(input: WallInput): number {
  const job = wallJob(input)
  const program = programOf(job)
  const cluster = clusterOf(input.device, 1)
  const { step } = simulate(program, clusterPrices(program, cluster), { watch: [] })
  const tokens = input.sequences * 2048
  return runOf(step, { tokens, devices: 1 }, { tokens: 300e9 }).days
}

export interface ZeroInput {
  readonly model: string
  readonly ranks: number
  readonly recipe: '16' | '18'
}

export interface ZeroStage {
  readonly zero: number
  readonly bytes: Bytes
  readonly states: number
  /** Of a step on H100s. */
  readonly step: number
  readonly parts: Readonly<Record<'compute' | 'dp' | 'optimizer' | 'other', number>>
  /** Collectives over dp that carry parameters or gradients: how often each kind is started in a step. */
  readonly collectives: Readonly<Record<string, number>>
  readonly job: JobText
}

export interface ZeroAnswer {
  readonly stages: readonly ZeroStage[]
  readonly parameters: number
  readonly capacity: number
}

const zeroJob = ({ model, ranks, recipe }: ZeroInput, zero: number): JobText => ({
  model,
  training: { seq: 2048, globalBatch: ranks },
  plan: { dp: ranks, zero, ...recipes[recipe] },
})

export const stages = (input: ZeroInput): ZeroAnswer => ({
  stages: [0, 1, 2, 3].map(zero => stageOf(input, zero)),
  parameters: sizesOf(jobOf(zeroJob(input, 0)).model, 2048).parameters,
  capacity: clusterOf('h100', 1).device.memory,
})

function stageOf(input: ZeroInput, zero: number): ZeroStage {
  const job = zeroJob(input, zero)
  const program = programOf(job)
  const bytes = peakOf(program)
  const { step, parts } = simulate(program, clusterPrices(program, clusterOf('h100', input.ranks)), { watch: [] })
  const { compute, dp, optimizer } = parts
  return {
    ...{ zero, bytes, states: stateBytes(bytes), step, collectives: overData(program), job },
    parts: { compute, dp, optimizer, other: step - compute - dp - optimizer },
  }
}

/** Sums of one number (the loss, the norm) are left out. */
function overData(program: Program): Record<string, number> {
  const calls: Record<string, number> = {}
  for (const { name, instrs, calls: times } of tallyOf(program).segments.values())
    for (const instr of new Set(instrs))
      if (instr.endsWith(' dp') && !name.startsWith('sum ')) {
        const kind = instr.slice(0, -3)
        calls[kind] = (calls[kind] ?? 0) + times
      }
  return calls
}

export interface HeldInput extends ZeroInput {
  readonly zero: number
}

/** What a rank of a step of four microbatches holds over time. */
export interface HeldAnswer {
  readonly reduce: Reduce
  readonly live: Live
  /** The most that gradients take. */
  readonly gradients: number
  /** Bytes of gradients that a rank brings to reductions in the step. */
  readonly reduced: number
  readonly job: JobText
}

export const reduces = ['microbatch', 'step'] as const
export type Reduce = (typeof reduces)[number]

const microbatches = 4

const heldJob = (input: HeldInput, reduce: Reduce): JobText => {
  const { model, plan } = zeroJob(input, input.zero)
  const again = input.zero >= 2 ? { reduce } : {}
  return {
    model,
    training: { seq: 2048, globalBatch: microbatches * input.ranks },
    plan: { ...plan, microbatches, ...again },
  }
}

/** Both ways to reduce gradients; without slices of gradients there is one. */
export const held = (input: HeldInput): readonly HeldAnswer[] =>
  reduces.slice(0, input.zero >= 2 ? 2 : 1).map(reduce => heldOf(input, reduce))

function heldOf(input: HeldInput, reduce: Reduce): HeldAnswer {
  const job = heldJob(input, reduce)
  const program = programOf(job)
  const prices = clusterPrices(program, clusterOf('h100', input.ranks))
  const reducing = rankTraffic(program, prices, 0).filter(({ what }) => /^(all-reduce|reduce-scatter) /.test(what))
  return {
    ...{ reduce, job, live: liveOver(program, simulate(program, prices), 0), gradients: peakOf(program).gradients },
    reduced: reducing.reduce((sum, { bytes }) => sum + bytes, 0),
  }
}

export interface Excerpt {
  readonly lines: readonly string[]
  readonly python: string
}

/** The collectives of a stage, from a model small enough to be read; of a large one the same, layer by layer. */
export function zeroCode({ zero }: { readonly zero: number }): Excerpt {
  const program = programOf({
    model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
    training: { seq: 4, globalBatch: 4 },
    plan: { dp: 4, zero, precision: 'bf16' },
  })
  const moves = (name: string) => /^(gather|reduce)\b/.test(name)
  return { lines: segmentLines(program, moves), python: pythonOf(program, name => /^(gather|reduce)_/.test(name)) }
}

/** Under ZeRO-1: how many times less a rank holds when there are sixteen times as many ranks. */
export const shrinks = (input: ZeroInput): number => states(input, 1) / states({ ...input, ranks: 16 * input.ranks }, 1)

const states = (input: ZeroInput, zero: number): number => stateBytes(peakOf(programOf(zeroJob(input, zero))))
