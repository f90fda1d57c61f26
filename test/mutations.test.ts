/**
 * The laws catch every slip that changes a number, and point at it. Programs of several plans are broken in every way
 * `mutate/` knows; a mutant that the laws let pass is run on the reference machine and must compute what one rank
 * computes. MUTANTS=20 makes as many of each kind; SEED=7 makes others.
 */
import assert from 'node:assert/strict'
import { compileJob, serialJob } from '../src/compile/index.js'
import { type CompareOptions, compare, runSerial, type SerialRun, worstOf } from '../src/engine/index.js'
import { type Place, type Program, SerialReplay, showViolation, type Violation, verify } from '../src/ir/index.js'
import { family, test } from './families.js'
import { jobOf, type ModelName, optionsOf, shallow, titleOf } from './jobs.js'
import { type Mutation, mutationsOf } from './mutate/index.js'
import { type Toy, toy } from './toy.js'

const plans: readonly [ModelName, Parameters<typeof jobOf>[1]][] = [
  ['gpt tied', { dp: 2, pp: 2, microbatches: 4, schedule: 'zb-h1', zero: 2 }],
  ['gpt tied', { pp: 2, microbatches: 4, schedule: 'dualpipe', tp: 2 }],
  ['llama', { tp: 4, dp: 2, microbatches: 2, sequenceParallel: true, zero: 3 }],
  ['gpt', { dp: 2, zero: 1, microbatches: 2, precision: 'bf16' }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 }, recompute: 'selective' }],
  ['llama tied', { tp: 2, pp: 2, microbatches: 2, schedule: 'interleaved', recompute: 'full', sequenceParallel: true }],
]

const seed = Number(process.env.SEED ?? 1)
const each = Number(process.env.MUTANTS ?? 1)

const tested = family('laws against mutants', 9)
for (const [model, plan] of plans)
  tested(`the laws catch what changes a number: ${model}, ${titleOf(plan)} (SEED=${seed})`, () => {
    const job = shallow(jobOf(model, plan))
    const [program, serial] = [compileJob(job), compileJob(serialJob(job, job.plan.microbatches))]
    const options = optionsOf(job)
    caughtOrHarmless({ program, serial, options, expected: runSerial(compileJob(serialJob(job)), options) }, each)
  })

/** Small, so that there can be more of each kind; 35 elements are not even among 2. */
for (const plan of [
  { zero: 1, dp: 2, embed: 5, ffn: 7 },
  { zero: 1, dp: 2, tp: 2, pp: 2, tied: true },
  { zero: 3, dp: 2, pp: 2, embed: 5, ffn: 7 },
  { zero: 3, dp: 2, tp: 2 },
] satisfies Toy[])
  test(`the laws catch what changes a number: toy, ${JSON.stringify(plan)} (SEED=${seed})`, () => {
    const { embed = 6, ffn = 8, tied = false }: Toy = plan
    const [program, serial] = [toy(plan), toy({ embed, ffn, tied })]
    const options = { steps: 2, seed: 1, lr: 0.05, vocab: 1 }
    caughtOrHarmless({ program, serial, options, expected: runSerial(serial, options), small: true }, 3 * each)
  })

interface Sample {
  readonly program: Program
  readonly serial: Program
  readonly options: CompareOptions
  readonly expected: SerialRun
  /** Hardly larger than the slip: where it is pointed at says little. */
  readonly small?: boolean
}

function caughtOrHarmless({ program, serial, options, expected, small = false }: Sample, each: number): void {
  const replay = new SerialReplay(serial)
  assert.deepEqual(verify(program, replay).map(showViolation), [])
  const mutants = mutationsOf(program, seed, each)
  let caught = 0
  for (const mutation of mutants) {
    const violations = verify(mutation.program, replay)
    if (violations.length > 0) {
      caught++
      assert.ok(
        small || violations.some(v => pointsAt(mutation, program, v)),
        `points elsewhere: ${show(mutation)}\n${violations.map(showViolation).join('\n')}`,
      )
    } else
      assert.ok(
        harmless(() => compare(mutation.program, expected, options)),
        `not caught: ${show(mutation)}`,
      )
  }
  // Most slips are no matter of taste: a law that lets everything pass would be seen here.
  assert.ok(caught > mutants.length * 0.7, `only ${caught} of ${mutants.length} caught`)
}

const show = ({ name, what, at }: Mutation) => `${name}: ${what} at ${JSON.stringify(at)}`

function harmless(run: () => ReturnType<typeof compare>): boolean {
  try {
    const comparison = run()
    return worstOf(comparison) < 1e-9 && comparison.spread.error === 0 && comparison.memory.length === 0
  } catch {
    return false
  }
}

/** At the segment or the step that was changed, or at one that shares a frame or a message with it: its first consumer. */
function pointsAt({ at, program }: Mutation, before: Program, violation: Violation): boolean {
  return at.some(place => {
    if (place.step === undefined && place.segment === undefined)
      return place.pipeline === undefined || place.pipeline === violation.pipeline
    const segments = [...segmentsAt(before, place), ...segmentsAt(program, place)]
    if (violation.segment !== undefined && segments.includes(bare(violation.segment))) return true
    const own = new Set([...touchedBy(before, place), ...touchedBy(program, place)])
    return touchedBy(program, violation).some(thing => own.has(thing))
  })
}

const bare = (segment: string) => segment.replace('~', '')

function segmentsAt({ streams }: Program, { segment, pipeline = 0, step }: Place): string[] {
  const call = step === undefined ? undefined : streams[pipeline].steps[step]
  return [...(segment === undefined ? [] : [bare(segment)]), ...(call?.kind === 'call' ? [bare(call.segment)] : [])]
}

/** The frames of a step and its neighbours (of a message, at both ends), or of all calls of a segment. */
function touchedBy({ streams }: Program, { pipeline, step, segment }: Place): string[] {
  const ends = new Map<string, string[]>()
  for (const [p, { steps }] of streams.entries())
    for (const at of steps)
      if (at.kind === 'send' || at.kind === 'recv')
        ends.set(at.tag, [...(ends.get(at.tag) ?? []), `${p} frame ${at.frame}`])
  return streams.flatMap(({ steps }, p) =>
    steps.flatMap((at, i) => {
      const near = step !== undefined && p === pipeline && Math.abs(i - step) <= 1
      if (!near && !(step === undefined && at.kind === 'call' && at.segment === segment)) return []
      if (at.kind === 'call') return at.bind.map(frame => `${p} frame ${frame}`)
      return 'tag' in at ? (ends.get(at.tag) ?? []) : [`${p} frame ${at.frame}`]
    }),
  )
}
