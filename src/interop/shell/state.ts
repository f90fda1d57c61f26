/** What a script has said so far, and how much of it may still be read: work is bounded whatever the script. */
import type { Remark, Script } from './syntax.js'

/** What a run of the script would have been asked for by the machine. */
export interface Given {
  readonly env?: Readonly<Record<string, string>>
  readonly args?: readonly string[]
  /** Variables, whatever the script sets them to. */
  readonly set?: Readonly<Record<string, string>>
  /** The text of another file, by the path the script writes; undefined: it is not there. */
  readonly read?: (path: string) => string | undefined
}

/** A command that may train: what stands before the program, and what is handed to it. */
export interface Launch {
  readonly before: readonly string[]
  readonly program: string
  readonly argv: readonly string[]
  readonly line: number
}

export class OutOfWork extends Error {}

const longest = 2 ** 20
const mostSubstitutions = 60

export class State {
  readonly variables = new Map<string, string | readonly string[]>()
  readonly files = new Map<string, string>()
  readonly functions = new Map<string, Script>()
  readonly launches: Launch[] = []
  readonly remarks: Remark[] = []
  /** Names that were read although nobody set them, by the first line that does. */
  readonly unset = new Map<string, number>()
  /** Lines of `#SBATCH`, of every file that was followed. */
  readonly sbatch: string[] = []
  args: readonly string[]
  readonly #unknowns: string[] = []
  readonly #given: Given
  #substitutions = 0
  #work = 0
  #written = 0

  constructor(given: Given) {
    this.#given = given
    this.args = (given.args ?? []).map(clean)
    for (const [name, value] of Object.entries({ ...given.env, ...given.set })) this.variables.set(name, clean(value))
  }

  read(path: string): string | undefined {
    return this.#given.read?.(path)
  }

  spend(amount = 1): void {
    this.#work += amount
    if (this.#work > 200_000) throw new OutOfWork('the script runs for too long')
  }

  /** A substitution in substitutions; deeper than people write nothing is known of it. */
  within<T>(read: () => T): T | undefined {
    if (this.#substitutions >= mostSubstitutions) return undefined
    this.#substitutions++
    try {
      return read()
    } finally {
      this.#substitutions--
    }
  }

  /** Long texts are cut: a script that doubles a word forty times ends all the same. */
  bounded(text: string): string {
    this.#written += text.length
    if (this.#written > 2 ** 26) throw new OutOfWork('the script writes too much')
    return text.length > longest ? text.slice(0, longest) : text
  }

  set(name: string, value: string | readonly string[]): void {
    if (Object.hasOwn(this.#given.set ?? {}, name)) return
    this.variables.set(name, typeof value === 'string' ? this.bounded(value) : value.slice(0, 20_000))
  }

  remark(line: number, message: string): void {
    const known = this.remarks.some(one => one.line === line && one.message === message)
    if (!known && this.remarks.length < 200) this.remarks.push({ line, message })
  }

  /** A piece of text that only a run would know. */
  unknown(what: string): string {
    this.#unknowns.push(what)
    return `\uE000${this.#unknowns.length - 1}\uE001`
  }

  /** With what is not known as it stands in the script. */
  shown(text: string): string {
    return text.replace(/\uE000(\d+)\uE001/g, (_, i: string) => this.#unknowns[Number(i)] ?? '')
  }
}

/** Nobody else writes the marks of what is not known. */
export const clean = (text: string): string => text.replace(/[\uE000\uE001]/g, '')
export const isUnknown = (text: string): boolean => text.includes('\uE000')
