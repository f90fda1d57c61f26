/**
 * L5 to L8 within a segment: which buffers it takes from its frames, which it leaves there, and that nothing is
 * read before it is written, after its bytes went to another buffer, or while a collective has it.
 * Two roles may be played by one frame, so a segment is looked at once per pattern of binding.
 *
 * A view covers the bytes of all parts, of which it tells the own one: writing the whole wipes the view and the other
 * way round, but a view of what was written whole may be read (see spots.ts).
 */
import type { Mesh } from '../../base/index.js'
import { type Collective, type Instr, isCollective, isFlat, pairsOf, type Ref } from '../instr.js'
import type { Program, Segment } from '../program.js'
import { showRole } from '../role.js'
import { type Traits, traitsOf } from '../traits.js'
import type { Finding, Law } from './law.js'
import { type Told, told } from './phrases.js'
import { isViewOf, overlap, patternOf, type Spot, type Spots, sameSpot, sameStart, spotsOf } from './spots.js'
import { everyStep } from './walk.js'

/** A view that is read where the whole was written: it is a slice of it. */
export interface Slicing {
  readonly view: Ref
  readonly whole: Ref
  /** The instruction that reads. */
  readonly at: number
}

export interface Flow {
  /** Read before anything here wrote them, with the instruction that does so first. */
  readonly takes: ReadonlyMap<Ref, number>
  /** Written here and still theirs at the end. */
  readonly leaves: readonly Ref[]
  /** Bytes written at any time. */
  readonly wipes: readonly Spot[]
  /** Left by an all-gather that worked in place, so that the padding of the own part is still zero. */
  readonly gathered: ReadonlySet<Ref>
  readonly slicings: readonly Slicing[]
  /** Collectives that nobody here waits for. */
  readonly open: readonly CollectiveFlight[]
  readonly spots: Spots
  readonly findings: readonly Finding[]
}

export function flowOf(mesh: Mesh, segment: Segment, pattern: readonly number[]): Flow {
  const spots = spotsOf(mesh, segment, pattern)
  const flow = new FlowOf(segment, spots)
  for (const [i, instr] of segment.instrs.entries()) flow.run(instr, i)
  const { takes, mine, wipes, gathered, slicings, findings, flying } = flow
  const open = [...flying.values()]
  return { takes, leaves: [...mine], wipes: [...wipes], gathered, slicings, open, spots, findings }
}

function refsByRole(spots: Spots): ReadonlyMap<number, readonly Ref[]> {
  const refs = new Map<number, Ref[]>()
  for (const [ref, { role }] of Object.entries(spots)) {
    const known = refs.get(role)
    if (known) known.push(ref)
    else refs.set(role, [ref])
  }
  return refs
}

/** A collective between its start and its wait. */
interface CollectiveFlight {
  readonly operands: readonly Ref[]
  readonly results: readonly Ref[]
  readonly at: number
}

class FlowOf {
  readonly takes = new Map<Ref, number>()
  /** Buffers written here and not overwritten since. */
  readonly mine = new Set<Ref>()
  readonly wipes = new Set<Spot>()
  readonly gathered = new Set<Ref>()
  readonly slicings: Slicing[] = []
  readonly findings: Finding[] = []
  readonly flying = new Map<Ref, CollectiveFlight>()
  /** Buffers whose bytes went to another buffer, and to which. */
  readonly #lost = new Map<Ref, Ref>()
  readonly #neighbours = new Map<Ref, Ref[]>()
  /** Buffers by the role they lie in, where roles that share a frame are one. */
  readonly #byRole: ReadonlyMap<number, readonly Ref[]>
  readonly #segment: Segment
  readonly #spots: Spots

  constructor(segment: Segment, spots: Spots) {
    this.#segment = segment
    this.#spots = spots
    this.#byRole = refsByRole(spots)
    for (const [ref, buffer] of Object.entries(segment.buffers)) {
      const { bytes } = segment.roles[buffer.role]
      if (buffer.offset < 0 || spots[ref].to - spots[ref].from + buffer.offset > bytes)
        this.#say('L5', told('L5/buffer', { ref, end: spots[ref].to, bytes }))
    }
  }

  run(instr: Instr, at: number): void {
    const traits = traitsOf(instr)
    const { reads, writes, starts, finishes } = traits
    if (finishes !== undefined && !this.flying.delete(finishes)) this.#say('L8', told('L8/none', { ref: finishes }), at)
    if (this.flying.size > 0)
      for (const ref of new Set([...reads, ...writes])) this.#undisturbed(ref, at, writes.includes(ref))
    for (const ref of reads) this.#read(ref, at)
    for (const out of writes) this.#apart(instr, traits, out, at)
    if (instr.kind === 'reduce-scatter') for (const ref of instr.ins) this.#clearTail(ref)
    for (const ref of writes) this.#write(ref)
    this.#gather(instr)
    if (starts) this.flying.set(writes[0], { operands: reads, results: writes, at })
  }

