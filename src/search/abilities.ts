/** What the software of others can do, as constraints on a plan: there is no use in a plan that it cannot run. */
import { type Constraint, parseConstraints } from './constraint.js'

const megatron = ['schedule=1f1b|interleaved', 'zero<=1']

const abilities: Readonly<Record<string, readonly string[]>> = {
  'megatron-2021': [...megatron, 'sequenceParallel=false', 'zero=0', 'layers=even'],
  'megatron-2022': [...megatron, 'zero=0', 'layers=even'],
  'megatron-2024': megatron,
  'megatron-deepspeed': ['schedule=1f1b', 'sequenceParallel=false', 'zero<=1'],
  'fsdp-2023': ['tp=1', 'pp=1'],
  torchtitan: ['schedule=gpipe|1f1b|interleaved|interleaved-zb|zb-v|dualpipe-v'],
  'torchtitan-compiled': ['schedule=gpipe|1f1b|interleaved|interleaved-zb|zb-v|dualpipe-v'],
}

/** None for our own, and for what is not known. */
export const abilitiesOf = (software: string): Constraint[] =>
  parseConstraints(Object.hasOwn(abilities, software) ? abilities[software] : []).constraints
