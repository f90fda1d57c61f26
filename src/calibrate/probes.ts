/**
 * Small jobs that between them run every kind of instruction at several sizes, all cores at once: what a machine is
 * calibrated with. Kernels are timed inside real steps, because there they find their operands where a step leaves them.
 */
import { Job, type JobInput } from '../plan/index.js'

type Model = JobInput['model']
type Probe = readonly [model: Model, seq: number, batch: number, rest?: Partial<JobInput['plan'] & { sgd: boolean }>]

const gpt = (layers: number, embed: number, heads: number, vocab: number, dropout = 0): Model => ({
  ...{ family: 'gpt', layers, embed, heads, vocab, dropout },
})
const llama = (layers: number, embed: number, heads: number, kvHeads: number, ffn: number, vocab: number): Model => ({
  ...{ family: 'llama', layers, embed, heads, kvHeads, ffn, vocab },
})

/** `batch`: sequences of one rank. */
const probes: readonly Probe[] = [
  [gpt(2, 32, 2, 64, 0.1), 32, 2],
  [gpt(2, 64, 4, 256), 64, 4],
  [gpt(2, 128, 4, 256), 128, 2],
  [gpt(1, 192, 6, 1000, 0.1), 96, 4],
  [gpt(1, 256, 4, 1024), 256, 1],
  [gpt(1, 384, 6, 2048), 128, 2],
  [gpt(1, 512, 8, 512), 64, 2],
  [gpt(1, 768, 12, 512), 128, 1],
  // Widths that no vector and no tile divides.
  [gpt(1, 120, 5, 250), 96, 2],
  [llama(1, 32, 2, 1, 96, 64), 32, 2],
  [llama(2, 64, 4, 2, 176, 256), 64, 4],
  [llama(1, 160, 4, 2, 432, 256), 80, 2],
  [llama(1, 256, 8, 4, 704, 1024), 128, 2],
  [llama(1, 512, 8, 8, 1408, 256), 256, 1],
  [{ family: 'mlp', layers: 2, embed: 128, ffn: 512 }, 16, 16, { sgd: true }],
  [{ family: 'mlp', layers: 1, embed: 512, ffn: 2048 }, 8, 8],
  // Few rows: weights are read for little.
  [{ family: 'mlp', layers: 3, embed: 384, ffn: 768 }, 8, 4],
  [{ family: 'mlp', layers: 2, embed: 320, ffn: 1280 }, 8, 12, { sgd: true }],
]

/** Split by tp: thin products, slices and sums of what is partial. */
const thin: readonly Probe[] = [
  [gpt(2, 64, 4, 256), 64, 4, { sequenceParallel: true }],
  [gpt(1, 256, 8, 512), 128, 2],
  [llama(1, 512, 8, 8, 1408, 512), 64, 2],
]

export function probesFor(cores: number): Job[] {
  const job = ([model, seq, batch, { sgd, ...rest } = {}]: Probe, plan: JobInput['plan'], ranks: number): Job =>
    Job.parse({
      model,
      training: {
        ...{ seq, globalBatch: batch * ranks, clip: 1 },
        optimizer: sgd ? { kind: 'sgd', lr: 1e-3, momentum: 0.9 } : { kind: 'adamw', lr: 1e-4, weightDecay: 0.1 },
      },
      plan: { ...plan, ...rest },
    })
  // Widths are powers of two, or three of them: so must be what splits them.
  const tp = 2 ** Math.floor(Math.log2(Math.min(cores, 4)))
  return [
    ...probes.map(probe => job(probe, { dp: cores }, cores)),
    ...(tp > 1 ? thin.map(probe => job(probe, { tp }, 1)) : []),
  ]
}
