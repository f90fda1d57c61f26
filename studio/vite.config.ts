/**
 * Builds the studio into dist/studio/page: one page that any web host can serve, from any folder. The core comes as `tsc -b` left it in
 * dist/src, so the page runs the very modules that the tests ran.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import temml from 'temml'
import { defineConfig, type Plugin } from 'vite'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** tex`…` becomes MathML while the page is built, so that no reader loads a typesetter. */
const formulas: Plugin = {
  name: 'formulas',
  enforce: 'pre',
  transform(code, id) {
    if (!/\/studio\/.*\.tsx?$/.test(id) || !code.includes('tex`')) return
    return code.replace(/\btex`([^`]*)`/g, (_, source: string) =>
      JSON.stringify(temml.renderToString(source, { throwOnError: true, trust: true })),
    )
  },
}

/** The engine starts its ranks from a file beside it; in a bundle that file is a bundle of its own. */
const rankWorkers: Plugin = {
  name: 'rank-workers',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('/engine/native/run/pool.js')) return
    const place = "new URL('./worker.js', import.meta.url)"
    if (!code.includes(place)) throw new Error('the engine starts its ranks in another way: rank-workers must learn it')
    return `import rankWorker from './worker.js?worker&url'\n${code.replace(place, 'new URL(rankWorker, self.location.href)')}`
  },
}

/** What is Node's of the platform is never loaded by a page. */
const noNode: Plugin = {
  name: 'no-node',
  enforce: 'pre',
  load(id) {
    if (id.endsWith('/dist/src/platform/node.js')) return 'export const nodePlatform = undefined'
  },
}

/** The service worker keeps one build: it is told all that was written, and is another where any of it is. */
const offline: Plugin = {
  name: 'offline',
  writeBundle: {
    order: 'post',
    sequential: true,
    handler({ dir = '' }) {
      const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(path =>
        statSync(join(dir, path)).isFile(),
      )
      const files = paths.map(path => path.replaceAll('\\', '/')).sort()
      const hash = createHash('sha256')
      for (const file of files) hash.update(file).update(readFileSync(join(dir, file)))
      const build = {
        name: hash.digest('hex').slice(0, 16),
        files: ['./', ...files.filter(file => !file.startsWith('_'))],
      }
      writeFileSync(
        join(dir, 'sw.js'),
        `const build = ${JSON.stringify(build)}\n${readFileSync(at('./sw.js'), 'utf8')}`,
      )
    },
  },
}

/**
 * Files of the core as workers load them: by layers, the lowest first, so that a question waits for ten files and not for forty, found one
 * behind the other. `shared`: what fewer of the modules in work/ need stays with those that need it.
 */
const layer = (name: string, test: RegExp, shared: number) => ({ name, test, minShareCount: shared })
const layers = [
  layer('words', /\/dist\/src\/base\/(text|phrase|phrasing|problem|shared-phrases)\.js$/, 20),
  layer('schedules', /\/dist\/src\/(schedule\/|plan\/schedule\.js|base\/work\.js)/, 20),
  layer('schemas', /\/node_modules\/zod\/|\/dist\/src\/(base\/|ir\/program\.js)/, 15),
  layer('clusters', /\/dist\/src\/(cluster\/|cost\/(collective|quote)\.js)/, 7),
  layer(
    'jobs',
    /\/dist\/src\/(model\/|plan\/(check|optimizer)\.js|cost\/(instr|exchange)\.js|ir\/(traits|role)\.js|metrics\/)/,
    5,
  ),
  layer('compile', /\/dist\/src\/compile\//, 15),
  layer('simulate', /\/dist\/src\/(simulate|trace)\//, 2),
  layer('estimates', /\/dist\/src\/(estimate|search)\//, 7),
  layer('plans', /\/studio\/work\/plan\/(link|price)\.ts$/, 2),
].map((one, n, { length }) => ({ ...one, priority: length - n }))

export default defineConfig({
  root: at('.'),
  base: './',
  publicDir: at('./public'),
  plugins: [formulas, rankWorkers, noNode, offline],
  resolve: {
    alias: [
      { find: /^lockstep$/, replacement: at('../dist/src/index.js') },
      { find: /^lockstep\/engine$/, replacement: at('../dist/src/engine/native/index.js') },
    ],
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  worker: {
    format: 'es',
    plugins: () => [formulas, rankWorkers, noNode],
    rolldownOptions: { output: { codeSplitting: { groups: layers } } },
  },
  build: {
    outDir: at('../dist/studio/page'),
    emptyOutDir: true,
    target: 'es2023',
    chunkSizeWarningLimit: 2000,
    rolldownOptions: { checks: { bundlerTimings: false } },
  },
})
