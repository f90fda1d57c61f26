/**
 * A training step small enough to write by hand, as text: h = x W, y = gelu h, z = y V, loss = |z - target|^2,
 * on dp x tp ranks and one or two stages, with V = W when tied. Frames are placed one after another; a line
 * `use` binds roles by name. The laws are tested on it without the compiler.
 */
import { type Kind, kinds, type Program, parse } from '../src/ir/index.js'

export interface Toy {
  readonly dp?: number
  readonly tp?: number
  readonly pp?: 1 | 2
  readonly tied?: boolean
  readonly microbatches?: number
}

const batch = 4
const embed = 6
const ffn = 8

interface Part {
  readonly phase: string
  /** role: kind */
  readonly roles: Readonly<Record<string, Kind>>
  /** `ref role [dims]`: one line per buffer; `ref =other` lies where the other does. */
  readonly buffers: readonly string[]
  readonly instrs: readonly string[]
}

/** The program of a toy; `edit` may change the text of it first. */
export const toy = (of: Toy = {}, edit: (text: string) => string = text => text): Program => parse(edit(toyText(of)))

export function toyText({ dp = 1, tp = 1, pp = 1, tied = false, microbatches = 2 }: Toy): string {
  const parts = partsOf({ dp, tp, pp, tied })
  const sized = Object.entries(parts).map(([name, part]) => segmentText(name, part))
  const sizes = Object.fromEntries(sized.map(({ name, bytes }) => [name, bytes]))
  const streams = pp === 1 ? [serialStream(tied, microbatches)] : pipeline(tied, microbatches)
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
    ...(tied ? [param('w', placed, [0, pp - 1])] : [param('w', placed, [0]), param('v', placed, [pp - 1])]).flat(),
    ...sized.map(({ text }) => text),
    ...placed.map(({ text }, i) => text.replace('STREAM', String(i))),
  ].join('\n')
}

const resultText = (name: string, streams: readonly { index: Record<string, number> }[]) =>
  `result ${name}${streams.map(({ index }, i) => (name in index ? ` ${i}:${index[name]}` : '')).join('')}`

const param = (name: string, streams: readonly { index: Record<string, number> }[], holders: readonly number[]) => [
  `param ${name} [embed:${embed} ffn:${ffn}]`,
  '  init normal 0.02',
  ...['compute', 'storage', 'kept', 'state'].map(use => `  ${use} [ffn/tp]`),
  ...[...new Set(holders)].map(s => {
    const { index } = streams[s]
    return `  held ${s} param=${index[name]} grad=${index[`g${name}`]} m=${index[`m${name}`]}`
  }),
]

