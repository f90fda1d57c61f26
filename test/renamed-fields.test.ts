/** Aliases of job fields: each loads with a note that names today's field, and not beside it. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { Job, jobFields, parseJob } from 'lockstep'
import { parse as read } from 'yaml'
import { fieldAliases } from '../src/plan/renamed-fields.js'

const sizes = 'family: llama, layers: 2, embed: 16, heads: 2, ffn: 8, vocab: 32'
const latent = 'kvLoraRank: 8, qkRopeHeadDim: 2, qkNopeHeadDim: 4, vHeadDim: 4, qLoraRank: 8'
const moe =
  'experts: 4, topK: 2, groups: 2, topKGroups: 2, normalize: false, capacity: { factor: 2, renormalize: true }'
const muon = 'kind: muon, lr: 1, adamw: { lr: 0.5 }'
const adafactor = 'kind: adafactor, lr: 1, eps1: 0.5, eps2: 0.25, clipThreshold: 2'
const now = `
model: { ${sizes}, mla: { ${latent} }, moe: { ${moe} } }
training: { seq: 8, globalBatch: 4, paramGroups: { norm: { lr: 2 } }, optimizer: { OPTIMIZER } }
data: { source: ids.bin, routing: a.jsonl, documents: { eod: 3, eodMaskLoss: true } }
plan: { expertCapacity: 4, rankOrder: dp-tp-pp, chunks: 1, offload: { activations: layer-inputs, layerInputs: disk } }
`

/** How each is written under its alias, with the words around it where they tell it from others. */
const written: Readonly<Record<string, readonly [today: string, alias: string, said?: string]>> = {
  'model.hidden': ['embed: 16', 'hidden: 16'],
  'model.hiddenSize': ['embed: 16', 'hiddenSize: 16'],
  'model.mla.plainDim': ['qkNopeHeadDim: 4', 'plainDim: 4', '`mla.plainDim` is now `mla.qkNopeHeadDim`'],
  'model.mla.ropeDim': ['qkRopeHeadDim: 2', 'ropeDim: 2', '`mla.ropeDim` is now `mla.qkRopeHeadDim`'],
  'model.mla.valueDim': ['vHeadDim: 4', 'valueDim: 4', '`mla.valueDim` is now `mla.vHeadDim`'],
  'model.mla.keyValueRank': ['kvLoraRank: 8', 'keyValueRank: 8', '`mla.keyValueRank` is now `mla.kvLoraRank`'],
  'model.mla.queryRank': ['qLoraRank: 8', 'queryRank: 8', '`mla.queryRank` is now `mla.qLoraRank`'],
  'model.moe.chosen': ['topK: 2', 'chosen: 2', '`moe.chosen` is now `moe.topK`'],
  'model.moe.chosenGroups': ['topKGroups: 2', 'chosenGroups: 2', '`moe.chosenGroups` is now `moe.topKGroups`'],
  'model.moe.normalise': ['normalize: false', 'normalise: false', '`moe.normalise` is now `moe.normalize`'],
  'model.moe.capacity.renormalise': [
    ...(['renormalize: true', 'renormalise: true'] as const),
    '`moe.capacity.renormalise` is now `moe.capacity.renormalize`',
  ],
  'training.roles': ['paramGroups: {', 'roles: {', '`training.roles` is now `training.paramGroups`'],
  'training.optimizer.rest': ['adamw: {', 'rest: {', '`training.optimizer.rest` is now `training.optimizer.adamw`'],
  'training.optimizer.eps': ['eps1: 0.5', 'eps: 0.5', '`training.optimizer.eps` is now `training.optimizer.eps1`'],
  'training.optimizer.least': [
    ...(['eps2: 0.25', 'least: 0.25'] as const),
    '`training.optimizer.least` is now `training.optimizer.eps2`',
  ],
  'training.optimizer.most': [
    ...(['clipThreshold: 2', 'most: 2'] as const),
    '`training.optimizer.most` is now `training.optimizer.clipThreshold`',
  ],
  'data.choices': ['routing: a.jsonl', 'choices: a.jsonl', '`data.choices` is now `data.routing`'],
  'data.documents.separator': ['eod: 3', 'separator: 3', '`data.documents.separator` is now `data.documents.eod`'],
  'data.documents.labels': [
    ...(['eodMaskLoss: true', 'labels: within'] as const),
    '`data.documents.labels: within` is now `data.documents.eodMaskLoss: true`',
  ],
  'plan.rows': ['expertCapacity: 4', 'rows: 4', '`plan.rows` is now `plan.expertCapacity`'],
  'plan.order': ['rankOrder: dp-tp-pp', 'order: dp-tp-pp', '`plan.order` is now `plan.rankOrder`'],
  'plan.virtualStages': ['chunks: 1', 'virtualStages: 1'],
  'plan.offload.activations': [
    ...(['activations: layer-inputs', 'activations: boundaries'] as const),
    '`plan.offload.activations: boundaries` is now `plan.offload.activations: layer-inputs`',
  ],
  'plan.offload.boundaries': [
    'layerInputs: disk',
    'boundaries: disk',
    '`plan.offload.boundaries` is now `plan.offload.layerInputs`',
  ],
}

