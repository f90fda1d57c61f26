/**
 * A peer as a child process that lives as long as the race: a request is one line of words, the reply one line that
 * starts with `ok` or `failed`. Lines before `ready` and on stderr are kept for the error message only.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export interface Command {
  readonly file: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

export class Child {
  private readonly waiting: { resolve: (words: string[]) => void; reject: (error: Error) => void }[] = []
  private readonly heard: string[] = []
  private ended = false
  private readonly name: string
  private readonly process: ChildProcessWithoutNullStreams

  /** Resolves when the peer says `ready`. */
  static async start(name: string, command: Command): Promise<Child> {
    const child = new Child(name, command)
    await new Promise<string[]>((resolve, reject) => child.waiting.push({ resolve, reject }))
    return child
  }

  private constructor(name: string, { file, args, env }: Command) {
    this.name = name
    this.process = spawn(file, args, { env: { ...process.env, ...env } })
    createInterface(this.process.stdout).on('line', line => this.hear(line))
    createInterface(this.process.stderr).on('line', line => this.heard.push(line))
    this.process.stdin.on('error', () => {}) // 'close' says it with the peer's own words
    this.process.on('error', error => this.end(error.message))
    this.process.on('close', code => this.end(`ended with ${code}`))
  }

  ask(...words: (string | number)[]): Promise<string[]> {
    return new Promise((resolve, reject) => {
      if (this.ended) return reject(this.failure('has ended'))
      this.waiting.push({ resolve, reject })
      this.process.stdin.write(`${words.join(' ')}\n`)
    })
  }

  async askNumbers(...words: (string | number)[]): Promise<number[]> {
    return (await this.ask(...words)).map(Number)
  }

  /** Closing its input is the request to leave. */
  async stop(): Promise<void> {
    if (this.ended) return
    const closed = new Promise(resolve => this.process.once('close', resolve))
    this.process.stdin.end()
    const late = setTimeout(() => this.process.kill('SIGKILL'), 10_000)
    await closed
    clearTimeout(late)
  }

  private hear(line: string): void {
    const [verdict, ...words] = line.split(' ')
    if (verdict === 'ok' || verdict === 'ready') this.waiting.shift()?.resolve(words)
    else if (verdict === 'failed') this.waiting.shift()?.reject(new Error(`${this.name}: ${words.join(' ')}`))
    else this.heard.push(line)
  }

  private end(how: string): void {
    this.ended = true
    for (const { reject } of this.waiting.splice(0)) reject(this.failure(how))
  }

  private failure(how: string): Error {
    return new Error([`${this.name} ${how}`, ...this.heard.slice(-12)].join('\n  '))
  }
}
