/** The C kernels against the reference interpreter, as an addon and as WebAssembly. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import {
  CommandWriter,
  execErrors,
  type Kernels,
  loadKernels,
  loadWasm,
  nativeMissing,
  Status,
} from '../src/engine/native/index.js'
import { later, test } from './families.js'
import { KernelBench, worstPart } from './kernel-bench.js'
import { type ComputeCommand, computeCommands, kernelCase } from './kernel-cases.js'

interface Contender {
  readonly name: string
  readonly load: () => Kernels
  readonly skip?: string | undefined
}

const missing = nativeMissing()
const contenders: Contender[] = [
  { name: 'native', load: () => loadKernels('native'), skip: missing && `no native kernels: ${missing}` },
  {
    name: 'native without tiles',
    load: () => loadKernels('vectors'),
    skip: missing && `no native kernels: ${missing}`,
  },
  { name: 'WebAssembly', load: () => loadWasm('plain') },
  { name: 'WebAssembly with relaxed SIMD', load: () => loadWasm('relaxed') },
]

const seeds = Array.from({ length: 8 }, (_, i) => i + 1)

for (const { name, load, skip } of contenders) {
  let bench: KernelBench | undefined
  const benchOf = () => (bench ??= new KernelBench(load()))
  const options = skip ? { skip } : {}

  for (const command of computeCommands)
    test(`${name}: ${command} agrees with the reference, seeds 1 to ${seeds.length}`, options, () => {
      for (const seed of seeds) {
        const given = kernelCase(command, seed)
        const worst = worstPart(given, benchOf().results(given))
        ok(worst <= 1, `seed ${seed}: off by ${worst} of the bound ${given.bound}; ${JSON.stringify(given.words)}`)
      }
    })
}

/** In place where a result may lie over an operand: result word, operand word. */
const inPlace = {
  matmul: ['out', 'add'],
  add: ['out', 'a'],
  mul: ['out', 'a'],
  scale: ['out', 'x'],
  gelu: ['y', 'x'],
  geluGrad: ['dx', 'dy'],
  swiglu: ['y', 'gate'],
  swigluGrad: ['dgate', 'gate'],
  layerNorm: ['y', 'x'],
  layerNormInputGrad: ['dx', 'dy'],
  rmsNorm: ['y', 'x'],
  rmsNormInputGrad: ['dx', 'add'],
  rope: ['y', 'x'],
  dropout: ['y', 'x'],
  tokenLossGrad: ['dx', 'x'],
  squaredErrorGrad: ['dx', 'x'],
} as const satisfies Partial<Record<ComputeCommand, readonly [string, string]>>

