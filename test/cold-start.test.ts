/** What a command loads before it does anything: modules take longer to load than most commands take to run. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { lockstep } from './memory-io.js'

const root = fileURLToPath(new URL('../src', import.meta.url))

/** Folders of src/ and packages that are loaded with a file; `import()` comes later. */
function loadedWith(file: string): Set<string> {
  const seen = new Set<string>()
  const found = new Set<string>()
  const visit = (path: string): void => {
    if (seen.has(path)) return
    seen.add(path)
    found.add(relative(root, path).split('/')[0])
    const statement = /^(?:import|export)\b[^'"]*?(?:\bfrom\s+|^import\s+)['"]([^'"]+)['"]/gm
    for (const [, name] of readFileSync(path, 'utf8').matchAll(statement)) {
      if (name.startsWith('.')) visit(join(dirname(path), name))
      else if (!name.startsWith('node:')) found.add(name)
    }
  }
  visit(join(root, file))
  return found
}

const words = readdirSync(join(root, 'cli/words')).filter(name => name.endsWith('.js'))

for (const file of ['cli/main.js', ...words.map(name => `cli/words/${name}`)])
  test(`${file} loads neither schemas nor YAML nor the compiler`, () => {
    const loaded = loadedWith(file)
    const heavy = ['zod', 'yaml', 'compile', 'ir', 'simulate', 'train']
    deepEqual(
      heavy.filter(name => loaded.has(name)),
      [],
    )
  })

test('commands that compile nothing load no compiler, and those that run nothing no engine', () => {
  const compiler = ['ir', 'compile', 'engine', 'train']
  const of = (name: string) => compiler.filter(folder => loadedWith(`cli/commands/${name}.js`).has(folder))
  for (const name of ['groups', 'models', 'schedule', 'cluster']) deepEqual(of(name), [], name)
  deepEqual(of('check'), ['train']) // what is wrong with its data; one file
  for (const name of ['compile', 'memory']) deepEqual(of(name), ['ir', 'compile'], name)
})

test('help of a command, in both spellings, and of none', async () => {
  const asked = await lockstep(['plan', '--help'])
  match(asked.out, /--global-batch/)
  equal((await lockstep(['help', 'plan'])).out, asked.out)
  match((await lockstep([])).err, /Usage: lockstep/)
  match((await lockstep(['nonsense'])).err, /unknown command `nonsense`/)
  match((await lockstep(['--', 'models'])).out, /llama3-405b/)
})