function partsOf({ dp, tp, pp, tied }: Required<Omit<Toy, 'microbatches'>>): Record<string, Part> {
  const rows = `batch:${batch / dp}/dp`
  const [tokens, weight, inner] = [
    `[${rows} embed:${embed}]`,
    `[embed:${embed} ffn:${ffn / tp}/tp]`,
    `[${rows} ffn:${ffn / tp}/tp]`,
  ]
  const everywhere = 'sum:dp sum:tp'
  const wait = (ref: string) => `wait %${ref}`
  const stages = tied && pp === 2 ? '@0,1' : ''
  return {
    begin: { phase: 'begin', roles: { g: 'gradients' }, buffers: [`g g ${weight} sum:dp`], instrs: ['%g = zero'] },
    'begin.loss': { phase: 'begin', roles: { loss: 'workspace' }, buffers: ['loss loss []'], instrs: ['%loss = zero'] },
    'begin.norm': {
      phase: 'begin',
      roles: { norm: 'workspace' },
      buffers: [`norm norm [] ${everywhere}`],
      instrs: ['%norm = zero'],
    },
    count: {
      phase: 'count',
      roles: { count: 'workspace', work: 'workspace' },
      buffers: ['count count [] sum:dp', `t work ${tokens}`, 'n work [] sum:dp'],
      instrs: ['%t = load input=target', '%n = countElements %t', '%count = accumulate %n'],
    },
    'sum.dp': {
      phase: 'reduce',
      roles: { loss: 'workspace' },
      buffers: ['part loss [] sum:dp', 'loss =part []'],
      instrs: ['%loss = all-reduce %part combine=sum over=dp', wait('loss')],
    },
    'up.F': {
      phase: 'F',
      roles: { w: 'parameters', stash: 'activations', y: 'activations' },
      buffers: [`w w ${weight}`, `x stash ${tokens}`, `h stash ${inner}`, `y y ${inner}`],
      instrs: ['%x = load input=x', '%h = contract %x %w', '%y = gelu %h approximate=false'],
    },
    'head.F': {
      phase: 'F',
      roles: { w: 'parameters', y: 'activations', stash: 'activations', work: 'workspace', loss: 'workspace' },
      buffers: [
        `w w ${weight}`,
        `y y ${inner}`,
        `z stash ${tokens}`,
        `t stash ${tokens}`,
        `p work ${tokens} sum:tp`,
        'l work [] sum:dp',
        'loss loss [] sum:dp',
      ],
      instrs: [
        '%t = load input=target',
        '%p = contract %y %w',
        '%z = all-reduce %p combine=sum over=tp',
        wait('z'),
        '%l = squaredError %z %t',
        '%loss = accumulate %l',
      ],
    },
    'head.B': {
      phase: 'B',
      roles: {
        w: 'parameters',
        y: 'activations',
        stash: 'activations',
        work: 'workspace',
        count: 'workspace',
        g: 'gradients',
        dy: 'activations',
      },
      buffers: [
        `w w ${weight}`,
        `y y ${inner}`,
        `z stash ${tokens}`,
        `t stash ${tokens}`,
        `dz work ${tokens}`,
        `dw work ${weight} sum:dp`,
        'count count []',
        `g g ${weight} sum:dp`,
        `dy dy ${inner}`,
      ],
      instrs: [
        '%dz = squaredErrorGrad %z %t %count',
        '%dy = contract %dz %w',
        '%dw = contract %y %dz',
        '%g = accumulate %dw',
      ],
    },
    'up.B': {
      phase: 'B',
      roles: { dy: 'activations', stash: 'activations', work: 'workspace', g: 'gradients' },
      buffers: [
        `dy dy ${inner}`,
        `x stash ${tokens}`,
        `h stash ${inner}`,
        `dh work ${inner}`,
        `dw work ${weight} sum:dp`,
        `g g ${weight} sum:dp`,
      ],
      instrs: ['%dh = geluGrad %dy %h approximate=false', '%dw = contract %x %dh', '%g = accumulate %dw'],
    },
    reduce: {
      phase: 'reduce',
      roles: { g: 'gradients' },
      buffers: [`part g ${weight} sum:dp`, `g =part ${weight}`],
      instrs: [`%g = all-reduce %part combine=sum over=dp${stages}`, wait('g')],
    },
    norm: {
      phase: 'norm',
      roles: { g: 'gradients', norm: 'workspace' },
      buffers: [`g g ${weight}`, `norm norm [] ${everywhere}`],
      instrs: ['%norm = sumSquares %g once=dp'],
    },
    'norm.reduce': {
      phase: 'norm',
      roles: { norm: 'workspace' },
      buffers: [`part norm [] ${everywhere}`, 'norm =part []'],
      instrs: ['%norm = all-reduce %part combine=sum over=dp,tp,pp', wait('norm')],
    },
    update: {
      phase: 'update',
      roles: { g: 'gradients', norm: 'workspace', w: 'parameters', m: 'optimizer', work: 'workspace' },
      buffers: [`g g ${weight}`, 'norm norm []', `w w ${weight}`, `m m ${weight}`, 'lr work []'],
      instrs: ['%lr = load input=lr', '%w %m = sgd %g %norm %lr momentum=0.9 weightDecay=0 clip=1'],
    },
  }
}

function segmentText(name: string, { phase, roles, buffers, instrs }: Part) {
  const used: Record<string, number> = Object.fromEntries(Object.keys(roles).map(role => [role, 0]))
  const places: Record<string, string> = {}
  const lines = buffers.map(line => {
    const [, ref, role, shape] = line.match(/^(\S+) (\S+) (.*)$/)!
    const elements = [...shape.matchAll(/:(\d+)/g)].reduce((n, [, size]) => n * Number(size), 1)
    places[ref] = role.startsWith('=') ? places[role.slice(1)] : `@${role}+${used[role]}`
    if (!role.startsWith('=')) used[role] += 4 * elements
    return `  buffer %${ref} f32 ${places[ref]} ${shape}`
  })
  const text = [
    `segment ${name} phase=${phase}`,
    ...Object.entries(roles).map(([role, kind]) => `  role ${role} ${kind} ${used[role]}`),
    ...lines,
    ...instrs.map(instr => `  ${instr}`),
  ].join('\n')
  return { name, text, bytes: used }
}

const each = (n: number, lines: (i: number) => readonly string[]) =>
  Array.from({ length: n }, (_, i) => lines(i)).flat()

