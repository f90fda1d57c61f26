/** The streams of a toy (see toy.ts): who calls what, when frames live, and where they lie. */
import { type Kind, kinds } from '../src/ir/index.js'
import type { Part, Sizes } from './toy-segments.js'

const each = (n: number, lines: (i: number) => readonly string[]) =>
  Array.from({ length: n }, (_, i) => lines(i)).flat()

/** `use segment block microbatch role=frame ... [param] [tag:name]`, `send frame peer tag`, `recv ...`, `wait tag`. */
export function serialStream(given: Sizes): string[] {
  const { tied, microbatches: m } = given
  const v = tied ? 'w' : 'v'
  const params = tied ? ['w'] : ['w', 'v']
  const calls = callsOf(given)
  return [
    ...params.map(p => `use begin -1 -1 g=g${p}`),
    'use begin.loss -1 -1 loss=loss',
    'use begin.loss -1 -1 loss=count',
    'use begin.norm -1 -1 norm=normSquared',
    ...calls.gather(params),
    ...each(m, i => [`use count -1 ${i} count=count work=c${i}`]),
    'use sum.dp -1 -1 loss=count',
    ...calls.gathered(params),
    ...each(m, i => [
      ...calls.with(`F${i}`, 'w', w => `use up.F 0 ${i} w=${w} stash=a${i} y=y${i}`),
      ...calls.with(`H${i}`, v, w => `use head.F 1 ${i} w=${w} y=y${i} stash=b${i} work=hf${i} loss=loss`),
    ]),
    ...each(m, i => [...calls.headB(i, v), ...calls.upB(i, m)]),
    'use sum.dp -1 -1 loss=loss',
    ...calls.finishing(params, params),
  ]
}

/** How parameters are fetched and gradients reduced, under each `zero`. */
function callsOf({ zero, tied, pp, microbatches: m }: Sizes) {
  const v = tied ? 'w' : 'v'
  const needs = (tag: string, p: string, call: (w: string) => string) =>
    zero === 3
      ? [`use gather -1 -1 own=${p} w=full${tag} tag:${tag}.full`, `wait ${tag}.full`, call(`full${tag}`)]
      : [call(p)]
  /** What a backward pass leaves is scattered at once, or after the last microbatch. */
  const gives = (tag: string, p: string, last: boolean, call: (g: string) => string) => {
    if (zero === 3)
      return [
        call(`d${tag}`),
        `use reduce -1 -1 g=d${tag} part=p${tag} tag:${tag}.part`,
        `wait ${tag}.part`,
        `use add -1 -1 part=p${tag} g=g${p}`,
      ]
    return [call(`g${p}`), ...(zero === 1 && last ? [`use reduce -1 -1 g=g${p} tag:${p}.sum`] : [])]
  }
  return {
    with: needs,
    gather: (params: readonly string[]) =>
      zero !== 1
        ? []
        : params.length === 2
          ? ['use gather.both -1 -1 w=w v=v tag:params']
          : [`use gather -1 -1 w=${params[0]} tag:params`],
    gathered: (_: readonly string[]) => (zero === 1 ? ['wait params'] : []),
    headB: (i: number, p: string) =>
      gives(
        `hb${i}`,
        p,
        i === m - 1 && !(tied && pp === 1),
        g => `use head.B 1 ${i} w=${p} y=y${i} stash=b${i} work=hb${i} count=count g=${g} dy=dy${i}`,
      ).flatMap(line =>
        line.startsWith('use head.B') ? needs(`B${i}`, p, w => line.replace(` w=${p} `, ` w=${w} `)) : [line],
      ),
    upB: (i: number, all: number) =>
      gives(`ub${i}`, 'w', i === all - 1, g => `use up.B 0 ${i} dy=dy${i} stash=a${i} work=ub${i} g=${g}`),
    finishing: (params: readonly string[], counted: readonly string[]) => [
      ...(zero === 0 ? params.map(p => `use reduce -1 -1 g=g${p} ${p}`) : []),
      ...(zero === 1 ? params.map(p => `wait ${p}.sum`) : []),
      ...(zero > 0 && tied && pp === 2 ? ['use tie -1 -1 g=gw w'] : []),
      ...counted.map(p => `use norm -1 -1 g=g${p} norm=normSquared ${p}`),
      'use norm.reduce -1 -1 norm=normSquared',
      ...params.map(p => `use update -1 -1 g=g${p} norm=normSquared w=${p} m=m${p} work=u${p} ${p}`),
      'use take -1 -1 norm=normSquared taken=taken',
    ],
    v,
  }
}

