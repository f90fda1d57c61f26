/** What a run prints when it starts: `name ...... value` for every argument, resolved. */
import type { FlagValue } from './argv.js'
import { printedFlags } from './flags.js'
import type { Found } from './found.js'

const printed = /^(?:\S*\s*(?:\[[^\]]*\]|\S+:)\s+)?\s*([A-Za-z_]\w*) \.{2,} (.*?)\s*$/

/** undefined: there are none. */
export function flagsOfLog(text: string): Found | undefined {
  const values = new Map<string, FlagValue | boolean>()
  const lines = new Map<string, number>()
  let world: number | undefined
  text.split('\n').forEach((line, i) => {
    const size = /using world size: (\d+)/.exec(line)?.[1]
    if (size !== undefined) world = Number(size)
    const [, dest, value = ''] = (line.length < 20_000 && printed.exec(line)) || []
    if (dest === undefined) return
    if (dest === 'world_size') world = Number(value)
    const { name, when } = printedFlags.get(dest) ?? { name: dest.replaceAll('_', '-'), when: true }
    const got = valueFrom(value)
    if (got === undefined || (typeof got === 'boolean' && got !== when)) return
    values.set(name, typeof got === 'boolean' ? true : got)
    lines.set(name, i + 1)
  })
  if (values.size < 3) return undefined
  onlyOneOf(values)
  const ranks = world !== undefined && Number.isSafeInteger(world) ? world : undefined
  return {
    ...{ values, remarks: [], lineOf: name => lines.get(name), resolved: true, read: () => undefined },
    ...(ranks !== undefined && { world: { ranks, how: 'as the run printed it' } }),
  }
}

/** Resolved, several ways to say one thing stand side by side. */
function onlyOneOf(values: Map<string, FlagValue | boolean>): void {
  const has = (name: string) => values.has(name)
  if (has('num-virtual-stages-per-pipeline-rank')) {
    values.delete('num-layers-per-virtual-pipeline-stage')
    values.delete('pipeline-model-parallel-layout')
  }
  if (has('train-iters')) values.delete('train-samples')
  if (has('lr-warmup-fraction')) values.delete('lr-warmup-iters')
  if (values.get('lr-warmup-samples') === '0') values.delete('lr-warmup-samples')
  if (values.get('rotary-seq-len-interpolation-factor') === '1') values.delete('rotary-seq-len-interpolation-factor')
}

/** As Python prints it; nothing for None. */
function valueFrom(text: string): FlagValue | boolean | undefined {
  if (text === 'None' || text === '' || text === '[]') return undefined
  if (text === 'True' || text === 'False') return text === 'True'
  const [, list] = /^[[(](.*)[\])]$/.exec(text) ?? []
  if (list === undefined)
    return text.replace(/^torch\.(?:float|bfloat)(\d+)$/, (_, bits: string) => (bits === '32' ? 'fp32' : text))
  return list
    .split(',')
    .map(one => one.trim().replace(/^['"]|['"]$/g, ''))
    .filter(one => one !== '')
}