for (const { name, load, skip } of contenders) {
  const options = skip ? { skip } : {}
  let made: KernelBench | undefined
  const benchOf = () => (made ??= new KernelBench(load()))

  test(`${name}: the same bits in place, seeds 1 to 3`, options, () => {
    for (const [command, [result, operand]] of Object.entries(inPlace) as [ComputeCommand, [string, string]][])
      for (const seed of [1, 2, 3]) {
        const given = kernelCase(command, seed)
        if (!(operand in given.ins)) continue
        const apart = benchOf().results(given)[result]
        const over = benchOf().results(given, { [result]: operand })[result]
        deepEqual(over, apart, `${command}, seed ${seed}`)
      }
  })

  test(`${name}: the same bits wherever the operands lie, seeds 1 to 3`, options, () => {
    for (const command of computeCommands)
      for (const seed of [1, 2, 3]) {
        const given = kernelCase(command, seed)
        const [here, there] = [0, 3].map(skew => benchOf().results(given, {}, skew))
        deepEqual(there, here, `${command}, seed ${seed}`)
      }
  })

  test(`${name}: NaN stays NaN, seeds 1 to 4`, options, () => {
    const last = {
      gelu: 'y',
      geluGrad: 'dx',
      swiglu: 'y',
      layerNorm: 'y',
      sumExp: 'out',
      maxColumns: 'out',
      attention: 'out',
      matmul: 'out',
    }
    for (const [command, result] of Object.entries(last) as [ComputeCommand, string][])
      for (const seed of [1, 2, 3, 4]) {
        const given = kernelCase(command, seed)
        const poisoned = Object.entries(given.ins).map(([word, { length }]) => [
          word,
          new Float32Array(length).fill(NaN),
        ])
        if (given.words.k === 0) continue // nothing is read
        const results = benchOf().results({ ...given, ins: Object.fromEntries(poisoned) })[result]
        ok(results.every(Number.isNaN), `${command}, seed ${seed}`)
      }
  })

  test(`${name}: memory is accounted by kind, live and peak`, options, () => {
    const bench = benchOf()
    bench.f64.fill(0, (bench.status + Status.live) / 8, (bench.status + Status.bytes) / 8)
    const writer = bench.writer()
    for (const [command, kind, bytes] of [
      ['alloc', 0, 100],
      ['alloc', 5, 40],
      ['free', 0, 60],
      ['alloc', 0, 50],
      ['free', 5, 40],
    ] as const)
      writer.put(command, { kind, bytes })
    equal(bench.run(writer), 0)
    const [at, end] = [(bench.status + Status.live) / 8, (bench.status + Status.bytes) / 8]
    const now = [...bench.f64.slice(at, (at + end) / 2)]
    const most = [...bench.f64.slice((at + end) / 2, end)]
    deepEqual(
      [now.slice(0, 6), most.slice(0, 6)],
      [
        [90, 0, 0, 0, 0, 0],
        [100, 0, 0, 0, 0, 40],
      ],
    )
    ok([...now.slice(6), ...most.slice(6)].every(bytes => bytes === 0)) // of other spaces
  })

  test(`${name}: spans go round a ring and name their command`, options, () => {
    const bench = benchOf()
    bench.clear()
    const spans = bench.place(2 * 3 * 3) + 4 // f64
    bench.i32[bench.status / 4 + Status.spans] = 0
    const writer = bench.writer({ spans, spanCapacity: 3 })
    for (let i = 0; i < 4; i++) writer.put('alloc', { kind: 1, bytes: 0 })
    equal(bench.run(writer), 0)
    const rows = [0, 1, 2].map(i => [...bench.f64.slice(spans / 8 + 3 * i, spans / 8 + 3 * i + 3)])
    deepEqual(
      rows.map(([command]) => command),
      [4, 2, 3],
    )
    for (const [, start, end] of rows) ok(start > 0 && end >= start && end - start < 1)
    equal(bench.i32[bench.status / 4 + Status.spans], 4)
  })

  test(`${name}: a list that fails says where`, options, () => {
    const bench = benchOf()
    bench.clear()
    const x = bench.put([1, 2, 3, 4])
    const writer = bench.writer({ workspaceBytes: 64 }).put('scale', { out: x, x, n: 4, by: 2 })
    const square = {
      bias: 0,
      add: 0,
      m: 2,
      n: 2,
      k: 2,
      transA: 0,
      transB: 0,
      batch: 1,
      strideA: 4,
      strideB: 4,
      strideOut: 4,
    }
    writer.put('matmul', { out: x, a: x, b: x, ...square }).put('scale', { out: x, x, n: 4, by: 2 })
    equal(execErrors[bench.run(writer) as 4], 'a kernel needs more workspace than was allocated')
    deepEqual([...bench.i32.slice(bench.status / 4, bench.status / 4 + 2)], [2, 4])
    deepEqual([...bench.read(x, 4)], [2, 4, 6, 8])
  })

  test(`${name}: products that share a packed operand have the bits of products that pack it`, options, () => {
    const bench = benchOf()
    const [m, n, k] = [40, 200, 500]
    const some = (count: number, by: number) =>
      Float32Array.from({ length: count }, (_, i) => ((i * by) % 97) / 97 - 0.5)
    const b = bench.put(some(k * n, 31))
    const lefts = [7, 11].map(by => bench.put(some(m * k, by)))
    const [panels, ...outs] = [k * (n + 64), m * n, m * n, m * n].map(count => bench.place(count))
    const sizes = { m, n, k, transA: 0, transB: 0, batch: 1, strideA: m * k, strideB: k * n, strideOut: m * n }
    const words = (a: number, out: number) => ({ out, a, b, bias: 0, add: 0, ...sizes })
    const writer = bench.writer().put('matmul', words(lefts[1], outs[0]))
    const others = { panels, sums: 0, adds: 0 }
    writer.put('matmulWith', { ...words(lefts[0], outs[1]), ...others, packs: 1 })
    writer.put('fill', { out: b, n: k * n, value: Number.NaN }) // nobody reads it any more
    writer.put('matmulWith', { ...words(lefts[1], outs[2]), ...others, packs: 0 })
    equal(bench.run(writer), 0)
    deepEqual(bench.read(outs[2], m * n), bench.read(outs[0], m * n))
  })

  test(`${name}: columns summed with a product have the bits of those summed by themselves`, options, () => {
    const bench = benchOf()
    const some = (count: number, by: number) =>
      Float32Array.from({ length: count }, (_, i) => ((i * by) % 997) / 97 - 5)
    for (const [m, n, k] of [
      [1, 70, 9],
      [9, 33, 50],
      [3, 4, 0],
      [40, 230, 901],
      [8, 2300, 37],
    ])
      for (const adds of [0, 1]) {
        const [a, b, before] = [k * m, k * n, n].map((size, i) => bench.put(some(size, 31 + i)))
        const after = bench.put(some(n, 33))
        const [sums, out] = [bench.place(n), bench.place(m * n)]
        const sizes = { m, n, k, transA: 1, transB: 0, batch: 1, strideA: m * k, strideB: k * n, strideOut: m * n }
        const others = { bias: 0, add: 0, panels: 0, packs: 0 }
        const writer = bench.writer().put('sumRows', { out: sums, x: b, rows: k, columns: n })
        if (adds) writer.put('accumulate', { out: before, x: sums, n })
        writer.put('matmulWith', { ...sizes, ...others, a, b, out, sums: after, adds })
        equal(bench.run(writer), 0)
        deepEqual(bench.read(after, n), bench.read(adds ? before : sums, n))
      }
  })

  test(`${name}: squares that others count come to 0, and to NaN where one is not finite`, options, () => {
    const bench = benchOf()
    for (const [given, sum] of [
      [3, 2],
      [Number.NaN, Number.NaN],
      [Number.POSITIVE_INFINITY, Number.NaN],
    ]) {
      const [x, out] = [bench.put(Float32Array.of(1, given, 1)), bench.put(Float32Array.of(2))]
      equal(bench.run(bench.writer().put('sumSquares', { out, x, n: 3, times: 0 })), 0)
      deepEqual([...bench.read(out, 1)], [sum])
    }
  })

  test(`${name}: workers attach to one memory`, options, async () => {
    const kernels = load()
    const memory = kernels.memory(2 ** 22)
    const at = Math.ceil(memory.start / 64) * 64
    const cells = new Float32Array(memory.buffer)
    const workers = [0, 1, 2].map(rank => {
      const [status, list, x] = [0, 4096, 8192].map(offset => at + rank * 65536 + offset)
      const n = 4000
      cells.fill(rank + 1, x / 4, x / 4 + n)
      const writer = new CommandWriter()
      for (let i = 0; i < 10; i++) writer.put('accumulate', { out: x, x, n })
      new Float64Array(memory.buffer).set(writer.list(), list / 8)
      const url = new URL('../src/engine/native/index.js', import.meta.url).href
      const code = `const { workerData: { url, memory, kind, flavour, list, status }, parentPort } = require('node:worker_threads')
        import(url).then(({ loadKernels, loadWasm }) => {
          const kernels = kind === 'wasm' ? loadWasm(flavour) : loadKernels(kind)
          parentPort.postMessage(kernels.attach(memory)(list, status))
        })`
      const flavour = name.includes('relaxed') ? 'relaxed' : 'plain'
      const workerData = { url, memory, kind: kernels.kind, flavour, list, status }
      const worker = new Worker(code, { eval: true, workerData })
      return once(worker, 'message').then(([error]) => [error, cells[x / 4], cells[x / 4 + n - 1]])
    })
    deepEqual(await Promise.all(workers), [
      [0, 1024, 1024],
      [0, 2048, 2048],
      [0, 3072, 3072],
    ])
  })
}

