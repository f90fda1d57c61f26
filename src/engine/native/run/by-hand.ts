/**
 * A rank's list, one command at a time: for a step in which something is to go wrong, or is looked for. Every other step is one
 * call of exec, which knows nothing of this.
 */
import type { Exec } from '../kernels/kernels.js'
import { commandNames, commands, errors, opcodes, Status } from '../lower/commands.js'
import { Hand, wordOf } from '../lower/list.js'

export interface HandPlaces {
  readonly buffer: SharedArrayBuffer
  /** Byte offsets: the list, the status block, and the room for one command. */
  readonly list: number
  readonly status: number
  readonly hand: number
  /** Where the flag is that ends the step. */
  readonly abort: number
}

/** Hooks may throw `Ended`. */
export interface Hooks {
  /** Before a command, the end included; false: leave it out. */
  before?(index: number): boolean
  after?(index: number): void
}

/** Ends a list as a command that fails does. */
export class Ended extends Error {
  readonly code: number
  constructor(name: (typeof errors)[number]) {
    super(name)
    this.code = errors.indexOf(name)
  }
}

const header = 2
/** Nobody watches a step that is only looked at: who waits gives up by itself. */
const mostWhenFrozen = 600_000
const configWords = header + commands.config.length

/** The code that exec gives. Frozen: parameters and their states are not updated; scalars may be. */
export function runByHand(
  exec: Exec,
  places: HandPlaces,
  hooks: Hooks,
  how: { readonly frozen?: boolean } = {},
): number {
  let code = 0
  try {
    runEach(exec, places, hooks, how.frozen === true)
  } catch (e) {
    if (!(e instanceof Ended)) throw e
    code = e.code
  }
  Atomics.store(new Int32Array(places.buffer), places.status / 4 + Status.error, code)
  return code
}

function runEach(exec: Exec, { buffer, list, status, hand, abort }: HandPlaces, hooks: Hooks, frozen: boolean): void {
  const [words, all] = [new Int32Array(buffer), new Float64Array(buffer)]
  const room = (hand + Hand.list) / 8
  const spans = spansOf(all, list / 8, words, status)
  all.copyWithin(room, list / 8, list / 8 + configWords)
  all[room + wordOf('config', 'abort')] = abort
  if (frozen) all[room + wordOf('config', 'timeoutMs')] = mostWhenFrozen
  // How a command rounds is said by the one before it: the two share a list.
  let [filled, inRoom] = [room + configWords, 1]
  for (let [index, at] = [0, list / 8]; ; index++, at += header + all[at + 1]) {
    Atomics.store(words, status / 4 + Status.command, inRoom)
    Atomics.store(words, hand / 4 + Hand.behind, index - inRoom)
    const isWanted = hooks.before?.(index) ?? true
    if (all[at] === opcodes.end) return
    if (!isWanted || all[at] === opcodes.config) continue
    const end = filled + header + all[at + 1]
    all.copyWithin(filled, at, at + header + all[at + 1])
    if (all[at] === opcodes.dither) {
      ;[filled, inRoom] = [end, inRoom + 1]
      continue
    }
    all.fill(0, end, end + header)
    if (frozen) freeze(all, filled)
    const code = exec(hand + Hand.list, status)
    if (code !== 0) throw new Ended(errors[code])
    spans(index, inRoom)
    hooks.after?.(index)
    ;[filled, inRoom] = [room + configWords, 1]
  }
}

/** No gradient norm is below 0: whatever lives from step to step stays as it is. */
function freeze(all: Float64Array, at: number): void {
  const limit = limits[all[at]]
  if (limit >= 0) all[at + header + limit] = 0
}

const limits = commandNames.map(name => (commands[name] as readonly string[]).indexOf('limit'))

/** Exec counts commands of the list it is given: its spans are given the index in the rank's list. */
function spansOf(all: Float64Array, list: number, words: Int32Array, status: number) {
  const ring = all[list + wordOf('config', 'spans')] / 8
  const capacity = all[list + wordOf('config', 'spanCapacity')]
  return (index: number, inRoom: number) => {
    const count = words[status / 4 + Status.spans]
    for (let back = 0; back < inRoom && capacity > 0; back++)
      all[ring + 3 * ((count - 1 - back) % capacity)] = index - back
  }
}
