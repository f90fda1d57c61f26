/**
 * Faults to rehearse: what is to go wrong in a run, when and where. `--fault kill:rank=3,step=5,at=17`. One grammar for the engine
 * and for emitted programs (emit/runtime/faults.py).
 */
import { faultRefused } from './fault-phrases.js'
import { meant } from './issues.js'
import type { Problem } from './problem.js'
import { either, shorten } from './text.js'

/** Where problems of a fault are said to be. */
const pathOf = (text: string): string => `--fault ${shorten(text, 60)}`

/** Steps count from 1. `at` counts the commands of a rank (engine), or its calls (emitted), from 0; without it: the first that will do. */
interface Place {
  readonly rank: number
  readonly step: number
  readonly at?: number
}

/** An injected fault: what goes wrong, on which rank and at which step. `kind:rank=1,step=20` on the command line. */
export type Fault =
  | ({ readonly kind: 'kill' } & Place)
  | ({ readonly kind: 'lose' } & Place)
  /** Without seconds: until the run is given up. */
  | ({ readonly kind: 'stall'; readonly seconds?: number } & Place)
  /** Transient 1: gone when the step is run again, as with failing hardware; else it is there again, as with bad code or data. */
  | ({ readonly kind: 'nan'; readonly transient?: number } & Place)
  | {
      readonly kind: 'slow'
      readonly rank: number
      /** The factor by which it takes longer. */
      readonly factor: number
      readonly from?: number
      readonly to?: number
    }
  | { readonly kind: 'lr'; readonly factor: number; readonly from?: number; readonly to?: number }
  | {
      readonly kind: 'flip'
      readonly rank: number
      readonly step: number
      readonly parameter: string
      readonly index?: number
      readonly bit?: number
    }
  | { readonly kind: 'full-disk'; readonly step?: number }
  | { readonly kind: 'damage'; readonly file: string; readonly step?: number }

export type FaultKind = Fault['kind']
export type FaultOf<K extends FaultKind> = Extract<Fault, { kind: K }>

interface Key {
  readonly is: 'count' | 'number' | 'text'
  readonly least?: number
  readonly most?: number
  readonly needed?: boolean
}

const count = (least: number, needed = false): Key => ({ is: 'count', least, needed })
const place = { rank: count(0, true), step: count(1, true), at: count(0) }

/** What each kind does, for people, and the keys it takes. */
export const faultKinds: Readonly<
  Record<FaultKind, { readonly does: string; readonly keys: Readonly<Record<string, Key>> }>
> = {
  kill: { does: 'the rank dies before command `at` of the step', keys: place },
  stall: {
    does: 'the rank hangs before command `at`, for `seconds` or forever',
    keys: { ...place, seconds: { is: 'number', least: 0 } },
  },
  slow: {
    does: 'the rank computes `factor` times as long, in steps `from` to `to`',
    keys: { rank: count(0, true), factor: { is: 'number', least: 1, needed: true }, from: count(1), to: count(1) },
  },
  lr: {
    does: 'the learning rate is `factor` times as high, in steps `from` to `to`',
    keys: { factor: { is: 'number', least: 1, needed: true }, from: count(1), to: count(1) },
  },
  nan: {
    does: 'the result of command `at` gets a NaN; with `transient=1` not when the step is replayed',
    keys: { ...place, transient: { is: 'count', least: 0, most: 1 } },
  },
  flip: {
    does: 'one bit of the rank’s replica of a parameter flips after the step',
    keys: {
      rank: count(0, true),
      step: count(1, true),
      parameter: { is: 'text', needed: true },
      index: count(0),
      bit: { is: 'count', least: 0, most: 63 },
    },
  },
  lose: { does: 'the message of command `at`, or the arrival at its collective, is lost', keys: place },
  'full-disk': { does: 'the writes of the next checkpoint fail: the disk is full', keys: { step: count(1) } },
  damage: {
    does: 'a byte of a checkpoint file that matches the pattern is corrupted after the write',
    keys: { file: { is: 'text', needed: true }, step: count(1) },
  },
}

export const faultNames = Object.keys(faultKinds) as readonly FaultKind[] // its own keys

/** Parses faults as `--fault` takes them; also returns diagnostics of those that are wrong. */
export function parseFaults(texts: readonly string[]): {
  readonly faults: readonly Fault[]
  readonly problems: readonly Problem[]
} {
  const read = texts.map(parseFault)
  return { faults: read.flatMap(({ faults }) => faults), problems: read.flatMap(({ problems }) => problems) }
}

function parseFault(text: string): { readonly faults: readonly Fault[]; readonly problems: readonly Problem[] } {
  const path = pathOf(text)
  const [name, ...rest] = text.trim().split(':')
  if (!Object.hasOwn(faultKinds, name))
    return {
      faults: [],
      problems: [faultRefused(path, 'run/fault/kind', { kind: shorten(name, 40), instead: meant(name, faultNames) })],
    }
  const kind = name as FaultKind // asked above
  const { keys } = faultKinds[kind]
  const given = rest
    .join(':')
    .split(',')
    .filter(part => part.trim() !== '')
  const pairs = given.map(part => part.split('=').map(side => side.trim()))
  const problems = [
    ...pairs.flatMap(([key, ...value], i) => pairProblems(path, keys, [key, value.join('=')], given[i])),
    ...repeated(pairs.map(([key]) => key)).map(key => faultRefused(path, 'run/fault/twice', { key })),
    ...Object.keys(keys)
      .filter(key => keys[key].needed && !pairs.some(([one]) => one === key))
      .map(key => faultRefused(path, 'run/fault/missing', { key, example: exampleOf(kind) })),
  ]
  if (problems.length > 0) return { faults: [], problems }
  const values = pairs.map(([key, ...value]) => [key, keys[key].is === 'text' ? value.join('=') : Number(value[0])])
  return { faults: [{ kind, ...Object.fromEntries(values) } as Fault], problems } // every key was checked
}

