/** Single layers with experts, and all their gradients, beside those of transformers in f64. */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { type Dim, elementsOf, type Op } from '../src/base/index.js'
import { byWeight, list, read, routesOf, tensor } from './experts-fixtures.js'
import { close, type FixtureTensor, fixtureNames } from './fixtures.js'
import { apply } from './op-cases.js'
import type { Tensor } from './tiny.js'

const sum = (...tensors: Tensor[]): Tensor => apply({ kind: 'add' }, tensors, tensors[0].dims)[0]

/** Weights, whose dims are numbered; of a vector of one row the row goes without saying. */
const matrix = (given: FixtureTensor, names: string): Tensor =>
  tensor(
    given,
    names
      .split(' ')
      .map((_, i) => `d${i}`)
      .join(' '),
    names,
  )
const namesOf = ({ dims }: Tensor): string =>
  (dims.length === 1 ? [{ name: 'one' }, ...dims] : dims).map(({ name }) => name).join(' ')

interface Layer {
  readonly model: string
  readonly config: Readonly<Record<string, unknown>>
  readonly params: Readonly<Record<string, { readonly value: FixtureTensor; readonly grad: FixtureTensor }>>
  readonly buffers: Readonly<Record<string, readonly number[]>>
  readonly x: FixtureTensor
  readonly dout: FixtureTensor
  readonly logits: FixtureTensor
  readonly indices: FixtureTensor
  readonly weights: FixtureTensor
  readonly out: FixtureTensor
  readonly dx: FixtureTensor
}

const contract: Op = { kind: 'contract' }

/** A gated feed-forward of every token, and its gradients. */
function sharedExpert(layer: Layer, x: Tensor, dout: Tensor, prefix: string) {
  const names = { gate: 'sharedFfn embed', up: 'sharedFfn embed', down: 'embed sharedFfn' } as const
  const w = (name: keyof typeof names) => matrix(layer.params[`${prefix}.${name}_proj.weight`].value, names[name])
  const inner = [x.dims[0], x.dims[1], w('gate').dims[0]]
  const [[gate], [up]] = [apply(contract, [x, w('gate')], inner), apply(contract, [x, w('up')], inner)]
  const [hidden] = apply({ kind: 'swiglu' }, [gate, up], inner)
  const [down] = apply(contract, [hidden, w('down')], x.dims)
  const open = layer.params[`${prefix}_gate.weight`]
  const vector = open && { dims: [x.dims[2]], values: matrix(open.value, 'one embed').values }
  const opened =
    vector && apply({ kind: 'sigmoid' }, apply(contract, [x, vector], x.dims.slice(0, 2)), x.dims.slice(0, 2))[0]
  const mul: Op = { kind: 'mul' }
  const out = opened ? apply(mul, [down, opened], x.dims)[0] : down
  const ddown = opened ? apply(mul, [dout, opened], x.dims)[0] : dout
  const [dhidden] = apply(contract, [ddown, w('down')], inner)
  const [dgate, dup] = apply({ kind: 'swigluGrad' }, [dhidden, gate, up], inner, inner)
  const dopen =
    opened &&
    vector &&
    apply({ kind: 'sigmoidGrad' }, [apply(contract, [dout, down], x.dims.slice(0, 2))[0], opened], opened.dims)[0]
  const through = dopen && vector ? [apply(contract, [dopen, vector], x.dims)[0]] : []
  const dx = sum(apply(contract, [dgate, w('gate')], x.dims)[0], apply(contract, [dup, w('up')], x.dims)[0], ...through)
  const grads = {
    [`${prefix}.gate_proj.weight`]: apply(contract, [dgate, x], w('gate').dims)[0],
    [`${prefix}.up_proj.weight`]: apply(contract, [dup, x], w('up').dims)[0],
    [`${prefix}.down_proj.weight`]: apply(contract, [ddown, hidden], w('down').dims)[0],
    ...(dopen && vector && { [`${prefix}_gate.weight`]: apply(contract, [dopen, x], vector.dims)[0] }),
  }
  return { out, dx, grads }
}

/** Gate and up of all experts lie behind each other. */
function halves(given: FixtureTensor): Tensor[] {
  const { dims, values } = matrix(given, 'expert expertFfn embed')
  const [experts, both, embed] = dims
  const size = (both.size / 2) * embed.size
  const part = (half: number) =>
    Array.from({ length: experts.size }, (_, e) =>
      Array.from(values).slice((2 * e + half) * size, (2 * e + half + 1) * size),
    ).flat()
  const shape = [experts, { name: 'expertFfn', size: both.size / 2 }, embed]
  return [0, 1].map(half => ({ dims: shape, values: part(half) }))
}

