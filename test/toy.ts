/**
 * A training step small enough to write by hand, as text: h = x W, y = gelu h, z = y V, loss = |z - target|^2,
 * on dp x tp ranks and one or two stages, with V = W when tied. Frames are placed one after another; a line
 * `use` binds roles by name. The laws are tested on it without the compiler.
 *
 * With `zero: 1` parameters and gradients have room for all parts, of which a rank keeps and updates its own: gathered in
 * place at the start, scattered in place at the end. With `zero: 3` a rank has its part only, gathers it for every call
 * and scatters the gradient of every microbatch. Both start early and wait late.
 */
import { type Kind, kinds, type Program, parse } from '../src/ir/index.js'

export interface Toy {
  readonly dp?: number
  readonly tp?: number
  readonly pp?: 1 | 2
  readonly tied?: boolean
  readonly microbatches?: number
  readonly zero?: 0 | 1 | 3
  readonly embed?: number
  readonly ffn?: number
}

type Sizes = Required<Toy>

const batch = 4

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
    ...(tied
      ? [param(given, 'w', placed, [0, pp - 1])]
      : [param(given, 'w', placed, [0]), param(given, 'v', placed, [pp - 1])]
    ).flat(),
    ...sized.map(({ text }) => text),
    ...placed.map(({ text }, i) => text.replace('STREAM', String(i))),
  ].join('\n')
}

const resultText = (name: string, streams: readonly { index: Record<string, number> }[]) =>
  `result ${name}${streams.map(({ index }, i) => (name in index ? ` ${i}:${index[name]}` : '')).join('')}`

const param = (
  { embed, ffn, zero }: Sizes,
  name: string,
  streams: readonly { index: Record<string, number> }[],
  holders: readonly number[],
) => [
  `param ${name} [embed:${embed} ffn:${ffn}]`,
  '  init normal 0.02',
  '  compute [ffn/tp]',
  ...['storage', 'kept', 'state'].map(
    use => `  ${use} [ffn/tp]${zero > 0 ? ' flat/dp' : ''}${zero === 1 && use === 'kept' ? ' inside' : ''}`,
  ),
  ...[...new Set(holders)].map(s => {
    const { index } = streams[s]
    return `  held ${s} param=${index[name]} grad=${index[`g${name}`]} m=${index[`m${name}`]}`
  }),
]

function partsOf(given: Sizes): Record<string, Part> {
  const { dp, tp, pp, tied, zero, embed, ffn } = given
  const rows = `batch:${batch / dp}/dp`
  const [tokens, weight, inner] = [
    `[${rows} embed:${embed}]`,
    `[embed:${embed} ffn:${ffn / tp}/tp]`,
    `[${rows} ffn:${ffn / tp}/tp]`,
  ]
  const everywhere = 'sum:dp sum:tp'
  const wait = (ref: string) => `wait %${ref}`
  const stages = tied && pp === 2 ? '@0,1' : ''
  const own = zero === 0 ? weight : `${weight} flat/dp${zero === 1 ? ' inside' : ''}`
  const sum = zero === 3 ? own : `${weight} sum:dp${zero === 1 ? ' room' : ''}`
  return {
    ...(zero > 0 ? ofParts(given, weight) : {}),
    begin: { phase: 'begin', roles: { g: 'gradients' }, buffers: [`g g ${sum}`], instrs: ['%g = zero'] },
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
        ...(zero === 3 ? [] : [`dw work ${weight} sum:dp`]),
        'count count []',
        `g g ${zero === 3 ? `${weight} sum:dp room` : sum}`,
        `dy dy ${inner}`,
      ],
      instrs: [
        '%dz = squaredErrorGrad %z %t %count',
        '%dy = contract %dz %w',
        ...(zero === 3 ? ['%g = contract %y %dz'] : ['%dw = contract %y %dz', '%g = accumulate %dw']),
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
        ...(zero === 3 ? [] : [`dw work ${weight} sum:dp`]),
        `g g ${zero === 3 ? `${weight} sum:dp room` : sum}`,
      ],
      instrs: [
        '%dh = geluGrad %dy %h approximate=false',
        ...(zero === 3 ? ['%g = contract %x %dh'] : ['%dw = contract %x %dh', '%g = accumulate %dw']),
      ],
    },
    ...(zero > 0
      ? {}
      : {
          reduce: {
            phase: 'reduce',
            roles: { g: 'gradients' },
            buffers: [`part g ${weight} sum:dp`, `g =part ${weight}`],
            instrs: [`%g = all-reduce %part combine=sum over=dp${stages}`, wait('g')],
          },
        }),
    norm: {
      phase: 'norm',
      roles: { g: 'gradients', norm: 'workspace' },
      buffers: [`g g ${own}`, `norm norm [] ${everywhere}`],
      instrs: [`%norm = sumSquares %g once=${zero === 0 ? 'dp' : ''}`],
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
      buffers: [`g g ${own}`, 'norm norm []', `w w ${own}`, `m m ${own.replace(' inside', '')}`, 'lr work []'],
      instrs: ['%lr = load input=lr', '%w %m = sgd %g %norm %lr momentum=0.9 weightDecay=0 clip=1'],
    },
  }
}

