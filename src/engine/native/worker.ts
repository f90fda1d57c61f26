/** A rank as a thread of Node: takes assignments, one after the other. */
import { parentPort } from 'node:worker_threads'
import type { FromRank, ToRank } from './protocol.js'
import { serve } from './rank.js'

const port = parentPort
if (!port) throw new Error('internal: this file is a worker')
const tell = (message: FromRank) => port.postMessage(message)

port.on('message', ({ assignment }: ToRank) => {
  try {
    serve(assignment, tell)
  } catch (error) {
    tell({ type: 'failed', rank: assignment.rank, message: (error as Error).message })
  }
})
