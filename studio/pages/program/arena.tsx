/** The memory of a rank at one step: every frame that is alive, at its place. */

import { bytes } from '../../base/numbers.js'
import { Figure } from '../../parts/figure.js'
import { nameOfKind } from '../../parts/kinds.js'
import type { Room } from '../../work/program/index.js'
import { text } from './text.js'

const classOf: Readonly<Record<string, string>> = { parameters: 'params' }

interface ArenaProps {
  readonly rooms: readonly Room[]
  readonly arena: number
  readonly step: number
}

export function Arena({ rooms, arena, step }: ArenaProps) {
  const words = text()
  const live = rooms.filter(({ from, until }) => from <= step && step < until).sort((a, b) => a.offset - b.offset)
  const used = live.reduce((sum, room) => sum + room.bytes, 0)
  const caption = words.arenaCaption(bytes(used), bytes(arena), live.length)
  const rows = {
    head: [words.frame, words.kind, words.offset, words.bytes],
    body: live.map(({ name, kind, offset, bytes }) => [name, nameOfKind(kind), offset, bytes]),
  }
  return (
    <Figure title={words.arena} caption={caption} rows={rows}>
      <div class="arena" role="img" aria-label={caption}>
        {live.slice(0, 400).map(room => (
          <span
            key={`${room.name} ${room.offset}`}
            class={`part ${classOf[room.kind] ?? room.kind}`}
            style={{ left: `${(room.offset / arena) * 100}%`, width: `${(room.bytes / arena) * 100}%` }}
            title={`${room.name} ${nameOfKind(room.kind)} ${bytes(room.bytes)}`}
          />
        ))}
      </div>
    </Figure>
  )
}
