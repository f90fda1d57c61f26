/**
 * Parameters, gradients and optimizer state, number by number: 2 + 4 + 4 + 4 + 4 = 18 bytes a parameter in bf16, 16 where gradients are in
 * 16 bits too, each divided as the stage of ZeRO says (Rajbhandari et al. 2020, section 3), beside the bytes of the program.
 */
import { bytesPer, isMaster, type StateName, stateEntries } from '../base/index.js'
import { dtypeOfGradient, type Kind, type Param, type Program, spaceOf } from '../ir/index.js'
import { dataGroups, type Job } from '../plan/index.js'
import type { TermWhy } from './why-activations.js'

type StateKind = Extract<Kind, 'parameters' | 'gradients' | 'optimizer'>

/** The stage of ZeRO from which ranks of dp x cp share it. */
const sharedFrom: Readonly<Record<StateKind, number>> = { parameters: 3, gradients: 2, optimizer: 1 }

export function stateTerms(job: Job, program: Program, pp: number): TermWhy[] {
  const { frames, peak } = program.streams[pp]
  const held = program.params.filter(param => param.frames[pp] !== undefined)
  const bytesOf = (frame: number | undefined): number =>
    frame === undefined || spaceOf(frames[frame]) !== 'device' ? 0 : frames[frame].bytes
  const trained = held.filter(param => !param.frozen)
  const lying = [
    restingTerm('parameters', held, { job, bytesOf: param => bytesOf(param.frames[pp].param) }),
    restingTerm('gradients', trained, { job, bytesOf: param => bytesOf(param.frames[pp].grad) }),
    ...statesIn(held, pp).map(state =>
      stateTerm(state, trained, { job, bytesOf: param => bytesOf(param.frames[pp].states[state]) }),
    ),
  ]
  const terms = (Object.keys(sharedFrom) as StateKind[]) // its own keys
    .flatMap((kind): TermWhy[] => {
      const own = lying.filter(term => term.kind === kind)
      const exact = peak[kind] - own.reduce((sum, term) => sum + term.exact, 0)
      return [...own, { kind, term: fleeting[kind], exact, tensors: [] }]
    })
  return terms.filter(({ exact, textbook }) => exact > 0 || (textbook ?? 0) > 0)
}

/** What comes and goes within a step, at its most. */
const fleeting: Readonly<Record<StateKind, string>> = {
  parameters: 'all-gathered while they are used',
  gradients: 'of one microbatch',
  optimizer: 'new values while they are updated',
}

interface Counted {
  readonly job: Job
  readonly bytesOf: (param: Param) => number
}

const elements = (params: readonly Param[]): number =>
  params.reduce((n, { dims }) => n + dims.reduce((m, { size }) => m * size, 1), 0)

/** Parameters, or gradients: in what most of them are. */
function restingTerm(kind: 'parameters' | 'gradients', params: readonly Param[], of: Counted): TermWhy {
  const widest = params.reduce<Param | undefined>((a, b) => (a && elements([a]) >= elements([b]) ? a : b), undefined)
  const dtype = widest && (kind === 'parameters' ? widest.dtype : dtypeOfGradient(widest))
  const name = kind === 'parameters' ? 'weights' : 'sums over microbatches'
  return byTheBook(kind, `${name}, ${dtype ?? ''}`, { ...of, params, bytes: dtype ? bytesPer[dtype] : 0 })
}

const statesIn = (held: readonly Param[], pp: number): StateName[] => [
  ...new Set(held.flatMap(param => stateEntries(param.frames[pp].states).map(([state]) => state))),
]

function stateTerm(state: StateName, params: readonly Param[], { job, bytesOf }: Counted): TermWhy {
  const having = params.filter(param => bytesOf(param) > 0)
  const name = isMaster(state) ? 'master weights' : `state ${state}`
  return byTheBook('optimizer', name, { job, bytesOf, params: having, bytes: bytesPer.f32 })
}

interface BookState extends Counted {
  readonly params: readonly Param[]
  /** Of one number. */
  readonly bytes: number
}

function byTheBook(kind: StateKind, term: string, { job, params, bytes, bytesOf }: BookState): TermWhy {
  const { tp, cp, zero } = job.plan
  const { shard, groups } = dataGroups(job.plan)
  const all = elements(params)
  const share = zero >= sharedFrom[kind] ? shard * cp : 1
  const exact = params.reduce((sum, param) => sum + bytesOf(param), 0)
  const textbook = (bytes * all) / tp / share
  const because = Math.abs(exact - textbook) > 0.005 * textbook ? differing(job, share) : undefined
  return {
    ...{ kind, term, textbook, exact, tensors: [`${params.length} parameters`] },
    formula: `${bytes} x ${all}${tp > 1 ? ` / tp ${tp}` : ''}${share > 1 ? ` / ${groups > 1 ? 'shard' : 'dp'} x cp ${share}` : ''}`,
    ...(because && { because }),
  }
}

const differing = ({ plan }: Job, share: number): string | undefined =>
  plan.offload?.optimizer || plan.offload?.parameters
    ? 'partly offloaded to host or disk'
    : plan.tp > 1
      ? 'parameters that tp does not shard are replicated'
      : share > 1
        ? 'shards are padded to equal size; buffers hold all shards where they are all-gathered in place'
        : undefined
