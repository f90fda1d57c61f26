/** Runs the blocks of a page in a folder of its own. `lockstep` runs in this process, everything else in a shell. */
import { spawnSync } from 'node:child_process'
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { type Block, blockOf, type Command, commandsOf, fileOf } from './pages.js'
import { findPython, oneThread } from './python.js'
import { missing, renewed } from './shown.js'

interface Printed {
  readonly code: number
  readonly text: string
}

/** What of the repository every page may name. */
const given = ['examples', 'LICENSE', 'validation', 'src']

/** Commands that other tests run: what a clone begins with. */
const elsewhere = /^npm (start|test|run setup)|^npx lockstep --help/

const needsTorch = /^lockstep launch|launch\.sh|torchrun/

let base: Io | undefined
let python: string | undefined | null = null

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-page-'))
  for (const name of given) symlinkSync(resolve(name), join(folder, name))
  mkdirSync(join(folder, '.bin'))
  const shim = join(folder, '.bin', 'lockstep')
  writeFileSync(shim, `#!/bin/sh\nexec ${process.execPath} ${resolve('bin/lockstep.mjs')} "$@"\n`)
  chmodSync(shim, 0o755)
  return folder
}

async function inProcess(words: readonly string[], env: Io['env']): Promise<Printed> {
  base ??= processIo()
  let text = ''
  const say = (more: string) => {
    text += more
  }
  const quiet = { control: () => {}, terminal: () => undefined, progressColumns: () => undefined }
  const io: Io = { ...base, ...quiet, out: say, err: say, onInterrupt: () => () => {}, colors: false, env }
  return { code: await run(words, io), text }
}

/** Words of a simple command; undefined: it takes a shell. */
function wordsOf(line: string): string[] | undefined {
  const plain = line.replace(/\\\n\s*/g, ' ')
  if (/[|<>;&$*`]/.test(plain.replace(/"[^"]*"|'[^']*'/g, ''))) return undefined
  return [...plain.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c)
}

async function runLine(line: string, folder: string): Promise<Printed> {
  const env = { ...oneThread, ...(python && { LOCKSTEP_PYTHON: python, PYTHON: python }), UPDATE: '' }
  const words = wordsOf(line.replace(/^npx /, ''))
  if (words?.[0] === 'lockstep') return inProcess(words.slice(1), env)
  const PATH = [join(folder, '.bin'), python && dirname(python), process.env.PATH].filter(Boolean).join(delimiter)
  const { status, stdout, stderr } = spawnSync('sh', ['-c', line], { env: { ...env, PATH }, encoding: 'utf8' })
  return { code: status ?? 1, text: stdout + stderr }
}

/** What is wrong with a command: undefined, nothing. An exit code that is not 0 must show why on the page. */
function wrong({ line, shown }: Command, { code, text }: Printed): string | undefined {
  const printed = text.trimEnd().split('\n')
  if (code !== 0 && !shown.some(shownLine => /error|problem|refused|warning/.test(shownLine)))
    return `$ ${line}\nexit code ${code}: ${text.slice(-2000)}`
  const lost = missing(line.replace(/^npx /, ''), shown, text === '' ? [] : printed)
  return lost === undefined ? undefined : `$ ${line}\nthe page shows: ${lost}\nit prints:\n${text}`
}

/** The page's blocks as they are now, and what of them is not true. */
export async function runPage(blocks: readonly Block[]): Promise<{ blocks: Block[]; problems: string[] }> {
  const folder = scratch()
  const home = process.cwd()
  const problems: string[] = []
  const done: Block[] = []
  const runCommand = async (command: Command): Promise<Command> => {
    if (elsewhere.test(command.line) || (needsTorch.test(command.line) && !python)) return command
    process.chdir(folder)
    const started = performance.now()
    const printed = await runLine(command.line, folder).finally(() => process.chdir(home))
    if (process.env.TIMES)
      appendFileSync(process.env.TIMES, `${((performance.now() - started) / 1000).toFixed(2)} s ${command.line}\n`)
    const renew = process.env.UPDATE && printed.text !== ''
    const now = renew ? { ...command, shown: renewed(command.shown, printed.text.trimEnd().split('\n')) } : command
    const problem = wrong(now, printed)
    if (problem !== undefined) problems.push(problem)
    return now
  }
  try {
    if (python === null) {
      const found = findPython()
      python = found && resolve(found) // commands run in another folder
    }
    for (const block of blocks) {
      const file = fileOf(block)
      if (file) {
        mkdirSync(dirname(join(folder, file[0])), { recursive: true })
        writeFileSync(join(folder, file[0]), file[1])
      }
      if (block.language !== 'console') {
        done.push(block)
        continue
      }
      const commands: Command[] = []
      for (const command of commandsOf(block.body)) commands.push(await runCommand(command))
      done.push({ ...block, body: blockOf(commands) })
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return { blocks: done, problems }
}
