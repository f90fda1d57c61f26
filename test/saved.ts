/** Checkpoints of what a machine or a session holds, that were never written. */
import { type Checkpoint, printCheckpoint, readCheckpoint } from '../src/checkpoint/index.js'
import { cursorAt } from '../src/data/index.js'
import type { Interpreter } from '../src/engine/reference/machine.js'
import type { Program } from '../src/ir/index.js'
import type { Session } from '../src/train/index.js'

type Files = ReadonlyMap<string, string | Uint8Array>

export function saved(program: Program, trained: Interpreter): Checkpoint {
  const snapshot = { run: 'run', job: {}, step: 1, seed: 1 }
  return readFrom(new Map(printCheckpoint(program, snapshot, shard => trained.held(shard))))
}

/** The files of a checkpoint of a session. */
export function printedFrom({ job, program, dataset, trainer, behind: step, norms }: Session): Files {
  const { train, fingerprint } = dataset
  const position = { step, seed: job.training.seed, data: cursorAt(train, job.training, { step, fingerprint }) }
  const snapshot = { ...position, scalars: trainer.scalars(), ...(norms && { norms }), run: 'run', job }
  return new Map(printCheckpoint(program, snapshot, shard => trainer.held(shard)))
}

export const savedFrom = (session: Session): Checkpoint => readFrom(printedFrom(session))

const readFrom = (files: Files): Checkpoint =>
  readCheckpoint((file, begin, end) => {
    const content = files.get(file)!
    return (typeof content === 'string' ? new TextEncoder().encode(content) : content).subarray(begin, end)
  })
