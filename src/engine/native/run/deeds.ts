/** What a rank does to itself in a step in which faults happen to it. */
import { platform } from '../../../platform/index.js'
import type { Exec } from '../kernels/kernels.js'
import { Ended, type HandPlaces, type Hooks, runByHand } from './by-hand.js'

/** A fault as its rank is told: the command is one of its list, and what is written is known by address. */
export type Deed =
  | { readonly kind: 'kill' | 'lose'; readonly command: number }
  | { readonly kind: 'stall'; readonly command: number; readonly seconds: number }
  | { readonly kind: 'slow'; readonly factor: number; readonly computes: readonly boolean[] }
  | { readonly kind: 'nan'; readonly command: number; readonly at: number; readonly wide: boolean }

/** As hardware makes it: quiet, positive. */
const nanBits = { wide: 0x7fc00000, narrow: 0x7fff } as const

export const runDeeds = (exec: Exec, places: HandPlaces, deeds: readonly Deed[]): number =>
  runByHand(exec, places, deedHooks(places, deeds))

export function deedHooks(places: HandPlaces, deeds: readonly Deed[]): Hooks {
  let started = 0
  return {
    before(index) {
      for (const deed of deeds) if ('command' in deed && deed.command === index && !befalls(deed, places)) return false
      started = performance.now()
      return true
    },
    after(index) {
      const milliseconds = performance.now() - started
      for (const deed of deeds) {
        if (deed.kind === 'slow' && deed.computes[index]) linger((deed.factor - 1) * milliseconds, places)
        if (deed.kind === 'nan' && deed.command === index) spoil(deed, places.buffer)
      }
    },
  }
}

/** What happens before the command; false: the command does not. */
function befalls(deed: Exclude<Deed, { kind: 'slow' }>, places: HandPlaces): boolean {
  if (deed.kind === 'kill') platform.die()
  if (deed.kind === 'stall') linger(1000 * deed.seconds, places)
  return deed.kind !== 'lose'
}

/** Below this a sleep takes longer than it is asked to. */
const leastSleep = 0.3
const slice = 20

/** Stands still, until the run is given up at the latest. */
function linger(milliseconds: number, { buffer, abort }: HandPlaces): void {
  const words = new Int32Array(buffer)
  const until = performance.now() + milliseconds
  for (let left = milliseconds; left > 0; left = until - performance.now()) {
    if (Atomics.load(words, abort / 4) !== 0) throw new Ended('aborted')
    if (left > leastSleep) Atomics.wait(words, abort / 4, 0, Math.min(left, slice))
  }
}

function spoil({ at, wide }: Extract<Deed, { kind: 'nan' }>, buffer: SharedArrayBuffer): void {
  if (wide) new Int32Array(buffer, at, 1)[0] = nanBits.wide
  else new Uint16Array(buffer, at, 1)[0] = nanBits.narrow
}
