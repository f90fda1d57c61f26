/**
 * What takes a rank's moves off its hands: a thread beside it, with a list of its own. In it is every move of the rank, in the order
 * in which they start; each waits until the rank has started it, and then takes pieces of it as members of a collective do.
 * A rank that waits for a move takes the pieces that are left, so nobody depends on the copier: it may be late, or not be there.
 */
import { diskPage, type Rank } from '../../../base/index.js'
import { diskPiece } from './collectives.js'
import { Status } from './commands.js'
import { type CommandList, ListWriter, wordOf } from './list.js'
import type { Region } from './map.js'

export interface Copier {
  /** Whose moves they are. */
  readonly rank: Rank
  readonly list: CommandList
  /** Where its list and its status block lie. */
  readonly at: number
  readonly status: number
}

/** Longer than any step: a copier waits for its rank as long as that computes, or until the run is over. */
const forever = 2 ** 40

/** It sleeps while there is nothing to do: its rank computes. */
export function copierWriter(abort: number): ListWriter {
  const list = new ListWriter()
  const waiting = { timeoutMs: forever, spin: 0, yields: 0 }
  list.write('config', { abort, ...waiting, spans: 0, spanCapacity: 0, workspace: 0, workspaceBytes: 0 })
  return list
}

/** None where nothing moves. */
export function copierOf(rank: Rank, writer: ListWriter, region: Region): Copier[] {
  if (writer.count === 1) return []
  const list = writer.finish()
  // What goes to a file past the system's cache goes by way of it, beginning on a page.
  const workspaceBytes = diskPiece + diskPage
  list.words[wordOf('config', 'workspace')] = region.take(workspaceBytes)
  list.words[wordOf('config', 'workspaceBytes')] = workspaceBytes
  return [{ rank, list, at: region.take(list.words.byteLength), status: region.take(Status.bytes) }]
}
