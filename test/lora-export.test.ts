/**
 * A LoRA run that starts from a Hugging Face folder, and what is exported of it: merged, the folder has the loss of the run; apart, what
 * PEFT would add to the folder's own matrices is what was merged into them.
 */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasErrors } from '../src/base/index.js'
import { parseSafetensors } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { nodeFiles } from '../src/node/index.js'
import { adaptersOf, check, Job } from '../src/plan/index.js'
import {
  besideWeights,
  exportAdapters,
  exportWeights,
  mergedWeights,
  openAdapters,
  type WeightMap,
  type Weights,
  weightSource,
} from '../src/weights/index.js'
import { family } from './families.js'
import { fixtureFolders, fixturePath, ownFixture } from './fixtures.js'

const files = nodeFiles()
const folders = fixtureFolders('huggingface')
const tokensOf = (path: string): { tokens: number[][]; labels: number[][] } =>
  JSON.parse(readFileSync(join(path, 'expected.json'), 'utf8'))

/** All matrices that may have adapters. */
function loraJob(model: unknown, training: object): Job {
  const jobs = ['all-linear', ['q', 'k', 'v', 'out'], ['out']].map(targets =>
    Job.parse(JSON.parse(JSON.stringify({ model, training: { ...training, lora: { rank: 2, alpha: 3, targets } } }))),
  )
  return jobs.find(job => !hasErrors(check(job)))!
}

/** A program on one rank in f64, which starts from these weights. */
function machineOf(job: Job, weights: Weights, { tokens, labels }: ReturnType<typeof tokensOf>) {
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  for (const { name } of program.params)
    if (weights.tensors.has(`param.${name}`)) machine.setParameter(name, weights.tensor(`param.${name}`))
  const inputs = (input: string) => (input === 'tokens' ? tokens : labels).flat()
  const held: Weights = {
    tensors: new Map(program.params.map(({ name, dims }) => [`param.${name}`, dims])),
    tensor: name => machine.parameter(name.slice('param.'.length)),
  }
  return { held, step: (step: number, lr: number) => machine.step({ inputs, lr, step }).loss }
}

const exported = family('LoRA: export', 9)
for (const name of folders)
  exported(`${name}: adapters merged and apart`, () => {
    const path = fixturePath(`huggingface/${name}`)
    const data = tokensOf(path)
    const seq = data.tokens[0].length
    const source = weightSource(path, files, { seq })
    const { config } = source.folder
    const model =
      config.family === 'llama' && config.moe ? { ...config, moe: { ...config.moe, loss: undefined } } : config
    const training = { seq, globalBatch: data.tokens.length }
    const job = loraJob(model, training)
    const run = machineOf(job, source, data)
    const first = run.step(0, 0.05)
    run.step(1, 0.05)
    const loss = run.step(2, 0)
    ok(loss < first, `${loss} is not below ${first}`)

    const out = mkdtempSync(join(tmpdir(), 'lockstep-'))
    const [adapters, trained] = [adaptersOf(job)!, { model: config, seq }]
    const options = { files, like: source.folder, dtype: 'f64' } as const
    exportWeights(mergedWeights(run.held, adapters), trained, { ...options, out: join(out, 'merged') })
    exportAdapters(run.held, trained, adapters, { ...options, out: join(out, 'apart') })

    const again = weightSource(join(out, 'merged'), files, { seq })
    const plain = Job.parse(JSON.parse(JSON.stringify({ model, training })))
    const merged = machineOf(plain, again, data).step(0, 0)
    ok(Math.abs(merged - loss) < 1e-12, `merged ${merged}, not ${loss}`)
    addsUp(path, out)
    comesBack(run.held, join(out, 'apart'), source.folder.map)
    rmSync(out, { recursive: true })
  })

/** What was written apart, read again, is what was trained. */
function comesBack(held: Weights, path: string, map: WeightMap): void {
  const { tensors, adapters } = openAdapters(path, files, map)
  deepEqual([adapters.rank, adapters.alpha], [2, 3])
  const own = [...held.tensors.keys()].filter(name => name.includes('.lora.'))
  deepEqual([...tensors.keys()].map(name => `param.${name}`).sort(), own.sort())
  for (const [name, { values }] of tensors) deepEqual(Float64Array.from(values), held.tensor(`param.${name}`), name)
}