/** Segments that only start, and what becomes of the parts. */
function ofParts({ zero }: Sizes, weight: string): Record<string, Part> {
  const [part, view] = [`${weight} flat/dp`, `${weight} flat/dp inside`]
  const both = (phase: string, kind: Kind, buffers: readonly string[], instr: string): Part => ({
    phase,
    roles: { w: kind, v: kind },
    buffers: ['w', 'v'].flatMap(role => buffers.map(line => line.replaceAll('*', role))),
    instrs: [instr],
  })
  const tie = {
    phase: 'reduce',
    roles: { g: 'gradients' as const },
    buffers: [`part g ${zero === 1 ? view : part}`, `g =part ${zero === 1 ? view : part}`],
    instrs: ['%g = all-reduce %part combine=sum over=@0,1', 'wait %g'],
  }
  if (zero === 1)
    return {
      tie,
      gather: {
        phase: 'gather',
        roles: { w: 'parameters' },
        buffers: [`own w ${view}`, `w =own ${weight}`],
        instrs: ['%w = all-gather %own over=dp'],
      },
      'gather.both': both(
        'gather',
        'parameters',
        [`own.* * ${view}`, `* =own.* ${weight}`],
        '%w %v = all-gather %own.w %own.v over=dp',
      ),
      reduce: {
        phase: 'reduce',
        roles: { g: 'gradients' },
        buffers: [`part g ${weight} sum:dp room`, `g =part ${view}`],
        instrs: ['%g = reduce-scatter %part over=dp'],
      },
    }
  return {
    tie,
    gather: {
      phase: 'gather',
      roles: { own: 'parameters', w: 'parameters' },
      buffers: [`own own ${part}`, `w w ${weight} room`],
      instrs: ['%w = all-gather %own over=dp'],
    },
    reduce: {
      phase: 'reduce',
      roles: { g: 'gradients', part: 'gradients' },
      buffers: [`g g ${weight} sum:dp room`, `part part ${part}`],
      instrs: ['%part = reduce-scatter %g over=dp'],
    },
    add: {
      phase: 'add',
      roles: { part: 'gradients', g: 'gradients' },
      buffers: [`part part ${part}`, `g g ${part}`],
      instrs: ['%g = accumulate %part'],
    },
  }
}

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

const each = (n: number, lines: (i: number) => readonly string[]) =>
  Array.from({ length: n }, (_, i) => lines(i)).flat()

/** `use segment block microbatch role=frame ... [param] [tag:name]`, `send frame peer tag`, `recv ...`, `wait tag`. */
function serialStream(given: Sizes): string[] {
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
    ],
    v,
  }
}

/** Stage 0 runs all forwards, then all backwards; stage 1 alternates. Receives are posted first. */
function pipeline(given: Sizes): string[][] {
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
