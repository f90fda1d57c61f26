/** A job, as links of the studio and commands of a terminal name it. Only types of the core are known here. */
import type { JobText } from '../work/jobs.js'

/** `lockstep memory -` with a job on its standard input. */
export const onJob = (job: JobText, command: string): string => `echo '${JSON.stringify(job)}' | lockstep ${command}`

/** Fields of a plan with a short form in a link, as work/plan/words.ts reads them; every other stands in the job beside it. */
const letters: Readonly<Record<string, string>> = {
  tp: 'tp',
  cp: 'cp',
  pp: 'pp',
  dp: 'dp',
  ep: 'ep',
  zero: 'z',
  microbatches: 'm',
  chunks: 'c',
}

function shortForm([name, value]: readonly [string, unknown]): string | undefined {
  if (typeof value === 'number' && letters[name]) return `${letters[name]}${value}`
  if (name === 'sequenceParallel' && value === true) return 'sp'
  const isWord = name === 'schedule' || name === 'precision' || (name === 'recompute' && value !== 'none')
  return isWord && typeof value === 'string' ? value : undefined
}

/** The query of the plan page that opens this very job on so many devices: `model=…&on=h100*64&seq=…&batch=…&plan=tp2.sp.dp8.z1`. */
export function planQuery({ model, training, plan }: JobText, device: string): Readonly<Record<string, string>> {
  const { seq, globalBatch, ...trained } = training
  const axes = ['tp', 'pp', 'dp', 'cp'].map(name => Number(plan[name] ?? 1))
  const rest = Object.fromEntries(Object.entries(plan).filter(field => shortForm(field) === undefined))
  const beside = {
    ...(typeof model !== 'string' && { model }),
    ...(Object.keys(trained).length > 0 && { training: trained }),
    ...(Object.keys(rest).length > 0 && { plan: rest }),
  }
  return {
    ...(typeof model === 'string' && { model }),
    on: `${device}*${axes.reduce((all, size) => all * size, 1)}`,
    seq: String(seq),
    batch: String(globalBatch),
    plan:
      Object.entries(plan)
        .flatMap(field => shortForm(field) ?? [])
        .join('.') || 'dp1',
    ...(Object.keys(beside).length > 0 && { j: JSON.stringify(beside) }),
  }
}
