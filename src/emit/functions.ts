/** The functions of a stage's module. Segments that differ in nothing but the parameter they serve share one. */
import type { Segment } from '../ir/index.js'
import { isDoneApart } from './beside.js'
import { bracketed, folded, identifier, plain } from './python.js'
import type { SegmentFunction } from './segment.js'

export interface PythonFunction extends Pick<SegmentFunction, 'takes' | 'gives' | 'lists'> {
  readonly name: string
  readonly phase: Segment['phase']
  readonly lines: readonly string[]
  /** The segments it stands for. */
  readonly segments: readonly string[]
  /** Of parameters that lie side by side it takes each by itself. */
  readonly apart: boolean
}

export function functionsOf(emitted: readonly SegmentFunction[]): PythonFunction[] {
  const alike = new Map<string, SegmentFunction[]>()
  for (const one of emitted) {
    const { segment, args, body, results, takes, gives, lists } = one
    const key = JSON.stringify([segment.phase, args, body, results, takes, gives, lists])
    alike.set(key, [...(alike.get(key) ?? []), one])
  }
  const taken = new Set<string>()
  return [...alike.values()].map(group => {
    const name = nameOf(group, taken)
    const { segment, takes, gives, lists } = group[0]
    const segments = group.map(({ segment }) => segment.name)
    return {
      name,
      phase: segment.phase,
      lines: linesOf(name, group),
      takes,
      gives,
      lists,
      segments,
      apart: isDoneApart(segment),
    }
  })
}

function nameOf([first, ...others]: readonly SegmentFunction[], taken: Set<string>): string {
  const base = identifier(others.length > 0 ? first.segment.phase : first.segment.name)
  let name = base
  for (let n = 2; taken.has(name); n++) name = `${base}_${n}`
  taken.add(name)
  return name
}

function linesOf(name: string, group: readonly SegmentFunction[]): string[] {
  const [{ args, body, results }] = group
  return [
    ...bracketed(`def ${name}(`, [['here'], ...args], '):'),
    `    """${plain(titleOf(group))}"""`,
    ...body.flatMap(line => folded(line, '    ')),
    ...returned(results),
  ]
}

/** Always a tuple, so that the runtime need not check. */
function returned(groups: readonly (readonly string[])[]): string[] {
  const items = groups.flat()
  if (items.length < 2) return [`    return (${items.map(item => `${item},`).join('')})`]
  return bracketed('return (', groups, ')', '    ')
}

const phases: Readonly<Record<Segment['phase'], string>> = {
  F: 'Forward',
  I: 'Backward (input gradients)',
  W: 'Backward (weight gradients)',
  B: 'Backward',
  C: 'Quantized weights',
  begin: 'Start of the step',
  load: 'Data',
  count: 'Loss denominator',
  gather: 'All-gather of parameters',
  reduce: 'Reduction',
  add: 'Accumulation of reduced gradients',
  norm: 'Gradient norm',
  move: 'Offload copy',
  update: 'Optimizer',
}

function titleOf(group: readonly SegmentFunction[]): string {
  const [{ segment, lists }, ...others] = group
  const name = `${segment.name}${others.length > 0 ? ` and ${others.length} more` : ''}`
  return `${phases[segment.phase]}: ${name}${lists.length > 0 ? ' (foreach)' : ''}.`
}
