/**
 * The tasks of a stream: a stage is a run of blocks; forward calls them in order, backward in reverse. What a call works
 * on is found by name: the same parameters in every microbatch, the carry where the block before left it.
 */
import type { Role, RoleName, Segment } from '../../ir/index.js'
import type { Task } from '../../schedule/index.js'
import type { PhaseName } from '../blocks.js'
import { carryFrame, gradientFrame } from './carries.js'
import { placed, type StreamContext } from './context.js'
import { frameNames, unplayed } from './frames.js'

export class BlockCalls {
  readonly #context: StreamContext
  readonly #bindings = new Map<string, readonly (number | undefined)[]>()
  readonly #gathered: ReadonlySet<string>

  constructor(context: StreamContext) {
    this.#context = context
    this.#gathered = new Set(context.held.flatMap(({ spec, segments }) => (segments.gather ? [spec.name] : [])))
  }

  run({ kind, stage, microbatch }: Task): void {
    const blocks = this.#context.blocks[stage]
    for (const block of kind === 'F' ? blocks : blocks.toReversed()) this.#call(kind, block, microbatch)
  }

  #call(phase: PhaseName, block: number, microbatch: number): void {
    const { compiled, out } = this.#context
    const segment = placed(this.#context, compiled.blocks[compiled.model.blocks[block].kind].segments[phase]!)
    if (segment.instrs.length === 0) return
    const lasting = this.#lasting(segment, block)
    const frames = segment.roles.map((role, i) => lasting[i] ?? this.#passing(role, block, microbatch))
    out.bound(segment, { block, microbatch }, frames)
  }

  /** Roles played by the same frame in every microbatch. */
  #lasting(segment: Segment, block: number): readonly (number | undefined)[] {
    const key = `${segment.name}@${block}`
    const known = this.#bindings.get(key)
    if (known) return known
    const { params } = this.#context.compiled.model.blocks[block]
    const bindings = this.#context.out.bindings(segment, role => {
      if (role.is === 'param') return this.#paramFrame(params[role.of!])
      if (role.is === 'grad') return frameNames.grad(params[role.of!])
      return role.is === 'result' ? frameNames.result(role.of) : undefined
    })
    this.#bindings.set(key, bindings)
    return bindings
  }

  /** Gathered once a step, or the parameter's own. */
  #paramFrame(name: string): string {
    return this.#gathered.has(name) ? frameNames.full(name) : frameNames.param(name)
  }

  /** Roles played by another frame in each microbatch; undefined: scratch. */
  #passing(role: Role, block: number, microbatch: number): number | undefined {
    const name = passingName(this.#context, role.name, block, microbatch)
    return name === undefined ? undefined : this.#context.out.frame(name, role)
  }
}

function passingName(context: StreamContext, role: RoleName, block: number, microbatch: number): string | undefined {
  switch (role.is) {
    case 'in':
      return carryFrame(context, block, role.of, microbatch)
    case 'out':
      return frameNames.carry(role.of, block + 1, microbatch)
    case 'din':
      return gradientFrame(context, block + 1, role.of, microbatch)
    case 'dout':
      return frameNames.gradient(role.of, block, microbatch)
    case 'input':
      return frameNames.input(role.of, microbatch)
    case 'keep':
    case 'hold':
      return frameNames.stash(role, block, microbatch)
    case 'scratch':
      return undefined
    default:
      return unplayed(role)
  }
}
