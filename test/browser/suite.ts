/** What runs in Node and in a page, word for word: the test compares what both return. */
import { createGroup, EngineError, type LoweredProgram, opcodes, Pool, startEngine } from '../../src/engine/index.js'
import { compileJob, inputsOf, Job, parseJob, print, startTrainer, syntheticData } from '../../src/index.js'

const jobs = {
  gpt: `
model: { family: gpt, layers: 4, embed: 32, heads: 4, ffn: 64, vocab: 64, tied: true, dropout: 0.1 }
training: { seq: 16, globalBatch: 16, clip: 0.5 }
plan: { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 4 }
`,
  llama: `
model: { family: llama, layers: 4, embed: 32, heads: 4, kvHeads: 2, ffn: 64, vocab: 64 }
training: { seq: 16, globalBatch: 16 }
plan: { dp: 2, tp: 2, pp: 2, microbatches: 4, schedule: zb-h1, recompute: selective }
`,
} as const

export type JobName = keyof typeof jobs

const [steps, seed, lr, vocab] = [4, 1, 1e-3, 64]

/** Everything a run leaves behind. */
export async function train(name: JobName) {
  const program = compileJob(parseJob(jobs[name]).job!)
  const trainer = await startTrainer(program, { kernels: 'wasm', seed, measure: true })
  const data = syntheticData(inputsOf(program), vocab, seed)
  const outcomes = []
  for (let step = 0; step < steps; step++) {
    const { loss, count, normSquared } = await trainer.step({ inputs: data(step), lr, step })
    outcomes.push({ loss, count, normSquared })
  }
  const parameters = program.params.map(({ name }) => ({ name, values: Array.from(trainer.parameter(name)) }))
  const { description, peaks, spans } = trainer
  await trainer.stop()
  return { program: print(program), description, outcomes, parameters, peaks, spans: spans.length }
}

/** Of four ranks, each of which gives its number twice. */
export async function allReduce(): Promise<number[][]> {
  const group = await createGroup(4, { kernels: 'wasm' })
  const x = group.tensor('f32', 2)
  for (let rank = 0; rank < 4; rank++) group.write(rank, x, [rank, rank])
  await group.allReduce(x)
  const results = [0, 1, 2, 3].map(rank => group.read(rank, x))
  await group.stop()
  return results
}

/** The report on a rank that never comes to its first collective; with `kill`, because its thread was terminated. */
export async function fail(kill: boolean): Promise<string> {
  const model = { family: 'mlp', layers: 2, embed: 4, ffn: 8 } as const
  const program = compileJob(Job.parse({ model, training: { seq: 4, globalBatch: 4 }, plan: { dp: 2 } }))
  const tamper = ({ lists, listAt }: LoweredProgram, memory: SharedArrayBuffer) => {
    const at = lists[1].starts.find(start => lists[1].words[start] === opcodes.start)!
    new Float64Array(memory, listAt[1])[at] = opcodes.end
  }
  const pool = new Pool()
  const threads = pool.take(2)
  pool.give(threads)
  const timeoutMs = kill ? 60_000 : 500
  const engine = await startEngine(program, { kernels: 'wasm', seed, timeoutMs, tamper, pool })
  try {
    const step = engine.step({ inputs: syntheticData(inputsOf(program), vocab, seed)(0), lr, step: 0 })
    if (kill) setTimeout(() => void threads[1].end(), 200)
    await step
    return 'the step ended as if nothing had happened'
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return error.message
  } finally {
    await engine.stop()
    await pool.close()
  }
}