const jobWith = (from: string) => now.replace('OPTIMIZER', from === 'training.optimizer.rest' ? muon : adafactor)
/** Another problem than those of names, which these jobs have: where nothing is read, `parseJob` reads no data. */
const notes = (text: string) => parseJob(text).problems.filter(({ code }) => code === 'schema/renamed')

test('every alias is tried below, and none is offered', () => {
  deepEqual(Object.keys(written).sort(), fieldAliases.map(({ from }) => from).sort())
  const fields = jobFields().map(({ path }) => path.replaceAll(/\[.*?\]/g, ''))
  const offered = fieldAliases.filter(
    ({ from, to, kind }) => from !== to && kind === undefined && fields.includes(from),
  )
  deepEqual(offered, [])
})

for (const [from, [today, alias, said]] of Object.entries(written)) {
  const text = jobWith(from)
  const old = text.replace(today, alias)

  test(`${from} is read as today's field${said ? ', with a note' : ''}`, () => {
    ok(old !== text, today)
    const [before, after] = [old, text].map(written => parseJob(written))
    ok(after.job, after.problems.map(({ message }) => message).join('\n'))
    deepEqual(before.job, after.job)
    deepEqual(
      notes(old).map(({ severity, path, message, line }) => [severity, path, message, line]),
      said ? [['warning', from, said, 1 + old.slice(0, old.indexOf(alias)).split('\n').length - 1]] : [],
    )
    deepEqual(notes(text), [])
    deepEqual(before.stated, after.stated, 'what the file states is stated under the names of today')
    const plainly = read(old)
    deepEqual(Job.parse(plainly), after.job, 'Job.parse takes it as well')
  })

  if (from === 'plan.offload.activations') continue // the same field
  test(`${from} beside today's field is an error that names both`, () => {
    const both = old.replace(alias, alias.endsWith('{') ? `${today} }, ${alias}` : `${today}, ${alias}`)
    const [refused, ...others] = notes(both)
    deepEqual([refused?.severity, refused?.path, others], ['error', from, []])
    const to = fieldAliases.find(one => one.from === from)?.to ?? ''
    for (const name of [from, to])
      match(refused?.message ?? '', new RegExp(name.replace('model.', '').split('.').join('\\.')))
    equal(parseJob(both).job, undefined)
    match(Job.safeParse(read(both)).error?.issues[0]?.message ?? '', /are the same field, and both are set/)
  })
}

test('a wrong value stands where it is written, under the name of today', () => {
  const [problem] = parseJob(jobWith('').replace('expertCapacity: 4', 'rows: few')).problems.filter(
    ({ severity }) => severity === 'error',
  )
  equal(problem?.path, 'plan.expertCapacity')
  deepEqual([problem?.line, problem?.column], [5, 15])
})

test('a value of another kind than a name has is left to the schema', () => {
  const of = (text: string) => parseJob(text).problems.map(({ code, path }) => `${code} ${path}`)
  deepEqual(
    of('model: [1]\ntraining: { seq: 8, globalBatch: 4 }\nplan: { offload: 3 }').includes('schema/type plan.offload'),
    true,
  )
  deepEqual(
    of(jobWith('').replace('layer-inputs', '[1]')).filter(one => /renamed/.test(one)),
    [],
  )
})

test('eps is a field of the other optimizers', () => {
  const text = jobWith('').replace(adafactor, 'kind: adamw, lr: 1, eps: 0.5')
  deepEqual(notes(text), [])
})
