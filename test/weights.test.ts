/** Hugging Face folders: read to their loss and gradients in f64, written again to the bit. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { memoryFiles } from '../src/base/memory-files.js'
import { parseSafetensors, printSafetensors, readCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { nodeFiles } from '../src/node/index.js'
import { Job } from '../src/plan/index.js'
import {
  convertedCheckpoint,
  exportWeights,
  type MappedParam,
  scatter,
  tensorsOf,
  weightSource,
} from '../src/weights/index.js'
import { fixtureFolders, fixturePath, ownFixture } from './fixtures.js'

interface Expected {
  readonly tokens: readonly (readonly number[])[]
  readonly labels: readonly (readonly number[])[]
  readonly loss: number
  readonly gradientNorms: Readonly<Record<string, number>>
}

const files = nodeFiles()
const folders = fixtureFolders('huggingface')

for (const name of folders) {
  const path = fixturePath(`huggingface/${name}`)
  const expected: Expected = JSON.parse(readFileSync(join(path, 'expected.json'), 'utf8'))

  test(`${name} has the loss and the gradients that transformers gives it`, () => {
    const seq = expected.tokens[0].length
    const source = weightSource(path, files, { seq })
    const { config, map } = source.folder
    // Their loss is that of tokens alone.
    const model =
      config.family === 'llama' && config.moe ? { ...config, moe: { ...config.moe, loss: undefined } } : config
    const training = { seq, globalBatch: expected.tokens.length }
    const machine = boot(compileJob(Job.parse(JSON.parse(JSON.stringify({ model, training, plan: {} })))), { seed: 1 })
    for (const { name } of map.params) machine.setParameter(name, source.tensor(`param.${name}`))
    const inputs = (input: string) => (input === 'tokens' ? expected.tokens : expected.labels).flat()
    const { loss } = machine.step({ inputs, lr: 0, step: 0 })
    ok(Math.abs(loss - expected.loss) < 1e-10, `loss ${loss}, not ${expected.loss}`)
    const norms = normsOf(map, name => machine.gradient(name))
    for (const [tensor, norm] of Object.entries(expected.gradientNorms))
      ok(Math.abs((norms.get(tensor) ?? 0) - norm) < 1e-10, `${tensor}: ${norms.get(tensor)}, not ${norm}`)
  })

  test(`${name}, written again, holds the same bits`, () => {
    const out = mkdtempSync(join(tmpdir(), 'lockstep-'))
    const source = weightSource(path, files)
    const { folder } = source
    const shards = readdirSync(path).filter(name => name.endsWith('.safetensors'))
    const bytes = shards.reduce((sum, name) => sum + statSync(join(path, name)).size, 0)
    const shardBytes = shards.length > 1 ? Math.ceil(bytes / shards.length) : undefined
    const trained = { model: folder.config, seq: rowsOf(source.tensors.get('param.embed.positions')) }
    const { tensors } = exportWeights(source, trained, { files, out: join(out, 'hf'), like: folder, shardBytes })
    const [before, after] = [tensorsIn(path), tensorsIn(join(out, 'hf'))]
    equal(tensors, before.size)
    deepEqual(after, before)
    equal(existsSync(join(out, 'hf', 'model.safetensors.index.json')), shards.length > 1)
    equal(
      readFileSync(join(out, 'hf', 'config.json'), 'utf8').trim(),
      readFileSync(join(path, 'config.json'), 'utf8').trim(),
    )
    rmSync(out, { recursive: true })
  })
}

test('a folder as a checkpoint of several files holds the same numbers', () => {
  const source = weightSource(ownFixture('huggingface/gpt2'), files, { seq: 8 })
  const heading = { run: 'r', name: 'gpt', step: 0, seed: 0, job: {} }
  const { names, files: made } = convertedCheckpoint(source, heading, 40_000)
  const contents = new Map(made())
  deepEqual([...contents.keys()], names)
  ok(names.length > 4)
  const read = readCheckpoint((file, begin, end) => {
    const content = contents.get(file) ?? ''
    return (typeof content === 'string' ? new TextEncoder().encode(content) : content).subarray(begin, end)
  })
  deepEqual(read.damages(), [])
  for (const name of source.tensors.keys()) deepEqual(read.tensor(name), source.tensor(name), name)
})

test('all that is wrong with a folder is said at once', () => {
  const [folder, memory] = [ownFixture('huggingface/llama'), memoryFiles()]
  const { tensors, ...head } = parseSafetensors(readFileSync(join(folder, 'model.safetensors')))
  const kept = [...tensors.keys()].filter(name => name !== 'model.norm.weight')
  const changed = kept.map(name => {
    const { shape, values } = head.tensor(name)
    const isTurned = name.endsWith('0.self_attn.k_proj.weight')
    return [name, { dtype: 'f32' as const, shape: isTurned ? [...shape].reverse() : shape, values }] as const
  })
  const extra = { dtype: 'f32' as const, shape: [1], values: new Float32Array(1) }
  memory.write('f/config.json', readFileSync(join(folder, 'config.json'), 'utf8'))
  memory.write('f/model.safetensors', printSafetensors({ ...Object.fromEntries(changed), 'model.more': extra }, {}))
  throws(
    () => weightSource('f', memory),
    (e: Error) => {
      match(e.message, /missing tensor model.norm.weight, needed for head.norm.weight/)
      match(
        e.message,
        /k_proj.weight is 32 x 16, but 16 x 32 by config.json: \(kvHeads headDim\) embed of layers.0.attn.k/,
      )
      match(e.message, /unexpected tensor model.more/)
      return true
    },
  )
})

test('weights whose config says what is not computed here are refused, though a plan may leave it out', () => {
  const [folder, memory] = [ownFixture('huggingface/qwen2'), memoryFiles()]
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))
  memory.write('f/model.safetensors', readFileSync(join(folder, 'model.safetensors')))
  const opened = (changes: object) => {
    memory.write('f/config.json', JSON.stringify({ ...config, ...changes }))
    return weightSource('f', memory).folder.warnings.map(({ path }) => path)
  }
  deepEqual(opened({}), [])
  const some = { use_sliding_window: true, sliding_window: 4, max_window_layers: 1, layer_types: null }
  throws(
    () => opened(some),
    /sliding_window: 2 of 3 layers have a sliding window; .*these weights would give different results/,
  )
  const scaled = (type: string) => ({
    rope_scaling: { rope_type: type, factor: 2, long_factor: [1], short_factor: [1] },
  })
  throws(
    () => opened(scaled('longrope')),
    /the RoPE scaling `longrope` is not supported; these weights would give different results/,
  )
  deepEqual(opened(scaled('dynamic')), ['rope_scaling']) // within the positions of the config it changes nothing
  deepEqual(opened({ final_logit_softcapping: 30 }), ['final_logit_softcapping'])
})

const rowsOf = (dims: readonly { size: number }[] = []): number => dims[0]?.size ?? 1

/** Norms of gradients of all tensors that a folder may hold, whichever form it has. */
function normsOf(map: Parameters<typeof tensorsOf>[0], gradientOf: (name: string) => ArrayLike<number>) {
  const forms = [0, 1].map(form => (param: MappedParam) => param.forms[form] ?? param.forms[0])
  const tensors = forms.flatMap(formOf => tensorsOf(map, formOf))
  return new Map(
    tensors.map(({ name, shape, parts }) => {
      const values = new Float64Array(shape.reduce((n, size) => n * size, 1))
      for (const { param, place } of parts) {
        const all = Float64Array.from(gradientOf(param.name))
        const each = place.box.shape.reduce((n, size) => n * size, 1)
        const first = each < all.length ? place.box.start[0] * each : 0
        scatter(place, all.subarray(first, first + each), values)
      }
      return [name, Math.hypot(...values)] as const
    }),
  )
}

/** Name -> dtype, shape and bits. */
function tensorsIn(folder: string): Map<string, unknown> {
  const all = readdirSync(folder)
    .filter(name => name.endsWith('.safetensors'))
    .flatMap(name => {
      const file = parseSafetensors(readFileSync(join(folder, name)))
      return [...file.tensors.keys()].map(tensor => [tensor, file.tensor(tensor)] as const)
    })
  return new Map(all.sort(([a], [b]) => (a < b ? -1 : 1)))
}
