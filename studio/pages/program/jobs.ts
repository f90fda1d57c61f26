/** Small jobs to look into: every axis of the mesh, few enough numbers to read. */
export const jobs = {
  'tp 2': `model: { family: mlp, layers: 2, embed: 8, ffn: 16 }
training: { seq: 4, globalBatch: 4 }
plan: { tp: 2 }
`,
  'dp 2, zero 1': `model: { family: mlp, layers: 2, embed: 8, ffn: 16 }
training: { seq: 4, globalBatch: 4 }
plan: { dp: 2, zero: 1 }
`,
  'pp 2, 1f1b': `model: { family: mlp, layers: 2, embed: 8, ffn: 16 }
training: { seq: 4, globalBatch: 4 }
plan: { pp: 2, microbatches: 2, schedule: 1f1b }
`,
  'dp 2 x tp 2 x pp 2, sp, zero 3': `model: { family: llama, layers: 2, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32 }
training: { seq: 8, globalBatch: 8 }
plan: { dp: 2, tp: 2, pp: 2, microbatches: 2, zero: 3, sequenceParallel: true }
`,
} as const

export type JobName = keyof typeof jobs
export const isJob = (name: string | undefined): name is JobName => name !== undefined && Object.hasOwn(jobs, name)
