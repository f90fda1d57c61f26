/** The backward of a layer under tensor parallelism, whose all-reduce was taken out. The reader sees that one segment alone. */
import { parse, print } from 'lockstep'
import type { Broken } from '../broken.js'
import { firstLoss } from '../first-loss.js'
import { type JobText, jobOf, programOf } from '../jobs.js'
import { judge } from '../program/index.js'
import { type Beside, besideOneRank } from './beside.js'
import type { Texts } from './index.js'

const layer: JobText = {
  model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
  training: { seq: 4, globalBatch: 4 },
  plan: { tp: 2 },
}

interface Cut {
  readonly before: readonly string[]
  readonly declared: readonly string[]
  readonly instrs: readonly string[]
  readonly after: readonly string[]
}

/** The program's text around the instructions of the layer's backward. */
function cut(): Cut {
  const lines = print(programOf(layer)).split('\n')
  const head = lines.indexOf('segment layers.B phase=B')
  const end = lines.findIndex((line, at) => at > head && line === '')
  const first = lines.findIndex((line, at) => at > head && !/^ {2}(role|buffer) /.test(line))
  return {
    before: lines.slice(0, first),
    declared: lines.slice(head + 1, first).filter(line => line.startsWith('  buffer ')),
    instrs: lines.slice(first, end),
    after: lines.slice(end),
  }
}

const speaks = (line: string): boolean => /= all-reduce |^ *wait /.test(line)
const shown = (lines: readonly string[]): string => lines.map(line => line.trim()).join('\n')

export interface TensorBackward extends Texts {
  readonly declared: string
  readonly job: JobText
  /** Of the program nobody has touched. */
  readonly loss: number
}

export function tensorBackward(_: object): TensorBackward {
  const { declared, instrs } = cut()
  const start = shown(instrs.filter(line => !speaks(line)))
  return { start, solution: shown(instrs), declared: shown(declared), job: layer, loss: firstLoss(layer) }
}

export interface JudgedProgram {
  /** Lines are those of the reader's text. */
  readonly broken: readonly Broken[]
  /** Of a lawful program. */
  readonly beside?: Beside
}

export function judgeTensorBackward({ text }: { readonly text: string }): JudgedProgram {
  const { before, after } = cut()
  const written = text
    .split('\n')
    .flatMap((line, at) => (line.trim() ? [{ line: `  ${line.trim()}`, at: at + 1 }] : []))
  const program = [...before, ...written.map(({ line }) => line), ...after].join('\n')
  const broken = judge({ job: JSON.stringify(layer), program }).map(({ line, ...rest }) => {
    const at = line === undefined ? undefined : written[line - before.length - 1]?.at
    return { ...rest, ...(at !== undefined && { line: at }) }
  })
  return broken.length > 0 ? { broken } : { broken, beside: besideOneRank(parse(program), jobOf(layer)) }
}
