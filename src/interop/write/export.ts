/**
 * A job written for another framework, and read again at once: what comes back otherwise is named, and refused where it would be
 * another training. So nothing that a file cannot say can be lost in silence.
 */
import {
  type ForeignFramework,
  foreignNames,
  isMapping,
  Job,
  layersPerStage,
  type Mapping,
  mappingOf,
  Plan,
  Training,
} from '../../plan/index.js'
import { importConfig } from '../import.js'
import { releases } from '../megatron/flag-table.js'
import { flagNamed, isInRelease, isRelease } from '../megatron/flags.js'
import type { Given } from '../note.js'
import { writeAccelerate } from './accelerate.js'
import { writeDeepSpeed } from './deepspeed.js'
import { writeMegatron } from './megatron.js'
import { writeNanotron, writePicotron } from './small.js'
import { writeTorchtitan } from './torchtitan.js'
import type { RecipeField } from './unset.js'
import type { Unsaid, Writers } from './writing.js'

export const writers: Writers = {
  megatron: writeMegatron,
  deepspeed: writeDeepSpeed,
  accelerate: writeAccelerate,
  torchtitan: writeTorchtitan,
  nanotron: writeNanotron,
  picotron: writePicotron,
}

/** A job as configuration files of another framework, with what they cannot express. */
export interface Exported {
  /** Empty if the export was refused. */
  readonly files: ReadonlyMap<string, string>
  /** What the files cannot express, or express differently. */
  readonly unsaid: readonly Unsaid[]
  /**
   * Recipe fields that neither the job nor the files set. The message is the key to set, or '' if the framework sets
   * it elsewhere.
   */
  readonly unset: readonly Unsaid[]
  /** Settings of the files that no job has: Lockstep's defaults. */
  readonly fixed: readonly Unsaid[]
  readonly refused: readonly Unsaid[]
  /** Settings of `import` in addition to the first file. */
  readonly given: Given
}

/** Fields without which it is another training. */
const essential = [
  'plan.dp',
  'plan.tp',
  'plan.pp',
  'plan.cp',
  'plan.ep',
  'plan.zero',
  'plan.microbatches',
  'plan.schedule',
  'plan.chunks',
  'plan.precision',
  'plan.layers',
  'training.globalBatch',
  'training.optimizer',
  'training.clip',
]

export interface ExportJobOptions {
  /** Of Megatron-LM: it must have every flag. */
  readonly release?: string | undefined
  /** Recipe fields that the job file leaves out: the files leave them out too. */
  readonly unset?: readonly RecipeField[]
}

/** Writes a job as the configuration of another framework. */
export function exportJob(job: Job, to: ForeignFramework, { release, unset = [] }: ExportJobOptions = {}): Exported {
  const refused: Unsaid[] = []
  const writer = writers[to]
  const nothing = { files: new Map<string, string>(), unsaid: [], unset: [], fixed: [], given: {} }
  if (!writer) return { ...nothing, refused: [{ path: '', message: `export to ${foreignNames[to]} is not supported` }] }
  const written = writer(job, (path, message) => refused.push({ path, message }), unset)
  const { files, given: told, keys, fixed = [] } = written
  const given: Given = { ...told, ...(release !== undefined && { release }) }
  if (release !== undefined) refused.push(...releaseProblems([...files.values()][0] ?? '', to, release))
  if (refused.length > 0) return { ...nothing, refused }
  const unsaid = differences(job, [...files.values()][0], { given, to, unset })
  const wrong = unsaid.filter(({ path, said }) => said && essential.includes(path))
  if (wrong.length > 0) return { ...nothing, refused: wrong }
  const left = unset.map(path => ({ path, message: keys[path]?.[0] ?? '' }))
  return { files, unsaid, unset: left, fixed, refused, given }
}

/** Flags that the release does not have. */
function releaseProblems(text: string, to: ForeignFramework, release: string): Unsaid[] {
  if (to !== 'megatron') return [{ path: '--release', message: `--release applies to ${foreignNames.megatron} only` }]
  if (!isRelease(release))
    return [{ path: '--release', message: `unknown release ${release}; use one of ${releases.join(', ')}` }]
  const written = new Set([...text.matchAll(/(?<![\w-])--([a-z][\w-]*)/g)].map(([, name]) => name))
  return [...written].flatMap(name => {
    const flag = flagNamed(name)
    const range = flag && `${flag.since}${flag.until === undefined ? ' on' : ` to ${flag.until}`}`
    return flag && !isInRelease(flag, release)
      ? [{ path: `--${name}`, message: `not in ${release}, only from ${range}` }]
      : []
  })
}