/** Adapters of PEFT beside a fixture, the loss of both in f64, and what they are taken for. */
for (const [name, kind] of [
  ['llama', 'rank 4, alpha 9 of q,v,gate'],
  ['gpt2', 'rank 3, alpha 6 of q,k,v,up'],
] as const)
  test(`${name}: adapters that PEFT has saved`, () => {
    const [path, saved] = [ownFixture(`huggingface/${name}`), ownFixture(`peft/${name}`)]
    const data = tokensOf(path)
    const seq = data.tokens[0].length
    const source = weightSource(path, files, { seq })
    const folder = openAdapters(saved, files, source.folder.map)
    const { rank, alpha, targets } = folder.adapters
    equal(`rank ${rank}, alpha ${alpha} of ${targets}`, kind)
    const model = JSON.parse(JSON.stringify(source.folder.config))
    const job = Job.parse({ model, training: { seq, globalBatch: data.tokens.length, lora: folder.adapters } })
    const { loss, within } = JSON.parse(readFileSync(join(saved, 'expected.json'), 'utf8'))
    const ours = machineOf(job, besideWeights(source, folder), data).step(0, 0)
    ok(Math.abs(ours - loss) < within, `${ours}, not ${loss}`)
  })

test('adapters that are no adapters of the model are refused, each by its name', () => {
  const map = weightSource(ownFixture('huggingface/llama'), files).folder.map
  throws(() => openAdapters(ownFixture('peft/gpt2'), files, map), /the model has no transformer\.h\.0\.attn\.c_attn/)
  const dora = { ...files, read: (path: string) => files.read(path).replace('"use_dora": false', '"use_dora": true') }
  throws(() => openAdapters(ownFixture('peft/llama'), dora, map), /use_dora true: DoRA is not supported/)
  throws(() => openAdapters(ownFixture('huggingface/llama'), files, map), /has no adapter_config\.json/)
})

/** W + (alpha / r) B A, module by module, from the files alone. */
function addsUp(path: string, out: string): void {
  const config = JSON.parse(readFileSync(join(out, 'apart', 'adapter_config.json'), 'utf8'))
  const [adapters, base, merged] = [join(out, 'apart'), path, join(out, 'merged')].map(tensorsIn)
  const modules = [...adapters.keys()].flatMap(
    name => name.match(/^base_model\.model\.(.*)\.lora_A\.weight$/)?.[1] ?? [],
  )
  equal(adapters.size, 2 * modules.length)
  for (const module of modules) {
    const [a, b] = ['A', 'B'].map(side => adapters.get(`base_model.model.${module}.lora_${side}.weight`)!)
    ok(config.target_modules.some((target: string) => module.endsWith(`.${target}`)))
    const pattern = Object.keys(config.rank_pattern).find(key => module.endsWith(`.${key}`))
    const [r, alpha] = pattern
      ? [config.rank_pattern[pattern], config.alpha_pattern[pattern]]
      : [config.r, config.lora_alpha]
    deepEqual([a.shape[0], b.shape[1]], [r, r])
    const find = (of: typeof base) =>
      of.get(`${module}.weight`) ?? of.get(`${module.replace(/^(model|transformer)\./, '')}.weight`)!
    const [w, sum] = [find(base), find(merged)]
    const [inputs, outputs] = [a.shape[1], b.shape[0]]
    for (let o = 0; o < outputs; o += 3)
      for (let i = 0; i < inputs; i += 2) {
        let added = 0
        for (let k = 0; k < r; k++) added += b.values[o * r + k] * a.values[k * inputs + i]
        const at = config.fan_in_fan_out ? i * outputs + o : o * inputs + i
        ok(Math.abs(sum.values[at] - w.values[at] - (alpha / r) * added) < 1e-12, `${module} [${o}, ${i}]`)
      }
  }
}

function tensorsIn(folder: string) {
  const all = readdirSync(folder).filter(name => name.endsWith('.safetensors'))
  return new Map(
    all.flatMap(name => {
      const file = parseSafetensors(readFileSync(join(folder, name)))
      return [...file.tensors.keys()].map(tensor => [tensor, file.tensor(tensor)] as const)
    }),
  )
}
