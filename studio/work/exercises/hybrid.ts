/** Eight ranks as a mesh of dp and tp: what the reader says of it, beside what the compiled program does. */
import { compileJob, type Problem, type Program, parseJob, tallyOf, worldOf } from 'lockstep'
import type { Broken } from '../broken.js'
import { firstLoss } from '../first-loss.js'
import { type JobText, programOf } from '../jobs.js'
import { brokenBy } from '../program/index.js'
import { type Beside, besideOneRank } from './beside.js'
import type { Texts } from './index.js'

const ranks = 8
const rank = 5
const head = `model: { family: mlp, layers: 2, embed: 8, ffn: 16 }
training: { seq: 4, globalBatch: 8 }
`

/** Whose collectives or ranks are asked for, line by line below the plan. */
export const fields = [
  'layer forward',
  'layer backward',
  'gradients',
  'tp group of rank 5',
  'dp group of rank 5',
] as const
export type Field = (typeof fields)[number]

const written = (plan: string, answers: readonly string[]): string =>
  [plan, ...fields.map((field, n) => `${field}: ${answers[n] ?? ''}`)].join('\n')

const solved: JobText = {
  model: { family: 'mlp', layers: 2, embed: 8, ffn: 16 },
  training: { seq: 4, globalBatch: 8 },
  plan: { dp: 2, tp: 4 },
}

export function hybrid(_: object): Texts & { readonly job: JobText; readonly loss: number } {
  const truth = truthOf(programOf(solved))
  const answers = fields.map(field => truth[field].join(' '))
  return {
    start: written('plan: { dp: , tp: }', []),
    solution: written('plan: { dp: 2, tp: 4 }', answers),
    ...{ job: solved, loss: firstLoss(solved) },
  }
}

/** What each field has in a program, in order. */
function truthOf(program: Program): Readonly<Record<Field, readonly string[]>> {
  const segments = [...tallyOf(program).segments.values()]
  const spoken = (wanted: (name: string) => boolean): string[] => [
    ...new Set(
      segments.flatMap(({ name, instrs }) =>
        wanted(name) ? instrs.filter(instr => /^(all|reduce)-/.test(instr)) : [],
      ),
    ),
  ]
  return {
    'layer forward': spoken(name => name === 'layers.F'),
    'layer backward': spoken(name => name === 'layers.B'),
    gradients: spoken(name => name.startsWith('reduce ')),
    'tp group of rank 5': groupOf(program, 'tp').map(String),
    'dp group of rank 5': groupOf(program, 'dp').map(String),
  }
}

/** The ranks that differ from this one along an axis alone: the first axis of a mesh counts fastest. */
function groupOf({ mesh }: Program, axis: string): number[] {
  let stride = 1
  for (const { name, size } of mesh.axes) {
    const first = rank - (Math.floor(rank / stride) % size) * stride
    if (name === axis) return Array.from({ length: size }, (_, at) => first + at * stride)
    stride *= size
  }
  return [rank]
}

export interface JudgedMesh {
  readonly problems: readonly Problem[]
  readonly broken: readonly Broken[]
  /** Ranks of the plan, where they are not eight, or one axis is not used. */
  readonly mesh?: { readonly dp: number; readonly tp: number }
  /** Fields that do not say what the program does; what was read there. */
  readonly wrong: readonly { readonly field: Field; readonly said: string }[]
  readonly beside?: Beside
}

const saidIn = (text: string, field: string): string =>
  text
    .split('\n')
    .map(line => line.trim())
    .find(line => line.startsWith(`${field}:`))
    ?.slice(field.length + 1)
    .trim() ?? ''

/** `all-reduce tp` and `4, 5` in any order, with or without commas. */
const asSet = (said: string): string => [...new Set(said.split(/[\s,]+/).filter(Boolean))].sort().join(' ')

export function judgeHybrid({ text }: { readonly text: string }): JudgedMesh {
  const none = { problems: [], broken: [], wrong: [] }
  const { job, problems } = parseJob(`${head}plan: ${saidIn(text, 'plan')}`)
  if (!job) return { ...none, problems }
  const { dp, tp } = job.plan
  const program = compileJob(job, undefined, { verify: false })
  if (worldOf(program.mesh) !== ranks || dp * tp !== ranks || dp === 1 || tp === 1) return { ...none, mesh: { dp, tp } }
  const truth = truthOf(program)
  const wrong = fields.flatMap(field => {
    const said = saidIn(text, field)
    return asSet(said) === asSet(truth[field].join(' ')) ? [] : [{ field, said }]
  })
  if (wrong.length > 0) return { ...none, wrong }
  const broken = brokenBy(program, job)
  return { ...none, broken, ...(broken.length === 0 && { beside: besideOneRank(program, job, [rank]) }) }
}
