/** A rank's thread between steps: it sleeps until main asks for one, and runs its list. No word of it knows Node. */

import { type Exec, loadKernels } from '../kernels/kernels.js'
import { errors, Status } from '../lower/commands.js'
import { Hand } from '../lower/list.js'
import { Control } from '../lower/map.js'
import { type Deed, runDeeds } from './deeds.js'
import { draw } from './draw.js'
import { lookAtStep } from './look.js'
import type { Assignment, FromRank } from './protocol.js'

export function serve(assignment: Assignment, tell: (message: FromRank) => void): void {
  const kernels = loadKernels(assignment.kernels, assignment.tuning)
  const { ranks } = assignment
  // A thread may have been bound before: the only rank of one may use all cores.
  if (ranks === undefined) kernels.bind(0, 1)
  else kernels.bind(assignment.rank, ranks)
  const exec = kernels.attach(assignment.memory)
  const words = new Int32Array(assignment.memory.buffer)
  const control = assignment.control / 4
  const { rank, drawing } = assignment
  // Before the drawing: main may ask for the end in the midst of it.
  let seen = Atomics.load(words, control + Control.go)
  const look = (share: number) => {
    tell({ type: 'drawing', rank, share })
    return Atomics.load(words, control + Control.stop) === 0
  }
  if (drawing && ranks !== undefined) draw(drawing, { rank, ranks, buffer: assignment.memory.buffer }, look)
  tell({ type: 'ready' })
  for (;;) {
    Atomics.wait(words, control + Control.go, seen)
    const go = Atomics.load(words, control + Control.go)
    if (go === seen) continue
    seen = go
    if (Atomics.load(words, control + Control.stop) !== 0) break
    step(exec, assignment, words, tell)
    Atomics.store(words, assignment.status / 4 + Status.done, go)
    if (Atomics.sub(words, control + Control.running, 1) === 1) tell({ type: 'stepped' })
  }
  tell({ type: 'left' })
}

/** One rank that fails stops all: the others see the flag where they wait. */
function step(exec: Exec, assignment: Assignment, words: Int32Array, tell: (message: FromRank) => void): void {
  const { rank, control } = assignment
  const fail = (message: string) => {
    Atomics.store(words, control / 4 + Control.abort, 1)
    tell({ type: 'failed', rank, message })
  }
  try {
    const code = runIn(exec, assignment, armed(assignment, words), tell)
    if (code !== 0) fail(errors[code] ?? `error ${code}`)
  } catch (error) {
    fail((error as Error).message)
  }
}

/** The whole list at once, unless something happens to the rank or is looked for. */
function runIn(
  exec: Exec,
  { rank, list, status, hand = 0, control, memory, looks }: Assignment,
  deeds: readonly Deed[],
  tell: (message: FromRank) => void,
): number {
  const places = { buffer: memory.buffer, list, status, hand, abort: control }
  if (!looks) return deeds.length > 0 ? runDeeds(exec, places, deeds) : exec(list, status)
  const { code, sight } = lookAtStep(exec, { ...places, commands: looks.commands }, looks.notes, deeds)
  tell({ type: 'looked', rank, sight })
  return code
}

/** What happens to the rank in this step. */
function armed({ hand, deeds }: Assignment, words: Int32Array): readonly Deed[] {
  if (hand === undefined) return []
  Atomics.store(words, hand / 4 + Hand.behind, 0) // a step that was run by hand left its count
  if (deeds === undefined) return []
  const mask = Atomics.load(words, hand / 4 + Hand.armed)
  return deeds.filter((_, i) => (mask >>> i) & 1)
}
