/** The C kernels against the reference interpreter, as an addon and as WebAssembly. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Kernels, loadKernels, loadWasm, nativeMissing } from '../src/engine/native/index.js'
import { KernelBench, worstPart } from './kernel-bench.js'
import { computeCommands, kernelCase } from './kernel-cases.js'

interface Contender {
  readonly name: string
  readonly load: () => Kernels
  readonly skip?: string | undefined
}

const missing = nativeMissing()
const contenders: Contender[] = [
  { name: 'native', load: () => loadKernels('native'), skip: missing && `no native kernels: ${missing}` },
  { name: 'WebAssembly', load: () => loadWasm('plain') },
  { name: 'WebAssembly with relaxed SIMD', load: () => loadWasm('relaxed') },
]

const seeds = Array.from({ length: 12 }, (_, i) => i + 1)

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
