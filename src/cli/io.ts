/** The world as commands see it. Tests pass their own; nothing else in the project touches streams or the environment. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { isatty } from 'node:tty'
import type { Files } from '../base/index.js'
import { kindOf, nodeFiles, plainly, reasonOf, startWriter } from '../node/index.js'
import type { Writer } from '../train/index.js'

export interface Io extends Files {
  /** Text for standard output and standard error, line breaks included; control characters in it are shown, not obeyed. */
  out(text: string): void
  err(text: string): void
  /** What a terminal is to obey, for either of them. */
  control(stream: 'out' | 'err', sequence: string): void
  /** '-' is standard input. */
  read(path: string): string
  /** Standard input, line by line as it comes. */
  lines(): AsyncIterable<string>
  copy(from: string, to: string): void
  /** The time, by the clock of this machine. */
  now(): Date
  /** Makes a link, in place of one that is there; does nothing where links cannot be made. */
  link(path: string, target: string): void
  /** Shows a long text in a pager; false: there is none. */
  page(pager: string, text: string): boolean
  /** When a file was last written, in seconds since 1970 by the clock of its disk; undefined: there is none. */
  modified(path: string): number | undefined
  /** What has this name: a link is one, wherever it leads. */
  kindOf(path: string): 'file' | 'folder' | 'link' | 'device' | undefined
  /** What is answered to a question; undefined where nobody is there to answer it. */
  ask(question: string): Promise<string | undefined>
  /** What standard output is shown on, if it is a screen. */
  terminal(): { readonly columns: number; readonly rows: number } | undefined
  /** Whether anybody reads standard output still, as far as is known: `| head` leaves before the end. */
  isRead(): boolean
  /** How wide a line of progress on standard error may be; undefined where nobody would see it pass. */
  progressColumns(): number | undefined
  /**
   * Calls `stop` at Ctrl-C, SIGTERM or SIGHUP, once, with the exit code that says so: a second time ends the process. Returns how
   * to forget it.
   */
  onInterrupt(stop: (code: number) => void): () => void
  /** A thread that writes checkpoints while a run goes on; without one the run stands still meanwhile. */
  readonly startWriter?: (() => Writer) | undefined
  readonly colors: boolean
  /** How much is printed, where a command line asks for less or more than usual. */
  readonly verbosity?: 'quiet' | 'verbose'
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * Ctrl-C, what schedulers send before they end a process, and a terminal or connection that was closed: 128 + its number
 * is the exit code that shells expect.
 */
const interrupts = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const
type Interrupt = keyof typeof interrupts

async function answerTo(question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

/**
 * The reader of a pipe may leave before the end (`| head`): that is its right and no failure of ours. A disk that is full
 * ends no run, whose own files may be elsewhere: it is said, and the exit code says it too.
 */
function sayUnwritten(stream: NodeJS.WriteStream, e: NodeJS.ErrnoException): void {
  if (e.code === 'EPIPE') return
  process.once('exit', () => {
    process.exitCode ||= 1
  })
  if (stream === process.stdout) process.stderr.write(`error: cannot write standard output: ${reasonOf(e)}\n`)
}

function linkTo(path: string, target: string): void {
  const fresh = `${path}.${process.pid}`
  try {
    symlinkSync(target, fresh)
    renameSync(fresh, path)
  } catch {
    rmSync(fresh, { force: true })
  }
}

/** As the shell runs it, so that $PAGER may have options; 127 is the shell's word for a command that is not there. */
function showInPager(pager: string, text: string): boolean {
  const { status, error } = spawnSync(pager, { shell: true, input: text, stdio: ['pipe', 'inherit', 'inherit'] })
  return error === undefined && status !== 127
}

/** Node puts the terminal back as it was before it exits, and aborts where that is gone: the signal itself ends the process. */
function hangUp(): void {
  process.removeAllListeners('SIGHUP')
  process.kill(process.pid, 'SIGHUP')
}

/** FORCE_COLOR decides where it is set (0: none), as in Node itself; then NO_COLOR, a dumb terminal, and pipes have none. */
export function wantsColors({ FORCE_COLOR, NO_COLOR, TERM }: Io['env'], isTerminal = false): boolean {
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false'
  return isTerminal && TERM !== 'dumb' && !NO_COLOR
}

export function processIo(): Io {
  const signals = new Set(Object.keys(interrupts))
  const onTerminal = [0, 1, 2].some(isatty) // once it is gone, nobody can ask
  const lost = new Set<NodeJS.WriteStream>() // Node itself forgets it, and tries again
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', e => {
      if (!lost.has(stream)) sayUnwritten(stream, e)
      lost.add(stream)
    })
  return {
    out: text => void process.stdout.write(text),
    err: text => void process.stderr.write(text),
    control: (stream, sequence) => void (stream === 'out' ? process.stdout : process.stderr).write(sequence),
    ...nodeFiles(),
    kindOf,
    lines: () => createInterface({ input: process.stdin }),
    now: () => new Date(),
    link: linkTo,
    page: showInPager,
    copy: (from, to) => plainly(to, () => copyFileSync(from, to)),
    modified: path => {
      const stats = plainly(path, () => statSync(path, { throwIfNoEntry: false }))
      return stats && stats.mtimeMs / 1000
    },
    ask: question => (process.stdin.isTTY && process.stdout.isTTY ? answerTo(question) : Promise.resolve(undefined)),
    terminal: () =>
      process.stdout.isTTY && process.env.TERM !== 'dumb'
        ? { columns: process.stdout.columns, rows: process.stdout.rows }
        : undefined,
    isRead: () => !lost.has(process.stdout),
    progressColumns: () =>
      process.stderr.isTTY && process.env.TERM !== 'dumb' ? process.stderr.columns || 80 : undefined,
    onInterrupt: stop => {
      const heard = (signal: Interrupt) => {
        forget()
        // Both the shell and the system tell of a terminal that was closed: the second time asks for nothing more.
        if (signal === 'SIGHUP') {
          signals.delete(signal)
          process.on(signal, () => {})
          if (onTerminal) process.once('exit', hangUp)
        }
        stop(interrupts[signal])
      }
      const forget = () => {
        for (const signal of signals) process.removeListener(signal, heard)
      }
      for (const signal of signals) process.once(signal, heard)
      return forget
    },
    startWriter,
    colors: wantsColors(process.env, process.stdout.isTTY),
    env: process.env,
  }
}
