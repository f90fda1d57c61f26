/**
 * *lower*: a program becomes one list of commands per rank. A stream is walked once for each rank that runs it; a call
 * binds its segment's buffers to addresses, and each instruction becomes the commands that do it. What the backend
 * cannot do is found here, all of it, before anything runs.
 */
import { type Coordinates, coordinatesOf, elementsOf, type Rank } from '../../../base/index.js'
import { membersOf, peerOf, wholeInput } from '../../../geometry/index.js'
import {
  applyRule,
  type Buffer,
  bytesPer,
  type Call,
  type Collective,
  type Group,
  type Instr,
  isRouted,
  isUpdate,
  type Program,
  pairsOf,
  type Ref,
  type Segment,
  type Step,
  type Stream,
  spaceOf,
  traitsOf,
} from '../../../ir/index.js'
import { meaningOf } from '../../text.js'
import { markOf } from '../kernels/dtypes.js'
import { finishCollective, meetsOnce } from './collectives.js'
import { countOf } from './commands.js'
import { copierOf, copierWriter } from './copiers.js'
import { keepChoices, routesOf } from './experts.js'
import { type Fusion, fusionOf } from './fuse.js'
import { type Landing, landingPlaces, landingsIn, landingTensors } from './landing.js'
import { handBytes, ListWriter, wordOf } from './list.js'
import { bytesBefore, partsIn, placedOn, remembering, type Shapes, shapesIn, sumsBytes } from './local.js'
import { type LoweredProgram, type LowerOptions, spanBytes } from './lowered.js'
import { type MemoryMap, mapOf, type RankPlace, Region, streamOf } from './map.js'
import { finishedBy, NoteWriter, touchedBy } from './notes.js'
import { Panels } from './panels.js'
import { RendezvousTable } from './rendezvous.js'
import { rules } from './rules.js'
import { Refusal, RefusalError } from './shapes.js'
import type { OpenCollective, Site } from './site.js'

/** Lowers a program to one command list per rank, with all addresses resolved. */
export function lower(program: Program, options: LowerOptions): LoweredProgram {
  const region = new Region(options.reserved)
  const shapes = shapesIn(program)
  const workspaceBytes = options.workspaceBytes + sumsBytes(program, shapes)
  const map = mapOf(program, { ...options, workspaceBytes }, region)
  const collectives = new RendezvousTable()
  const refusals = new Set<string>()
  const world: World = {
    ...{ program, options: { ...options, workspaceBytes }, map, shapes, collectives, refusals },
    once: remembering(),
  }
  const ranks = map.ranks.map((_, rank) => new RankLowering(world, rank))
  const writers = ranks.map(lowering => lowering.write(region))
  if (refusals.size > 0) throw new RefusalError([...refusals])
  const syncAt = region.take(0)
  collectives.settle(region)
  const sync = { offset: syncAt, bytes: region.bytes - syncAt }
  const lists = writers.map(writer => writer.finish())
  const listAt = lists.map(({ words }) => region.take(words.byteLength))
  const spanCapacity = options.spans ? Math.max(...lists.map(({ starts }) => starts.length)) : 0
  const spansAt = lists.map(() => (options.spans ? region.take(spanCapacity * spanBytes) : 0))
  const handAt = lists.map(list => region.take(handBytes(list)))
  for (const [rank, { words }] of lists.entries()) {
    words[wordOf('config', 'spans')] = spansAt[rank]
    words[wordOf('config', 'spanCapacity')] = spanCapacity
  }
  const copiers = ranks.flatMap(({ copier }, rank) => (copier ? copierOf(rank, copier, region) : []))
  const notes = ranks.flatMap(({ notes }) => notes ?? [])
  return { map, lists, listAt, spansAt, spanCapacity, handAt, notes, copiers, sync, bytes: region.bytes }
}

/** Elements of a frame: the byte at which they begin, with what they are in, and how many. */
interface ElementRun {
  readonly from: number
  readonly n: number
}

/** What the lowering of all ranks shares. */
interface World {
  readonly program: Program
  readonly options: LowerOptions
  readonly map: MemoryMap
  readonly shapes: Shapes
  readonly collectives: RendezvousTable
  readonly refusals: Set<string>
  /** What is the same at every rank and call of an instruction is made once. */
  readonly once: Site['once']
}

