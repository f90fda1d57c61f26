/** What lowering is asked for, and what it gives. */
import type { Copier } from './copiers.js'
import type { CommandList } from './list.js'
import type { MapOptions, MemoryMap } from './map.js'
import type { Notes } from './notes.js'
import type { PanelOptions } from './panels.js'
import type { DiskFile } from './site.js'
import type { Waiting } from './waiting.js'

export interface LowerOptions extends MapOptions {
  readonly seed: number
  readonly waiting: Waiting
  /** Fill what is allocated, and what is freed, with NaN: a program that reads what is not there shows it. */
  readonly poison?: boolean
  /** Note what every instruction reads and writes. */
  readonly notes?: boolean
  /** Record when each command started and ended. */
  readonly spans?: boolean
  /** Operands that several products share are packed once. */
  readonly panels?: PanelOptions | undefined
  /** Each rank that offloads to another memory tier has a copy thread, so that copies overlap its compute. */
  readonly copiers?: boolean | undefined
  /** Of every rank that keeps anything on a disk. */
  readonly files?: readonly DiskFile[] | undefined
}

/** A program lowered to command lists and a memory map. */
export interface LoweredProgram {
  readonly map: MemoryMap
  readonly lists: readonly CommandList[]
  /** Where the lists go, by rank, and the rings of spans (0 without). */
  readonly listAt: readonly number[]
  readonly spansAt: readonly number[]
  readonly spanCapacity: number
  /** By rank, room for a list of one command (`run/by-hand.ts`). */
  readonly handAt: readonly number[]
  /** By rank, where they were asked for. */
  readonly notes: readonly Notes[]
  /** Lists beside those of ranks. */
  readonly copiers: readonly Copier[]
  /** Counters that are cleared before every step. */
  readonly sync: { readonly offset: number; readonly bytes: number }
  /** Size of the whole memory. */
  readonly bytes: number
}

/** (command, start, end), f64 each. */
export const spanBytes = 24
