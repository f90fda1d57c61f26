/** What is to be run, as a link says it. What a link says is checked: the rest is as usual. */
import { threads } from '../../base/isolation.js'
import { ownText } from '../../base/own.js'
import { place, setQuery } from '../../base/router.js'
import { hasServer } from '../../base/server.js'
import { examples, isJobName, type JobName, usualJob } from './jobs.js'

export interface Asked {
  readonly name: JobName
  /** The text of the job. */
  readonly job: string
  readonly where: 'page' | 'machine'
  readonly steps: number
  readonly sample: string
  readonly keepGoing: boolean
  readonly log: boolean
  /** 0 to 0.99: how much of the curve before is kept. */
  readonly smooth: number
  readonly predicted: boolean
}

export const cores = navigator.hardwareConcurrency || 2

export function readAsked(): Asked {
  const { query } = place.value
  const name = isJobName(query.job) ? query.job : usualJob(threads.value, cores)
  const example = name === 'own' ? (ownText('yaml') ?? examples.four.yaml) : examples[name].yaml
  const whole = (word: string | undefined, usual: number) => (/^[1-9]\d{0,5}$/.test(word ?? '') ? Number(word) : usual)
  const smooth = Number(query.smooth ?? 0.6)
  return {
    ...{ name, job: example, where: query.where === 'machine' && hasServer ? 'machine' : 'page' },
    steps: whole(query.steps, name === 'tiny' ? 50 : 200),
    sample: (query.sample ?? 'The ').slice(0, 60),
    ...{ keepGoing: query.keep === 'yes', log: query.scale === 'log', predicted: query.predicted === 'yes' },
    smooth: smooth >= 0 && smooth < 1 ? smooth : 0.6,
  }
}

export const change = (changes: Parameters<typeof setQuery>[0], pushed = true) => setQuery(changes, pushed)
