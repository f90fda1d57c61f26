/** The functions of a stage's module. Segments that differ in nothing but the parameter they serve share one. */
import type { Segment } from '../ir/index.js'
import { isDoneSeparately } from './fused-params.js'
import { bracketed, folded, identifier, plain, snakeCase } from './python.js'
import type { SegmentFunction } from './segment.js'

export interface PythonFunction extends Pick<SegmentFunction, 'takes' | 'gives' | 'lists'> {
  readonly name: string
  readonly phase: Segment['phase']
  readonly lines: readonly string[]
  /** The segments it stands for. */
  readonly segments: readonly string[]
  /** It takes fused parameters one by one. */
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
      apart: isDoneSeparately(segment),
    }
  })
}

function nameOf([first, ...others]: readonly SegmentFunction[], taken: Set<string>): string {
  const base = identifier(others.length > 0 ? phaseNames[first.segment.phase] : inFieldWords(first.segment.name))
  let name = base
  for (let n = 2; taken.has(name); n++) name = `${base}_${n}`
  taken.add(name)
  return name
}

function linesOf(name: string, group: readonly SegmentFunction[]): string[] {
  const [{ args, body, results }] = group
  return [
    ...bracketed(`def ${name}(`, [['ctx'], ...args], '):'),
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

/** Of functions that serve many parameters. */
const phaseNames: Readonly<Record<Segment['phase'], string>> = {
  ...{ F: 'forward', I: 'backward_input', W: 'backward_weight', B: 'backward', C: 'quantize_weights' },
  ...{ begin: 'clear_grads', load: 'load', count: 'count', gather: 'all_gather', reduce: 'reduce', add: 'add' },
  ...{ norm: 'grad_norm', move: 'offload', update: 'update' },
}

const passes: Readonly<Record<string, string>> = {
  ...{ F: 'forward', I: 'backward input', W: 'backward weight', B: 'backward', C: 'quantize weights' },
  ...{ FB: 'forward backward', FI: 'forward backward input' },
}

const verbs: Readonly<Record<string, string>> = {
  ...{
    take: 'count applied',
    begin: 'clear grad',
    agree: 'sync amax',
    deal: 'assign',
    lift: 'prefetch',
    norm: 'grad norm',
  },
  ...{ sum: 'all reduce', gather: 'all gather', clear: 'zero', down: 'to host', up: 'to device', out: 'offload' },
  ...{ back: 'reload', pack: 'quantize', unpack: 'dequantize' },
}

/** layers.F -> layers forward, take -> count applied */
function inFieldWords(segment: string): string {
  const pass = /\.([A-Z]+)(?=$|\W)/.exec(segment)
  if (pass && Object.hasOwn(passes, pass[1])) return segment.replace(pass[0], ` ${passes[pass[1]]}`)
  const inWords = (word: string, i: number) => (i < 2 && Object.hasOwn(verbs, word) ? verbs[word] : word)
  return segment.split(' ').map(inWords).join(' ')
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

/** What the phase does something with: 'layers' of layers.F, 'loss' of sum loss. */
function subjectOf({ name, phase }: Segment): string {
  if (phase === 'begin' || phase === 'move') return snakeCase(inFieldWords(name))
  const subject = name.replace(/\.[A-Z]+(?=$|\W)/, '').replace(/^(norm|update|load|gather|reduce|sum|add) /, '')
  return snakeCase(inFieldWords(subject))
}

function titleOf(group: readonly SegmentFunction[]): string {
  const [{ segment, lists }, ...others] = group
  const name = `${subjectOf(segment)}${others.length > 0 ? ` and ${others.length} more` : ''}`
  return `${phases[segment.phase]}: ${name}${lists.length > 0 ? ' (foreach)' : ''}.`
}
