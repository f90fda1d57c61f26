/** Configurations of other frameworks: files of our own, each with what must become of it. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Given, type Imported, importConfig, importReport, readTree } from '../src/interop/index.js'
import { detect } from '../src/plan/index.js'

const read = (text: string, given: Given = {}): Imported => importConfig(text, given)
const field = (imported: Imported, path: string): unknown =>
  path.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], imported.job)

/** 'kind path' of the notes of some kinds. */
const notes = ({ notes }: Imported, ...kinds: readonly string[]): string[] =>
  notes.filter(({ kind }) => kinds.includes(kind)).map(({ kind, path }) => `${kind} ${path}`)

const picotron = `{ "distributed": { "tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2, "pp_engine": "afab" },
  "model": { "name": "a/b", "num_hidden_layers": 4 },
  "training": { "seq_length": 64, "micro_batch_size": 2, "gradient_accumulation_steps": 4, "learning_rate": 3e-4 },
  "colour": "red" }`

test('what a file is, by what stands in it', () => {
  const kinds: readonly (readonly [string, string])[] = [
    [picotron, 'picotron json'],
    ['{ "zero_optimization": { "stage": 2 } }', 'deepspeed json'],
    ['distributed_type: FSDP\nnum_processes: 8', 'accelerate yaml'],
    ['[parallelism]\ntensor_parallel_degree = 2', 'torchtitan toml'],
    ['parallelism:\n  dp: 2\ntokens:\n  micro_batch_size: 1', 'nanotron yaml'],
    ['trainer:\n  devices: 8\nmodel:\n  tensor_model_parallel_size: 2', 'nemo yaml'],
    ['{ "pipe_parallel_size": 1, "model-parallel-size": 2 }', 'neox yaml'],
    ['MODEL_ARGS:\n  --num-layers: 2', 'megatron yaml'],
    ['#!/bin/bash\ntorchrun pretrain_gpt.py --micro-batch-size 1', 'megatron script'],
    ['------------------------ arguments ------------------------\n  lr ... 0.1', 'megatron log'],
    ['model: llama3-8b\ntraining: { seq: 8, globalBatch: 8 }\nplan: { dp: 2 }', 'undefined'],
  ]
  for (const [text, kind] of kinds) {
    const found = detect(text)
    equal(found ? `${found.framework} ${found.format}` : 'undefined', kind)
  }
})

test('every key ends in a note, and none is carried that nobody knows', () => {
  const imported = read(picotron)
  equal(imported.world, 8)
  deepEqual(field(imported, 'plan.schedule'), 'gpipe')
  deepEqual(field(imported, 'training.globalBatch'), 16)
  ok(notes(imported, 'notCarried').includes('notCarried colour'))
  match(importReport(imported), /colour \(line 4\): picotron does not read this key/)
  match(importReport(imported), /micro_batch_size 2 x gradient_accumulation_steps 4 x dp 2 = 16/)
})

test('values of the wrong kind are refused by key and line', () => {
  const { job, notes } = read(picotron.replace('"tp_size": 2', '"tp_size": "two"'))
  equal(job, undefined)
  deepEqual(
    notes.filter(({ kind }) => kind === 'refused').map(({ path, line }) => `${path} ${line}`),
    ['distributed.tp_size 1'],
  )
})

test('JSON as Hjson has it: comments, no commas, no quotes', () => {
  const { value, lineOf } = readTree('{ # one\n a: 1 // two\n "b": [1, 2,]\n c: some words\n /* d */ e: null }', 'json')
  deepEqual(JSON.parse(JSON.stringify(value)), { a: 1, b: [1, 2], c: 'some words', e: null })
  equal(lineOf('c'), 4)
})

test('TOML: tables, dotted keys, arrays over lines, strings', () => {
  const text = `a.b = 1_000 # c
[x.y]
list = [
  "p", # q
  'r',
]
t = { u = true, v.w = -1.5e3 }
[[z]]
k = """one \\
   two"""
[[z]]
k = inf`
  const { value, lineOf } = readTree(text, 'toml')
  const plain = JSON.stringify(value)
  equal(
    plain,
    '{"a":{"b":1000},"x":{"y":{"list":["p","r"],"t":{"u":true,"v":{"w":-1500}}}},"z":[{"k":"one two"},{"k":null}]}',
  )
  equal(lineOf('x.y.t.v.w'), 7)
})

test('texts that cannot be read are refused with their line', () => {
  for (const [text, notation, line] of [
    ['{ "a": 1\n "b": ', 'json', 2],
    ['[a]\nb = ', 'toml', 2],
    ['a: 1\nb: [', 'yaml', 2],
    ['['.repeat(5000), 'json', 1],
    [`a = ${'['.repeat(5000)}`, 'toml', 1],
    ['- '.repeat(5000), 'yaml', 1],
  ] as const) {
    const [first] = readTree(text, notation).refused
    equal(first.line, line, text.slice(0, 20))
  }
})
