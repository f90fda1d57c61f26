/**
 * What the engine asks of the runtime it runs in, and the only door to it: Node, or a browser with Web Workers. The engine
 * is the same in both. Main never blocks (a browser's may not): ranks sleep on shared memory in their threads, and main
 * hears of them by messages.
 */
import type { Reason, Work } from '../base/index.js'

/** Native kernels, as kernels/addon.c exports them. */
export interface Addon {
  exec(memory: Uint8Array, list: number, status: number, tuning: Int32Array): number
  wake(memory: Uint8Array, offset: number): void
  bind(rank: number, ranks: number): void
  enlargePages(memory: Uint8Array): void
  /** Ends the process, whatever its threads are at. */
  leave(code: number): void
  info(): {
    readonly target: string
    readonly vector: number
    /** Whether this CPU's matrix tiles can be used. */
    readonly tiles: boolean
    /** Of sources, compiler and CPU. */
    readonly build: string
    /** The command tables it was built with; old builds do not report it. */
    readonly contract?: number
    /** The variants of matmul's register tile. */
    readonly variants: readonly { readonly name: string; readonly rows: number; readonly columns: number }[]
    readonly workspaceBytes: number
  }
}

/** Bytes of data that a core finds close by: in its first and second cache, and in the last, shared or not. */
export interface Caches {
  readonly first: number
  readonly second: number
  readonly last: number
}

/** A file in which a rank keeps what memory has no room for. It has no name: it is gone when it is closed, or when its process ends. */
export interface RoomFile {
  /** For moves during a step, in whole pages where it bypasses the system's cache. */
  readonly moved: number
  readonly direct: boolean
  /** For any bytes, between steps. */
  readonly edited: number
}

/** Files of fixed sizes. Their numbers hold in every thread. */
export interface Disk {
  /** Where they lie if nobody says. */
  readonly folder: string
  /** Bytes that are left where the folder is, or would be made. */
  free(folder: string): number
  /** A file of zeros, all of which is there: it cannot run out of room later. */
  open(folder: string, bytes: number): RoomFile
  close(file: RoomFile): void
  /** All of the bytes; 0, or the code of what went wrong. */
  transfer(file: number, writes: boolean, bytes: Uint8Array, position: number): number
  /** What a code means, in words. */
  meaning(code: number): string
}

/** A thread, as main sees it. */
export interface ThreadHandle<To> {
  post(message: To): void
  /** Whether the process lives on because of it; a page does anyway. */
  keepAlive(alive: boolean): void
  end(): Promise<void>
  /** It cannot be ended, since native code does not come back: the process must not wait for it when it ends. */
  leaveBehind(): void
}

/** A thread that runs code of other people's files, which may never end. */
export interface Enclosure {
  /**
   * Asks it, and waits for the answer; a yield is a pause. Throws the Error that it throws, or one of its limits: then the thread is
   * ended, as it is where the work is given up, and another one begins when it is asked again.
   */
  ask(question: unknown, mostMs: number): Work<unknown>
}

export interface EnclosureLimits {
  /** Memory of its objects. */
  readonly heapMiB?: number | undefined
  /** Milliseconds, by which limits of time are kept: performance.now if not given. */
  readonly now?: (() => number) | undefined
}

export interface ThreadEvents<From> {
  readonly message: (message: From) => void
  /** It is gone: why. May come more than once. */
  readonly death: (reason: Reason) => void
}

export interface Platform {
  /** Threads that can run beside each other. */
  readonly cores: number
  /** Its model, as far as the runtime tells. */
  readonly cpu: string
  /** What runs us: its name and version. */
  readonly runtime: string
  /** undefined: the machine does not say. */
  caches(): Caches | undefined
  /** Variants of kernels that whoever started us asked for, by name. */
  readonly variants: readonly string[]
  /** A short text that was remembered on this machine; undefined: none, or it cannot be read. */
  recall(name: string): string | undefined
  /** Remembers a short text where that is possible. */
  remember(name: string, text: string): void
  /** All memory this runtime could give. */
  readonly memoryBytes: number
  /** Starts a thread that runs a module. */
  spawn<To, From>(module: URL, events: ThreadEvents<From>): ThreadHandle<To>
  /** In a thread: hears main from now on, and returns how to answer. */
  listen<To, From>(hear: (message: To) => void): (message: From) => void
  /** Starts a thread that runs a module, with what it is opened with; undefined where main may not wait for one. */
  readonly enclose?: (module: URL, opening: unknown, limits?: EnclosureLimits) => Enclosure
  /** In such a thread: answers from now on. */
  answer(open: (opening: unknown) => Promise<(question: unknown) => unknown>): void
  /** In a thread: ends it at once, as a crash would. */
  die(): never
  /** Processor time of this process so far. */
  cpuSeconds(): number
  /** Makes files readable at once by `read`. */
  fetch(files: readonly URL[]): Promise<void>
  read(file: string | URL): Uint8Array
  write(path: string, text: string): void
  /** undefined: the runtime has no files. */
  readonly disk?: Disk
  /** Why there are no native kernels, or undefined when there are. */
  nativeMissing(): string | undefined
  loadNative(): Addon
  /** Asks for relaxed SIMD where it hides behind a flag. */
  enableRelaxedSimd(): void
  /** Lets events have their turn. */
  pause(): Promise<void>
  /** Calls back later, unless nothing else keeps the process alive until then. */
  later(ms: number, call: () => void): void
}

const isNode = typeof globalThis.process?.versions?.node === 'string'

export const platform: Platform = isNode
  ? (await import('./node.js')).nodePlatform
  : (await import('./web.js')).webPlatform()
