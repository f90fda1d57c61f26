/**
 * lockstep calibrate: measurements as a cluster file. Of this machine, by running small training steps and collectives
 * on its engine; of a GPU machine, by a script for PyTorch (`--emit torch`) whose JSON is read back (`--read`).
 */

import { readFileSync } from 'node:fs'
import { Document, isPair, isScalar, isSeq, visit } from 'yaml'
import { error, ProblemsError, save } from '../../base/index.js'
import { calibration, inTurns, measuredCluster } from '../../calibrate/index.js'
import { type Cluster, parseMeasured } from '../../cluster/index.js'
import { thisHost } from '../../node/index.js'
import { requireOutputs } from '../files/outputs.js'
import { keepCalibration } from '../files/this-machine.js'
import type { Io } from '../io.js'
import { withProgress } from '../text/progress.js'

export interface CalibrateOptions {
  readonly out?: string
  readonly emit?: 'torch'
  readonly read?: string
  readonly quick?: boolean
  readonly json?: boolean
}

export async function calibrateCommand(options: CalibrateOptions, io: Io): Promise<number> {
  requireOutputs(io, options.out)
  if (options.emit === 'torch') {
    deliver(readFileSync(new URL('../../../../scripts/measure.py', import.meta.url), 'utf8'), options, io)
    return 0
  }
  const cluster = options.read === undefined ? await measureHere(options, io) : readMeasured(options.read, io)
  deliver(options.json ? `${JSON.stringify(cluster, null, 2)}\n` : clusterFile(cluster), options, io)
  // What was measured in a hurry is nothing to judge a run by.
  const kept = options.read === undefined && !options.quick ? keepCalibration(clusterFile(cluster), io) : undefined
  if (kept !== undefined) io.err(`kept in ${kept}: train predicts by it\n`)
  return 0
}

function deliver(text: string, { out }: CalibrateOptions, io: Io): void {
  if (out === undefined) {
    io.out(text)
    return
  }
  save(out, text, io)
  io.err(`wrote ${out}\n`)
}

/** Points are one line each: there are hundreds. */
function clusterFile(cluster: Cluster): string {
  const document = new Document(cluster)
  const plain = (item: unknown) => isScalar(isPair(item) ? item.value : item)
  visit(document, {
    Collection(_, node, path) {
      if (path.some(isSeq) && node.items.every(plain)) node.flow = true
    },
  })
  return document.toString({ lineWidth: 0 })
}

function readMeasured(path: string, io: Io): Cluster {
  let value: unknown
  try {
    value = JSON.parse(io.read(path))
  } catch (e) {
    const reason = e instanceof SyntaxError ? 'it is not JSON' : (e as Error).message // Io throws Errors
    throw new ProblemsError([error('file/unreadable', '', `cannot read ${path}: ${reason}`)])
  }
  const { measured, problems } = parseMeasured(value)
  if (!measured) throw new ProblemsError(problems)
  return measuredCluster(measured)
}

/** Turns of each probe. */
const rounds = { quick: 2, thorough: 60 } as const

async function measureHere({ quick = false }: CalibrateOptions, io: Io): Promise<Cluster> {
  const { starts, settled, cluster } = calibration(thisHost(), quick)
  await withProgress(io, progress => {
    progress.expect({ [phase]: 1 })
    return progress.run(phase, inTurns(starts, quick ? rounds.quick : rounds.thorough, settled))
  })
  return cluster()
}

const phase = 'measuring kernels and collectives'
