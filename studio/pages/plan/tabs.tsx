/** The views of a plan, each a link. */
import { place, showPlace } from '../../base/router.js'
import type { ExactAnswer } from '../../work/plan/exact.js'
import type { Link } from '../../work/plan/link.js'
import type { Numbers } from '../../work/plan/price.js'
import { Memory, Where } from './overview.js'
import { type Tab, tabs } from './state.js'
import { text } from './text.js'

export function Tabs({ tab }: { readonly tab: Tab }) {
  const words = text()
  const { query } = place.value
  const hrefOf = (name: Tab) => showPlace('plan', { ...query, tab: name === 'overview' ? undefined : name })
  return (
    <nav class="tabs" aria-label={words.views}>
      {tabs.map(name => (
        <a key={name} href={hrefOf(name)} aria-current={name === tab ? 'page' : undefined}>
          {words.tabs[name]}
        </a>
      ))}
    </nav>
  )
}

export interface ViewProps {
  readonly tab: Tab
  readonly link: Link
  readonly numbers: Numbers
  readonly pending: boolean
  readonly compiling: boolean
  readonly exact: ExactAnswer | undefined
}

export function View({ tab, numbers, pending }: ViewProps) {
  if (tab === 'overview')
    return (
      <div class="pair">
        <Where numbers={numbers} pending={pending} />
        <Memory numbers={numbers} pending={pending} />
      </div>
    )
  return <Where numbers={numbers} pending={pending} />
}
