/**
 * Profiles of known frameworks, by name and year. What is fused, padded, gathered again or reduced in f32 is read off their
 * code and papers. `exposed`, `contention`, `tensorCollectives`, `launch`, `jitter`, `lossBytes` and `optimizerBytes` are
 * numbers: from counting or the literature, developed with all of `validation/` in view; then 16 of them (efficiencies
 * of devices included) were refitted on the 77 marked rows, with the penalty for leaving the start that did best on the
 * other rows. Llama 3's 0.85 is inferred. Our own shares are read off simulations. validation/README.md says it exactly.
 */
import { bytesPer, gradientIn, type PlanPrecision, type Stored } from '../../base/index.js'
import type { Software } from './software.js'

/** The first Megatron with pipelines: everything waits for everything, gradients are added in a pass of their own. */
const megatron2021: Software = {
  name: 'megatron-2021',
  attention: 'unfused',
  fusedElementwise: true,
  fusedNorm: true,
  fusedSoftmax: 2048,
  lossBytes: 52,
  padsVocab: true,
  fusedAccumulation: false,
  gradientBytes: 2,
  stateBytes: 4,
  optimizerBytes: 70,
  exposed: { tp: 1, tpBackward: 1, pp: 1, dp: 1, shards: 1, cp: 1, ep: 1 },
  regathers: true,
  tensorCollectives: 1,
  contention: 0.12,
  launch: { forward: 0.8e-3, backward: 1.5e-3, softmax: 0.237, batch: 1.1e-3 },
  synchronous: false,
  reduceBytes: 2,
  pieces: 0,
  bucket: 0,
  narrowGathers: false,
  jitter: 0,
  sources: ['Narayanan et al., SC21', 'NVIDIA/Megatron-LM v2.2'],
}

/** Gradients accumulate inside the matmul, in f32; part of the backward collectives hide behind weight gradients. */
const megatron2022: Software = {
  ...megatron2021,
  name: 'megatron-2022',
  lossBytes: 44,
  fusedAccumulation: true,
  gradientBytes: 4,
  reduceBytes: 4,
  exposed: { ...megatron2021.exposed, tpBackward: 0.48 },
  sources: ['Korthikanti et al., 2022', 'NVIDIA/Megatron-LM v3.0'],
}

/** Fused attention, pieces of a collective behind pieces of its matmul, a distributed optimizer that overlaps. */
const megatron2024: Software = {
  ...megatron2022,
  name: 'megatron-2024',
  attention: 'cudnn',
  fusedSoftmax: 0,
  lossBytes: 24,
  optimizerBytes: 50,
  exposed: { tp: 0.4, tpBackward: 0.4, pp: 0, dp: 0, shards: 0, cp: 0.3, ep: 1 },
  launch: { ...megatron2022.launch, forward: 0.3e-3, backward: 0.5e-3, batch: 0 },
  sources: ['NVIDIA/Megatron-LM core r0.8', 'NVIDIA/NeMo 24.07'],
}

/**
 * With experts. Rows travel once to a rank (DeepEP, HybridEP); putting them in order, counting them and casting them is many
 * passes and a wait for the host, which the shares and bytes here were fitted to on marked rows.
 */
const megatron2025: Software = {
  ...megatron2024,
  name: 'megatron-2025',
  exchange: 'hybrid-ep',
  exposed: { ...megatron2024.exposed, ep: 0.1 },
  routing: { bytes: 60, seconds: 0.7e-3 },
  launch: { ...megatron2024.launch, forward: 0, backward: 0 },
  sources: ['NVIDIA-NeMo/Megatron-Bridge 25.09 to 26.04'],
}

/** Layers captured whole, kernels fused around the experts. */
const megatron2026: Software = {
  ...megatron2025,
  name: 'megatron-2026',
  routing: { bytes: 20, seconds: 0.1e-3 },
  sources: ['NVIDIA-NeMo/Megatron-Bridge 26.06', 'arXiv 2603.07685'],
}

/** Meta's own trainer: as above, with less of the tensor-parallel traffic hidden. */
const meta2024: Software = {
  ...megatron2024,
  name: 'meta-2024',
  exposed: { ...megatron2024.exposed, tp: 0.85, tpBackward: 0.85 },
  sources: ['Llama 3 (2024), section 3.3'],
}

/** Megatron's layers under DeepSpeed's engine, as BLOOM and MT-NLG ran it: every launch is waited for. */
const megatronDeepspeed: Software = {
  ...megatron2021,
  name: 'megatron-deepspeed',
  tensorCollectives: 0.77,
  launch: { ...megatron2021.launch, forward: 3e-3, backward: 6e-3 },
  synchronous: true,
  padsVocab: false,
  sources: ['bigscience-workshop/bigscience train/tr11-176B-ml: CUDA_LAUNCH_BLOCKING=1', 'Smith et al. 2022, MT-NLG'],
}

/** The same later, when the host runs ahead. */
const megatronDeepspeed2023: Software = {
  ...megatronDeepspeed,
  name: 'megatron-deepspeed-2023',
  tensorCollectives: 1,
  launch: { ...megatron2021.launch, forward: 0.77e-3, backward: 1.45e-3 },
  synchronous: false,
  optimizerBytes: 43,
  sources: ['VIA-Research/vTrain'],
}