/** Stage 0 runs all forwards, then all backwards; stage 1 alternates. Receives are posted first. */
export function pipeline(given: Sizes): string[][] {
  const { tied, microbatches: m } = given
  const calls = callsOf(given)
  const { v } = calls
  return [
    [
      'use begin -1 -1 g=gw',
      'use begin.norm -1 -1 norm=normSquared',
      ...calls.gather(['w']),
      ...each(m, i => [`recv dy${i} 1 B${i}`]),
      ...calls.gathered(['w']),
      ...each(m, i => [
        ...calls.with(`F${i}`, 'w', w => `use up.F 0 ${i} w=${w} stash=a${i} y=y${i}`),
        `send y${i} 1 F${i}`,
      ]),
      ...each(m, i => [`wait F${i}`, `wait B${i}`, ...calls.upB(i, m)]),
      ...calls.finishing(['w'], ['w']),
    ],
    [
      ...each(m, i => [`recv y${i} 0 F${i}`]),
      `use begin -1 -1 g=g${v}`,
      'use begin.loss -1 -1 loss=loss',
      'use begin.loss -1 -1 loss=count',
      'use begin.norm -1 -1 norm=normSquared',
      ...calls.gather([v]),
      ...each(m, i => [`use count -1 ${i} count=count work=c${i}`]),
      'use sum.dp -1 -1 loss=count',
      ...calls.gathered([v]),
      ...each(m, i => [
        `wait F${i}`,
        ...calls.with(`H${i}`, v, w => `use head.F 1 ${i} w=${w} y=y${i} stash=b${i} work=hf${i} loss=loss`),
        ...calls.headB(i, v),
        `send dy${i} 0 B${i}`,
      ]),
      ...each(m, i => [`wait B${i}`]),
      'use sum.dp -1 -1 loss=loss',
      ...calls.finishing([v], tied ? [] : [v]),
    ],
  ]
}

const resident = /^(m?w|m?v|gw|gv|loss|count|normSquared|taken)$/

interface FrameLine {
  readonly kind: Kind
  readonly bytes: number
  first: number
  last: number
}

/** Frames get their kind and bytes from the role they first play; they live from their first line to their last. */
export function streamText(
  lines: readonly string[],
  parts: Record<string, Part>,
  sizes: Record<string, Record<string, number>>,
) {
  const frames = framesOf(lines, parts, sizes)
  const index = Object.fromEntries(Object.keys(frames).map((frame, i) => [frame, i]))
  const offsets: Record<string, number> = {}
  let arena = 0
  for (const [frame, { bytes }] of Object.entries(frames)) {
    offsets[frame] = arena
    arena += bytes
  }
  const steps = lines.flatMap((line, i) => [
    ...Object.entries(frames).flatMap(([f, { first }]) =>
      first === i && !resident.test(f) ? [`  alloc ${index[f]}`] : [],
    ),
    `  ${stepText(line, parts, index)}`,
    ...Object.entries(frames).flatMap(([f, { last }]) =>
      last === i && !resident.test(f) ? [`  free ${index[f]}`] : [],
    ),
  ])
  const text = [
    `stream STREAM arena=${arena}`,
    `  peak ${kinds.map(kind => `${kind}:${peakOf(frames, kind, lines.length)}`).join(' ')}`,
    ...Object.entries(frames).map(([f, { kind, bytes }], i) => `  frame ${i} ${f} ${kind} ${bytes} @${offsets[f]}`),
    `  resident ${Object.keys(frames)
      .filter(f => resident.test(f))
      .map(f => index[f])
      .join()}`,
    ...steps,
  ].join('\n')
  return { text, index }
}

const stepText = (line: string, parts: Record<string, Part>, index: Record<string, number>): string => {
  const [verb, what, a, b, ...rest] = line.split(' ')
  if (verb === 'wait') return `wait tag=${what}`
  if (verb !== 'use') return `${verb} ${index[what]} ${verb === 'send' ? 'to' : 'from'}=${a} tag=${b}`
  const bound = Object.fromEntries(rest.filter(word => word.includes('=')).map(word => word.split('=')))
  const of = rest.find(word => !word.includes('=') && !word.includes(':'))
  const tag = tagIn(rest)
  const bind = Object.keys(parts[what].roles).map(role => index[bound[role]])
  const named = `${of ? ` param=${of}` : ''}${tag ? ` tag=${tag}` : ''}`
  return `call ${what} block=${a} microbatch=${b} bind=${bind.join()}${named}`
}

const tagIn = (words: readonly string[]) => words.find(word => word.startsWith('tag:'))?.slice(4)

function framesOf(
  lines: readonly string[],
  parts: Record<string, Part>,
  sizes: Record<string, Record<string, number>>,
) {
  const frames: Record<string, FrameLine> = {}
  const pending: Record<string, number> = {}
  const tags: Record<string, string[]> = {}
  lines.forEach((line, i) => {
    const [verb, what, , tag, ...rest] = line.split(' ')
    if (verb === 'send' || verb === 'recv') {
      tags[tag] = [what]
      if (frames[what]) frames[what].last = i
      else pending[what] = i
    } else if (verb === 'wait') for (const frame of tags[what]) if (frames[frame]) frames[frame].last = i
    for (const word of rest.filter(text => text.includes('='))) {
      const [role, frame] = word.split('=')
      if (tagIn(rest)) tags[tagIn(rest)!] = [...(tags[tagIn(rest)!] ?? []), frame]
      const made = { kind: parts[what].roles[role], bytes: sizes[what][role], first: pending[frame] ?? i, last: i }
      if (frames[frame]) frames[frame].last = i
      else frames[frame] = made
    }
  })
  return frames
}

const peakOf = (frames: Record<string, FrameLine>, kind: Kind, length: number): number =>
  Math.max(
    ...Array.from({ length }, (_, i) =>
      Object.entries(frames).reduce(
        (sum, [f, { kind: k, bytes, first, last }]) =>
          k === kind && (resident.test(f) || (first <= i && i <= last)) ? sum + bytes : sum,
        0,
      ),
    ),
  )