function pairProblems(
  path: string,
  keys: Readonly<Record<string, Key>>,
  [key, value]: readonly [key: string, value: string],
  text: string,
): Problem[] {
  if (!Object.hasOwn(keys, key))
    return [faultRefused(path, 'run/fault/key', { key: shorten(key, 40), instead: meant(key, Object.keys(keys)) })]
  const { is, least = 0, most = Number.MAX_SAFE_INTEGER } = keys[key]
  if (value === '') return [faultRefused(path, 'run/fault/empty', { key, given: shorten(text.trim(), 40) })]
  if (is === 'text') return []
  const number = /^[-+]?[\d.]+(e[-+]?\d+)?$/i.test(value) ? Number(value) : Number.NaN
  if (Number.isNaN(number) || (is === 'count' && !Number.isInteger(number)))
    return [
      faultRefused(path, is === 'count' ? 'run/fault/whole' : 'run/fault/number', { key, value: shorten(value, 40) }),
    ]
  if (number >= least && number <= most) return []
  if (is === 'number') return [faultRefused(path, 'run/fault/number-from', { key, value, least })]
  return most < 100
    ? [faultRefused(path, 'run/fault/whole-between', { key, value, least, most })]
    : [faultRefused(path, 'run/fault/whole-from', { key, value, least })]
}

const repeated = (words: readonly string[]): string[] => [
  ...new Set(words.filter((word, i) => words.indexOf(word) !== i)),
]

/** With every key that is needed: `kill:rank=0,step=1`. */
function exampleOf(kind: FaultKind): string {
  const { keys } = faultKinds[kind]
  const examples: Readonly<Record<string, string>> = { parameter: 'wte', file: 'rank-0*', factor: '1.3' }
  const needed = Object.keys(keys).filter(key => keys[key].needed)
  return `${kind}:${needed.map(key => `${key}=${examples[key] ?? keys[key].least}`).join(',')}`
}

export const showFault = ({ kind, ...values }: Fault): string =>
  [kind, Object.entries(values).map(([key, value]) => `${key}=${value}`)]
    .map(part => String(part))
    .filter(part => part !== '')
    .join(':')

export const faultPath = (fault: Fault): string => pathOf(showFault(fault))

/** What keeps faults from happening in a run of so many ranks with these parameters. */
export function faultProblems(
  faults: readonly Fault[],
  { ranks, params }: { readonly ranks: number; readonly params: readonly { readonly name: string }[] },
): Problem[] {
  const names = params.map(({ name }) => name)
  return faults.flatMap(fault => [
    ...('rank' in fault && fault.rank >= ranks
      ? [faultRefused(faultPath(fault), 'run/fault/rank', { rank: fault.rank, ranks, last: ranks - 1 })]
      : []),
    ...(fault.kind === 'flip' && !names.includes(fault.parameter)
      ? [
          faultRefused(faultPath(fault), 'run/fault/parameter', {
            ...{ parameter: fault.parameter, instead: meant(fault.parameter, names) },
          }),
        ]
      : []),
  ])
}

/** Kinds that happen to the files of checkpoints, at the first one from a step on. */
const ofFiles: readonly FaultKind[] = ['full-disk', 'damage']

/** Kinds that last from one step to another. */
const lasting = ['slow', 'lr'] as const
type Lasting = FaultOf<(typeof lasting)[number]>
const lasts = (fault: Fault): fault is Lasting => lasting.some(kind => kind === fault.kind)

/** The faults to inject into a run. Each happens once, however often the run restarts: keep the book over restarts. */
export class FaultBook {
  readonly #faults: Fault[]
  readonly #happened: Set<Fault>

  constructor(faults: readonly Fault[], happened: Set<Fault> = new Set()) {
    this.#faults = [...faults]
    this.#happened = happened
  }

  get faults(): readonly Fault[] {
    return this.#faults
  }

  /** Adds a fault during the run. Callers that prepared the earlier ones must prepare again. */
  add(fault: Fault): void {
    this.#faults.push(fault)
  }

  /**
   * Faults that can still happen after the remaining ranks switch to another program, whose commands have other
   * indices.
   */
  elsewhere(ranks: number): FaultBook {
    const can = (fault: Fault) => !('rank' in fault) || (fault.rank < ranks && !('at' in fault))
    return new FaultBook(this.faults.filter(can), this.#happened)
  }

  /**
   * Faults of these kinds that happen in this step; they count as happened from now on. Lasting ones happen in each
   * of their steps.
   */
  take<K extends FaultKind>(step: number, ...kinds: readonly K[]): FaultOf<K>[] {
    const due = this.faults.filter(
      (fault): fault is FaultOf<K> =>
        kinds.some(kind => kind === fault.kind) && !this.#happened.has(fault) && isDue(fault, step),
    )
    for (const fault of due) if (!lasts(fault)) this.#happened.add(fault)
    return due
  }

  /** Faults that happen again when the step is replayed to find its cause. */
  again(step: number): FaultOf<'nan'>[] {
    return this.faults.filter(
      (fault): fault is FaultOf<'nan'> =>
        fault.kind === 'nan' && fault.step === step && !fault.transient && this.#happened.has(fault),
    )
  }
}

function isDue(fault: Fault, step: number): boolean {
  if (lasts(fault)) return step >= (fault.from ?? 1) && step <= (fault.to ?? Number.POSITIVE_INFINITY)
  return ofFiles.includes(fault.kind) ? step >= (fault.step ?? 1) : step === fault.step
}

/** `kill, stall, ... or damage`, for the help of a command. */
export const faultList = (): string => either(faultNames)
