/**
 * Choices of experts that were made elsewhere and are to be made again: a line of JSON per step, for each routed layer the choices
 * of the global batch, nested or flat, sequence by sequence. Weights are still those of live scores.
 */
import { error, ProblemsError } from '../base/index.js'

/** The choices of a layer in a step, which counts from 0. */
export type Replay = (step: number, layer: string) => readonly number[]

export function readReplay(text: string): Replay {
  const lines = text.split('\n').filter(line => line.trim() !== '')
  const parsed = new Map<number, Readonly<Record<string, unknown>>>()
  const stepAt = (step: number) => {
    const known = parsed.get(step) ?? readLine(lines[step], step)
    parsed.set(step, known)
    return known
  }
  return (step, layer) => {
    if (step >= lines.length) throw refuse(`it has ${lines.length} steps, step ${step + 1} is asked for`)
    const choices = stepAt(step)[layer]
    if (!Array.isArray(choices)) throw refuse(`step ${step + 1} has no choices of ${layer}`)
    return choices.flat(Number.POSITIVE_INFINITY) as number[] // what is no number is refused with the step's data
  }
}

const refuse = (message: string): ProblemsError => new ProblemsError([error('data/file', 'data.choices', message)])

function readLine(line: string, step: number): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Readonly<Record<string, unknown>> // an object has names
  } catch {
    // told below
  }
  throw refuse(`line ${step + 1} is not a JSON object of layers`)
}

/** The data of a step, with the choices that its layers ask for. */
export const withChoices =
  (inputs: (name: string) => ArrayLike<number>, replay: Replay | undefined, step: number) =>
  (name: string): ArrayLike<number> =>
    replay && name.endsWith('.choices') ? replay(step, name.slice(0, -'.choices'.length)) : inputs(name)