/** `use segment block microbatch role=frame ... [param]`, `send frame peer tag`, `recv ...`, `wait tag`. */
function serialStream(tied: boolean, m: number): string[] {
  const v = tied ? 'w' : 'v'
  const params = tied ? ['w'] : ['w', 'v']
  return [
    ...params.map(p => `use begin -1 -1 g=g${p}`),
    'use begin.loss -1 -1 loss=loss',
    'use begin.loss -1 -1 loss=count',
    'use begin.norm -1 -1 norm=normSquared',
    ...each(m, i => [`use count -1 ${i} count=count work=c${i}`]),
    'use sum.dp -1 -1 loss=count',
    ...each(m, i => [
      `use up.F 0 ${i} w=w stash=a${i} y=y${i}`,
      `use head.F 1 ${i} w=${v} y=y${i} stash=b${i} work=hf${i} loss=loss`,
    ]),
    ...each(m, i => [
      `use head.B 1 ${i} w=${v} y=y${i} stash=b${i} work=hb${i} count=count g=g${v} dy=dy${i}`,
      `use up.B 0 ${i} dy=dy${i} stash=a${i} work=ub${i} g=gw`,
    ]),
    'use sum.dp -1 -1 loss=loss',
    ...finishing(params, params),
  ]
}

const finishing = (params: readonly string[], counted: readonly string[]) => [
  ...params.map(p => `use reduce -1 -1 g=g${p} ${p}`),
  ...counted.map(p => `use norm -1 -1 g=g${p} norm=normSquared ${p}`),
  'use norm.reduce -1 -1 norm=normSquared',
  ...params.map(p => `use update -1 -1 g=g${p} norm=normSquared w=${p} m=m${p} work=u${p} ${p}`),
]

/** Stage 0 runs all forwards, then all backwards; stage 1 alternates. Receives are posted first. */
function pipeline(tied: boolean, m: number): string[][] {
  const v = tied ? 'w' : 'v'
  return [
    [
      'use begin -1 -1 g=gw',
      'use begin.norm -1 -1 norm=normSquared',
      ...each(m, i => [`recv dy${i} 1 B${i}`]),
      ...each(m, i => [`use up.F 0 ${i} w=w stash=a${i} y=y${i}`, `send y${i} 1 F${i}`]),
      ...each(m, i => [`wait F${i}`, `wait B${i}`, `use up.B 0 ${i} dy=dy${i} stash=a${i} work=ub${i} g=gw`]),
      ...finishing(['w'], ['w']),
    ],
    [
      ...each(m, i => [`recv y${i} 0 F${i}`]),
      `use begin -1 -1 g=g${v}`,
      'use begin.loss -1 -1 loss=loss',
      'use begin.loss -1 -1 loss=count',
      'use begin.norm -1 -1 norm=normSquared',
      ...each(m, i => [`use count -1 ${i} count=count work=c${i}`]),
      'use sum.dp -1 -1 loss=count',
      ...each(m, i => [
        `wait F${i}`,
        `use head.F 1 ${i} w=${v} y=y${i} stash=b${i} work=hf${i} loss=loss`,
        `use head.B 1 ${i} w=${v} y=y${i} stash=b${i} work=hb${i} count=count g=g${v} dy=dy${i}`,
        `send dy${i} 0 B${i}`,
      ]),
      ...each(m, i => [`wait B${i}`]),
      'use sum.dp -1 -1 loss=loss',
      ...finishing([v], tied ? [] : [v]),
    ],
  ]
}

const resident = /^(m?w|m?v|gw|gv|loss|count|normSquared)$/

interface FrameLine {
  readonly kind: Kind
  readonly bytes: number
  first: number
  last: number
}

/** Frames get their kind and bytes from the role they first play; they live from their first line to their last. */
function streamText(
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
  const of = rest.find(word => !word.includes('='))
  const bind = Object.keys(parts[what].roles).map(role => index[bound[role]])
  return `call ${what} block=${a} microbatch=${b} bind=${bind.join()}${of ? ` param=${of}` : ''}`
}

function framesOf(
  lines: readonly string[],
  parts: Record<string, Part>,
  sizes: Record<string, Record<string, number>>,
) {
  const frames: Record<string, FrameLine> = {}
  const pending: Record<string, number> = {}
  const tags: Record<string, string> = {}
  lines.forEach((line, i) => {
    const [verb, what, , tag, ...rest] = line.split(' ')
    if (verb === 'send' || verb === 'recv') {
      tags[tag] = what
      if (frames[what]) frames[what].last = i
      else pending[what] = i
    } else if (verb === 'wait' && frames[tags[what]]) frames[tags[what]].last = i
    for (const word of rest.filter(text => text.includes('='))) {
      const [role, frame] = word.split('=')
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
