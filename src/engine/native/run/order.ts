/**
 * When commands of different ranks happen, by what they wait for: a number for each that is greater than those of all that happen
 * before it. What is first in time on a machine need not be first in cause; what is first here is nobody's effect.
 */
import { commandNames, commands } from '../lower/commands.js'
import type { CommandList } from '../lower/list.js'

const header = 2

/** By rank and command. */
export function ordersOf(lists: readonly CommandList[]): Int32Array[] {
  const orders = lists.map(({ starts }) => new Int32Array(starts.length))
  const next = lists.map(() => 0)
  const meeting = new Meetings()
  for (let moved = true; moved; ) {
    moved = false
    for (const [rank, list] of lists.entries()) {
      const before = next[rank]
      while (next[rank] < list.starts.length) {
        const time = meeting.timeOf(list, next[rank], next[rank] === 0 ? 0 : orders[rank][next[rank] - 1])
        if (time === undefined) break
        orders[rank][next[rank]++] = time + 1
      }
      moved ||= next[rank] > before
    }
  }
  return orders
}

/** Who has come where, and when. */
class Meetings {
  readonly #arrivals = new Map<string, number[]>()
  readonly #posts = new Map<string, number>()

  /** The latest of what the command waits for, its own rank included; undefined: somebody has not come. */
  timeOf({ words, starts }: CommandList, command: number, own: number): number | undefined {
    const at = starts[command] + header
    const name = commandNames[words[starts[command]]]
    if (name === 'send' || name === 'recv') this.#posts.set(`${name} ${words[at]} ${words[at + 1]}`, own)
    if (name === 'waitRecv' || name === 'waitSend') {
      const post = this.#posts.get(`${name === 'waitRecv' ? 'send' : 'recv'} ${words[at]} ${words[at + 1]}`)
      return post === undefined ? undefined : Math.max(own, post)
    }
    if (!meets(name)) return own
    const key = `${words[at]} ${words[at + 3]}`
    const arrived = this.#arrivals.get(key) ?? []
    this.#arrivals.set(key, arrived)
    if (name === 'start') arrived.push(own)
    return name === 'start' ? own : arrived.length < words[at + 2] ? undefined : Math.max(own, ...arrived)
  }
}

/** Commands of a collective begin with its block, the member, how many there are, and its number. */
const meets = (name: (typeof commandNames)[number]): boolean =>
  name === 'start' || (name.startsWith('wait') && (commands[name] as readonly string[])[1] === 'me')
