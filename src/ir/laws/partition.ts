/** P1 and P2: the model is cut completely and once, and every microbatch passes every block once each way. */
import type { Spoken } from '../../base/index.js'
import type { Block, Phase, Program } from '../program.js'
import { type Finding, placeOf } from './law.js'
import { clause, told } from './phrases.js'
import { everyStep } from './walk.js'

export const partition = (program: Program, serial?: Program): Finding[] => [
  ...blocksInOrder(program),
  ...(serial ? sameBlocks(program.blocks, serial.blocks) : []),
  ...passes(program),
]

function blocksInOrder({ blocks, stages }: Program): Finding[] {
  const names = new Set<string>()
  return blocks.flatMap((block, i): Finding[] => {
    const { name, stage } = block
    const again = names.has(name)
    names.add(block.name)
    const before = blocks[i - 1]?.stage ?? 0
    return [
      ...(again ? [told('P/block-twice', { name })] : []),
      ...(block.stage < before ? [told('P/block-late', { name, stage, before })] : []),
      ...(block.stage < 0 || block.stage >= stages ? [told('P/block-stage', { name, stage, stages })] : []),
    ].map(said => ({ law: 'P1', ...said }))
  })
}

function sameBlocks(blocks: readonly Block[], model: readonly Block[]): Finding[] {
  const show = (block?: Block) => (block ? `${block.name} (${block.kind})` : clause('.nothing'))
  const first = Array.from({ length: Math.max(blocks.length, model.length) }, (_, i) => i).find(
    i => blocks[i]?.name !== model[i]?.name || blocks[i]?.kind !== model[i]?.kind,
  )
  return first === undefined
    ? []
    : [{ law: 'P1', ...told('P/block-other', { block: first, own: show(blocks[first]), model: show(model[first]) }) }]
}

interface Pass {
  readonly phase: Phase
  readonly pipeline: number
  readonly step: number
  readonly segment: string
}

function passes(program: Program): Finding[] {
  const table = passesOf(program)
  const needed = phasesOf(program)
  const first = firstBack(program, table)
  return program.blocks.flatMap((_, block) =>
    Array.from({ length: program.microbatches }, (_, microbatch) => {
      const own = table[block][microbatch]
      const fault =
        (block < first ? forwardOnly : counted)(own, needed.get(program.blocks[block].kind) ?? new Set()) ??
        inOrder(own, table[block - 1]?.[microbatch] ?? [])
      if (!fault) return []
      const said = told('P/pass', { block: program.blocks[block].name, microbatch, what: fault.what })
      return [{ law: 'P2' as const, ...said, ...placeOf(fault.at ?? {}) }]
    }).flat(),
  )
}

/** Where nothing is trained before, nothing goes back: an evaluation goes back nowhere, and blocks that are frozen may be the first. */
function firstBack({ evaluates, params, blocks }: Program, table: readonly (readonly Pass[][])[]): number {
  if (evaluates) return blocks.length
  if (!params.some(({ frozen }) => frozen)) return 0
  const found = table.findIndex(own => own.some(passes => passes.some(({ phase }) => phase !== 'F')))
  return found === -1 ? 0 : found
}

/** passes[block][microbatch], each in the order of its stream. */
function passesOf(program: Program): Pass[][][] {
  const table = program.blocks.map(() => Array.from({ length: program.microbatches }, (): Pass[] => []))
  for (const { pipeline, at, step } of everyStep(program)) {
    if (step.kind !== 'call' || step.block < 0 || step.microbatch < 0) continue
    const { phase } = program.segments[step.segment]
    if ('FBIW'.includes(phase))
      table[step.block][step.microbatch].push({ phase, pipeline, step: at, segment: step.segment })
  }
  return table
}

/** Which phases blocks of a kind have: what one microbatch of one such block does, all do. */
function phasesOf(program: Program): Map<string, Set<Phase>> {
  const phases = new Map(program.blocks.map(({ kind }) => [kind, new Set<Phase>()]))
  for (const { step } of everyStep(program)) {
    if (step.kind !== 'call' || step.block < 0) continue
    const { phase } = program.segments[step.segment]
    if ('FIW'.includes(phase)) phases.get(program.blocks[step.block].kind)?.add(phase)
  }
  return phases
}

interface Fault {
  readonly what: Spoken
  readonly at?: Pass | undefined
}

/** One F; then one B, or I and W. A block without parameters has no W, one without a gradient to hand back no I. */
function counted(own: readonly Pass[], needed: ReadonlySet<Phase>): Fault | undefined {
  const of = (phase: Phase) => own.filter(pass => pass.phase === phase)
  const [f, b, i, w] = [of('F'), of('B'), of('I'), of('W')]
  if (f.length !== 1) return { what: clause('.forwards', { count: f.length }), at: f[1] ?? own[0] }
  const missing = [...needed].find(phase => phase !== 'F' && of(phase).length === 0)
  if (missing && b.length === 0) return { what: clause('.no-phase', { phase: missing }), at: own[0] }
  const split = i.length <= 1 && w.length <= 1 && i.length + w.length > 0 && b.length === 0
  const joint = b.length === 1 && i.length + w.length === 0
  if (split || joint) return undefined
  const what = clause('.backwards', { B: b.length, I: i.length, W: w.length })
  return { what, at: b[1] ?? i[1] ?? w[1] ?? own[0] }
}

/** One F and nothing else. */
function forwardOnly(own: readonly Pass[]): Fault | undefined {
  const back = own.find(({ phase }) => phase !== 'F')
  if (back) return { what: clause('.goes-back', { segment: back.segment }), at: back }
  return own.length === 1 ? undefined : { what: clause('.forwards', { count: own.length }), at: own[1] }
}

/** On one stream, F before B or I, I before W; after the block before on the way forward, before it on the way back. */
function inOrder(own: readonly Pass[], before: readonly Pass[]): Fault | undefined {
  const stray = own.find(pass => pass.pipeline !== own[0].pipeline)
  if (stray) return { what: clause('.shared-by', { one: own[0].pipeline, other: stray.pipeline }), at: stray }
  const found = (list: readonly Pass[], ...phases: readonly Phase[]) => list.find(pass => phases.includes(pass.phase))
  const late = (first: Pass | undefined, second: Pass | undefined) =>
    first && second && first.pipeline === second.pipeline && first.step > second.step
      ? { what: clause('.before', { second: second.segment, first: first.segment }), at: second }
      : undefined
  const [f, back, w] = [found(own, 'F'), found(own, 'B', 'I'), found(own, 'W')]
  return late(f, back) ?? late(back, w) ?? late(found(before, 'F'), f) ?? late(back, found(before, 'B', 'I'))
}
