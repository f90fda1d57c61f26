/** Opens a job of the reader's own on the plan's page, where it came from or on as many devices as it has ranks. */
import { useState } from 'preact/hooks'
import { defineText } from '../base/language.js'
import { go, place } from '../base/router.js'
import { ask } from '../work/ask.js'
import type { TextRead } from '../work/plan-job.js'
import { Problems } from './trouble.js'

const text = defineText({ open: 'Open this job in Plan' }, { open: '在规划页打开这份作业' })

/** `on` of the link it came with, for as many ranks. */
const placeFor = (ranks: number, on = 'h100*1'): string => `${/^[\w.-]+/.exec(on)?.[0] ?? 'h100'}*${ranks}`

export function ToPlan({ job }: { readonly job: string }) {
  const [problems, show] = useState<TextRead['problems']>([])
  const open = async () => {
    const { link, ranks, problems } = await ask('fast', ['plan-job', 'readText'], job)
    show(link ? [] : problems)
    const { lang, theme, on } = place.peek().query
    if (link) go('plan', { lang, theme, ...link, on: placeFor(ranks ?? 1, on) })
  }
  return (
    <div>
      <button type="button" class="quiet" onClick={() => void open()}>
        {text().open}
      </button>
      {problems.length > 0 && <Problems problems={problems} />}
    </div>
  )
}
