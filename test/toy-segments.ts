/** The segments of a toy (see toy.ts): what each computes, and where its buffers lie. */
import type { Kind } from '../src/ir/index.js'

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

export type Sizes = Required<Toy>

export const batch = 4

export interface Part {
  readonly phase: string
  /** role: kind */
  readonly roles: Readonly<Record<string, Kind>>
  /** `ref role [dims]`: one line per buffer; `ref =other` lies where the other does. */
  readonly buffers: readonly string[]
  readonly instrs: readonly string[]
}

export function partsOf(given: Sizes): Record<string, Part> {
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
    take: {
      phase: 'update',
      roles: { norm: 'workspace', taken: 'workspace' },
      buffers: ['norm norm []', 'taken taken []'],
      instrs: ['%taken = take %norm'],
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
