/** The schemas of jobs as JSON schema, for editors, and field by field, for people. */
import { z } from 'zod'
import { type FieldReference, fieldsOfSchema, type JsonSchema, schemaAsJson } from '../base/index.js'
import { presetNames, presets } from '../model/index.js'
import { Job } from './job-value.js'

/** The JSON schema of a job file. Beside model sizes it allows preset names. */
export function jobSchema(): JsonSchema {
  const schema = schemaAsJson(Job, z.toJSONSchema)
  const { properties = {} } = schema
  const { model, training } = properties
  return {
    ...{ $id: 'lockstep-job', title: 'A job of Lockstep' },
    ...schema,
    properties: {
      ...properties,
      model: {
        description: model.description ?? '',
        examples: ['llama3-8b'],
        anyOf: [...byName, ...(model.oneOf ?? [])],
      },
      training: { ...training, properties: withNumber(training.properties ?? {}, 'lossScale') },
    },
  }
}

const byName: readonly JsonSchema[] = [
  { type: 'string', enum: presetNames, description: 'a preset: `lockstep models` lists them' },
  { type: 'string', pattern: '\\.json$', description: 'the config.json of a Hugging Face model, next to the job' },
  {
    type: 'object',
    description: 'a preset with changes',
    properties: { preset: { type: 'string', enum: presetNames, description: 'the model that is changed' } },
    required: ['preset'],
    additionalProperties: true,
  },
]

/** A number alone stands for one entry of a mapping. */
const withNumber = (properties: Readonly<Record<string, JsonSchema>>, key: string) => {
  const { oneOf = [], ...rest } = properties[key]
  return { ...properties, [key]: { ...rest, anyOf: [{ type: 'number', exclusiveMinimum: 0 }, ...oneOf] } }
}

/** Values that a reader may take as they are, each for its own field. */
const samples: readonly unknown[] = [
  {
    name: 'first run',
    model: {
      preset: 'llama3-8b',
      family: 'llama',
      window: 4096,
      dropout: 0.1,
      kvHeads: 8,
      headDim: 128,
      tied: true,
      experts: 8,
      topK: 2,
    },
    training: {
      ...{ seq: '8k', globalBatch: 128, clip: 1, skipAbove: 100, mostSkips: 5, steps: '10k', evalEvery: 500 },
      batchRamp: [{ globalBatch: 16, until: '10k', tokens: '2B' }],
      optimizer: { ...{ kind: 'adamw', lr: 3e-4, weightDecay: 0.1, coupled: true, amsgrad: true, uncorrected: true } },
      ...{ paramGroups: { norm: { lr: 0.5, weightDecay: 1 } }, lossScale: { kind: 'torch', scale: 1024 } },
      lrSchedule: { kind: 'cosine', warmup: 500, warmupFrom: 1e-6, minLr: 3e-5, decaySteps: 9000, cooldown: 1000 },
    },
    data: {
      ...{ source: 'texts', tokenizer: 'tokenizer.json', vocab: 4096, routing: 'routing.jsonl' },
      pairs: { prompt: 'question', answer: 'reply' },
    },
    plan: {
      ...{ dp: 8, shard: 4, tp: 4, pp: 2, cp: 2, ep: 8, etp: 2, zero: 3, microbatches: 8, chunks: 2 },
      sequenceParallel: true,
      ...{ layers: { first: 7, last: 7 }, schedule: { file: 'mine.csv' }, fp8: { block: 128 }, deviceMemory: '80GiB' },
      ...{ precision: 'bf16', bucket: '25MiB', prefetch: 2, compress: { waiting: 1, virtual: { dp: 2 } } },
    },
  },
  {
    training: {
      optimizer: {
        nesterov: true,
        dampening: 0.1,
        always: true,
        momentum: 0.9,
        adamw: { lr: 3e-4, coupled: true, amsgrad: true, uncorrected: true },
      },
    },
  },
  { model: { moe: { capacity: { factor: 1.25 } } } },
  { model: presets['deepseek-v3'] },
  { model: presets['llama3-405b'] },
]

/** Every field of a job with its type, default and description, as docs/jobs.md lists them. */
export const jobFields = (): readonly FieldReference[] => fieldsOfSchema(jobSchema(), samples)
