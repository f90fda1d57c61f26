/** For a job that is too large for this page: its rehearsal, the same plan for a narrower model on fewer ranks. */
import { defineText } from '../base/language.js'
import { takeJob } from '../base/own.js'
import { ask } from '../work/ask.js'

const text = defineText({ take: 'Take the rehearsal' }, { take: '改用彩排' })

export function Rehearse({ job, page }: { readonly job: string; readonly page: 'program' | 'run' }) {
  const narrow = async () => takeJob(page, (await ask('fast', ['program', 'narrower'], { job })).job)
  return (
    <button type="button" onClick={() => void narrow()}>
      {text().take}
    </button>
  )
}
