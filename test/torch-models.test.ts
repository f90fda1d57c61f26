/**
 * Every family against the same model in plain PyTorch, in f64: the loss and every gradient by autograd, over three
 * steps of torch.optim with clipping and decay, and the parameters after them. Weights are ours, data are ours, the code is not.
 *
 * Errors are relative to the largest element of the tensor (of a gradient, at least 1e-4 of the model's largest), and
 * all of them are rounding. Only the key bias of attention without rotation has a gradient that is 0 in theory: Adam
 * divides what rounding leaves of it by eps = 1e-8, so after its steps that bias is as good as 1e-9.
 */
import { ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { before, describe } from 'node:test'
import { fileURLToPath } from 'node:url'
import { roleFacts } from '../src/base/index.js'
import { ModelConfig, type ModelInput } from '../src/model/index.js'
import { Optimizer, type Training } from '../src/plan/index.js'
import { family } from './families.js'
import { dataOf, familyModel, globalBatch, gradientScales, greatest, programOf, wideMachine } from './one-rank.js'
import { findPython, oneThread } from './python.js'

const script = fileURLToPath(new URL('../../test/torch_models.py', import.meta.url))
const python = findPython()
const skip = python ? false : 'no Python that has torch'

const [vocab, steps] = [11, 3]
const bound = 3e-12
const boundOf = (name: string) => (name.endsWith('attn.k.bias') ? 1e-9 : bound)

const gpt = { family: 'gpt', layers: 2, embed: 8, heads: 2, vocab } as const
const llama = { family: 'llama', layers: 2, embed: 8, heads: 4, kvHeads: 2, ffn: 12, vocab } as const
const llama31 = { kind: 'llama3', factor: 8, low: 1, high: 2, original: 16 } as const
const yarn = { kind: 'yarn', factor: 6, original: 32, fast: 4, slow: 0.5, scale: 0.8, scaleAll: 0.5 } as const
const mla = { kvLoraRank: 6, qkRopeHeadDim: 4, qkNopeHeadDim: 3, vHeadDim: 5 } as const
const latent = { family: 'llama', layers: 2, embed: 8, heads: 3, ffn: 12, vocab } as const
const configs: Record<string, ModelInput> = {
  mlp: { family: 'mlp', layers: 3, embed: 4, ffn: 7 },
  'gpt, tied': gpt,
  'gpt, untied': { ...gpt, tied: false, ffn: 9, eps: 1e-3 },
  'llama with as many keys as queries': { ...llama, kvHeads: 4 },
  'llama with grouped queries': llama,
  'llama with one key for all': { ...llama, kvHeads: 1, headDim: 6, ropeTheta: 50 },
  'llama with biases': { ...llama, qkvBias: true },
  'llama with normed heads': { ...llama, qkNorm: true, eps: 1e-3 },
  'llama with a window': { ...llama, window: 2 },
  'llama with slower positions': { ...llama, headDim: 8, ropeScaling: { kind: 'linear', factor: 4 } },
  'llama with the positions of Llama 3.1': { ...llama, headDim: 8, ropeTheta: 20, ropeScaling: llama31 },
  'llama with YaRN': { ...llama, headDim: 12, ropeTheta: 50, ropeScaling: { ...yarn, scaleAll: 0 } },
  'llama with latent attention': { ...latent, mla: { ...mla, qLoraRank: 5 } },
  'llama with latent attention, YaRN and a window': { ...latent, mla, ropeScaling: yarn, ropeTheta: 50, window: 3 },
  'llama, tied, with everything': { ...llama, tied: true, qkvBias: true, qkNorm: true, window: 3 },
}

type Run = Pick<Training, 'optimizer' | 'clip'>

/** Clipping below the norm, never, and so far above that the coefficient must stop at 1. */
const runs: Run[] = [
  { optimizer: Optimizer.parse({ kind: 'adamw', lr: 0.01, weightDecay: 0.1, beta1: 0.8, beta2: 0.9 }), clip: 0.1 },
  { optimizer: Optimizer.parse({ kind: 'adamw', lr: 0.003, weightDecay: 0.01 }) },
  { optimizer: Optimizer.parse({ kind: 'sgd', lr: 0.05, weightDecay: 0.1, momentum: 0.9 }), clip: 0.1 },
  { optimizer: Optimizer.parse({ kind: 'sgd', lr: 0.02, momentum: 0.5 }), clip: 1000 },
]
const showRun = ({ optimizer, clip }: Run) => `${optimizer.kind}${clip ? ` clipped at ${clip}` : ''}`

interface Trained {
  readonly steps: readonly {
    readonly loss: number
    readonly gradients: Readonly<Record<string, ArrayLike<number>>>
  }[]
  readonly params: Readonly<Record<string, ArrayLike<number>>>
}

const named = (names: readonly string[], values: (name: string) => ArrayLike<number>) =>
  Object.fromEntries(names.map(name => [name, values(name)]))

function train(config: ModelInput, run: Run, microbatches = 1): Trained {
  const program = programOf(familyModel(config), { microbatches }, run)
  const machine = wideMachine(program)
  const names = program.params.map(({ name }) => name)
  const done = Array.from({ length: steps }, (_, step) => {
    const { loss } = machine.step({ inputs: dataOf(program, vocab, step), lr: run.optimizer.lr, step })
    return { loss, gradients: named(names, machine.gradient) }
  })
  return { steps: done, params: named(names, machine.parameter) }
}

/** A case as PyTorch is asked it: weights as the machine holds them before the first step. */
function question(config: ModelInput) {
  const program = programOf(familyModel(config))
  const machine = wideMachine(program)
  const inputs = program.inputs.filter(({ dims }) => dims.length > 0)
  const sized = (dims: readonly { readonly size: number }[], values: ArrayLike<number>, dtype = 'f32') => ({
    sizes: dims.map(dim => dim.size),
    values: Array.from(values),
    dtype,
  })
  const specs = familyModel(config)(globalBatch).params
  return {
    config: ModelConfig.parse(config),
    params: specs.map(({ name, role, dims }) => ({
      name,
      decay: roleFacts[role].decays,
      ...sized(dims, machine.parameter(name)),
    })),
    data: Array.from({ length: steps }, (_, step) => {
      const data = dataOf(program, vocab, step)
      return Object.fromEntries(inputs.map(({ name, dims, dtype }) => [name, sized(dims, data(name), dtype)]))
    }),
    runs,
  }
}

/** One process for everything: starting torch takes longer than all the rest. */
function ask(asked: readonly ModelInput[]): ReadonlyMap<ModelInput, readonly Trained[]> {
  const input = JSON.stringify(asked.map(question))
  const options = { input, env: oneThread, encoding: 'utf8', maxBuffer: 2 ** 28 } as const
  const answers: Trained[][] = JSON.parse(execFileSync(python!, [script], options))
  return new Map(asked.map((config, i) => [config, answers[i]]))
}

const gap = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  a.length === b.length ? greatest(Array.from(a, (value, i) => value - b[i])) : Number.NaN

function sameGradients(ours: Trained, theirs: Trained): void {
  for (const [step, expected] of theirs.steps.entries()) {
    const loss = Math.abs(ours.steps[step].loss / expected.loss - 1)
    ok(loss < bound, `the loss of step ${step} is off by ${loss}`)
    const scales = gradientScales(new Map(Object.entries(expected.gradients)), 1e-4)
    for (const [name, scale] of scales) {
      const error = gap(ours.steps[step].gradients[name], expected.gradients[name]) / scale
      ok(error < bound, `the gradient of ${name} in step ${step} is off by ${error}`)
    }
  }
}

function sameParameters(ours: Trained, theirs: Trained): void {
  for (const [name, expected] of Object.entries(theirs.params)) {
    const error = gap(ours.params[name], expected) / greatest(expected)
    ok(error < boundOf(name), `${name} is off by ${error}`)
  }
}

const tested = family('models against PyTorch', 5)
describe('step by step as PyTorch', () => {
  const asked = new Set<ModelInput>()
  let answers: ReadonlyMap<ModelInput, readonly Trained[]>
  before(() => {
    if (python) answers = ask([...asked])
  })
  for (const [title, config] of Object.entries(configs))
    for (const [i, run] of runs.entries()) {
      const isTaken = tested(`${title}: ${showRun(run)}`, { skip }, () => {
        const [ours, theirs] = [train(config, run), answers.get(config)![i]]
        sameGradients(ours, theirs)
        sameParameters(ours, theirs)
      })
      if (isTaken) asked.add(config)
    }
})

const inMicrobatches = family('two microbatches are one batch', 5)
for (const [title, config] of Object.entries({ ...configs, 'gpt with dropout': { ...gpt, dropout: 0.2 } }))
  inMicrobatches(`${title}: two microbatches are one batch`, () => {
    const [one, two] = [1, 2].map(microbatches => train(config, runs[0], microbatches))
    sameGradients(two, one)
    sameParameters(two, one)
  })
