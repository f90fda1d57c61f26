/**
 * Experts against what others compute: routers, capacity, permutations, single layers and whole models, made by running
 * Megatron-LM, DeepSpeed and transformers in f64 (test/fixtures/README.md). Floats to 1e-12, indices and counts exactly.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Dim, elementsOf, type Op } from '../src/base/index.js'
import { commonFactors, expertGrid } from '../src/plan/index.js'
import { readFixture } from './fixtures.js'
import { apply } from './op-cases.js'
import { runOp, type Tensor } from './tiny.js'

interface FixtureTensor {
  readonly dims: readonly (readonly [string, number])[]
  readonly data: readonly number[]
}

const read = <T>(name: string): T => JSON.parse(readFixture(`moe/${name}.json`)) as T // as its generator wrote it

/** Experts are candidates to a token. */
const tensor = ({ dims, data }: FixtureTensor, ...names: string[]): Tensor => ({
  dims: dims.map(([name, size], i) => ({ name: names[i] ?? (name === 'expert' ? 'candidate' : name), size })),
  values: data,
})
const list = (name: string, values: readonly number[]): Tensor => ({ dims: [{ name, size: values.length }], values })

const close = (got: ArrayLike<number>, expected: ArrayLike<number>, what: string, bound = 1e-12) => {
  equal(got.length, expected.length, what)
  for (let i = 0; i < expected.length; i++)
    ok(
      Math.abs(got[i] - expected[i]) <= bound * Math.max(1, Math.abs(expected[i])),
      `${what}[${i}]: ${got[i]}, not ${expected[i]}`,
    )
}
const sum = (...tensors: Tensor[]): Tensor => apply({ kind: 'add' }, tensors, tensors[0].dims)[0]

interface Router {
  readonly name: string
  readonly experts: number
  readonly topk: number
  readonly settings: {
    readonly score_function: 'softmax' | 'sigmoid'
    readonly use_pre_softmax?: boolean
    readonly num_groups?: number
    readonly group_topk?: number
    readonly scaling_factor?: number
  }
  readonly bias: readonly number[] | null
  readonly logits: FixtureTensor
  readonly indices: FixtureTensor
  readonly probs: FixtureTensor
  readonly tokens_per_expert: readonly number[]
  readonly aux: {
    readonly coeff: number
    readonly counts: readonly number[]
    readonly microbatch: number
    readonly sequence: number
  }
  readonly z: { readonly coeff: number; readonly value: number }
  readonly dprobs: FixtureTensor
  readonly dlogits: Readonly<Record<'probs' | 'aux' | 'seq_aux' | 'z', FixtureTensor>>
}

for (const router of read<Router[]>('routers'))
  test(`the router ${router.name} chooses, weighs and is balanced as Megatron's`, () => {
    const { settings, experts, topk, aux } = router
    const by = settings.score_function
    const logits = tensor(router.logits)
    const [batch, seq] = logits.dims
    const perChoice: Dim[] = [batch, seq, { name: 'choice', size: topk }]
    const [scores] = apply({ kind: 'scores', by }, [logits], logits.dims)
    const { num_groups: groups, group_topk: chosenGroups } = settings
    const limits = groups && chosenGroups ? { groups: { groups, chosenGroups } } : {}
    const [choice] = apply(
      { kind: 'topK', ...limits },
      [scores, ...(router.bias ? [list('candidate', router.bias)] : [])],
      perChoice,
    )
    deepEqual(Array.from(choice.values), router.indices.data)
    const normalise = by === 'sigmoid' ? topk > 1 : settings.use_pre_softmax === false
    const weighing = { normalise, scale: settings.scaling_factor ?? 1 }
    close(apply({ kind: 'chosen', ...weighing }, [scores, choice], perChoice)[0].values, router.probs.data, 'weights')
    const candidate = { name: 'candidate', size: experts }
    deepEqual(Array.from(apply({ kind: 'countChoices' }, [choice], [candidate])[0].values), router.tokens_per_expert)

    const toLogits = (dscores: Tensor) => apply({ kind: 'scoresGrad', by }, [dscores, scores], logits.dims)[0]
    const [dchosen] = apply({ kind: 'chosenGrad', ...weighing }, [tensor(router.dprobs), scores, choice], scores.dims)
    close(toLogits(dchosen).values, router.dlogits.probs.data, 'gradient of the weights')

    const balance = (within: Dim[], tokens: number, parts: number, right: number, gradient: FixtureTensor) => {
      const [counts] = apply({ kind: 'countTop', chosen: topk }, [scores], within)
      const settings = { by: (aux.coeff * experts) / (topk * tokens ** 2) / parts, shares: by === 'sigmoid' }
      close(apply({ kind: 'balanceLoss', ...settings }, [scores, counts], [])[0].values, [right], 'balance')
      const [dscores] = apply({ kind: 'balanceLossGrad', ...settings }, [scores, counts], scores.dims)
      close(toLogits(dscores).values, gradient.data, 'gradient of the balance')
      return counts
    }
    const counts = balance([candidate], batch.size * seq.size, 1, aux.microbatch, router.dlogits.aux)
    deepEqual(Array.from(counts.values), aux.counts)
    balance([batch, candidate], seq.size, batch.size, aux.sequence, router.dlogits.seq_aux)
    const zBy = router.z.coeff / (batch.size * seq.size)
    close(apply({ kind: 'zLoss', by: zBy }, [logits], [])[0].values, [router.z.value], 'z-loss')
    close(apply({ kind: 'zLossGrad', by: zBy }, [logits], logits.dims)[0].values, router.dlogits.z.data, 'its gradient')
  })

