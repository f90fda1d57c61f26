/**
 * L5 to L8 within a segment: which buffers it takes from its frames, which it leaves there, and that nothing is
 * read before it is written, after its bytes went to another buffer, or while a collective has it.
 * Two roles may be played by one frame, so a segment is looked at once per pattern of binding.
 */
import { heldElements, type Mesh } from '../../base/index.js'
import { type Instr, isCollective, pairsOf, type Ref } from '../instr.js'
import { type Buffer, bytesPer, type Program, type Segment } from '../program.js'
import { showRole } from '../role.js'
import { traitsOf } from '../traits.js'
import type { Finding, Law } from './law.js'
import { everyStep } from './walk.js'

/** Where a buffer lies when roles that share a frame are one. */
export interface Spot {
  readonly role: number
  readonly from: number
  readonly to: number
}

export interface Flow {
  /** Read before anything here wrote them, with the instruction that does so first. */
  readonly takes: ReadonlyMap<Ref, number>
  /** Written here and still theirs at the end. */
  readonly leaves: readonly Ref[]
  /** Written at any time. */
  readonly writes: ReadonlySet<Ref>
  readonly spots: Readonly<Record<Ref, Spot>>
  readonly findings: readonly Finding[]
}

export const bytesOf = (mesh: Mesh, { dtype, dims, layout }: Buffer): number =>
  heldElements(mesh, dims, layout) * bytesPer[dtype]

/** bind -> for each role the first role played by the same frame: [7, 9, 7] -> [0, 1, 0]. */
export const patternOf = (bind: readonly number[]): number[] => bind.map(frame => bind.indexOf(frame))

export const overlap = (a: Spot, b: Spot): boolean => a.role === b.role && a.from < b.to && b.from < a.to

export function flowOf(mesh: Mesh, segment: Segment, pattern: readonly number[]): Flow {
  const spots = spotsOf(mesh, segment, pattern)
  const flow = new FlowOf(segment, spots)
  for (const [i, instr] of segment.instrs.entries()) flow.run(instr, i)
  flow.end()
  return { takes: flow.takes, leaves: [...flow.mine], writes: flow.written, spots, findings: flow.findings }
}

const spotsOf = (mesh: Mesh, { buffers }: Segment, pattern: readonly number[]): Record<Ref, Spot> =>
  Object.fromEntries(
    Object.entries(buffers).map(([ref, b]) => [
      ref,
      { role: pattern[b.role], from: b.offset, to: b.offset + bytesOf(mesh, b) },
    ]),
  )

/** A collective between its start and its wait. */
interface Flight {
  readonly operands: readonly Ref[]
  readonly results: readonly Ref[]
  readonly at: number
}

class FlowOf {
  readonly takes = new Map<Ref, number>()
  /** Buffers written here and not overwritten since. */
  readonly mine = new Set<Ref>()
  readonly written = new Set<Ref>()
  readonly findings: Finding[] = []
  /** Buffers whose bytes went to another buffer, and to which. */
  private readonly lost = new Map<Ref, Ref>()
  private readonly flying = new Map<Ref, Flight>()
  private readonly neighbours = new Map<Ref, Ref[]>()
  private readonly segment: Segment
  private readonly spots: Readonly<Record<Ref, Spot>>

  constructor(segment: Segment, spots: Readonly<Record<Ref, Spot>>) {
    this.segment = segment
    this.spots = spots
    for (const [ref, buffer] of Object.entries(segment.buffers)) {
      const { bytes } = segment.roles[buffer.role]
      if (buffer.offset < 0 || spots[ref].to - spots[ref].from + buffer.offset > bytes)
        this.say('L5', `%${ref} ends at ${spots[ref].to}, its role at ${bytes}`)
    }
  }

  run(instr: Instr, at: number): void {
    const { reads, writes, starts, finishes } = traitsOf(instr)
    if (finishes !== undefined && !this.flying.delete(finishes))
      this.say('L8', `no collective is writing %${finishes}`, at)
    for (const ref of new Set([...reads, ...writes])) this.undisturbed(ref, at, writes.includes(ref))
    for (const ref of reads) this.read(ref, at)
    for (const out of writes) this.apart(instr, out, at)
    for (const ref of writes) this.write(ref)
    if (starts) this.flying.set(writes[0], { operands: reads, results: writes, at })
  }

