/**
 * G: collectives between stages. Within a stream every rank runs the same code, so only groups that cross
 * pipeline coordinates can disagree: those along `pp`, and those that name `stages`.
 */
import { type Collective, type Group, isCollective } from '../instr.js'
import type { Program, Segment } from '../program.js'
import { type Finding, type Place, placeOf } from './law.js'
import { clause, type Told, told } from './phrases.js'

/** A collective of one stream in which other streams take part. */
export interface GroupCall extends Place {
  readonly pipeline: number
  readonly step: number
  readonly instr: number
  readonly stages: readonly number[]
  /** What all members must agree on. */
  readonly signature: string
}

/** The pipeline coordinates that meet, or nothing when the group stays within a stream. */
export const stagesOf = (program: Program, { axes, stages }: Group): readonly number[] | undefined =>
  stages ?? (axes.includes('pp') && program.streams.length > 1 ? program.streams.map((_, i) => i) : undefined)

/** Which instructions of a segment cross streams. Nearly always none. */
export const crossingsOf = (program: Program, segment: Segment): number[] =>
  segment.instrs.flatMap((instr, i) => (isCollective(instr) && stagesOf(program, instr.group) ? [i] : []))

export const groups = (program: Program): Finding[] => {
  const collectives = program.streams.map((_, pipeline) => collectivesOf(program, pipeline))
  return [...collectives.flat().flatMap(collective => present(program, collective)), ...inOneOrder(collectives)]
}

export function collectivesOf(program: Program, pipeline: number): GroupCall[] {
  const crossings = new Map<string, number[]>()
  return program.streams[pipeline].steps.flatMap((step, i) => {
    if (step.kind !== 'call') return []
    const segment = program.segments[step.segment]
    const found = crossings.get(step.segment) ?? crossingsOf(program, segment)
    crossings.set(step.segment, found)
    return found.map(instr => {
      const collective = segment.instrs[instr] as Collective // crossingsOf gives collectives only
      const stages = stagesOf(program, collective.group) ?? []
      return {
        pipeline,
        step: i,
        segment: step.segment,
        instr,
        stages,
        signature: [
          signatureOf(segment, collective, stages),
          ...(step.param === undefined ? [] : [`for ${step.param}`]),
        ].join(' '),
      }
    })
  })
}

function signatureOf(segment: Segment, collective: Collective, stages: readonly number[]): string {
  const { kind, group, ins } = collective
  const how = Object.entries(collective).filter(([key]) => ['combine', 'dim', 'from', 'to'].includes(key))
  const operands = ins
    .map(ref => segment.buffers[ref])
    .map(({ dtype, dims }) => `${dtype}[${dims.map(dim => `${dim.name}:${dim.size}`).join(' ')}]`)
  return [
    kind,
    ...how.map(([key, value]) => `${key}=${value}`),
    `over ${group.axes.join(',')}@${stages.join(',')}`,
    ...operands,
  ].join(' ')
}

function present(program: Program, collective: GroupCall): Finding[] {
  const { pipeline, step, stages } = collective
  const say = (said: Told): Finding => ({ law: 'G2', ...placeOf(collective), ...said })
  const all = { joint: ',', of: stages } as const
  const call = program.streams[pipeline].steps[step]
  const param = call.kind === 'call' && program.params.find(({ name }) => name === call.param)
  return [
    ...(stages.includes(pipeline) ? [] : [say(told('G2/stranger', { stream: pipeline, stages: all }))]),
    ...(new Set(stages).size === stages.length ? [] : [say(told('G2/twice', { stages: all }))]),
    ...stages.filter(stage => !program.streams[stage]).map(stage => say(told('G2/none', { stream: stage }))),
    ...(param && call.kind === 'call' && program.segments[call.segment].phase === 'reduce'
      ? stages
          .filter(stage => !param.frames[stage])
          .map(stage => say(told('G2/holder', { stream: stage, param: param.name })))
      : []),
  ]
}

/** Any two streams see the collectives they share in one order. The first that differs is named; the rest are echoes. */
function inOneOrder(collectives: readonly (readonly GroupCall[])[]): Finding[] {
  return collectives.flatMap((own, a) =>
    collectives.slice(a + 1).flatMap((theirs, i) => {
      const b = a + 1 + i
      const [left, right] = [
        own.filter(({ stages }) => stages.includes(b)),
        theirs.filter(({ stages }) => stages.includes(a)),
      ]
      const first = Array.from({ length: Math.max(left.length, right.length) }, (_, k) => k).find(
        k => left[k]?.signature !== right[k]?.signature,
      )
      return first === undefined ? [] : parted(left[first], right[first], first)
    }),
  )
}

/** Either of the two may be the one that is wrong. */
function parted(left: GroupCall | undefined, right: GroupCall | undefined, index: number): Finding[] {
  const show = (m: GroupCall | undefined) =>
    m ? clause('.does', { stream: m.pipeline, collective: m.signature }) : clause('.does-nothing')
  const said = told('G1', { collective: index, left: show(left), right: show(right) })
  return [left, right].flatMap(collective =>
    collective ? [{ law: 'G1' as const, ...placeOf(collective), ...said }] : [],
  )
}
