/** Terms to a job, whoever wrote them. */
import { readBatch } from './batch.js'
import { readMesh } from './mesh.js'
import { readModel } from './model.js'
import { readPrecision, readRecompute } from './precision.js'
import { readStages } from './stages.js'
import { readState } from './state.js'
import type { Terms } from './terms.js'
import { readSequence, readTraining } from './training.js'

export function readMeaning(t: Terms, world: number | undefined): void {
  const mesh = readMesh(t, world)
  if (!mesh) return
  const seq = readSequence(t)
  const { layers } = readModel(t)
  const chunks = readStages(t, mesh, layers)
  const batch = readBatch(t, mesh, seq)
  readState(t, mesh)
  readPrecision(t)
  readRecompute(t, layers === undefined ? undefined : Math.ceil(layers / mesh.pp / chunks))
  readTraining(t, batch)
  readLoss(t)
}

/** A mean of means is the mean over tokens where no token is masked. */
function readLoss(t: Terms): void {
  if (!t.is('calculate-per-token-loss'))
    t.reading.assume(
      t.path('calculate-per-token-loss'),
      '',
      undefined,
      'left out: the loss is a mean over microbatches of means over tokens; the same unless some are masked',
    )
  const std = t.number('init-method-std')
  if (std === 0.02) t.read('init-method-std')
}