class RankLowering {
  readonly #world: World
  readonly #rank: Rank
  readonly #at: Coordinates
  readonly #stream: Stream
  readonly #arenas: RankPlace['arenas']
  readonly #list = new ListWriter()
  readonly copier: ListWriter | undefined
  readonly notes: NoteWriter | undefined
  readonly #panels: Panels | undefined
  readonly #members = new Map<Group, readonly Rank[]>()
  /** Frames of which a run of elements is to be 0, and that nobody has touched since. */
  readonly #cleared = new Map<number, ElementRun>()
  /** Messages under way, by tag. */
  readonly #flying = new Map<string, Extract<Step, { kind: 'send' | 'recv' }>>()
  /** Calls that only started, by tag. */
  readonly #started = new Map<string, { readonly step: number; readonly segment: Segment; readonly site: Site }>()
  /** Flights that are unpacked as they end, by the step that starts them; steps whose work they do; and those that were waited for, by the step that unpacks them. */
  readonly #landings: ReadonlyMap<number, Landing>
  readonly #late: ReadonlySet<number | undefined>
  readonly #landing = new Map<number, { readonly open: OpenCollective; readonly site: Site }[]>()

  constructor(world: World, rank: Rank) {
    this.#world = world
    this.#rank = rank
    this.#at = coordinatesOf(world.program.mesh, rank)
    this.#stream = streamOf(world.program, rank)
    this.#arenas = world.map.ranks[rank].arenas
    this.#landings = world.once(this.#stream, () => landingsIn(world.program, this.#stream))
    this.#late = new Set([...this.#landings.values()].map(({ packs }) => packs?.at))
    this.#panels = world.options.panels && new Panels(world.options.panels)
    this.notes = world.options.notes ? new NoteWriter() : undefined
    this.copier = world.options.copiers ? copierWriter(world.map.control) : undefined
  }

  write(region: Region): ListWriter {
    const { options, map } = this.#world
    this.#list.write('config', {
      ...{ abort: map.control, ...options.waiting, spans: 0, spanCapacity: 0 },
      ...{ workspace: map.ranks[this.#rank].workspace, workspaceBytes: options.workspaceBytes },
    })
    for (const [index, step] of this.#stream.steps.entries()) {
      this.#list.origin = { step: index, instr: -1 }
      this.#step(step, index)
    }
    for (const frame of this.#cleared.keys()) this.#frame(frame)
    this.#panels?.settle(this.#list, bytes => region.take(bytes))
    return this.#list
  }

  #step(step: Step, index: number): void {
    if (step.kind === 'alloc' || step.kind === 'free') this.#account(step.kind, step.frame)
    else if (step.kind === 'call') this.#call(step, index)
    else if (step.kind === 'wait' && this.#started.has(step.tag)) this.#finish(step.tag)
    else if (step.kind === 'wait') this.#collect(step.tag)
    else this.#post(step)
  }

  /** Where a frame lies. Whoever asks touches it, so what was only said to be 0 becomes so first. */
  #frame(index: number): number {
    const out = this.#place(index)
    const cleared = this.#cleared.get(index)
    if (cleared) this.#list.write('fill', { out: out + cleared.from, n: cleared.n, value: 0 })
    this.#cleared.delete(index)
    return out
  }

