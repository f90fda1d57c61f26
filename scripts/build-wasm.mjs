// Compiles kernels/*.c to WebAssembly with clang 19, once with relaxed SIMD (it has a multiply-add) and once without.
// The files are kept in git, so that nobody needs clang to run them.
// Usage: node scripts/build-wasm.mjs [folder to write to]
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { flagsOf, listFlag, variants } from '../kernels/variants.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, 'kernels')
const to = resolve(process.argv[2] ?? folder)
const compiler = process.env.CLANG ?? 'clang-19'
const sources = readdirSync(folder)
  .filter(name => name.endsWith('.c') && !['addon.c', 'variant.c'].includes(name))
  .sort()
const chosen = variants.filter(({ targets }) => targets.includes('wasm'))

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

const compile = args =>
  execFileSync(compiler, [...target, ...features, ...args], {
    cwd: folder, // so that no path of this machine gets into the file
    stdio: ['ignore', 'inherit', 'inherit'],
  })

const scratch = mkdtempSync(join(tmpdir(), 'lockstep-wasm-'))
try {
  for (const [file, more] of [
    ['lockstep.wasm', []],
    ['lockstep-relaxed.wasm', ['-mrelaxed-simd']],
  ]) {
    const objects = chosen.map(variant => {
      const object = join(scratch, `${variant.name}.o`)
      compile([...more, ...flagsOf(variant), '-c', 'variant.c', '-o', object])
      return object
    })
    compile([...more, ...link, listFlag(chosen), ...sources, ...objects, '-o', join(to, file)])
  }
} finally {
  rmSync(scratch, { recursive: true })
}
