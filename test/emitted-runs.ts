/** What emitted runs leave behind, as tests compare it. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { spokenEvents } from './spoken-events.js'

/** Every tensor of a checkpoint, in its own bytes: what lies behind the header, which names the run. */
export const tensorsIn = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder)
      .filter(name => name.endsWith('.safetensors'))
      .map(name => {
        const bytes = readFileSync(join(folder, name))
        return [name, bytes.subarray(8 + Number(bytes.readBigUInt64LE())).toString('base64')]
      }),
  )

export const linesOf = (path: string): { step: number; event?: string; [key: string]: unknown }[] => {
  const lines = readFileSync(path, 'utf8')
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line))
  spokenEvents(lines)
  return lines
}
