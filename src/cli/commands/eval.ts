/** lockstep eval: how well a trained model knows a text. */

import { showTime } from '../../base/index.js'
import type { KernelName } from '../../engine/index.js'
import { type Evaluation, evaluate, openTrained } from '../../generate/index.js'
import { thisHost } from '../../node/index.js'
import type { Io } from '../io.js'
import { withProgress } from '../text/progress.js'
import { notesOn } from './generate.js'

export interface EvalOptions {
  readonly data?: string
  readonly adapters?: string
  readonly kernels: KernelName | 'auto'
  readonly json?: boolean
}

export async function evalCommand(
  path: string,
  { data, adapters, kernels, json }: EvalOptions,
  io: Io,
): Promise<number> {
  const begun = performance.now()
  const { trained, found } = await withProgress(io, async watcher => {
    watcher.say(`reading ${path}`)
    const trained = openTrained(path, io, { adapters })
    const asked = { files: io, data, kernels, ranks: thisHost().cores, watcher }
    return { trained, found: await evaluate(trained, asked) }
  })
  const seconds = (performance.now() - begun) / 1000
  const { step } = trained.checkpoint
  if (json) io.out(`${JSON.stringify({ ok: true, checkpoint: trained.path, step, ...found, seconds }, null, 2)}\n`)
  else {
    io.err(notesOn(trained, io))
    io.out(textOf(found, step, seconds))
  }
  return 0
}

function textOf(found: Evaluation, step: number, seconds: number): string {
  const { loss, perplexity, bitsPerByte, tokens, sequences, data } = found
  const bits = bitsPerByte === undefined ? '' : `, ${bitsPerByte.toFixed(4)} bits per byte`
  return [
    `loss ${loss.toFixed(6)}, perplexity ${perplexity.toPrecision(6)}${bits}`,
    `after step ${step}, on ${tokens} tokens in ${sequences} sequences of ${data}; ${showTime(seconds)}`,
    '',
  ].join('\n')
}