test(
  'native: offsets beyond 2 GiB',
  missing ? { skip: missing } : freemem() < 2 ** 32 ? { skip: 'too little memory' } : {},
  () => {
    const kernels = loadKernels('native')
    const memory = kernels.memory(2 ** 31 + 2 ** 20)
    const x = 2 ** 31 + 4096
    const cells = new Float32Array(memory.buffer, x, 3).fill(3)
    new Float64Array(memory.buffer, 4096).set(new CommandWriter().put('scale', { out: x, x, n: 3, by: 2 }).list())
    equal(kernels.attach(memory)(4096, 1024), 0)
    deepEqual([...cells], [6, 6, 6])
  },
)

const clang = spawnSync(process.env.CLANG ?? 'clang-19', ['--version']).status === 0

later('WebAssembly built here from source agrees too, seed 1', clang ? {} : { skip: 'no clang-19' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-wasm-'))
  try {
    const script = fileURLToPath(new URL('../../scripts/build-wasm.mjs', import.meta.url))
    execFileSync(process.execPath, [script, folder])
    for (const flavour of ['plain', 'relaxed'] as const) {
      const file = join(folder, flavour === 'plain' ? 'lockstep.wasm' : 'lockstep-relaxed.wasm')
      const bench = new KernelBench(loadWasm(flavour, undefined, () => file))
      for (const command of computeCommands) {
        const given = kernelCase(command, 1)
        ok(worstPart(given, bench.results(given)) <= 1, `${flavour}: ${command}`)
      }
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