  #say(law: Law, said: Told, instr?: number): void {
    this.findings.push({ law, segment: this.#segment.name, ...(instr === undefined ? {} : { instr }), ...said })
  }

  #read(ref: Ref, at: number): void {
    const by = this.#lost.get(ref)
    if (by !== undefined && this.#slices(ref, by)) this.slicings.push({ view: ref, whole: by, at })
    else if (by !== undefined) this.#say('L7', told('L7/lost', { ref, by }), at)
    else if (!this.mine.has(ref) && !this.takes.has(ref)) this.takes.set(ref, at)
  }

  /** The bytes of a view have become the whole of it, which holds zeros where the own part has padding. */
  #slices(view: Ref, whole: Ref): boolean {
    const { buffers } = this.#segment
    const padded = this.#spots[view].padded && !this.gathered.has(whole)
    return isViewOf(buffers[view], buffers[whole]) && sameStart(this.#spots[view], this.#spots[whole]) && !padded
  }

  #write(ref: Ref): void {
    this.mine.add(ref)
    this.wipes.add(this.#spots[ref])
    this.#lost.delete(ref)
    this.gathered.delete(ref)
    for (const other of this.#overlapping(ref)) this.#lose(other, ref)
  }

  #lose(other: Ref, to: Ref): void {
    this.mine.delete(other)
    this.gathered.delete(other)
    this.#lost.set(other, to)
  }

  /** Behind the last element of what is scattered there must be zeros. */
  #clearTail(ref: Ref): void {
    const { tail } = this.#spots[ref]
    if (tail.from === tail.to) return
    this.wipes.add(tail)
    for (const other of this.#overlapping(ref)) if (overlap(this.#spots[other], tail)) this.#lose(other, ref)
  }

  #gather(instr: Instr): void {
    if (instr.kind !== 'all-gather' || !isFlat(instr)) return
    for (const pair of pairsOf(instr)) if (this.#inPlace(instr, pair)) this.gathered.add(pair.out)
  }

  /** What a collective will write is left alone; what it reads may be read. */
  #undisturbed(ref: Ref, at: number, written: boolean): void {
    const over = (others: readonly Ref[]) => others.findIndex(other => overlap(this.#spots[ref], this.#spots[other]))
    for (const { operands, results } of this.flying.values()) {
      const pair = Math.max(over(results), written ? over(operands) : -1)
      if (pair < 0) continue
      this.#say('L8', told('L8/touched', { ref, from: operands[pair], to: results[pair] }), at)
    }
  }

  /** A result may not lie over an operand or another result; collectives may work in place. */
  #apart(instr: Instr, { reads, writes }: Traits, out: Ref, at: number): void {
    const own = (ref: Ref) =>
      isCollective(instr) &&
      pairsOf(instr).some(pair => pair.in === ref && pair.out === out && this.#inPlace(instr, pair))
    const say = (ref: Ref) => this.#say('L7', told('L7/over', { out, ref }), at)
    const over = (ref: Ref) => ref !== out && overlap(this.#spots[ref], this.#spots[out]) && !own(ref)
    for (const ref of reads) if (over(ref)) say(ref)
    for (const ref of writes) if (over(ref)) say(ref)
  }

  /** A sum where its addend lies, or a part that is gathered from, or scattered to, its place in the whole. */
  #inPlace({ kind }: Collective, { in: operand, out }: { in: Ref; out: Ref }): boolean {
    if (!sameSpot(this.#spots[operand], this.#spots[out])) return false
    const [from, to] = [operand, out].map(ref => this.#segment.buffers[ref].inside === true)
    return kind === 'all-reduce' ? from === to : kind === 'all-gather' ? from && !to : kind === 'reduce-scatter' && to
  }

  #overlapping(ref: Ref): Ref[] {
    const known = this.#neighbours.get(ref)
    if (known) return known
    const spot = this.#spots[ref]
    const inFrame = this.#byRole.get(spot.role) ?? []
    const found = inFrame.filter(other => other !== ref && overlap(spot, this.#spots[other]))
    this.#neighbours.set(ref, found)
    return found
  }
}

/** Every segment as each pattern of binding uses it, kept so that it is looked at once. */
export class Flows {
  readonly #known = new Map<string, Flow>()
  readonly #program: Program

  constructor(program: Program) {
    this.#program = program
  }

  of(segment: string, bind: readonly number[]): Flow {
    const pattern = patternOf(bind)
    const key = `${segment} ${pattern.join()}`
    const flow = this.#known.get(key) ?? flowOf(this.#program.mesh, this.#program.segments[segment], pattern)
    this.#known.set(key, flow)
    return flow
  }
}

/** Findings of segments are placed at the first call that has them. */
export function buffers(program: Program, flows: Flows): Finding[] {
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
          ...told('L5/role', { role: showRole(role.name), needed: role.bytes, frame: name, bytes }),
        })
    }
    const flow = flows.of(step.segment, step.bind)
    if (!seen.has(flow)) findings.push(...flow.findings.map(finding => ({ ...finding, ...place })))
    if (step.tag === undefined)
      for (const { results, at: instr } of flow.open)
        findings.push({ law: 'L8', ...place, instr, ...told('L8/never', { ref: results[0] }) })
    seen.add(flow)
  }
  return findings
}
