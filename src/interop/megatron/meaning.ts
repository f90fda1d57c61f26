/** Terms to a job, whoever wrote them. */
import { modelGiven } from '../given-model.js'
import type { Given } from '../note.js'
import { readBatch } from './batch.js'
import { readExperts, readMesh } from './mesh.js'
import { readModel } from './model.js'
import { readPrecision, readRecompute } from './precision.js'
import { readStages } from './stages.js'
import { readState } from './state.js'
import type { Terms } from './terms.js'
import { readSequence, readTraining } from './training.js'

/** `given`: what was said beside the file; `world`: ranks, wherever they are known from. */
export function readMeaning(t: Terms, given: Given, world = given.world): void {
  const mesh = readMesh(t, world)
  if (!mesh) return
  const seq = readSequence(t)
  const layers = readModel(t).layers ?? modelGiven(given)?.layers
  readExperts(t, mesh)
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
      'not set: the loss is the mean over microbatches of their token means (the same unless tokens are masked)',
    )
  const std = t.number('init-method-std')
  if (std === 0.02) t.read('init-method-std')
}
