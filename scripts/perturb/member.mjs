/** The process that runs one test file (worker.mjs), in a copy of the tree of which only the fixtures are files of its own. */
import { fork } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const worker = fileURLToPath(new URL('worker.mjs', import.meta.url))
/** Runs after which a process is replaced, as it keeps each version of the test module. */
const runs = 300

/** Links to everything in the repository but a copy of test/fixtures. */
export function copyOf(root) {
  const copy = mkdtempSync(join(tmpdir(), 'perturb-'))
  for (const name of readdirSync(root)) if (name !== 'test') symlinkSync(join(root, name), join(copy, name))
  mkdirSync(join(copy, 'test'))
  for (const name of readdirSync(join(root, 'test')))
    if (name !== 'fixtures') symlinkSync(join(root, 'test', name), join(copy, 'test', name))
  cpSync(join(root, 'test/fixtures'), join(copy, 'test/fixtures'), { recursive: true })
  return copy
}

export class Member {
  #root
  #file
  #copy
  #child
  #left = 0

  constructor(root, file) {
    this.#root = root
    this.#file = file
  }

  /** The answer to a request; nothing within the limit (the process is then replaced). */
  async ask(request, limit) {
    if (this.#left-- <= 0) await this.#start()
    const child = this.#child
    return new Promise(resolve => {
      const answer = value => {
        clearTimeout(timer)
        child.removeAllListeners('message').removeAllListeners('exit')
        if (value === undefined) this.close()
        resolve(value)
      }
      const timer = setTimeout(answer, limit)
      child.once('message', answer).once('exit', () => answer())
      child.send(request)
    })
  }

  close() {
    this.#child?.removeAllListeners('exit').kill('SIGKILL')
    this.#left = 0
    if (this.#copy) rmSync(this.#copy, { recursive: true, force: true })
    this.#copy = undefined
  }

  async #start() {
    this.close()
    this.#copy = copyOf(this.#root)
    const env = { ...process.env, LOCKSTEP_TESTS: 'all', LOCKSTEP_FIXTURES: undefined }
    const options = { cwd: this.#copy, env, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] }
    this.#child = fork(worker, [join(this.#root, this.#file)], options)
    this.#left = runs
    await new Promise(resolve => this.#child.once('message', resolve))
  }
}
