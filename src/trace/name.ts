/** Spans by what they are: the block, the phase, the op and the parameter it works with. */
import type { Rank } from '../base/index.js'
import { type Call, type Instr, isCollective, type Program, type Segment } from '../ir/index.js'
import { doneBy, type Span, streamOf } from './span.js'

/**
 * The name of a span: 'layers.3.F attn.q', 'layers.3.F all-reduce tp', 'update layers.3.attn.q adamw', 'send F0.1 x'.
 */
export function nameOf(program: Program, span: Span): string {
  const { step, instr } = doneBy(program, span)
  if (step.kind === 'wait') return `wait ${tagText(program, span.rank, step.tag)}`
  if (step.kind !== 'call') return 'tag' in step ? `${step.kind} ${step.tag}` : step.kind
  const segment = program.segments[step.segment]
  const where = whereOf(program, step, segment)
  if (!instr) return where
  if (instr.kind === 'wait') {
    const awaited = segment.instrs.find(other => isCollective(other) && other.outs[0] === instr.on)
    return `${where} ${awaited ? whatOf(awaited, segment) : ''} wait`
  }
  return segment.instrs.length === 1 && !isCollective(instr) ? where : `${where} ${whatOf(instr, segment)}`
}

function whereOf({ blocks }: Program, { block, param }: Call, { name, phase }: Segment): string {
  if (blocks[block]) return `${blocks[block].name}.${phase}`
  return param === undefined ? name : `${phase} ${param}`
}

/** A product is known by its parameter; other ops are named too. */
function whatOf(instr: Instr, segment: Segment): string {
  if (isCollective(instr)) return `${instr.kind} ${instr.group.axes.join('+')}`
  const of = parameterOf(instr, segment)
  if (of === undefined) return instr.kind
  return instr.kind === 'contract' ? of : `${instr.kind} ${of}`
}

const parameterRoles = ['param', 'full', 'grad', 'reduced']

function parameterOf(instr: Instr, { buffers, roles }: Segment): string | undefined {
  const refs = 'ins' in instr ? [...instr.ins, ...instr.outs] : []
  const names = refs.map(ref => roles[buffers[ref]?.role ?? -1]?.name)
  const found = names.find(name => name !== undefined && parameterRoles.includes(name.is))
  return found && 'of' in found ? found.of : undefined
}

/** A tag names a message, or the call whose collectives are waited for. */
function tagText(program: Program, rank: Rank, tag: string): string {
  const call = streamOf(program, rank)?.steps.find(step => step.kind === 'call' && step.tag === tag)
  return call?.kind === 'call' ? whereOf(program, call, program.segments[call.segment]) : tag
}
