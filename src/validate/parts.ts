/**
 * Parts of a step as others measured them by themselves: attention of a sequence that is split over ranks
 * (validation/parts/attention.csv), in iterations a second.
 */
import { oneRank } from '../base/index.js'
import { clusterOf } from '../cluster/index.js'
import { attentionAlone, frameworks, type Setup, type Shape, type Split } from '../estimate/index.js'
import { type ComparedPart, type PartRows, partRows } from './part-rows.js'

/** Of one layer. */
export interface ComparedAttention extends ComparedPart {
  readonly variant: string
  readonly pass: string
}

export type AttentionRows = PartRows<ComparedAttention>

/** The attention of Llama 3.1 8B, which all rows are of; what else a model has is not looked at. */
const attention: Omit<Shape, 'seq'> = {
  ...{ layers: 1, embed: 4096, heads: 32, kvHeads: 8, headDim: 128, ffn: 14336, vocab: 128256 },
  ...{ gated: true, tied: false, biases: false, norm: 'rms', dropout: false, positions: 'rotary' },
}

/** Their kernel is the second generation of flash attention. */
const software = { ...frameworks.lockstep, attention: 'flash-2' as const }

const variants: Readonly<Record<string, Pick<Split, 'ring' | 'inOrder'>>> = {
  ring: { ring: true, inOrder: true },
  'zigzag ring': { ring: true },
}

export const compareAttention = (text: string): AttentionRows =>
  partRows(text, cell => {
    const [variant, pass, cp] = [cell('variant'), cell('pass'), Number(cell('cp'))]
    const split = variants[variant]
    if (cell('api') === 'varlen') return documents
    if (!split) return `${variant}: not a way in which we split`
    const seq = cp * Number(cell('tokens_per_rank'))
    const { forward, backward } = attentionAlone(setupOf(cell('gpu').toLowerCase(), seq, { cp, ...split }))
    const predicted = pass === 'fwd' ? forward : forward + backward
    return { variant, pass, measured: 1 / Number(cell('iterations_per_s')), predicted }
  })

/** One device does 1.44 times as many of these sequences as of whole ones. */
const documents = 'sequences of several documents, whose lengths are not printed'

const setupOf = (device: string, seq: number, split: Pick<Split, 'cp' | 'ring' | 'inOrder'>): Setup => ({
  shape: { ...attention, seq },
  split: {
    ...{ ...oneRank, sequenceParallel: false, zero: 0, schedule: '1f1b', chunks: 1 },
    ...{ microbatches: 1, microbatch: 1, recompute: 'none', ...split },
  },
  cluster: clusterOf(device, split.cp),
  precision: 'bf16',
  software,
})
