/**
 * The manifest of a checkpoint: which part of which whole tensor lies in which file, which run wrote them, and the CRC-32
 * of every file. Its last member is the CRC-32 of all the text before it, so that a manifest somebody has changed is not
 * taken for one that was written. `write.ts` prints it, and so does the runtime of emitted programs.
 */
import { type Dim, isNorms, type Norms, noNorms, type Scalars, scalarNames } from '../base/index.js'
import { type Box, elementsIn } from './box.js'
import { crc32 } from './crc32.js'

export const format = 'lockstep checkpoint 2'

/** Where a run stood. */
export interface Position {
  /** Steps behind it, those that were skipped included. */
  readonly step: number
  readonly seed: number
  /** What of the data it had seen. */
  readonly data?: { readonly samples: number; readonly epoch: number; readonly fingerprint: string }
  /** Numbers of its program that live from step to step; a checkpoint of earlier versions, which skipped no step, has none. */
  readonly scalars?: Scalars<number>
  /** Where it skips spikes, what it remembers of the steps before. */
  readonly norms?: Norms
}

export interface Part extends Box {
  readonly rank: number
  readonly file: string
}

export interface Entry {
  /** What its shards call it, where an earlier version wrote them under another name. */
  readonly stored?: string
  readonly dims: readonly Dim[]
  readonly shards: readonly Part[]
}

export interface Manifest extends Position {
  readonly format: string
  readonly name: string
  /** The run that wrote it: a UUID, which every shard repeats. */
  readonly run: string
  /** Who wrote it: a program and its version. Earlier ones did not say. */
  readonly software?: string
  /** The runs it resumed from, the last one first. */
  readonly line?: readonly string[]
  readonly tensors: Readonly<Record<string, Entry>>
  /** Every file beside the manifest -> its CRC-32; that of a shard covers its head, which has those of its tensors. */
  readonly files: Readonly<Record<string, string>>
}

export const sumOf = (bytes: Uint8Array): string => crc32(bytes).toString(16).padStart(8, '0')

export function printManifest(manifest: Manifest): string {
  const body = JSON.stringify(manifest, null, 1).slice(0, -'\n}'.length)
  return `${body},\n "checksum": "${sumOf(new TextEncoder().encode(body))}"\n}\n`
}

/** Throws an Error fit to print. */
export function parseManifest(text: string): Manifest {
  let manifest: Manifest
  try {
    manifest = JSON.parse(text)
  } catch {
    throw new Error('manifest.json is not JSON')
  }
  if (manifest?.format !== format) throw new Error(unknownFormat(manifest?.format))
  const [end, written] = /,\n "checksum": "([0-9a-f]{8})"\n\}\n$/.exec(text) ?? ['', '']
  if (written !== sumOf(new TextEncoder().encode(text.slice(0, text.length - end.length))))
    throw new Error('manifest.json is corrupt or was changed: its CRC-32 is not the one that was written')
  if (!isSound(manifest)) throw new Error('manifest.json lacks step, run, files, tensors or their shards')
  return { ...manifest, tensors: withTodaysNames(manifest.tensors) }
}

/** Norm weights were called `norm1.gain`; so does the runtime of emitted programs read them. */
const earlierName = /(\bnorm\d?)\.gain$/

const withTodaysNames = (tensors: Manifest['tensors']): Manifest['tensors'] =>
  Object.fromEntries(
    Object.entries(tensors).map(([stored, entry]) => {
      const name = stored.replace(earlierName, '$1.weight')
      return [name, name === stored ? entry : { ...entry, stored }]
    }),
  )

/** Format 1 had neither a run nor checksums: nothing says that its shards belong together. */
const unknownFormat = (found: unknown): string =>
  found === 'lockstep checkpoint 1'
    ? 'this is a checkpoint of format 1, written by an earlier version; it has no checksums and is no longer supported: resume it with the version that wrote it, or restart from scratch'
    : typeof found === 'string' && /^lockstep checkpoint \d+$/.test(found)
      ? `its format is "${found}", but this version of lockstep reads "${format}": resume it with the version that wrote it`
      : `manifest.json is not that of a ${format}`

const isSound = ({ step, seed, run, software = '', line = [], files, tensors, scalars, norms }: Manifest): boolean =>
  [step, seed].every(Number.isSafeInteger) &&
  Array.isArray(line) &&
  isRecordOfNumbers(scalars ?? {}) &&
  isNorms(norms ?? noNorms) &&
  [run, software].every(text => typeof text === 'string') &&
  [files, tensors].every(value => typeof value === 'object' && value !== null) &&
  Object.entries(files).every(([file, sum]) => isFileName(file) && typeof sum === 'string') &&
  Object.values(tensors).every(
    entry =>
      Array.isArray(entry?.dims) &&
      Array.isArray(entry.shards) &&
      entry.shards.every(part => isPart(part, entry) && Object.hasOwn(files, part.file)),
  )

const isRecordOfNumbers = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.values(value).every(Number.isFinite)

/** What a program's scalars were. Without a word of it, every step was taken. */
export const scalarsOf = ({ step, scalars = {} }: Position): Scalars<number> =>
  Object.fromEntries([
    ['taken', step],
    ...scalarNames.flatMap(name => (name in scalars ? [[name, scalars[name]]] : [])),
  ])

/** The name of a file beside the manifest, never a path out of the folder. */
const isFileName = (file: unknown): boolean => typeof file === 'string' && /^[\w-][\w.-]*$/.test(file)

/** A part that lies in the whole. */
const isPart = ({ rank, file, start, shape, line }: Part, { dims }: Entry): boolean =>
  isFileName(file) &&
  isSize(rank) &&
  [start, shape].every(box => Array.isArray(box) && box.length === dims.length && box.every(isSize)) &&
  dims.every(({ size }, d) => start[d] + shape[d] <= size) &&
  (line === undefined || isLine(line, elementsIn({ start, shape })))

const isLine = (line: unknown, elements: number): boolean =>
  Array.isArray(line) && line.length === 2 && line.every(isSize) && line[0] <= line[1] && line[1] <= elements

const isSize = (n: unknown): boolean => Number.isSafeInteger(n) && (n as number) >= 0 // it is a number
