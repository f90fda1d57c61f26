/** Spans as columns: of simulated and of measured steps, with what each span is. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot, startTrainer, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { isCollective, type Segment } from '../src/ir/index.js'
import { boxesOf } from '../src/report/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import {
  labelsOf,
  lanes,
  nameOf,
  noLink,
  type SpanColumns,
  SpanWriter,
  spanKinds,
  spansIn,
} from '../src/trace/index.js'
import { jobOf } from './jobs.js'

const program = compileJob(jobOf('gpt', { pp: 2, dp: 2, tp: 2, zero: 1, microbatches: 2, schedule: 'zb-h1' }))
const simulation = simulate(program, clusterPrices(program, clusterOf('h100', 8)))

test('columns hold what spans say, and grow as far as they must', () => {
  const writer = new SpanWriter()
  for (let i = 0; i < 5000; i++)
    writer.add({ step: i, instr: i - 1, lane: i % 3, ...(i % 3 === 1 && { link: 1 }) }, i, i + 0.5)
  const columns = writer.columns(['nvlink', 'infiniband'])
  equal(columns.start.length, 5000)
  deepEqual(spansIn(columns, 7).slice(4000, 4002), [
    { rank: 7, lane: 'network', link: 'infiniband', step: 4000, instr: 3999, start: 4000, end: 4000.5 },
    { rank: 7, lane: 'host', step: 4001, instr: 4000, start: 4001, end: 4001.5 },
  ])
})

test('ranks of one role have equal columns, of memory that may be given away', () => {
  const { roles, roleOf, columnsOf } = simulation
  deepEqual(
    roles.map(({ pp, ranks }) => [pp, ranks]),
    [
      [0, 4],
      [1, 4],
    ],
  )
  for (let rank = 0; rank < 8; rank++) deepEqual(columnsOf(rank), columnsOf(roles[roleOf(rank)].rank))
  structuredClone(columnsOf(0).start, { transfer: [columnsOf(0).start.buffer] })
  const given = columnsOf(0)
  structuredClone(given.start, { transfer: [given.start.buffer] })
  equal(given.start.length, 0)
  ok(columnsOf(0).start.length > 0)
})

test('labels say phase, stage, microbatch, axis and collective as the program does', () => {
  for (const { pp, rank } of simulation.roles) {
    const columns = simulation.columnsOf(rank)
    const labels = labelsOf(program, pp, columns)
    const spans = spansIn(columns, rank)
    for (const [i, span] of spans.entries()) {
      const [kind, op, name] = [spanKinds[labels.kind[i]], labels.ops[labels.op[i]], nameOf(program, span)]
      if (span.lane === 'network') {
        equal(columns.links[columns.link[i]], 'nvlink')
        if (op === 'send') equal(kind, 'pp')
        else ok(name.includes(op) && (kind === 'mesh' || name.endsWith(` ${kind}`)), `${name}: ${op} ${kind}`)
      } else {
        equal(columns.link[i], noLink)
        const step = program.streams[pp].steps[span.step]
        const task = step.kind === 'call' && step.block >= 0
        equal(labels.stage[i], task ? program.blocks[step.block].stage : -1)
        if ('FIWB'.includes(kind)) ok(name.includes(`.${kind}`) && labels.microbatch[i] >= 0, name)
      }
    }
    const { work } = boxesOf(program, spans, simulation.step)
    deepEqual([...new Set(work.map(box => box.kind))].sort(), kindsOf(columns, labels.kind, 'compute', 'host'))
  }
})

const kindsOf = ({ lane }: SpanColumns, kind: Uint8Array, ...of: readonly string[]): string[] =>
  [...new Set(Array.from(kind, k => spanKinds[k]).filter((_, i) => of.includes(lanes[lane[i]])))].sort()

test('stages that meet alone are counted under pp by summary and timeline, whether their group names it or not', () => {
  const tied = compileJob(jobOf('gpt tied', { pp: 2, microbatches: 2 }))
  const segments = Object.fromEntries(Object.entries(tied.segments).map(([name, own]) => [name, withoutPp(own)]))
  const [a, b] = [tied, { ...tied, segments }].map(program => {
    const { parts, columnsOf } = simulate(program, clusterPrices(program, clusterOf('h100', 2)))
    return { parts, kinds: kindsOf(columnsOf(0), labelsOf(program, 0, columnsOf(0)).kind, 'network') }
  })
  deepEqual(a.kinds, ['pp'])
  ok(a.parts.pp > 0 && a.parts.dp === 0)
  deepEqual(b, a)
})

const withoutPp = (segment: Segment): Segment => ({
  ...segment,
  instrs: segment.instrs.map(instr =>
    isCollective(instr) && instr.group.stages ? { ...instr, group: { ...instr.group, axes: [] } } : instr,
  ),
})

test('measured spans are columns too, a rank each, of both engines', async () => {
  const data = (step: number) => ({ inputs: syntheticData(inputsOf(program), 8, 1)(step), lr: 1e-3, step })
  for (const kernels of ['reference', 'auto'] as const) {
    const trainer = await startTrainer(program, { seed: 1, kernels, measure: true })
    await trainer.step(data(0))
    const { columns, spans } = trainer
    equal(columns.length, 8)
    deepEqual(
      spans,
      columns.flatMap((own, rank) => spansIn(own, rank)),
    )
    for (const [rank, own] of columns.entries()) {
      ok(own.start.length > 0 && own.start.every((start, i) => start <= own.end[i]))
      const kinds = kindsOf(own, labelsOf(program, rank >> 2, own).kind, 'network')
      ok(kinds.includes('tp') && kinds.includes('dp'), `${kernels}: ${kinds.join()}`)
    }
    await trainer.stop()
  }
  deepEqual(boot(program, { seed: 1 }).columns, [])
})
