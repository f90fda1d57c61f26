/** P3 to P5: what must happen exactly once a step is written down as it happens, and counted at the end. */
import { isMaster, mayStay, type StateName, type States } from '../../base/index.js'
import type { Program } from '../program.js'
import { isStart } from './kept.js'
import { type Finding, type Place, placeOf } from './law.js'
import { told } from './phrases.js'
import { keyOf, type Value } from './value.js'
import { everyStep } from './walk.js'

/** One optimizer instruction, as it happened. */
export interface Update extends Place {
  readonly param: string
  readonly pipeline: number
  readonly grad: Value
  readonly norm: Value
  /** It has a gradient, which the norm counts. */
  readonly trains: boolean
  /** What it made of the parameter, or of its master, and of the states it updates; at the end, what others made of states too. */
  readonly after: { readonly updated: Value; readonly states: States<Value> }
}

/** What a state must be at the end: what the optimizer made; of one that other ops move, what lies there, if it was moved or may stay. */
export function stateAfter({ param, after }: Update, state: StateName, found: Value | undefined): Value | undefined {
  if (isMaster(state)) return after.updated
  const moved = found && (mayStay(state) || !isStart(param, state, found)) ? { a: found.a, b: found.b } : undefined
  const made = after.states[state] ?? moved
  if (made) Object.assign(after.states, { [state]: made }) // the serial program's is the same
  return made
}

interface LedgerEntry {
  readonly value: Value
  readonly place: Place
  readonly microbatch: number
  times: number
}

export class Ledger {
  readonly updates: Update[] = []
  readonly #byParam = new Map<string, Update[]>()
  readonly #losses = new Map<number, LedgerEntry>()
  readonly #squares = new Map<number, LedgerEntry>()

  updated(update: Update): void {
    this.updates.push(update)
    const known = this.#byParam.get(update.param)
    if (known) known.push(update)
    else this.#byParam.set(update.param, [update])
  }

  /** In the order in which they happened. */
  updatesOf = (param: string): readonly Update[] => this.#byParam.get(param) ?? []

  /** A loss was computed. Recomputing it is no second loss. */
  loss(value: Value, place: Place, microbatch: number): void {
    const key = keyOf(value.a, value.b)
    if (!this.#losses.has(key)) this.#losses.set(key, { value, place, microbatch, times: 0 })
  }

  accumulated(a: number, b: number, place: () => Place): void {
    if (this.#losses.size === 0) return
    const loss = this.#losses.get(keyOf(a, b))
    if (!loss) return
    loss.times++
    if (loss.times === 2) Object.assign(loss, { place: place() }) // where it goes wrong
  }

  squared(value: Value, place: Place): void {
    const key = keyOf(value.a, value.b)
    const entered = this.#squares.get(key)
    if (entered) Object.assign(entered, { times: entered.times + 1, place })
    else this.#squares.set(key, { value, place, microbatch: -1, times: 1 })
  }

  findings = (program: Program): Finding[] => [
    ...this.#updatesOnce(program),
    ...this.#lossesOnce(program),
    ...this.#squaresOnce(program),
  ]

  /** Once in a training step; never in an evaluation, nor where it is frozen. */
  #updatesOnce(program: Program): Finding[] {
    return program.params.flatMap(({ name, frames, frozen }) =>
      Object.keys(frames)
        .map(Number)
        .flatMap((pipeline): Finding[] => {
          const times = program.evaluates || frozen ? 0 : 1
          const own = this.updatesOf(name).filter(update => update.pipeline === pipeline)
          if (own.length === times) return []
          const { step, segment, instr } = own[times] ?? updateCall(program, name, pipeline)
          return [
            {
              law: 'P3',
              ...told('P/updates', { param: name, times: own.length, stream: pipeline }),
              pipeline,
              ...placeOf({ pipeline, step, segment, instr }),
            },
          ]
        }),
    )
  }

  #lossesOnce({ microbatches }: Program): Finding[] {
    const entered = [...this.#losses.values()]
    const odd = entered
      .filter(({ times }) => times !== 1)
      .map(
        ({ times, place, microbatch }): Finding => ({
          law: 'P4',
          ...place,
          ...told('P/losses', { microbatch, times }),
        }),
      )
    if (entered.length === 0 || odd.length > 0) return odd
    const seen = new Set(entered.map(({ microbatch }) => microbatch))
    const missing = Array.from({ length: microbatches }, (_, i) => i).filter(i => !seen.has(i))
    return missing.map(i => ({ law: 'P4', ...told('P/no-loss', { microbatch: i }) }))
  }

  /** Once the norm is used at all, every gradient that reaches an optimizer is in it. */
  #squaresOnce(program: Program): Finding[] {
    if (this.#squares.size === 0) return []
    const twice = [...this.#squares.values()].filter(({ times }) => times > 1)
    const missing = program.params.flatMap(({ name }) => {
      const own = this.updatesOf(name).filter(({ trains }) => trains)
      const holders = own.toSorted((a, b) => a.pipeline - b.pipeline)
      return holders.slice(0, 1).filter(({ grad }) => !this.#squares.has(keyOf(grad.a, grad.b)))
    })
    return [
      ...twice.map(({ times, place }): Finding => ({ law: 'P5', ...place, ...told('P/in-norm', { times }) })),
      ...missing.map(
        (update): Finding => ({
          law: 'P5',
          ...told('P/not-in-norm', { param: update.param }),
          ...placeOf(update),
          ...normCall(program, update.param),
        }),
      ),
    ]
  }
}

/** The call that should have counted a gradient, if there is one. */
function normCall(program: Program, param: string): Place {
  for (const { pipeline, at, step } of everyStep(program))
    if (step.kind === 'call' && step.param === param && program.segments[step.segment].phase === 'norm')
      return { pipeline, step: at, segment: step.segment, instr: 0 }
  return {}
}

/** The call that should have updated a parameter: the last one made for it. */
function updateCall({ streams }: Program, param: string, pipeline: number): Place {
  const step = streams[pipeline].steps.findLastIndex(at => at.kind === 'call' && at.param === param)
  const call = streams[pipeline].steps[step]
  return call?.kind === 'call' ? { step, segment: call.segment } : {}
}
