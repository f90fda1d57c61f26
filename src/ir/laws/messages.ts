/**
 * M: what is sent is received, and what is started is waited for. A channel is a pair (source, destination) of pipeline
 * coordinates.
 */
import type { Program, Step, Stream } from '../program.js'
import type { Finding } from './law.js'
import { type Told, told } from './phrases.js'
import { everyStep } from './walk.js'

type Transfer = Extract<Step, { kind: 'send' | 'recv' }>

/** One end of a message, where it stands. */
export interface End {
  readonly pipeline: number
  readonly step: number
  readonly tag: string
  readonly bytes: number
}

export const messages = (program: Program): Finding[] => [
  ...[...channelsOf(program)].flatMap(([name, channel]) => matched(name, channel)),
  ...program.streams.flatMap(waited),
  ...uniquelyTagged(program),
]

interface Channel {
  readonly sends: End[]
  readonly recvs: End[]
}

const channelName = (from: number, to: number) => `${from} -> ${to}`

export function channelsOf(program: Program): Map<string, Channel> {
  const channels = new Map<string, Channel>()
  for (const { pipeline, stream, at: i, step } of everyStep(program)) {
    if (!isTransfer(step)) continue
    const name = step.kind === 'send' ? channelName(pipeline, step.peer) : channelName(step.peer, pipeline)
    const channel = channels.get(name) ?? { sends: [], recvs: [] }
    channels.set(name, channel)
    const end = { pipeline, step: i, tag: step.tag, bytes: stream.frames[step.frame].bytes }
    channel[step.kind === 'send' ? 'sends' : 'recvs'].push(end)
  }
  return channels
}

/** The first message that does not match; what follows on the channel is its echo. */
function matched(channel: string, { sends, recvs }: Channel): Finding[] {
  for (let i = 0; i < Math.max(sends.length, recvs.length); i++) {
    const [send, recv] = [sends[i], recvs[i]]
    if (!send) return [at(recv, 'M1', told('M1/no-send', { channel, tag: recv.tag }))]
    if (!recv) return [at(send, 'M1', told('M1/no-recv', { channel, tag: send.tag }))]
    if (send.tag !== recv.tag)
      return [
        at(recv, 'M1', told('M1/tags', { channel, message: i, sent: send.tag, step: send.step, received: recv.tag })),
      ]
    if (send.bytes !== recv.bytes)
      return [at(recv, 'M2', told('M2', { channel, tag: send.tag, sent: send.bytes, received: recv.bytes }))]
  }
  return []
}

const at = ({ pipeline, step }: End, law: Finding['law'], said: Told): Finding => ({
  law,
  pipeline,
  step,
  ...said,
})

function waited({ steps }: Stream, pipeline: number): Finding[] {
  const findings: Finding[] = []
  const open = new Map<string, number>()
  const say = (step: number, said: Told) => findings.push({ law: 'M3', pipeline, step, ...said })
  steps.forEach((step, i) => {
    if (isTransfer(step)) open.set(step.tag, i)
    else if (step.kind === 'call' && step.tag !== undefined) open.set(step.tag, i)
    else if (step.kind === 'wait' && !open.delete(step.tag)) say(i, told('M3/nothing', { tag: step.tag }))
  })
  for (const [tag, step] of open) say(step, told('M3/never', { tag }))
  return findings
}

const isTransfer = (step: Step): step is Transfer => step.kind === 'send' || step.kind === 'recv'

/** A tag is on one send and on one recv, or on calls only, one of each stream. */
function uniquelyTagged(program: Program): Finding[] {
  const findings: Finding[] = []
  const seen = new Set<string>()
  const sent = new Set([...everyStep(program)].flatMap(({ step }) => (isTransfer(step) ? [step.tag] : [])))
  for (const { pipeline, at: i, step } of everyStep(program)) {
    if (!('tag' in step) || step.tag === undefined || step.kind === 'wait') continue
    const say = (said: Told) => findings.push({ law: 'M4', pipeline, step: i, ...said })
    const { kind, tag } = step
    const name = `${kind} ${tag}`
    const key = step.kind === 'call' ? `${name} of stream ${pipeline}` : name
    if (seen.has(key)) say(told('M4/second', { kind, tag }))
    if (step.kind === 'call' && sent.has(step.tag)) say(told('M4/shared', { kind, tag }))
    seen.add(key)
  }
  return findings
}
