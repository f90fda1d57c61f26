/** What the software of others can do, as constraints on a plan: there is no use in a plan that it cannot run. */
import type { FrameworkName } from '../estimate/index.js'
import { type Constraint, parseConstraints } from './constraint.js'

const megatron = ['schedule=1f1b|interleaved', 'zero<=1']
const deepspeed = ['cp=1', 'schedule=1f1b', 'sequenceParallel=false', 'zero<=1', 'recompute=none|full']
/** Gradients and parameters that are split move whenever they are made or used. */
const sharded = ['reduce=microbatch', 'gather=use']
const torchtitan = ['schedule=gpipe|1f1b|interleaved|interleaved-zb|zb-v|dualpipe-v', ...sharded]

const abilities: Readonly<Record<FrameworkName, readonly string[]>> = {
  lockstep: [],
  // Selective recomputation and sequence parallelism came together (Korthikanti et al. 2022).
  'megatron-2021': [
    'cp=1',
    'schedule=1f1b|interleaved',
    'sequenceParallel=false',
    'zero=0',
    'layers=even',
    'recompute=none|full',
  ],
  'megatron-2022': ['cp=1', 'schedule=1f1b|interleaved', 'zero=0', 'layers=even'],
  'megatron-2024': megatron,
  'megatron-2025': megatron,
  'megatron-2026': megatron,
  'meta-2024': ['schedule=1f1b|interleaved', 'zero<=2', ...sharded],
  'megatron-deepspeed': deepspeed,
  'megatron-deepspeed-2023': deepspeed,
  'scaling-2023': ['cp=1', 'schedule=1f1b', 'zero<=1'],
  'fsdp-2023': ['tp=1', 'cp=1', 'pp=1', ...sharded],
  torchtitan,
  'torchtitan-compiled': torchtitan,
}

export const abilitiesOf = (software: FrameworkName): Constraint[] => parseConstraints(abilities[software]).constraints