interface Difference extends Unsaid {
  /** The files say something else, rather than nothing. */
  readonly said: boolean
}

function differences(job: Job, text: string, { given, to, unset }: Reread): Difference[] {
  const back = importConfig(text, given, to)
  if (!back.job)
    return back.notes
      .filter(({ kind }) => kind === 'refused')
      .map(({ path, message }) => ({ path: 'plan.layers', message: `${path}: ${message}`, said: true }))
  const draft = back.job
  const found: Difference[] = []
  const compare = (path: string, ours: unknown, theirs: unknown, said: boolean) => {
    if (same(ours, theirs)) return
    found.push({
      path,
      said,
      message: said ? `${show(theirs)} in the file, ${show(ours)} in the job` : `cannot be expressed: ${show(ours)}`,
    })
  }
  const plan = Plan.parse(draft.plan ?? {})
  const drafted = withOurs(mappingOf(draft.training), job.training, unset)
  const training = Training.safeParse({
    ...drafted,
    seq: drafted.seq ?? job.training.seq,
    globalBatch: drafted.globalBatch ?? job.training.globalBatch,
  })
  for (const key of Object.keys(Plan.in.shape) as (keyof Plan)[]) {
    if (key === 'layers' || (plan.pp * job.plan.pp === 1 && (key === 'schedule' || key === 'chunks'))) continue
    compare(`plan.${key}`, job.plan[key], plan[key], Object.hasOwn(mappingOf(draft.plan), key))
  }
  if (job.plan.pp > 1)
    compare(
      'plan.layers',
      layersPerStage(job.plan, job.model.layers),
      layersPerStage(plan, job.model.layers),
      Object.hasOwn(mappingOf(draft.plan), 'layers'),
    )
  for (const key of Object.keys(Training.shape) as (keyof Training)[])
    compare(
      `training.${key}`,
      job.training[key],
      training.success ? training.data[key] : drafted[key],
      Object.hasOwn(drafted, key),
    )
  if (drafted.seq === undefined)
    found.push({ path: 'training.seq', said: false, message: 'the sequence length is not in these files' })
  const [ours, theirs] = [modelWithout(job.model), modelWithout(modelOf(draft.model, job))]
  if (theirs === undefined) compare('model', ours, theirs, false)
  else for (const path of pathsOf(ours, theirs)) compare(`model.${path}`, at(ours, path), at(theirs, path), true)
  for (const key of ['name', 'data'] as const)
    if (job[key] !== undefined) found.push({ path: key, said: false, message: 'not in these files' })
  return found
}

interface Reread {
  readonly given: Given
  readonly to: ForeignFramework
  readonly unset: readonly RecipeField[]
}

/** Fields that are unset on both sides count as equal. A decay over all steps has no length where their number is not set. */
function withOurs(drafted: Mapping, ours: Training, unset: readonly RecipeField[]): Mapping {
  const keys = unset.map(path => path.split('.')[1] as keyof Training)
  const all = unset.includes('training.steps') ? [...keys, 'lrSchedule' as const] : keys
  return { ...drafted, ...Object.fromEntries(all.map(key => [key, ours[key]])) }
}

/** With the defaults of its family, where it is whole. */
function modelOf(model: unknown, { training: { seq, globalBatch } }: Job): Readonly<Record<string, unknown>> {
  const read = Job.safeParse({ model, training: { seq, globalBatch }, plan: {} })
  return read.success ? { ...read.data.model } : mappingOf(model)
}

/** What says how long sequences may be changes nothing. */
const modelWithout = ({ positions: _, ...model }: Readonly<Record<string, unknown>>): unknown =>
  Object.keys(model).length > 0 ? model : undefined

/** Paths of all that either holds and is no mapping in both. */
const pathsOf = (a: unknown, b: unknown): string[] =>
  isMapping(a) && isMapping(b)
    ? [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap(key => {
        const inner = pathsOf(a[key], b[key])
        return inner.length > 0 ? inner.map(path => `${key}.${path}`) : [key]
      })
    : []

const at = (value: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((inner, key) => (isMapping(inner) ? inner[key] : undefined), value)

/** Equal as values, numbers to the last digits but two: some files hold a factor where a job has a product. */
function same(a: unknown, b: unknown): boolean {
  if (typeof a === 'number' && typeof b === 'number')
    return Math.abs(a - b) <= 1e-12 * Math.max(Math.abs(a), Math.abs(b))
  if (!isMapping(a) || !isMapping(b)) return JSON.stringify(a) === JSON.stringify(b)
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every(key => same(a[key], b[key]))
}

const show = (value: unknown): string => (value === undefined ? 'not set' : JSON.stringify(value).slice(0, 80))
