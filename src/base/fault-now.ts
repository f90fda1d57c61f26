/** A fault in the words of --fault, but for its step: whoever watches a run wants it in the next. */
import { type FaultKind, faultKinds, parseFaults } from './fault.js'

export function faultNow(text: string, step: number): ReturnType<typeof parseFaults> {
  const [kind, ...rest] = text.trim().split(':')
  const said = rest.join(':')
  const keys = Object.hasOwn(faultKinds, kind) ? Object.keys(faultKinds[kind as FaultKind].keys) : [] // asked before
  const key = ['step', 'from'].find(one => keys.includes(one) && !new RegExp(`(^|,)\\s*${one}=`).test(said))
  const parts = [said, ...(key ? [`${key}=${step}`] : [])].filter(part => part !== '')
  return parseFaults([`${kind}:${parts.join(',')}`])
}
