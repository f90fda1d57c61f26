// Compiles kernels/*.c to WebAssembly with clang 19, once with relaxed SIMD (it has a multiply-add) and once without.
// The files are kept in git, so that nobody needs clang to run them.
// Usage: node scripts/build-wasm.mjs [folder to write to]
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, 'kernels')
const to = resolve(process.argv[2] ?? folder)
const compiler = process.env.CLANG ?? 'clang-19'
const sources = readdirSync(folder)
  .filter(name => name.endsWith('.c') && name !== 'addon.c')
  .sort()

const target = ['--target=wasm32', '-nostdlib', '-O3', '-std=gnu11', '-fno-math-errno', '-fno-trapping-math']
const features = ['-matomics', '-mbulk-memory', '-msimd128']
const link = [
  '--no-entry',
  '--import-memory',
  '--shared-memory',
  `--max-memory=${2 ** 32}`,
  '--stack-first',
  '--export=__stack_pointer',
  '--export=__heap_base',
  '--strip-all',
].map(option => `-Wl,${option}`)

for (const [file, more] of [
  ['lockstep.wasm', []],
  ['lockstep-relaxed.wasm', ['-mrelaxed-simd']],
])
  execFileSync(compiler, [...target, ...features, ...more, ...link, ...sources, '-o', join(to, file)], {
    cwd: folder, // so that no path of this machine gets into the file
    stdio: ['ignore', 'inherit', 'inherit'],
  })