  #place(index: number): number {
    const frame = this.#stream.frames[index]
    return this.#arenas[spaceOf(frame)] + frame.offset
  }

  #account(command: 'alloc' | 'free', index: number): void {
    const { kind, bytes, space = 'device' } = this.#stream.frames[index]
    this.#panels?.touch(index)
    this.#cleared.delete(index) // nobody asked for it, and from here on the bytes are another's
    this.#list.write(command, { kind: countOf(space, kind), bytes })
    // A file is not in memory: at its offset lies something else.
    if (!this.#world.options.poison || space === 'disk') return
    // Two NaN of 16 bits side by side are one of 32.
    const out = this.#frame(index) + markOf('bf16')
    this.#list.write('fill', { out, n: bytes / bytesPer.bf16, value: Number.NaN })
  }

  #addressOf({ kind, peer, tag }: Extract<Step, { kind: 'send' | 'recv' }>): { address: string; peer: Rank } {
    const other = peerOf(this.#world.program.mesh, this.#rank, peer)
    const [source, target] = kind === 'send' ? [this.#rank, other] : [other, this.#rank]
    return { address: `${tag} from rank ${source} to rank ${target}`, peer: other }
  }

  #post(step: Extract<Step, { kind: 'send' | 'recv' }>): void {
    this.#flying.set(step.tag, step)
    this.#panels?.touch(step.frame)
    const word = this.#list.write(step.kind, { sync: 0, message: 1 }) + wordOf(step.kind, 'sync')
    const end = step.kind === 'send' ? 'x' : 'out'
    const sync = { list: this.#list, word }
    this.#world.collectives.post(this.#addressOf(step).address, end, this.#frame(step.frame), sync)
  }

  #collect(tag: string): void {
    const open = this.#flying.get(tag)
    if (!open) throw new Error(`internal: no send, recv or call ${tag} has started`)
    this.#flying.delete(tag)
    const list = this.#list
    const { address, peer } = this.#addressOf(open)
    const command = open.kind === 'send' ? 'waitSend' : 'waitRecv'
    const { bytes } = this.#stream.frames[open.frame]
    const start = list.write(command, { sync: 0, message: 1, out: 0, x: 0, bytes })
    list.waitsFor([peer])
    const word = (field: 'sync' | 'x' | 'out') => ({ list, word: start + wordOf(command, field) })
    this.#world.collectives.collect(address, { sync: word('sync'), x: word('x'), out: word('out') })
  }

  /** What a call started is finished here, and is still the work of that call. */
  #finish(tag: string): void {
    const { step, segment, site } = this.#started.get(tag)!
    this.#started.delete(tag)
    const landing = this.#landings.get(step)
    for (const open of site.open.values()) {
      if (landing?.tensors.has(open.instr)) {
        this.#landing.set(landing.at, [...(this.#landing.get(landing.at) ?? []), { open, site }])
        continue
      }
      this.#list.origin = { step, instr: segment.instrs.indexOf(open.instr) }
      const touched = finishedBy(open.instr, site)
      this.#noted(site, touched, () => this.#attempt(segment, open.instr, () => finishCollective(open, site)))
    }
  }

  #noted(site: Site, touched: Parameters<NoteWriter['write']>[2], work: () => void): void {
    const first = this.#list.count
    work()
    this.notes?.write(first, this.#list.count, touched, site)
  }

  /** Does what can be done; what cannot is written down. */
  #attempt(segment: Segment, instr: Instr, write: () => void): void {
    try {
      write()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const place = `${segment.name} [${segment.instrs.indexOf(instr)}]`
      this.#world.refusals.add(`${place} ${instr.kind}: ${error.message}`)
    }
  }

  #call(call: Call, index: number): void {
    if (this.#late.has(index)) return
    const segment = this.#world.program.segments[call.segment]
    const fusion = this.#fusionOf(call, segment)
    const site = this.#siteOf(call, segment, fusion, this.#landings.get(index))
    const first = this.#list.count
    const landed = this.#land(index)
    const writes = [...landed].flatMap(instr => traitsOf(instr).writes)
    this.notes?.write(first, this.#list.count, { reads: [], writes }, site)
    for (const [instr, written] of segment.instrs.entries()) {
      for (const ref of traitsOf(written).writes) this.#panels?.touch(call.bind[segment.buffers[ref].role])
      const what = fusion?.instead.has(written) ? fusion.instead.get(written) : written
      if (!what || landed.has(what)) continue
      this.#list.origin = { step: index, instr: what === written ? instr : segment.instrs.indexOf(what) }
      this.#observe(call, what, site)
      const touched = touchedBy(what, site, fusion)
      this.#noted(site, touched, () => this.#attempt(segment, what, () => applyRule(rules, what, site)))
      if (what.kind === 'topK') keepChoices(what, site, this.#world.map)
    }
    if (call.tag !== undefined) this.#started.set(call.tag, { step: index, segment, site })
  }

  /** Ends the flights that are unpacked here, and gives what unpacks them. */
  #land(index: number): ReadonlySet<Instr> {
    const landed = new Set<Instr>()
    for (const { open, site } of this.#landing.get(index) ?? []) {
      this.#list.origin = { step: index, instr: 0 }
      finishCollective(open, site)
      for (const { unpack } of site.landing(open.instr)!) landed.add(unpack)
    }
    return landed
  }

  /** Whether buffers of two roles overlap is not known where one frame plays both. */
  #fusionOf({ bind }: Call, segment: Segment): Fusion | undefined {
    return new Set(bind).size === bind.length ? this.#world.once(segment, () => fusionOf(segment)) : undefined
  }

  /** The gradient an optimizer is given is gone after the step; those who want to see it get a copy. */
  #observe({ param }: Call, instr: Instr, site: Site): void {
    const to = param === undefined ? undefined : this.#world.map.ranks[this.#rank].observed.get(param)
    if (to === undefined || !isUpdate(instr)) return
    const columns = elementsOf(site.shape(instr.ins[0]).dims)
    this.#list.write('copy', {
      out: to + markOf(site.buffer(instr.ins[0]).dtype),
      x: site.at(instr.ins[0]),
      rows: 1,
      columns,
      strideOut: columns,
      strideX: columns,
    })
  }

  #membersOf(group: Group): readonly Rank[] {
    const known = this.#members.get(group) ?? membersOf(this.#world.program.mesh, this.#rank, group).members
    this.#members.set(group, known)
    return known
  }

  /** Weights are what products share, over microbatches. */
  #sharing({ roles, buffers }: Segment, ref: Ref, frame: number, at: (ref: Ref) => number): ReturnType<Site['panels']> {
    const panels = this.#panels
    if (!panels || roles[buffers[ref].role].name.is !== 'param') return undefined
    return product => panels.note({ ...product, frame, at: at(ref) })
  }

  #lying = (frame: number, from: number): ReturnType<Site['lying']> => ({
    ...{ space: spaceOf(this.#stream.frames[frame]), isWhole: from === 0 },
  })

  #siteOf(call: Call, segment: Segment, fusion: Fusion | undefined, flight: Landing | undefined): Site {
    const { program, options, map, collectives, once } = this.#world
    const { mesh } = program
    const all = this.#world.shapes(segment)
    const [shape, buffer] = [(ref: Ref) => all[ref], (ref: Ref): Buffer => segment.buffers[ref]]
    const frameOf = (ref: Ref) => call.bind[buffer(ref).role]
    const elements = (ref: Ref) => elementsOf(shape(ref).dims)
    const before = (ref: Ref) => bytesBefore(mesh, buffer(ref), this.#at)
    const planned = (ref: Ref) => this.#frame(frameOf(ref)) + buffer(ref).offset + before(ref)
    const mark = (ref: Ref) => markOf(buffer(ref).dtype)
    const lies = (ref: Ref) => this.#place(frameOf(ref)) + buffer(ref).offset + before(ref)
    const at = (ref: Ref) => planned(fusion?.places.get(ref) ?? ref) + mark(ref)
    const runOf = (ref: Ref): ElementRun => ({ from: buffer(ref).offset + before(ref) + mark(ref), n: elements(ref) })
    const isCleared = (ref: Ref) => {
      const [run, cleared] = [runOf(ref), this.#cleared.get(frameOf(ref))]
      return cleared?.from === run.from && cleared.n === run.n
    }
    const landing = (instr: Collective) =>
      landingTensors(flight, instr, this.#stream, this.#arenas, (of, ref) =>
        elementsOf(this.#world.shapes(of)[ref].dims),
      )
    const join = (instr: Collective) => {
      const members = this.#membersOf(instr.group)
      const meaning = once(instr, () => meaningOf(instr, shape, []))
      const pairs = pairsOf(instr).map(pair => ({ x: at(pair.in), out: at(pair.out) }))
      const meet = (tensors: typeof pairs) => collectives.join({ rank: this.#rank, members, meaning, pairs: tensors })
      const tensors = landing(instr)
      if (tensors) return [meet(landingPlaces(tensors, at))]
      if (isRouted(instr)) return [meet([...pairs, { x: at(routesOf(instr)), out: 0 }])]
      return meetsOnce(instr) ? [meet(pairs)] : pairs.map(pair => meet([pair]))
    }
    return {
      ...{ list: this.#list, copier: this.copier, file: options.files?.[this.#rank] },
      lying: ref => this.#lying(frameOf(ref), buffer(ref).offset + before(ref)),
      ...{ seed: options.seed, block: program.blocks[call.block]?.name ?? '', param: call.param ?? '' },
      ...{ at, lies: (ref: Ref) => lies(fusion?.places.get(ref) ?? ref) },
      clear: ref => {
        if (!isCleared(ref)) this.#frame(frameOf(ref))
        this.#cleared.set(frameOf(ref), runOf(ref))
      },
      fresh: ref => isCleared(ref) && this.#cleared.delete(frameOf(ref)),
      buffer,
      shape,
      parts: ref => partsIn(program, buffer(ref), this.#at, call.microbatch),
      ...placedOn(mesh, this.#at),
      input: name => {
        const place = map.inputs.get(name)
        return place && { ...place, dims: wholeInput(program, name) }
      },
      ...{ rate: map.lr, landing },
      fused: instr => fusion?.sums.get(instr),
      panels: ref => this.#sharing(segment, ref, frameOf(ref), at),
      columns: instr => fusion?.columns.get(instr),
      normWeights: instr => fusion?.norms.get(instr),
      merged: instr => fusion?.merges.get(instr),
      once,
      join,
      open: new Map(),
    }
  }
}
