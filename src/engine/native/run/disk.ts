/**
 * What ranks keep on a disk: a file each, as large as the arena that the program has there. Ranks and their copiers move whole frames
 * during a step; between steps main reads and writes what it likes.
 */
import { error, ProblemsError, type Rank, showBytes, worldOf } from '../../../base/index.js'
import { type Program, roomIn } from '../../../ir/index.js'
import { type Disk, platform, type RoomFile } from '../../../platform/index.js'
import { streamOf } from '../lower/map.js'
import type { DiskFile } from '../lower/site.js'

export class Rooms {
  readonly #disk: Disk
  #files: readonly RoomFile[]

  constructor(disk: Disk, files: readonly RoomFile[]) {
    this.#disk = disk
    this.#files = files
  }

  /** By rank, as commands name them. */
  get files(): DiskFile[] {
    return this.#files.map(({ moved, direct }) => ({ number: moved, direct }))
  }

  /** The file of a rank for `transferTo`. */
  fileOf = (rank: Rank): number => this.#files[rank].edited

  read(rank: Rank, position: number, bytes: number): SharedArrayBuffer {
    const buffer = new SharedArrayBuffer(bytes)
    succeed('read', this.#disk.transfer(this.fileOf(rank), false, new Uint8Array(buffer), position))
    return buffer
  }

  close(): void {
    for (const file of this.#files) this.#disk.close(file)
    this.#files = []
  }
}

/** Writes to a file by its number, in any thread. */
export function writeTo(file: number, bytes: Uint8Array, position: number): void {
  succeed('written', platform.disk?.transfer(file, true, bytes, position) ?? 0)
}

function succeed(what: string, code: number): void {
  if (code !== 0) throw new Error(`an offload file could not be ${what}: ${platform.disk?.meaning(code)}`)
}

/** A file for every rank, or none where the program keeps nothing there. Problems are named before anything runs. */
export function openRooms(program: Program, asked?: string): Rooms | undefined {
  const needs = Array.from(
    { length: worldOf(program.mesh) },
    (_, rank) => roomIn(streamOf(program, rank), 'disk').arena,
  )
  const bytes = needs.reduce((sum, arena) => sum + arena, 0)
  if (bytes === 0) return undefined
  const { disk } = platform
  if (!disk) throw problem('this runtime has no files', 'try host')
  const folder = asked ?? disk.folder
  const files: RoomFile[] = []
  try {
    const free = disk.free(folder)
    if (free < bytes) throw problem(tooFull(program, needs, bytes, folder, free), elsewhere)
    for (const arena of needs) files.push(disk.open(folder, arena))
    return new Rooms(disk, files)
  } catch (e) {
    for (const file of files) disk.close(file)
    if (e instanceof ProblemsError) throw e
    throw problem(`there cannot be ${showBytes(bytes)} in ${folder}: ${(e as Error).message}`, elsewhere)
  }
}

const elsewhere =
  'free space there, set a folder on another disk (--offload-dir), shard over more dp with zero 1, or try host'

function tooFull({ mesh }: Program, needs: readonly number[], bytes: number, folder: string, free: number): string {
  const ranks = worldOf(mesh)
  const sum = `${ranks > 1 ? `${ranks} ranks of up to ${showBytes(Math.max(...needs))} = ` : ''}${showBytes(bytes)}`
  return `the disk of ${folder} is to keep ${sum}, but has ${showBytes(free)} free`
}

const problem = (message: string, suggestion: string): ProblemsError =>
  new ProblemsError([error('engine/disk', 'plan.offload', message, suggestion)])