for (const name of fixtureNames('moe', /^layer_.*\.json$/))
  test(`a layer of ${name} and all its gradients are those of transformers`, () => {
    const layer = read<Layer>(name.replace(/\.json$/, ''))
    const { config, params } = layer
    const [x, dout] = [layer.x, layer.dout].map(of => tensor(of, 'batch seq embed'))
    const router = matrix(params['gate.weight'].value, 'candidate embed')
    const [batch, seq] = x.dims
    const bias = layer.buffers['gate.e_score_correction_bias']
    const by = bias ? 'sigmoid' : 'softmax' // only DeepSeek's scores have a bias
    const perToken = [batch, seq, router.dims[0]]
    const perChoice = [batch, seq, { name: 'choice', size: Number(config.num_experts_per_tok) }]
    const [logits] = apply(contract, [x, router], perToken)
    const [scores] = apply({ kind: 'scores', by }, [logits], perToken)
    const [groups, chosenGroups] = [Number(config.n_group), Number(config.topk_group)]
    const limits = groups > 1 ? { groups: { groups, chosenGroups } } : {}
    const [choice] = apply({ kind: 'topK', ...limits }, [scores, ...(bias ? [list('candidate', bias)] : [])], perChoice)
    const weighing = { normalise: config.norm_topk_prob !== false, scale: Number(config.routed_scaling_factor ?? 1) }
    const [weight] = apply({ kind: 'chosen', ...weighing }, [scores, choice], perChoice)
    close(logits.values, tensor(layer.logits, 'batch seq expert').values, 'logits')
    const { choices, weights: heaviest } = byWeight(choice, weight)
    deepEqual(choices, tensor(layer.indices, 'batch seq choice').values)
    close(heaviest, tensor(layer.weights, 'batch seq choice').values, 'weights')

    const routes = routesOf(choice, router.dims[0].size)
    const counts = routes[2]
    const row = { name: 'row', size: elementsOf(perChoice) }
    const [gateW, upW] = halves(params['experts.gate_up_proj'].value)
    const downW = matrix(params['experts.down_proj'].value, 'expert embed expertFfn')
    const [rowDims, innerDims] = [
      [row, x.dims[2]],
      [row, gateW.dims[1]],
    ]
    const [rows] = apply({ kind: 'dispatch' }, [x, ...routes], rowDims)
    const [weights] = apply({ kind: 'dispatch' }, [weight, ...routes], [row])
    const product = (of: Tensor, w: Tensor, dims: Dim[]) => apply({ kind: 'expertContract' }, [of, counts, w], dims)[0]
    const [gate, up] = [gateW, upW].map(w => product(rows, w, innerDims))
    const [hidden] = apply({ kind: 'weightedSwiglu' }, [gate, up, weights], innerDims)
    const [routed] = apply({ kind: 'combine' }, [product(hidden, downW, rowDims), ...routes], x.dims)
    const shared = ['shared_experts', 'shared_expert'].find(prefix => `${prefix}.gate_proj.weight` in params)
    const beside = shared ? sharedExpert(layer, x, dout, shared) : undefined
    close((beside ? sum(routed, beside.out) : routed).values, tensor(layer.out, 'batch seq embed').values, 'out')

    const [dback] = apply({ kind: 'dispatch' }, [dout, ...routes], rowDims)
    const dhidden = product(dback, downW, innerDims)
    const [dgate, dup, dweights] = apply(
      { kind: 'weightedSwigluGrad' },
      [dhidden, gate, up, weights],
      innerDims,
      innerDims,
      [row],
    )
    const drows = sum(product(dgate, gateW, rowDims), product(dup, upW, rowDims))
    const [dweight] = apply({ kind: 'combine' }, [dweights, ...routes], perChoice)
    const [dscores] = apply({ kind: 'chosenGrad', ...weighing }, [dweight, scores, choice], perToken)
    const [dlogits] = apply({ kind: 'scoresGrad', by }, [dscores, scores], perToken)
    const dx = sum(
      apply({ kind: 'combine' }, [drows, ...routes], x.dims)[0],
      apply(contract, [dlogits, router], x.dims)[0],
      ...(beside ? [beside.dx] : []),
    )
    close(dx.values, tensor(layer.dx, 'batch seq embed').values, 'dx')
    const ofWeights = (a: Tensor, b: Tensor, w: Tensor) =>
      apply({ kind: 'expertWeightGrad' }, [a, b, counts], w.dims)[0]
    const [gateGrad, upGrad] = halves(params['experts.gate_up_proj'].grad)
    close(ofWeights(rows, dgate, gateW).values, gateGrad.values, 'gate')
    close(ofWeights(rows, dup, upW).values, upGrad.values, 'up')
    close(
      ofWeights(hidden, dback, downW).values,
      matrix(params['experts.down_proj'].grad, 'expert embed expertFfn').values,
      'down',
    )
    close(
      apply(contract, [dlogits, x], router.dims)[0].values,
      matrix(params['gate.weight'].grad, 'candidate embed').values,
      'router',
    )
    for (const [param, gradient] of Object.entries(beside?.grads ?? {}))
      close(gradient.values, matrix(params[param].grad, namesOf(gradient)).values, param)
  })