/** Aleph Alpha's trainer: Megatron's plan with a ZeRO-1 optimizer, layers written in plain PyTorch around fused attention. */
const scaling2023: Software = {
  ...megatron2021,
  name: 'scaling-2023',
  attention: 'flash-2',
  fusedElementwise: false,
  fusedNorm: false,
  fusedSoftmax: 0,
  lossBytes: 32,
  tensorCollectives: 0.92,
  launch: { ...megatron2021.launch, batch: 0 },
  reduceBytes: 4,
  bucket: 25e6, // not printed: the default of PyTorch, and what large dp shows
  sources: ['Hagemann et al. 2023, Efficient Parallelization Layouts for Large-Scale Distributed Model Training'],
}

/** PyTorch's FSDP under plain modules: layers are gathered and reduced behind the compute of their neighbours. */
const fsdp2023: Software = {
  ...megatron2021,
  name: 'fsdp-2023',
  attention: 'flash-1',
  fusedElementwise: false,
  fusedSoftmax: 0,
  lossBytes: 32,
  optimizerBytes: 50,
  reduceBytes: 4,
  exposed: { ...megatron2021.exposed, dp: 0, shards: 0 },
  launch: { ...megatron2021.launch, batch: 0 },
  contention: 0.2,
  jitter: 0.015,
  sources: ['mosaicml/llm-foundry'],
}

/**
 * FSDP2 with DTensor: what sequence parallelism gathers is kept, fp8 parameters travel as such. Its checkpoints are PyTorch's
 * non-reentrant ones, which stop early unless told not to (torch.utils.checkpoint); Megatron's always repeat the whole layer.
 */
const torchtitan: Software = {
  ...fsdp2023,
  name: 'torchtitan',
  regathers: false,
  narrowGathers: true,
  stopsEarly: true,
  attention: 'flash-2',
  sources: ['pytorch/torchtitan', 'PyTorch, torch.utils.checkpoint: set_checkpoint_early_stop'],
}

const torchtitanCompiled: Software = {
  ...torchtitan,
  name: 'torchtitan-compiled',
  fusedElementwise: true,
  lossBytes: 20,
  launch: { ...torchtitan.launch, forward: 0.2e-3, backward: 0.3e-3 },
}

/**
 * What our own program does: an instruction is a kernel (a norm, a gate, a rotation each are one; sums and gradients
 * that accumulate are their own), sends and collectives are started early and awaited late.
 */
const lockstep: Software = {
  ...megatron2022,
  name: 'lockstep',
  own: true,
  attention: 'cudnn',
  fusedSoftmax: 0,
  fusedAccumulation: false,
  padsVocab: false,
  lossBytes: 12,
  optimizerBytes: 34,
  exposed: { tp: 1, tpBackward: 1, pp: 0, dp: 1, shards: 0.6, wholeShards: 0.12, cp: 1, ep: 1 },
  regathers: false,
  launch: { forward: 0, backward: 0, softmax: 0, batch: 0 },
  pieces: 9,
  sources: ['this project'],
}

/** By what a plan stores. In f32 no parameter is rounded from its master. Without masters the parameter itself is read and written. In pure-bf16 gradients and optimizer state are half as wide, and there are no masters. */
const ownSoftware: Readonly<Record<PlanPrecision, Software>> = {
  f32: { ...lockstep, optimizerBytes: 32 },
  bf16: lockstep,
  f16: lockstep,
  'bf16-no-masters': { ...lockstep, withoutMasters: true, optimizerBytes: 28 },
  'pure-bf16': { ...lockstep, gradientBytes: 2, reduceBytes: 2, stateBytes: 2, optimizerBytes: 16 },
}

/** Where a plan says what gradients are in, that: the norm reads them, and the update. */
export function ownSoftwareOf(plan: Stored): Software {
  const software = ownSoftware[plan.precision]
  const wide = bytesPer[gradientIn(plan)] as Software['gradientBytes'] // they are real numbers of a program
  if (wide === software.gradientBytes) return software
  const optimizerBytes = software.optimizerBytes + 2 * (wide - software.gradientBytes)
  return { ...software, gradientBytes: wide, reduceBytes: wide, optimizerBytes }
}

/** Profiles of training frameworks: what each fuses, overlaps, launches and keeps in memory. */
export const frameworks = {
  lockstep,
  'megatron-2021': megatron2021,
  'megatron-2022': megatron2022,
  'megatron-2024': megatron2024,
  'megatron-2025': megatron2025,
  'megatron-2026': megatron2026,
  'meta-2024': meta2024,
  'megatron-deepspeed': megatronDeepspeed,
  'megatron-deepspeed-2023': megatronDeepspeed2023,
  'scaling-2023': scaling2023,
  'fsdp-2023': fsdp2023,
  torchtitan,
  'torchtitan-compiled': torchtitanCompiled,
} as const satisfies Readonly<Record<string, Software>>

/** The name of a framework profile, such as `megatron-2025`. */
export type FrameworkName = keyof typeof frameworks
