/** What a model that is being trained says by now. */
import { ProblemsError } from '../base/index.js'
import { adaptersOf, type Job } from '../plan/index.js'
import type { Session } from '../train/index.js'
import { createDecoder } from './decoder.js'
import { generate } from './generate.js'
import { tokenizerOfRun } from './open.js'
import { refused } from './phrases.js'
import { textStream } from './text.js'

/** Drawn, as one who reads samples wants it: not always the same, and nothing far-fetched. */
const drawn = { temperature: 0.8, topK: 40 }

/** Generates sample text from the model of a session while it trains. */
export interface Sampler {
  /** The prompt and its continuation, with the current weights. */
  sample(session: Session): Promise<string>
}

/**
 * A sampler for the model of a session. Throws if the job has no text, or if the prompt is longer than its sequences.
 */
export async function samplerOf(
  job: Job,
  tokenizerJson: string | undefined,
  { prompt, tokens = 64 }: { readonly prompt: string; readonly tokens?: number },
): Promise<Sampler> {
  const { model, training } = job
  const tokenizer = await tokenizerOfRun(job, tokenizerJson)
  const ids = Array.from(tokenizer?.encode(new TextEncoder().encode(prompt)) ?? [])
  if (!tokenizer) throw new ProblemsError([refused('--sample', 'generate/tokenizer')])
  if (ids.length === 0 || ids.length > training.seq)
    throw new ProblemsError([refused('--sample', 'generate/prompt/long', { tokens: ids.length, seq: training.seq })])
  return {
    async sample({ trainer, kernels }) {
      const decoder = await createDecoder(model, (name, values) => values.set(trainer.parameter(name)), {
        ...{ context: training.seq, kernels, threads: 1, adapters: adaptersOf(job) },
      })
      try {
        const stream = textStream(tokenizer)
        let text = prompt
        for await (const id of generate(decoder, ids, { ...drawn, tokens, seed: training.seed, end: tokenizer.end }))
          text += stream.add(id)
        return text + stream.end()
      } finally {
        await decoder.stop()
      }
    },
  }
}