interface Permutation {
  readonly tokens: number
  readonly experts: number
  readonly topk: number
  readonly map: readonly (readonly number[])[]
  readonly order: readonly number[]
  readonly probs_in_order: readonly number[]
  readonly x: FixtureTensor
  readonly rows: FixtureTensor
  readonly weighted_back: FixtureTensor
}

/** The routes of choices, with room for all rows. */
function routesOf(choice: Tensor, experts: number): Tensor[] {
  const row = { name: 'row', size: elementsOf(choice.dims) }
  return apply({ kind: 'rowsOf', guarded: false }, [choice], choice.dims, [row], [{ name: 'expert', size: experts }])
}

for (const [i, given] of read<Permutation[]>('permutation').entries())
  test(`tokens become rows and come back as Megatron permutes them (${i})`, () => {
    const { tokens, experts, topk } = given
    const choice: Tensor = {
      dims: [
        { name: 'seq', size: tokens },
        { name: 'choice', size: topk },
      ],
      values: given.map.flat(),
    }
    const routes = routesOf(choice, experts)
    const [, from] = routes
    deepEqual(
      Array.from(from.values, at => Math.floor(at / topk)),
      given.order,
    )
    const x = tensor(given.x, 'seq')
    const rowDims = [{ name: 'row', size: tokens * topk }, x.dims[1]]
    const [rows] = apply({ kind: 'dispatch' }, [x, ...routes], rowDims)
    deepEqual(Array.from(rows.values), given.rows.data)
    const [weighted] = apply({ kind: 'mul' }, [rows, list('row', given.probs_in_order)], rowDims)
    close(apply({ kind: 'combine' }, [weighted, ...routes], x.dims)[0].values, given.weighted_back.data, 'back')
  })

interface Dropping {
  readonly logits: FixtureTensor
  readonly per_sequence: readonly {
    readonly megatron_probs: {
      readonly capacity: number
      readonly topk: number
      readonly kept: readonly (readonly number[])[]
    }
    readonly position_kept: readonly (readonly number[])[]
    readonly deepspeed: readonly {
      readonly gate: string
      readonly settings: { readonly k?: number; readonly drop_policy?: 'probs' | 'position' }
      readonly capacity: number
      readonly routes: readonly (readonly number[])[]
    }[]
  }[]
}

const dropping = read<Dropping>('dropping')
const orders = { probs: 'probability', position: 'token', top2: 'choice' } as const

/** Which expert each token of one sequence keeps, with its weight. */
function keptOf(
  sequence: number,
  topk: number,
  room: number,
  order: (typeof orders)[keyof typeof orders],
  normalise: boolean,
) {
  const all = tensor(dropping.logits)
  const [, seq, candidate] = all.dims
  const size = seq.size * candidate.size
  const logits = {
    dims: [seq, candidate],
    values: Array.from(all.values).slice(sequence * size, (sequence + 1) * size),
  }
  const [scores] = apply({ kind: 'scores', by: 'softmax' }, [logits], logits.dims)
  const perChoice = [seq, { name: 'choice', size: topk }]
  const [choice] = apply({ kind: 'topK' }, [scores], perChoice)
  const [kept] = apply({ kind: 'assign', room, tokens: seq.size, order }, [scores, choice], perChoice)
  const [weight] = apply({ kind: 'chosen', normalise, scale: 1 }, [scores, kept], perChoice)
  return Array.from(kept.values).flatMap((expert, i) =>
    expert < 0 ? [] : [[Math.floor(i / topk), expert, weight.values[i]]],
  )
}