  end(): void {
    for (const [out, { at }] of this.flying) this.say('L8', `nobody waits for %${out}`, at)
  }

  private say(law: Law, message: string, instr?: number): void {
    this.findings.push({ law, segment: this.segment.name, ...(instr === undefined ? {} : { instr }), message })
  }

  private read(ref: Ref, at: number): void {
    const by = this.lost.get(ref)
    if (by !== undefined) this.say('L7', `%${ref} is read, but its bytes have become %${by}`, at)
    else if (!this.mine.has(ref) && !this.takes.has(ref)) this.takes.set(ref, at)
  }

  private write(ref: Ref): void {
    this.mine.add(ref)
    this.written.add(ref)
    this.lost.delete(ref)
    for (const other of this.overlapping(ref)) {
      this.mine.delete(other)
      this.lost.set(other, ref)
    }
  }

  /** What a collective will write is left alone; what it reads may be read. */
  private undisturbed(ref: Ref, at: number, written: boolean): void {
    const over = (others: readonly Ref[]) => others.findIndex(other => overlap(this.spots[ref], this.spots[other]))
    for (const { operands, results } of this.flying.values()) {
      const pair = Math.max(over(results), written ? over(operands) : -1)
      if (pair < 0) continue
      const flight = `the collective from %${operands[pair]} to %${results[pair]}`
      this.say('L8', `%${ref} is touched while ${flight} is in flight`, at)
    }
  }

  /** A result may not lie over an operand or another result; an all-reduce may work in place. */
  private apart(instr: Instr, out: Ref, at: number): void {
    const { reads, writes } = traitsOf(instr)
    const own = isCollective(instr) && instr.kind === 'all-reduce' && pairsOf(instr).find(pair => pair.out === out)?.in
    const inPlace = (ref: Ref) => ref === own && sameSpot(this.spots[ref], this.spots[out])
    for (const ref of [...reads, ...writes])
      if (ref !== out && !inPlace(ref) && overlap(this.spots[ref], this.spots[out]))
        this.say('L7', `%${out} is written over %${ref} by the instruction that uses it`, at)
  }

  private overlapping(ref: Ref): Ref[] {
    const known = this.neighbours.get(ref)
    if (known) return known
    const found = Object.keys(this.spots).filter(other => other !== ref && overlap(this.spots[ref], this.spots[other]))
    this.neighbours.set(ref, found)
    return found
  }
}

const sameSpot = (a: Spot, b: Spot) => a.role === b.role && a.from === b.from && a.to === b.to

/** Every segment as each pattern of binding uses it, kept so that it is looked at once. */
export class Flows {
  private readonly known = new Map<string, Flow>()
  private readonly program: Program

  constructor(program: Program) {
    this.program = program
  }

  of(segment: string, bind: readonly number[]): Flow {
    const pattern = patternOf(bind)
    const key = `${segment} ${pattern.join()}`
    const flow = this.known.get(key) ?? flowOf(this.program.mesh, this.program.segments[segment], pattern)
    this.known.set(key, flow)
    return flow
  }
}

/** Findings of segments are placed at the first call that has them. */
export function buffers(program: Program): Finding[] {
  const flows = new Flows(program)
  const seen = new Set<Flow>()
  const findings: Finding[] = []
  for (const { pipeline, stream, at, step } of everyStep(program)) {
    if (step.kind !== 'call') continue
    const place = { pipeline, step: at, segment: step.segment }
    for (const [i, role] of program.segments[step.segment].roles.entries()) {
      const { bytes, name } = stream.frames[step.bind[i]]
      if (bytes < role.bytes)
        findings.push({
          law: 'L5',
          ...place,
          message: `role ${showRole(role.name)} needs ${role.bytes} bytes, ${name} has ${bytes}`,
        })
    }
    const flow = flows.of(step.segment, step.bind)
    if (!seen.has(flow)) findings.push(...flow.findings.map(finding => ({ ...finding, ...place })))
    seen.add(flow)
  }
  return findings
}
