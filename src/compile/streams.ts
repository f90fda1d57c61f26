/**
 * *schedule* and *communicate*: the rows of the schedule, with their sends and receives, become streams of calls.
 * A stage is a run of blocks; forward calls them in order, backward in reverse. What crosses from one rank to another
 * is received into the frame the first block asks for and sent from the frame the last block filled.
 */
import { type Layout, optimizerFacts } from '../base/index.js'
import {
  type ResultName,
  type Role,
  type RoleName,
  resultNames,
  type Segment,
  type Stream,
  showRole,
} from '../ir/index.js'
import type { Block } from '../model/index.js'
import type { PhaseName } from './blocks.js'
import { needOf, sendWaits, tagOf } from './clocks.js'
import type { Compiled, CompiledParam } from './compile.js'
import { canonical } from './layouts.js'
import { communicate } from './schedule/communicate.js'
import { type CommAction, type Task, type Transfer, tasksOf } from './schedule/index.js'
import { localBytes } from './segment.js'
import { StreamWriter } from './stream.js'

export interface WrittenStream {
  readonly stream: Stream
  readonly frameOf: (name: string) => number
  readonly results: Readonly<Partial<Record<ResultName, number>>>
}

export function writeStreams(compiled: Compiled): WrittenStream[] {
  const rows = communicate(compiled.input.schedule)
  const waits = sendWaits(rows)
  const messages = new Set(rows.flat().flatMap(action => ('peer' in action ? [tagOf(action)] : [])))
  return rows.map((row, pp) => new RankStream(compiled, pp, messages).write(row, waits[pp]))
}

class RankStream {
  readonly #c: Compiled
  readonly #pp: number
  /** Tags of everything that travels; a need that is not among them is met on the rank itself. */
  readonly #messages: ReadonlySet<string>
  readonly #out = new StreamWriter()
  readonly #held: readonly CompiledParam[]
  readonly #bindings = new Map<string, readonly (number | undefined)[]>()
  readonly #crossings = new Map<number, readonly [string, number][]>()
  readonly #holdsLoss: boolean
  readonly #gathered: ReadonlySet<string>
  /** Blocks of each stage. */
  readonly #blocks: readonly (readonly number[])[]

  constructor(compiled: Compiled, pp: number, messages: ReadonlySet<string>) {
    this.#c = compiled
    this.#pp = pp
    this.#messages = messages
    this.#held = compiled.params.filter(({ holders }) => holders.includes(pp))
    this.#gathered = new Set(this.#held.flatMap(({ spec, segments }) => (segments.gather ? [spec.name] : [])))
    this.#holdsLoss = compiled.lossHolders.includes(pp)
    this.#blocks = blocksOfStages(compiled)
  }