const byToken = (a: readonly number[], b: readonly number[]) => a[0] - b[0] || a[1] - b[1]

for (const [sequence, { megatron_probs: probs, position_kept: first, deepspeed }] of dropping.per_sequence.entries())
  test(`sequence ${sequence} keeps the choices that others keep for which there is room`, () => {
    const sameRoutes = (got: number[][], right: readonly (readonly number[])[], weights: boolean) => {
      const sorted = [...right].sort(byToken)
      deepEqual(
        got.sort(byToken).map(route => route.slice(0, 2)),
        sorted.map(route => route.slice(0, 2)),
      )
      if (weights)
        close(
          got.map(route => route[2]),
          sorted.map(route => route.at(-1)!),
          'weights',
        )
    }
    sameRoutes(keptOf(sequence, probs.topk, probs.capacity, 'probability', false), probs.kept, true)
    sameRoutes(keptOf(sequence, probs.topk, probs.capacity, 'token', false), first, false)
    for (const { gate, settings, capacity, routes } of deepspeed) {
      const order = orders[gate === 'top2gating' ? 'top2' : settings.drop_policy!]
      sameRoutes(keptOf(sequence, settings.k ?? 2, capacity, order, true), routes, true)
    }
  })

test('a bias follows the load as Megatron’s does, and stays where all are equal', () => {
  interface Update {
    readonly rate: number
    readonly steps: readonly {
      readonly tokens_per_expert: readonly number[]
      readonly bias: readonly number[]
      readonly megatron: readonly number[]
    }[]
  }
  for (const { rate, steps } of read<Update[]>('bias_update'))
    for (const { tokens_per_expert: counts, bias, megatron } of steps) {
      const mean = counts.reduce((a, b) => a + b, 0) / counts.length
      const operands = [list('candidate', counts), { dims: [], values: [1] }]
      const [moved] = runOp({ kind: 'balance', rate, mean }, operands, [list('candidate', bias)])
      close(moved, megatron, 'bias')
    }
})

interface Layer {
  readonly model: string
  readonly config: Readonly<Record<string, unknown>>
  readonly params: Readonly<Record<string, { readonly value: FixtureTensor; readonly grad: FixtureTensor }>>
  readonly buffers: Readonly<Record<string, readonly number[]>>
  readonly x: FixtureTensor
  readonly dout: FixtureTensor
  readonly indices: FixtureTensor
  readonly weights: FixtureTensor
  readonly out: FixtureTensor
  readonly dx: FixtureTensor
}

const contract: Op = { kind: 'contract' }

