/**
 * Experts against what others compute: routers, permutations, biases and folded grids, made by running Megatron-LM in f64
 * (test/fixtures/README.md). Floats to 1e-12, indices and counts exactly.
 */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Dim } from '../src/base/index.js'
import { commonFactors, expertGrid } from '../src/plan/index.js'
import { list, read, routesOf, tensor } from './experts-fixtures.js'
import { close, type FixtureTensor } from './fixtures.js'
import { apply } from './op-cases.js'
import { runOp, type Tensor } from './tiny.js'

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
    readonly indices_differ_from_routing: boolean
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
    const [theirs, ours] = ['batch seq expert', 'batch seq candidate']
    const logits = tensor(router.logits, theirs, ours)
    const chosen = (of: FixtureTensor) => tensor(of, 'batch seq choice')
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
    deepEqual(Array.from(choice.values), chosen(router.indices).values)
    const normalise = by === 'sigmoid' ? topk > 1 : settings.use_pre_softmax === false
    const weighing = { normalise, scale: settings.scaling_factor ?? 1 }
    close(
      apply({ kind: 'chosen', ...weighing }, [scores, choice], perChoice)[0].values,
      chosen(router.probs).values,
      'weights',
    )
    const candidate = { name: 'candidate', size: experts }
    deepEqual(Array.from(apply({ kind: 'countChoices' }, [choice], [candidate])[0].values), router.tokens_per_expert)

    const toLogits = (dscores: Tensor) => apply({ kind: 'scoresGrad', by }, [dscores, scores], logits.dims)[0]
    const [dchosen] = apply({ kind: 'chosenGrad', ...weighing }, [chosen(router.dprobs), scores, choice], scores.dims)
    close(toLogits(dchosen).values, tensor(router.dlogits.probs, theirs).values, 'gradient of the weights')

    const balance = (within: Dim[], tokens: number, parts: number, right: number, gradient: FixtureTensor) => {
      const [counts] = apply({ kind: 'countTop', chosen: topk }, [scores], within)
      const settings = { by: (aux.coeff * experts) / (topk * tokens ** 2) / parts, shares: by === 'sigmoid' }
      close(apply({ kind: 'balanceLoss', ...settings }, [scores, counts], [])[0].values, [right], 'balance')
      const [dscores] = apply({ kind: 'balanceLossGrad', ...settings }, [scores, counts], scores.dims)
      close(toLogits(dscores).values, tensor(gradient, theirs).values, 'gradient of the balance')
      return counts
    }
    const counts = balance([candidate], batch.size * seq.size, 1, aux.microbatch, router.dlogits.aux)
    deepEqual(Array.from(counts.values), aux.counts)
    const [plain] = apply({ kind: 'topK' }, [scores], perChoice)
    equal(isSameChoice(plain, choice), !aux.indices_differ_from_routing)
    balance([batch, candidate], seq.size, batch.size, aux.sequence, router.dlogits.seq_aux)
    const zBy = router.z.coeff / (batch.size * seq.size)
    close(apply({ kind: 'zLoss', by: zBy }, [logits], [])[0].values, [router.z.value], 'z-loss')
    close(
      apply({ kind: 'zLossGrad', by: zBy }, [logits], logits.dims)[0].values,
      tensor(router.dlogits.z, theirs).values,
      'its gradient',
    )
  })

/** Whether every token goes to the same experts, in whichever order. */
function isSameChoice(a: Tensor, b: Tensor): boolean {
  const width = a.dims[2].size
  const sets = [a, b].map(({ values }) =>
    Array.from({ length: values.length / width }, (_, t) =>
      Array.from(values)
        .slice(t * width, (t + 1) * width)
        .sort((x, y) => x - y)
        .join(),
    ).join(';'),
  )
  return sets[0] === sets[1]
}

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
  /** Ranks that hold the tokens in order, and the experts in order. */
  readonly ep: readonly {
    readonly size: number
    readonly ranks: readonly Readonly<Record<'sends' | 'receives' | 'rows_per_local_expert', readonly number[]>>[]
  }[]
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
    const x = tensor(given.x, 'token embed', 'seq embed')
    const rowDims = [{ name: 'row', size: tokens * topk }, x.dims[1]]
    const [rows] = apply({ kind: 'dispatch' }, [x, ...routes], rowDims)
    deepEqual(Array.from(rows.values), tensor(given.rows, 'row embed').values)
    const [weighted] = apply({ kind: 'mul' }, [rows, list('row', given.probs_in_order)], rowDims)
    close(
      apply({ kind: 'combine' }, [weighted, ...routes], x.dims)[0].values,
      tensor(given.weighted_back, 'token embed').values,
      'back',
    )
  })

for (const [i, { tokens, experts, topk, map, ep }] of read<Permutation[]>('permutation').entries())
  for (const { size, ranks } of ep)
    test(`${size} ranks send and receive as many rows as Megatron's (${i})`, () => {
      const counts = ranks.map((_, rank) => {
        const own = map.slice((rank * tokens) / size, ((rank + 1) * tokens) / size).flat()
        const dims = [
          { name: 'seq', size: tokens / size },
          { name: 'choice', size: topk },
        ]
        return Array.from(routesOf({ dims, values: own }, experts)[2].values)
      })
      const total = (values: readonly number[]) => values.reduce((a, b) => a + b)
      const heldBy = (rank: number, of: readonly number[]) =>
        of.slice((rank * experts) / size, ((rank + 1) * experts) / size)
      const sends = counts.map(own => ranks.map((_, to) => total(heldBy(to, own))))
      deepEqual(
        ranks.map((_, rank) => ({
          sends: sends[rank],
          receives: sends.map(to => to[rank]),
          rows_per_local_expert: heldBy(
            rank,
            Array.from({ length: experts }, (_, expert) => total(counts.map(own => own[expert]))),
          ),
        })),
        ranks,
      )
    })

test('a bias follows the load as Megatron’s does, and stays where all are equal', () => {
  interface Update {
    readonly rate: number
    readonly experts: number
    readonly steps: readonly {
      readonly tokens_per_expert: readonly number[]
      readonly bias: readonly number[]
      readonly megatron: readonly number[]
      readonly torchtitan_centred: readonly number[]
    }[]
  }
  for (const { rate, experts, steps } of read<Update[]>('bias_update'))
    for (const { tokens_per_expert: counts, bias, megatron, torchtitan_centred } of steps) {
      equal(counts.length, experts)
      const mean = counts.reduce((a, b) => a + b, 0) / counts.length
      const operands = [list('candidate', counts), { dims: [], values: [1] }]
      const [moved] = runOp({ kind: 'balance', rate, mean }, operands, [list('candidate', bias)])
      close(moved, megatron, 'bias')
      const change = Array.from(moved, (value, i) => value - bias[i]).reduce((a, b) => a + b) / counts.length
      close(
        Array.from(moved, value => value - change),
        torchtitan_centred,
        'bias less the mean of the change',
      )
    }
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
