/** The views of a plan, each a link, and loaded when it is opened. */
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { place, showPlace } from '../../base/router.js'
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

interface LoadedProps {
  readonly link: Link
  readonly word: string
}

type Load = () => Promise<{ readonly default: ComponentType<LoadedProps> }>

const others: Readonly<Record<Exclude<Tab, 'overview'>, Load>> = {
  timeline: () => import('./timeline.js'),
  memory: () => import('./memory.js'),
  topology: () => import('./topology.js'),
  search: () => import('./search.js'),
  compare: () => import('./compare.js'),
  job: () => import('./job.js'),
}

export interface ViewProps extends LoadedProps {
  readonly tab: Tab
  readonly numbers: Numbers
  readonly pending: boolean
}

export function View({ tab, numbers, pending, link, word }: ViewProps) {
  if (tab !== 'overview') return <Loaded key={tab} tab={tab} link={link} word={word} />
  return (
    <div class="pair">
      <Where numbers={numbers} pending={pending} />
      <Memory numbers={numbers} pending={pending} />
    </div>
  )
}

function Loaded({ tab, link, word }: LoadedProps & { readonly tab: Exclude<Tab, 'overview'> }) {
  const [found, show] = useState<{ readonly Component?: ComponentType<LoadedProps> }>({})
  useEffect(() => {
    let ended = false
    void others[tab]().then(module => ended || show({ Component: module.default }))
    return () => {
      ended = true
    }
  }, [tab])
  return found.Component ? <found.Component link={link} word={word} /> : <p aria-busy="true">…</p>
}