/** A gated feed-forward of every token, and its gradients. */
function sharedExpert(layer: Layer, x: Tensor, dout: Tensor, prefix: string) {
  const names = { gate: ['sharedFfn', 'embed'], up: ['sharedFfn', 'embed'], down: ['embed', 'sharedFfn'] } as const
  const w = (name: keyof typeof names) => tensor(layer.params[`${prefix}.${name}_proj.weight`].value, ...names[name])
  const inner = [x.dims[0], x.dims[1], w('gate').dims[0]]
  const [[gate], [up]] = [apply(contract, [x, w('gate')], inner), apply(contract, [x, w('up')], inner)]
  const [hidden] = apply({ kind: 'swiglu' }, [gate, up], inner)
  const [down] = apply(contract, [hidden, w('down')], x.dims)
  const open = layer.params[`${prefix}_gate.weight`]
  const vector = open && { dims: [x.dims[2]], values: open.value.data }
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
function halves({ dims, data }: FixtureTensor): Tensor[] {
  const [[, experts], [, both], [, embed]] = dims
  const size = (both / 2) * embed
  const part = (half: number) =>
    Array.from({ length: experts }, (_, e) => data.slice((2 * e + half) * size, (2 * e + half + 1) * size)).flat()
  const shape = [
    { name: 'expert', size: experts },
    { name: 'expertFfn', size: both / 2 },
    { name: 'embed', size: embed },
  ]
  return [0, 1].map(half => ({ dims: shape, values: part(half) }))
}

for (const name of ['mixtral', 'qwen3_moe', 'deepseek_v3', 'qwen2_moe_gated_shared'])
  test(`a layer of ${name} and all its gradients are those of transformers`, () => {
    const layer = read<Layer>(`layer_${name}`)
    const { config, params } = layer
    const [x, dout] = [tensor(layer.x), tensor(layer.dout)]
    const router = tensor(params['gate.weight'].value, 'candidate', 'embed')
    const [batch, seq] = x.dims
    const by = name === 'deepseek_v3' ? 'sigmoid' : 'softmax'
    const perToken = [batch, seq, router.dims[0]]
    const perChoice = [batch, seq, { name: 'choice', size: Number(config.num_experts_per_tok) }]
    const [logits] = apply(contract, [x, router], perToken)
    const [scores] = apply({ kind: 'scores', by }, [logits], perToken)
    const bias = layer.buffers['gate.e_score_correction_bias']
    const [groups, chosenGroups] = [Number(config.n_group), Number(config.topk_group)]
    const limits = name === 'deepseek_v3' && groups > 1 ? { groups: { groups, chosenGroups } } : {}
    const [choice] = apply({ kind: 'topK', ...limits }, [scores, ...(bias ? [list('candidate', bias)] : [])], perChoice)
    const weighing = { normalise: config.norm_topk_prob !== false, scale: Number(config.routed_scaling_factor ?? 1) }
    const [weight] = apply({ kind: 'chosen', ...weighing }, [scores, choice], perChoice)
    const sorted = (indices: ArrayLike<number>) =>
      Array.from({ length: indices.length / perChoice[2].size }, (_, t) =>
        Array.from(indices)
          .slice(t * perChoice[2].size, (t + 1) * perChoice[2].size)
          .sort((a, b) => a - b),
      )
    deepEqual(sorted(choice.values), sorted(layer.indices.data))

    const routes = routesOf(choice, router.dims[0].size)
    const counts = routes[2]
    const row = { name: 'row', size: elementsOf(perChoice) }
    const [gateW, upW] = halves(params['experts.gate_up_proj'].value)
    const downW = tensor(params['experts.down_proj'].value, 'expert', 'embed', 'expertFfn')
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
    const shared = name === 'deepseek_v3' ? 'shared_experts' : name.startsWith('qwen2') ? 'shared_expert' : undefined
    const beside = shared ? sharedExpert(layer, x, dout, shared) : undefined
    close((beside ? sum(routed, beside.out) : routed).values, layer.out.data, 'out')

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
    close(dx.values, layer.dx.data, 'dx')
    const ofWeights = (a: Tensor, b: Tensor, w: Tensor) =>
      apply({ kind: 'expertWeightGrad' }, [a, b, counts], w.dims)[0]
    const [gateGrad, upGrad] = halves(params['experts.gate_up_proj'].grad)
    close(ofWeights(rows, dgate, gateW).values, gateGrad.values, 'gate')
    close(ofWeights(rows, dup, upW).values, upGrad.values, 'up')
    close(ofWeights(hidden, dback, downW).values, params['experts.down_proj'].grad.data, 'down')
    close(apply(contract, [dlogits, x], router.dims)[0].values, params['gate.weight'].grad.data, 'router')
    for (const [param, gradient] of Object.entries(beside?.grads ?? {}))
      close(gradient.values, params[param].grad.data, param)
  })

interface Folding {
  readonly tp: number
  readonly cp: number
  readonly dp: number
  readonly ep: number
  readonly etp: number
  readonly common_factors_fastest_first: readonly (readonly [number, string, string])[] | null
}

for (const given of read<Folding[]>('rank_groups_folding')) {
  const { tp, cp, dp, ep, etp, common_factors_fastest_first: expected } = given
  test(`the grids tp ${tp} cp ${cp} dp ${dp} and etp ${etp} ep ${ep} have ${expected ? 'these' : 'no'} common factors`, () => {
    const dense = Object.entries({ tp, cp, dp }).map(([name, size]) => ({ name, size }))
    const found = commonFactors(dense, expertGrid({ tp, cp, dp, ep, etp }))
    deepEqual(found?.map(({ size, dense: axis, expert }) => [size, axis, expert]) ?? null, expected)
  })
}
