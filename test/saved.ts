/** A checkpoint of what a machine holds, that was never written. */
import { type Checkpoint, printCheckpoint, readCheckpoint } from '../src/checkpoint/index.js'
import type { Interpreter } from '../src/engine/reference/machine.js'
import type { Program } from '../src/ir/index.js'

export function saved(program: Program, trained: Interpreter): Checkpoint {
  const snapshot = { run: 'run', job: {}, step: 1, seed: 1 }
  const files = new Map(printCheckpoint(program, snapshot, shard => trained.held(shard)))
  return readCheckpoint((file, begin, end) => {
    const content = files.get(file)!
    return (typeof content === 'string' ? new TextEncoder().encode(content) : content).subarray(begin, end)
  })
}
