/** Jobs to begin with, and how one is written down with what its fields mean. */
import { type FieldReference, shorten } from '../base/index.js'
import { jobFields } from './job-schema.js'
import { isMapping, type Mapping } from './mapping.js'
import type { JobInput } from './schema.js'

export interface Template {
  readonly title: string
  readonly job: TemplateJob
  /** What it is planned for; without one it runs on this machine. */
  readonly cluster?: { readonly device: string; readonly devices: number }
  /** What to run next, on the file it was written to. */
  readonly next: readonly string[]
  /** What must be put in by hand, said above the section. */
  readonly notes?: Readonly<Record<string, string>>
}

/** A model may be named. */
export type TemplateJob = Omit<JobInput, 'model'> & { readonly model: string | Mapping }

const simulated = (device: string) => [
  'lockstep check FILE',
  `lockstep simulate FILE --cluster ${device}`,
  `lockstep explain FILE --cluster ${device}`,
  'lockstep dry-run FILE',
  'lockstep emit FILE --out run',
]

const text = 'data: { source: a-text-file-or-folder } trains on your text; default: a synthetic task'
const pairs =
  'data: { source: pairs.jsonl, pairs: true, tokenizer: ./model/tokenizer.json } are your prompt/completion pairs'

export const templates = {
  'first-run': {
    title: 'a small GPT on this machine: 2 x 2 ranks, a few minutes',
    job: {
      model: { family: 'gpt', layers: 6, embed: 192, heads: 6, vocab: 256 },
      training: {
        ...{ seq: 128, globalBatch: 16, steps: 200, clip: 1 },
        optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 },
        lrSchedule: { kind: 'cosine', warmup: 20, minLr: 1e-4 },
        evalEvery: 100,
      },
      plan: { dp: 2, tp: 2, zero: 1 },
    },
    next: ['lockstep check FILE', 'lockstep verify FILE', 'lockstep train FILE --out run --save run/saved'],
    notes: { data: text },
  },
  'llama-8b': {
    title: 'Llama 3 8B from scratch on 64 H100',
    cluster: { device: 'h100', devices: 64 },
    job: {
      model: 'llama3-8b',
      training: {
        ...{ seq: 8192, globalBatch: 128, steps: 10_000, clip: 1 },
        optimizer: { kind: 'adamw', lr: 3e-4, weightDecay: 0.1 },
        lrSchedule: { kind: 'cosine', warmup: 500, minLr: 3e-5 },
      },
      plan: { dp: 64, zero: 2, microbatches: 2, precision: 'bf16', deviceMemory: '80GiB' },
    },
    next: simulated('h100'),
    notes: { data: text },
  },
  moe: {
    title: 'Mixtral 8x7B from scratch on 64 H100, experts sharded over 8 ranks',
    cluster: { device: 'h100', devices: 64 },
    job: {
      model: 'mixtral-8x7b',
      training: {
        ...{ seq: 4096, globalBatch: 256, steps: 10_000, clip: 1 },
        optimizer: { kind: 'adamw', lr: 3e-4, weightDecay: 0.1 },
        lrSchedule: { kind: 'cosine', warmup: 500, minLr: 3e-5 },
      },
      plan: { dp: 64, ep: 8, zero: 3, microbatches: 4, recompute: 'full', precision: 'bf16', deviceMemory: '80GiB' },
    },
    next: simulated('h100'),
    notes: { data: text },
  },
  'long-context': {
    title: 'Llama 3 8B at 128k tokens on 64 H100: sequences sharded over 8 ranks, ring attention',
    cluster: { device: 'h100', devices: 64 },
    job: {
      model: {
        ...{ preset: 'llama3-8b', positions: 131_072 },
        ropeScaling: { kind: 'llama3', factor: 8, original: 8192 },
      },
      training: {
        ...{ seq: 131_072, globalBatch: 16, steps: 1000, clip: 1 },
        optimizer: { kind: 'adamw', lr: 3e-5, weightDecay: 0.1 },
        lrSchedule: { kind: 'linear', warmup: 50, minLr: 0 },
      },
      plan: {
        ...{ dp: 8, cp: 8, attention: 'ring', zero: 3, microbatches: 2, recompute: 'full', precision: 'bf16' },
        deviceMemory: '80GiB',
      },
    },
    next: simulated('h100'),
    notes: { data: text },
  },
  'fine-tune': {
    title: 'GPT-2 fine-tuned on this machine, from a Hugging Face folder',
    job: {
      model: 'gpt2',
      training: {
        ...{ seq: 256, globalBatch: 8, steps: 200, clip: 1 },
        optimizer: { kind: 'adamw', lr: 2e-5, weightDecay: 0.01 },
        lrSchedule: { kind: 'linear', warmup: 20, minLr: 0 },
        evalEvery: 50,
      },
      plan: { dp: 2, microbatches: 2, recompute: 'selective' },
    },
    next: ['lockstep check FILE', 'lockstep train FILE --init ./model --out run --save run/saved'],
    notes: { data: pairs },
  },
  lora: {
    title: 'GPT-2 with LoRA adapters on this machine: the weights are frozen, the adapters are trained',
    job: {
      model: 'gpt2',
      training: {
        ...{ seq: 256, globalBatch: 8, steps: 200, clip: 1 },
        lora: { rank: 8, alpha: 16 },
        optimizer: { kind: 'adamw', lr: 2e-4 },
        lrSchedule: { kind: 'linear', warmup: 20, minLr: 0 },
        evalEvery: 50,
      },
      plan: { dp: 2, microbatches: 2, recompute: 'selective' },
    },
    next: ['lockstep check FILE', 'lockstep train FILE --init ./model --out run --save run/saved'],
    notes: { data: pairs },
  },
} as const satisfies Readonly<Record<string, Template>>