  write(row: readonly CommAction[], waits: ReadonlyMap<number, readonly string[]>): WrittenStream {
    const tasks = tasksOf(this.#c.input.schedule.rows[this.#pp])
    this.#residents()
    this.#begin(tasks)
    for (const [at, action] of row.entries()) {
      for (const tag of waits.get(at) ?? []) this.#waitFor(tag)
      if ('peer' in action) this.#transfer(action)
      else for (const task of tasksOf([action])) this.#task(task)
    }
    for (const tag of waits.get(row.length) ?? []) this.#waitFor(tag)
    this.#end(tasks)
    const frameOf = (name: string) => this.#out.indexOf(name)
    const results = Object.fromEntries(this.#sums().map(name => [name, frameOf(name)]))
    return { stream: this.#out.finish(), frameOf, results }
  }

  /** What lives from step to step. */
  #residents(): void {
    const { s } = this.#c
    for (const { spec, dtype, stateDtype, grad, segments } of this.#held) {
      const bytes = (layout: Layout) => localBytes(s, { ...spec, dtype: stateDtype }, layout)
      this.#out.resident(spec.name, 'parameters', localBytes(s, { ...spec, dtype }, segments.kept))
      if (grad) this.#out.resident(`grad.${spec.name}`, 'gradients', bytes(grad))
      for (const state of segments.states)
        this.#out.resident(`${state}.${spec.name}`, 'optimizer', bytes(segments.state))
    }
    for (const name of this.#sums()) this.#out.resident(name, 'workspace', 4)
  }

  #sums(): ResultName[] {
    return resultNames.filter(name => (name === 'normSquared' ? !this.#c.evaluates : this.#holdsLoss))
  }

  #begin(tasks: readonly Task[]): void {
    const { once } = this.#c
    this.#once(once.clear.filter(({ roles: [{ name }] }) => name.is === 'result' && this.#sums().includes(name.of)))
    for (const param of this.#held) this.#param(param, param.segments.begin)
    for (const [name, microbatch] of this.#dataOf(tasks)) {
      const segment = once.loads.find(load => load.name === `load ${name}`)!
      this.#out.call(segment, { block: -1, microbatch }, () => `${name}@${microbatch}`)
    }
    if (this.#holdsLoss) {
      for (const microbatch of microbatchesOf(tasks, this.#c.stageOf[this.#c.stageOf.length - 1]))
        for (const segment of once.count)
          this.#out.call(segment, { block: -1, microbatch }, role =>
            role.is === 'input' ? `${role.of}@${microbatch}` : onceFrame(role),
          )
      this.#once(once.sumCount)
    }
    for (const param of this.#held) this.#param(param, param.segments.gather)
  }

  /** Every (input, microbatch) that some block on this rank reads. */
  #dataOf(tasks: readonly Task[]): [string, number][] {
    const { input, stageOf } = this.#c
    return input.model.inputs.flatMap(({ name }) => {
      const reads = (block: Block) =>
        block.graph.values.some(({ source }) => source.kind === 'input' && source.name === name)
      const stages = new Set(input.model.blocks.flatMap((block, i) => (reads(block) ? [stageOf[i]] : [])))
      const microbatches = new Set([...stages].flatMap(stage => microbatchesOf(tasks, stage)))
      return [...microbatches].sort((a, b) => a - b).map(microbatch => [name, microbatch] as [string, number])
    })
  }

  #end(tasks: readonly Task[]): void {
    const { once } = this.#c
    for (const param of this.#held) this.#param(param, param.segments.reduce)
    if (this.#holdsLoss) this.#once(once.sumLoss)
    for (const param of this.#held) if (param.holders[0] === this.#pp) this.#param(param, param.segments.norm)
    this.#once(once.sumNorm)
    if (this.#c.evaluates || (tasks.length === 0 && this.#held.length === 0)) return
    const loaded = optimizerFacts[this.#c.input.training.optimizer.kind].scalars.filter(name => name !== 'normSquared')
    for (const name of loaded)
      this.#out.call(once.loads.find(load => load.name === `load ${name}`)!, { block: -1, microbatch: -1 }, () => name)
    for (const param of this.#held) this.#param(param, param.segments.update)
  }

  #once(segments: readonly Segment[]): void {
    for (const segment of segments) this.#out.call(segment, { block: -1, microbatch: -1 }, onceFrame)
  }

  #param({ spec: { name } }: CompiledParam, segment: Segment | undefined): void {
    if (!segment || segment.instrs.length === 0) return
    this.#out.call(segment, { block: -1, microbatch: -1, param: name }, role => paramFrame(role, name))
  }

  #task(task: Task): void {
    const need = needOf(task)
    if (need !== undefined && this.#messages.has(need)) this.#waitFor(need)
    const blocks = this.#blocks[task.stage]
    for (const block of task.kind === 'F' ? blocks : blocks.toReversed()) this.#block(task.kind, block, task.microbatch)
  }

  #block(phase: PhaseName, block: number, microbatch: number): void {
    const segment = this.#c.blocks[this.#c.input.model.blocks[block].kind].segments[phase]!
    if (segment.instrs.length === 0) return
    const lasting = this.#lasting(segment, block)
    const frames = segment.roles.map((role, i) => lasting[i] ?? this.#passing(role, block, microbatch))
    this.#out.bound(segment, { block, microbatch }, frames)
  }

  /** Roles played by the same frame in every microbatch. */
  #lasting(segment: Segment, block: number): readonly (number | undefined)[] {
    const key = `${segment.name}@${block}`
    const { params } = this.#c.input.model.blocks[block]
    const known = this.#bindings.get(key)
    if (known) return known
    const bindings = this.#out.bindings(segment, role => {
      if (role.is === 'param') return this.#paramFrame(params[role.of!])
      if (role.is === 'grad') return `grad.${params[role.of!]}`
      return role.is === 'result' ? role.of : undefined
    })
    this.#bindings.set(key, bindings)
    return bindings
  }

  /** Roles played by another frame in each microbatch; undefined: scratch. */
  #passing(role: Role, block: number, microbatch: number): number | undefined {
    return role.name.is === 'scratch'
      ? undefined
      : this.#out.frame(this.#passingName(role.name, block, microbatch), role)
  }

  #passingName(role: RoleName, block: number, microbatch: number): string {
    switch (role.is) {
      case 'in':
        return this.#carry(block, role.of, microbatch)
      case 'out':
        return `${role.of}@${block + 1}.${microbatch}`
      case 'din':
        return this.#gradient(block + 1, role.of, microbatch)
      case 'dout':
        return `d.${role.of}@${block}.${microbatch}`
      case 'input':
        return `${role.of}@${microbatch}`
      default:
        return `${showRole(role)}@${block}.${microbatch}` // the stash
    }
  }

  /** Gathered once a step, or the parameter's own. */
  #paramFrame(name: string): string {
    return this.#gathered.has(name) ? `full.${name}` : name
  }

  /** The frame of a carry entering a block: its producer's, however many blocks before, if they are on this rank. */
  #carry(block: number, name: string, microbatch: number): string {
    const { stageOf, blocks, input } = this.#c
    const local =
      block > 0 &&
      (stageOf[block - 1] === stageOf[block] || !this.#messages.has(`F${stageOf[block - 1]}.${microbatch}`))
    const through = local ? blocks[input.model.blocks[block - 1].kind].through[name] : undefined
    return through === undefined ? `${name}@${block}.${microbatch}` : this.#carry(block - 1, through, microbatch)
  }

  /** The frame of the gradient of what enters a block, likewise from the blocks after. */
  #gradient(block: number, name: string, microbatch: number): string {
    const { stageOf, blocks, input } = this.#c
    const local = stageOf[block] === stageOf[block - 1] || !this.#messages.has(`B${stageOf[block]}.${microbatch}`)
    const through = local ? blocks[input.model.blocks[block].kind].dthrough[name] : undefined
    return through === undefined ? `d.${name}@${block}.${microbatch}` : this.#gradient(block + 1, through, microbatch)
  }

  /** One message per carry that crosses, in the order of the exports on both sides. */
  #transfer(transfer: Transfer): void {
    const { kind, stage, microbatch, peer } = transfer
    const forward = kind.endsWith('F')
    const boundary = forward === kind.startsWith('SEND') ? this.#blocks[stage].at(-1)! + 1 : this.#blocks[stage][0]
    for (const [name, bytes] of this.#crossing(boundary)) {
      const tag = `${tagOf(transfer)} ${name}`
      const received = forward ? `${name}@${boundary}.${microbatch}` : `d.${name}@${boundary}.${microbatch}`
      if (kind.startsWith('RECV')) this.#out.recv(received, bytes, peer, tag)
      else
        this.#out.send(
          forward ? this.#sentCarry(boundary, name, microbatch) : this.#sentGradient(boundary, name, microbatch),
          peer,
          tag,
        )
    }
  }

  /** What leaves forward: made by the last block of the stage, or handed through by it. */
  #sentCarry(boundary: number, name: string, microbatch: number): string {
    const { blocks, input } = this.#c
    const through = blocks[input.model.blocks[boundary - 1].kind].through[name]
    return through === undefined ? `${name}@${boundary}.${microbatch}` : this.#carry(boundary - 1, through, microbatch)
  }

  /** What leaves backward: made by the first block of the stage, or handed through by it. */
  #sentGradient(block: number, name: string, microbatch: number): string {
    const { blocks, input } = this.#c
    const through = blocks[input.model.blocks[block].kind].dthrough[name]
    return through === undefined ? `d.${name}@${block}.${microbatch}` : this.#gradient(block + 1, through, microbatch)
  }

  /** What passes from one block to the next, and its bytes. */
  #crossing(boundary: number): readonly [string, number][] {
    const known = this.#crossings.get(boundary)
    if (known) return known
    const { s, input } = this.#c
    const { graph } = input.model.blocks[boundary - 1]
    const crossing = Object.entries(graph.exports).map(([name, id]): [string, number] => {
      const value = graph.values[id]
      return [name, localBytes(s, value, canonical(s, value.dims, 'value'))]
    })
    this.#crossings.set(boundary, crossing)
    return crossing
  }

  #waitFor(tag: string): void {
    const stage = Number(tag.slice(1).split('.')[0])
    const boundary = tag.startsWith('F') ? this.#blocks[stage].at(-1)! + 1 : this.#blocks[stage][0]
    for (const [name] of this.#crossing(boundary)) this.#out.wait(`${tag} ${name}`)
  }
}

function blocksOfStages({ input, stageOf }: Compiled): number[][] {
  const blocks = Array.from({ length: input.schedule.stages }, () => [] as number[])
  for (const [block, stage] of stageOf.entries()) blocks[stage].push(block)
  return blocks
}

const microbatchesOf = (tasks: readonly Task[], stage: number): number[] =>
  tasks.filter(task => task.kind === 'F' && task.stage === stage).map(task => task.microbatch)

const onceFrame = (role: RoleName): string | undefined => (role.is === 'scratch' ? undefined : showRole(role))

/** The frame that plays a role in a segment of this parameter. */
function paramFrame(role: RoleName, param: string): string | undefined {
  if (role.is === 'param') return param
  const own = role.is === 'grad' || role.is === 'reduced' || role.is === 'full' || role.is === 'state'
  return own ? `${showRole(role)}.${param}` : onceFrame(role)
}
