/** What a rank holds from moment to moment, by kind. */

import { bytes, seconds } from '../../base/numbers.js'
import { place } from '../../base/router.js'
import { Areas, areaRows } from '../../parts/areas.js'
import { Steps } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { useAnswer } from '../../work/answer.js'
import type { Link } from '../../work/plan/link.js'
import { move, settle } from './state.js'
import { named, text } from './text.js'
import { views } from './text-views.js'

const nameOf = (kind: string): string => named(text().kinds, kind)

export default function MemoryView({ link }: { readonly link: Link }) {
  const words = views().memory
  const asked = Number(place.value.query.pp ?? 0)
  const pp = Number.isInteger(asked) && asked >= 0 && asked < 1e5 ? asked : 0
  const { value, pending } = useAnswer('program', ['plan-program', 'memoryOver'], { link, pp })
  const caption = value
    ? words.caption(`pp ${value.pp}`, bytes(value.peak.bytes), seconds(value.peak.at), bytes(value.capacity))
    : '…'
  const stages = Array.from({ length: value?.stages ?? 1 }, (_, n) => n)
  return (
    <>
      {stages.length > 1 && (
        <Steps
          label={words.stage}
          steps={stages}
          value={value?.pp ?? 0}
          change={stage => move({ pp: String(stage) })}
          settle={stage => settle({ pp: String(stage) })}
        />
      )}
      <Figure
        title={words.title}
        caption={caption}
        rows={value ? areaRows(value, text().seconds, nameOf) : { head: [], body: [] }}
        pending={pending}
      >
        {value && <Areas live={value} capacity={value.capacity} label={caption} nameOf={nameOf} />}
      </Figure>
    </>
  )
}