export type TemplateName = keyof typeof templates
export const templateNames = Object.keys(templates) as TemplateName[] // the keys of a constant are its names

/** A job as a file, every field with what it means. */
export function commentedJob(
  job: TemplateJob,
  about: Pick<Template, 'title' | 'next' | 'notes'>,
  file: string,
): string {
  const fields = new Map(jobFields().map(field => [field.path, field]))
  const sections = Object.entries(job).map(([key, value]) => sectionText(key, value, fields))
  const { title, next, notes = {} } = about
  const open = Object.entries(notes).filter(([key]) => !(key in job))
  return [
    `# ${title}`,
    '# `lockstep config job` has every field, `lockstep models` the models.',
    '',
    ...sections,
    ...open.map(([, note]) => `# ${note}\n`),
    '# Next:',
    ...next.map(line => `#   ${line.replace('FILE', file)}`),
    '',
  ].join('\n')
}

type KnownFields = ReadonlyMap<string, FieldReference>

function sectionText(key: string, value: unknown, fields: KnownFields): string {
  const meaning = fields.get(key)?.meaning ?? ''
  if (!isMapping(value)) return `${aside(`${key}: ${value}`, meaning)}\n`
  const lines = Object.entries(value).map(([name, inner]) =>
    aside(`  ${name}: ${flow(inner)}`, meaningOf(`${key}.${name}`, fields)),
  )
  return `${[`${key}:`, ...lines].join('\n')}\n`
}

const meaningOf = (path: string, fields: KnownFields): string => {
  // What a list of values says of each of them is no meaning of the field.
  if (path === 'plan.precision') return 'storage precision'
  return fields.get(path)?.meaning ?? ''
}

const column = 44
const aside = (line: string, comment: string): string =>
  comment === '' ? line : `${line.padEnd(column - 1)} # ${shorten(comment.split(/[;:] /)[0], 90)}`

/** On one line, as YAML allows it. */
const flow = (value: unknown): string =>
  isMapping(value)
    ? `{ ${Object.entries(value)
        .map(([key, inner]) => `${key}: ${flow(inner)}`)
        .join(', ')} }`
    : Array.isArray(value)
      ? `[${value.map(flow).join(', ')}]`
      : String(value)
