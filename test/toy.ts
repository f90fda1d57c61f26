/**
 * A training step small enough to write by hand, as text: h = x W, y = gelu h, z = y V, loss = |z - target|^2,
 * on dp x tp ranks and one or two stages, with V = W when tied. Frames are placed one after another; a line
 * `use` binds roles by name. The laws are tested on it without the compiler.
 *
 * With `zero: 1` parameters and gradients have room for all parts, of which a rank keeps and updates its own: gathered in
 * place at the start, scattered in place at the end. With `zero: 3` a rank has its part only, gathers it for every call
 * and scatters the gradient of every microbatch. Both start early and wait late.
 */
import { type Program, parse } from '../src/ir/index.js'
import { batch, type Part, partsOf, type Sizes, type Toy } from './toy-segments.js'
import { pipeline, serialStream, streamText } from './toy-streams.js'

export type { Toy }

/** The program of a toy; `edit` may change the text of it first. */
export const toy = (of: Toy = {}, edit: (text: string) => string = text => text): Program => parse(edit(toyText(of)))

const usual: Sizes = { dp: 1, tp: 1, pp: 1, tied: false, microbatches: 2, zero: 0, embed: 6, ffn: 8 }

export function toyText(of: Toy): string {
  const given = { ...usual, ...of }
  const { dp, tp, pp, tied, microbatches, embed } = given
  const parts = partsOf(given)
  const sized = Object.entries(parts).map(([name, part]) => segmentText(name, part, dp))
  const sizes = Object.fromEntries(sized.map(({ name, bytes }) => [name, bytes]))
  const streams = pp === 1 ? [serialStream(given)] : pipeline(given)
  const placed = streams.map(lines => streamText(lines, parts, sizes))
  return [
    'program toy',
    `mesh tp:${tp} dp:${dp} pp:${pp}`,
    `microbatches ${microbatches}`,
    `stages ${pp}`,
    'block up kind=up stage=0',
    `block head kind=head stage=${pp - 1}`,
    `input x f32 [batch:${batch}/dp embed:${embed}]`,
    `input target f32 [batch:${batch}/dp embed:${embed}]`,
    'input lr f32 []',
    ...['loss', 'count', 'normSquared'].map(name => resultText(name, placed)),
    `scalar taken 0${placesText('taken', placed)}`,
    ...(tied
      ? [param(given, 'w', placed, [0, pp - 1])]
      : [param(given, 'w', placed, [0]), param(given, 'v', placed, [pp - 1])]
    ).flat(),
    ...sized.map(({ text }) => text),
    ...placed.map(({ text }, i) => text.replace('STREAM', String(i))),
  ].join('\n')
}

const resultText = (name: string, streams: readonly { index: Record<string, number> }[]) =>
  `result ${name}${placesText(name, streams)}`

const placesText = (name: string, streams: readonly { index: Record<string, number> }[]) =>
  streams.map(({ index }, i) => (name in index ? ` ${i}:${index[name]}` : '')).join('')

const param = (
  { embed, ffn, zero }: Sizes,
  name: string,
  streams: readonly { index: Record<string, number> }[],
  holders: readonly number[],
) => [
  `param ${name} [embed:${embed} ffn:${ffn}]`,
  '  init normal 0.02',
  ...['kept', 'state'].map(
    use => `  ${use} [ffn/tp]${zero > 0 ? ' flat/dp' : ''}${zero === 1 && use === 'kept' ? ' inside' : ''}`,
  ),
  ...[...new Set(holders)].map(s => {
    const { index } = streams[s]
    return `  held ${s} param=${index[name]} grad=${index[`g${name}`]} m=${index[`m${name}`]}`
  }),
]

/** Elements of a buffer: of a part where it is flat, of all parts where it lies among them or has the room. */
function elementsIn(shape: string, dp: number): number {
  const block = [...shape.matchAll(/:(\d+)/g)].reduce((n, [, size]) => n * Number(size), 1)
  const part = Math.ceil(block / dp)
  return / (inside|room)$/.test(shape) ? dp * part : / flat/.test(shape) ? part : block
}

function segmentText(name: string, { phase, roles, buffers, instrs }: Part, dp: number) {
  const used: Record<string, number> = Object.fromEntries(Object.keys(roles).map(role => [role, 0]))
  const places: Record<string, string> = {}
  const lines = buffers.map(line => {
    const [, ref, role, shape] = line.match(/^(\S+) (\S+) (.*)$/)!
    places[ref] = role.startsWith('=') ? places[role.slice(1)] : `@${role}+${used[role]}`
    if (!role.startsWith('=')) used[role] += 4 * elementsIn(shape, dp)
    return `  buffer %${ref} f32 ${places[ref]} ${shape.replace(/ room$/, '')}`
  })
  const text = [
    `segment ${name} phase=${phase}`,
    ...Object.entries(roles).map(([role, kind]) => `  role ${role} ${kind} ${used[role]}`),
    ...lines,
    ...instrs.map(instr => `  ${instr}`),
  ].join('\n')
  return { name, text, bytes: used }
}
