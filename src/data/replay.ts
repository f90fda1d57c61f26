/**
 * Choices of experts that were made elsewhere and are to be made again: a line of JSON per step, for each routed layer the choices
 * of the global batch, nested or flat, sequence by sequence. Weights are still those of live scores. A line may begin with the
 * number of its step, counted from 1, and the last one of a step counts: so a resumed run goes on writing where it was stopped.
 */
import { error, ProblemsError } from '../base/index.js'

/** The choices of a layer in a step, which counts from 0. */
export type Replay = (step: number, layer: string) => readonly number[]

/** Lines are read when their step is asked for, and the last of them is kept. */
export function readReplay(file: Uint8Array): Replay {
  const lines = linesOf(file)
  const places = placesOf(lines)
  let last: { readonly step: number; readonly choices: Readonly<Record<string, unknown>> } | undefined
  return (step, layer) => {
    const place = places.get(step)
    if (place === undefined)
      throw refuse(
        `it has ${places.size} steps, but step ${step + 1} is needed`,
        `train --steps ${places.size}, or record more`,
      )
    if (last?.step !== step) last = { step, choices: readLine(text(lines[place].bytes), lines[place].number) }
    const choices = last.choices[layer]
    if (!Array.isArray(choices)) throw refuse(`step ${step + 1} has no routing of ${layer}`)
    return choices.flat(Number.POSITIVE_INFINITY) as number[] // what is no number is refused with the step's data
  }
}

/** How many steps a file has choices of. */
export const stepsRecorded = (file: Uint8Array): number => placesOf(linesOf(file)).size

interface Line {
  /** Counts from 1. */
  readonly number: number
  readonly bytes: Uint8Array
}

const lineBreak = 10

/** Those that are not empty. */
function linesOf(file: Uint8Array): Line[] {
  const lines: Line[] = []
  for (let begin = 0, number = 1; begin < file.length; number++) {
    const found = file.indexOf(lineBreak, begin)
    const end = found < 0 ? file.length : found
    const bytes = file.subarray(begin, end)
    if (text(bytes.subarray(0, 64)).trim() !== '') lines.push({ number, bytes })
    begin = end + 1
  }
  return lines
}

const decoder = new TextDecoder()
const text = (bytes: Uint8Array): string => decoder.decode(bytes)

/** The line of each step: the one that says so, or else the one that has as many before it. */
function placesOf(lines: readonly Line[]): Map<number, number> {
  const places = new Map<number, number>()
  for (const [index, { bytes }] of lines.entries()) {
    const named = /^\s*\{\s*"step"\s*:\s*(\d+)/.exec(text(bytes.subarray(0, 64)))
    places.set(named ? Number(named[1]) - 1 : index, index)
  }
  return places
}

const refuse = (message: string, suggestion?: string): ProblemsError =>
  new ProblemsError([error('data/file', 'data.routing', message, suggestion)])

function readLine(line: string, number: number): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Readonly<Record<string, unknown>> // an object has names
  } catch {
    // told below
  }
  throw refuse(`line ${number} is not a JSON object of layers`)
}

/** The line of a step, counted from 0, that `readReplay` reads: sequence by sequence, token by token. */
export function printChoices(step: number, choices: ReadonlyMap<string, ChosenTokens>): string {
  const layers = [...choices].map(([layer, { dims, values }]): [string, unknown] => [layer, nested(dims, values)])
  return `${JSON.stringify({ step: step + 1, ...Object.fromEntries(layers) })}\n`
}

export interface ChosenTokens {
  /** batch, seq and choice. */
  readonly dims: readonly { readonly size: number }[]
  readonly values: Int32Array
}

function nested([{ size }, ...inner]: ChosenTokens['dims'], values: Int32Array): unknown[] {
  const each = values.length / size
  return Array.from({ length: size }, (_, i) =>
    inner.length === 0 ? values[i] : nested(inner, values.subarray(i * each, (i + 1) * each)),
  )
}

/** The data of a step, with the choices that its layers ask for. */
export const withChoices =
  (inputs: (name: string) => ArrayLike<number>, replay: Replay | undefined, step: number) =>
  (name: string): ArrayLike<number> =>
    replay && name.endsWith('.choices') ? replay(step, name.slice(0, -'.choices'.length)) : inputs(name)
