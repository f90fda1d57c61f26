/**
 * Every variant of matmul's register tile, and every target that kernels can be built for, computes what the reference
 * says: those of this machine's builds through all commands that multiply, the rest, which this CPU would never be given, in
 * a small program (kernels/products.c), arm64 under an emulator where there is one.
 */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  chosenFor,
  type Kernels,
  loadKernels,
  loadWasm,
  nativeKernels,
  nativeMissing,
  tuningFor,
} from '../src/engine/native/index.js'
import { probed } from '../src/engine/native/kernels/probe.js'
import { type Addon, platform } from '../src/platform/index.js'
import { later, test } from './families.js'
import { KernelBench, worstPart } from './kernel-bench.js'
import { type ComputeCommand, computeCommands, kernelCase } from './kernel-cases.js'

/** Of kernels/variants.mjs. */
interface Built {
  readonly name: string
  readonly bytes: number
  readonly targets: readonly string[]
}
const { variants, flagsOf, listFlag } = (await import(new URL('../../kernels/variants.mjs', import.meta.url).href)) as {
  readonly variants: readonly Built[]
  readonly flagsOf: (variant: Built) => string[]
  readonly listFlag: (chosen: readonly Built[]) => string
}

const missing = nativeMissing()
const loads: Readonly<Record<string, () => Kernels>> = {
  ...(missing ? {} : { native: () => loadKernels('vectors') }),
  WebAssembly: () => loadWasm('plain'),
  'WebAssembly with relaxed SIMD': () => loadWasm('relaxed'),
}

/** The commands that multiply matrices. */
const multiplying = computeCommands.filter(command => /matmul|attention(Grad)?$|expert/i.test(command))

function agrees(bench: KernelBench, commands: readonly ComputeCommand[], seeds: readonly number[]): void {
  for (const command of commands)
    for (const seed of seeds) {
      const given = kernelCase(command, seed)
      const worst = worstPart(given, bench.results(given))
      ok(worst <= 1, `${command}, seed ${seed}: off by ${worst} of the bound; ${JSON.stringify(given.words)}`)
    }
}

for (const [name, load] of Object.entries(loads)) {
  const kernels = load()
  const benchOf = (variant: string) => {
    const found = kernels.variants.find(({ name }) => name === variant)!
    return new KernelBench(kernels.tuned(tuningFor(kernels.kind, found)))
  }
  const results = (variant: string) => {
    const bench = benchOf(variant)
    return multiplying.flatMap(command => [1, 2, 3].map(seed => bench.results(kernelCase(command, seed))))
  }
  let known: ReturnType<typeof results> | undefined
  const first = () => {
    known ??= results(kernels.variants[0].name)
    return known
  }

  for (const { name: variant } of kernels.variants)
    test(`${name}, tile ${variant}: products agree with the reference, seeds 1 to 6`, () =>
      agrees(benchOf(variant), multiplying, [1, 2, 3, 4, 5, 6]))

  for (const { name: variant } of kernels.variants.slice(1))
    test(`${name}, tile ${variant}: the bits of tile ${kernels.variants[0].name}`, () =>
      deepEqual(results(variant), first()))
}

