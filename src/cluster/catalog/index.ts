/** Every device that is known by name, oldest first within a maker. */
import { amd } from './amd.js'
import type { Entry } from './entry.js'
import { nvidia } from './nvidia.js'
import { tpu } from './tpu.js'

export const entries: ReadonlyMap<string, Entry> = new Map(
  [...nvidia, ...amd, ...tpu].map(entry => [entry.device.name, entry]),
)
/** What people also call them. */
export const aliases: Readonly<Record<string, string>> = {
  a100: 'a100-80',
  'h100-sxm': 'h100',
  'gb200-nvl72': 'gb200',
  'gb300-nvl72': 'gb300',
}
