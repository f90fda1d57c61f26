/** A job, as links of the studio and commands of a terminal name it. Only types of the core are known here. */
import type { JobText } from '../work/jobs.js'

/** `lockstep memory -` with a job on its standard input. */
export const onJob = (job: JobText, command: string): string => `echo '${JSON.stringify(job)}' | lockstep ${command}`

/** Fields of a plan whose names are short in a link; words (a schedule, a precision) stand for themselves. */
const letters: Readonly<Record<string, string>> = {
  dp: 'dp',
  tp: 'tp',
  pp: 'pp',
  cp: 'cp',
  zero: 'z',
  microbatches: 'm',
}

/** The query of the plan page that opens this job on so many devices: `model=…&on=h100*64&seq=…&batch=…&plan=tp2.sp.dp8.z1`. */
export function planQuery({ model, training, plan }: JobText, device: string): Readonly<Record<string, string>> {
  const axes = ['tp', 'pp', 'dp', 'cp'].map(name => Number(plan[name] ?? 1))
  const fields = Object.entries(plan).flatMap(([name, value]) => {
    if (letters[name]) return [`${letters[name]}${value}`]
    if (value === true) return [name]
    return typeof value === 'string' ? [value] : []
  })
  return {
    model: typeof model === 'string' ? model : '',
    on: `${device}*${axes.reduce((all, size) => all * size, 1)}`,
    seq: String(training.seq),
    batch: String(training.globalBatch),
    plan: fields.join('.'),
  }
}