const folder = mkdtempSync(join(tmpdir(), 'lockstep-variants-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const runs = (command: string) => spawnSync(command, ['--version']).status === 0
const cc = process.env.CC ?? 'cc'
const compiler = runs(cc) ? false : 'no C compiler'
const root = fileURLToPath(new URL('../../', import.meta.url))

/** Compiles the program with these variants, in a hurry, and says what it prints. */
async function products(
  chosen: readonly Built[],
  compile: readonly string[],
  run: readonly string[],
  source = 'products',
): Promise<string> {
  const [command, ...flags] = [...compile, '-O1', '-std=gnu11', `-I${join(root, 'kernels')}`]
  const program = join(folder, `${source}-${run.length}`)
  const objects = await Promise.all(
    chosen.map(async variant => {
      const object = `${program}-${variant.name}.o`
      await promisify(execFile)(command, [...flags, ...flagsOf(variant), '-c', 'kernels/variant.c', '-o', object], {
        cwd: root,
      })
      return object
    }),
  )
  const sources = [
    'kernels/variants.c',
    'kernels/matmul.c',
    'kernels/numbers.c',
    'kernels/amx.c',
    'kernels/matvec.c',
    'kernels/sums.c',
    `test/kernels/${source}.c`,
  ]
  execFileSync(command, [...flags, listFlag(chosen), ...sources, ...objects, '-lm', '-o', program], { cwd: root })
  return execFileSync([...run, program][0], [...run, program].slice(1), { encoding: 'utf8' })
}

const wide = missing ? 16 : platform.loadNative().info().vector
const others = variants.filter(
  ({ name, bytes }) => bytes <= wide && (missing || loads.native().variants.every(built => built.name !== name)),
)

later(
  `variants for other CPUs multiply right: ${others.map(({ name }) => name).join(', ')}`,
  { skip: compiler },
  async () =>
    match(
      await products(others, [cc, ...(wide > 16 ? ['-march=native'] : [])], []),
      new RegExp(`^${others.length} variants`),
    ),
)

const widest = variants.filter(({ targets }) => targets.includes('avx512')).slice(0, 1)
later(
  'products on matrix tiles, emulated; one of six products is left of bf16',
  { skip: compiler || wide < 64 },
  async () => {
    const emulated = ['-march=native', '-include', join(root, 'test/kernels/tiles.h')]
    const said = await products(widest, [cc, ...emulated], [], 'tiles')
    const [f32, bf16, summed, f16] = said.split('\n').map(line => Number(line.split(': ')[1]))
    deepEqual([f32 / bf16, f32 / summed, f32 / f16], [6, 6, 1], said)
  },
)

const cross = 'aarch64-linux-gnu-gcc'
const emulated = runs(cross) && runs('qemu-aarch64') ? false : `no ${cross} or no qemu-aarch64`
const neon = variants.filter(({ targets }) => targets.includes('arm64'))
later('arm64: all of its variants multiply right, emulated', { skip: emulated }, async () =>
  match(await products(neon, [cross, '-static'], ['qemu-aarch64']), new RegExp(`^${neon.length} variants`)),
)

/** Kernels as they are built for a lesser CPU. */
function builtFor(march: string, more: string): Kernels {
  const hasty = join(folder, `cc-${march}`)
  writeFileSync(hasty, `#!/bin/sh\nexec ${cc} "$@" ${more}\n`, { mode: 0o755 })
  const to = join(root, 'dist/kernels', march)
  const env = { ...process.env, CC: hasty, LOCKSTEP_MARCH: march }
  execFileSync(process.execPath, [join(root, 'scripts/build-kernels.mjs'), '--strict', '--to', to], { env })
  return nativeKernels('vectors', createRequire(import.meta.url)(join(to, 'lockstep.node')) as Addon) // just built
}

const onX64 = process.arch === 'x64' && !compiler && wide > 16 ? false : 'no x64 with AVX2, or no C compiler'
for (const [march, target, more] of [
  ['x86-64-v3', 'x64 AVX2', '-O1'],
  ['x86-64', 'x64 SSE', '-O1'],
])
  later(`${target}: every kernel agrees with the reference, seed 1`, { skip: onX64 }, () => {
    const kernels = builtFor(march, more)
    match(kernels.description, new RegExp(`^native, ${target},`))
    for (const variant of kernels.variants)
      agrees(new KernelBench(kernels.tuned(tuningFor('vectors', variant))), multiplying, [1])
    agrees(new KernelBench(kernels), computeCommands, [1])
  })

test('a choice is one of the variants, and is found again', () => {
  for (const target of ['plain', ...(missing ? [] : (['native'] as const))] as const) {
    const { tuning } = chosenFor(target)
    const kernels = target === 'native' ? loadKernels('vectors') : loadWasm(target)
    ok(kernels.variants.some(({ name }) => name === tuning.variant))
    deepEqual(chosenFor(target).tuning, tuning)
    deepEqual(kernels.tuning, tuning)
  }
})

test('what was remembered for another machine, or is no choice, is measured again', () => {
  const kernels = loadWasm('plain', tuningFor('wasm', { name: '4x8', rows: 4, columns: 8 }))
  const [name, few] = ['tuning-test', { ...kernels, variants: kernels.variants.slice(0, 2) }]
  const path = join(root, 'dist/kernels', `${name}.json`)
  try {
    platform.remember(name, '{ "machine": "a", "chosen": { "variant": 3 } }')
    const found = probed(few, name, 'a')
    equal(found.machine, 'a')
    deepEqual(
      found.races[0].map(({ tuning }) => tuning.variant),
      few.variants.map(({ name }) => name),
    )
    deepEqual(probed(few, name, 'a'), found)
    equal(probed(few, name, 'b').machine, 'b')
    deepEqual(JSON.parse(platform.recall(name)!).machine, 'b')
  } finally {
    rmSync(path, { force: true })
  }
})

test('LOCKSTEP_VARIANT forces a variant, and one that is not there is named', () => {
  const code = (variant: string) =>
    spawnSync(
      process.execPath,
      ['-e', `import('./dist/src/engine/native/index.js').then(e => console.log(e.loadWasm('plain').tuning.variant))`],
      { env: { ...process.env, LOCKSTEP_VARIANT: variant }, encoding: 'utf8' },
    )
  equal(code('none,4x16').stdout.trim(), '4x16')
  match(code('none').stderr, /there is no variant none, but 4x8, 4x16/)
})

test('a tuning of a variant that was not compiled is refused', () => {
  const kernels = loadWasm('plain')
  const tuning = { ...kernels.tuning, variant: '1x1' }
  throws(() => kernels.tuned(tuning).attach(kernels.memory(0)), /there is no variant 1x1/)
})
