/** lockstep case: published runs beside ours, and the plan we would have chosen. */
import { fileURLToPath } from 'node:url'
import { clusterOf } from '../../cluster/index.js'
import { frameworks, planInput } from '../../estimate/index.js'
import {
  capacityOf,
  type Priced,
  priceOf,
  type Request,
  ratesOfPlan,
  requestOfRun,
  requestOfSetup,
  searching,
} from '../../search/index.js'
import {
  type Case,
  caseNamed,
  cases,
  compareCase,
  isUntimed,
  rowsOf,
  type Times,
  type UntimedCase,
  untimedCases,
} from '../../validate/index.js'
import type { Io } from '../io.js'
import { caseText, listText, type PlanBeside, untimedText } from '../text/case-text.js'
import { withProgress } from '../text/progress.js'

export interface CaseOptions {
  /** False: no plan of ours is looked for. */
  readonly best: boolean
  readonly json?: boolean
}

const folder = fileURLToPath(new URL('../../../../validation', import.meta.url))

export async function caseCommand(name: string | undefined, options: CaseOptions, io: Io): Promise<number> {
  const say = (json: object, text: () => string) =>
    io.out(options.json ? `${JSON.stringify(json, null, 2)}\n` : `${text()}\n`)
  if (name === undefined) {
    const titles = Object.entries({ ...cases, ...untimedCases }).map(([key, { title }]) => [key, title] as const)
    say(Object.fromEntries(titles), () => listText(titles))
    return 0
  }
  const found = caseNamed(name)
  if (isUntimed(found)) {
    const beside = await untimedBeside(found, options, io)
    say({ name, ...untimedJson(found, beside) }, () => untimedText(found, beside))
    return 0
  }
  const times = compareCase(found, rowsOf(io.read(`${folder}/${found.file}`)))
  const besides = options.best ? await bestBeside(found, times, io) : []
  say({ name, title: found.title, ...timedJson(times, besides) }, () => caseText(found.title, times, besides))
  return 0
}

const phase = 'searching for our plan'

/** The best plan for each row, of the software that ran it. */
const bestBeside = ({ constraints }: Case, { timed }: Times, io: Io): Promise<PlanBeside[]> =>
  withProgress(io, async progress => {
    progress.expect({ [phase]: 1 })
    const found: PlanBeside[] = []
    for (const { setup } of timed) {
      const request = requestOfSetup(setup, constraints)
      const plan = priceOf(request, setup.split)
      // It ran: what takes no more by the same prices would have fitted too.
      const capacity = Math.max(capacityOf(request), plan.bytes)
      const { best } = await progress.run(phase, searching(request, { keep: 1, front: false, capacity }))
      found.push({ request, plan, best: best[0] })
    }
    return found
  })

/** The best plan of those that its words allow, and the best of all. */
function untimedBeside(of: UntimedCase, { best }: CaseOptions, io: Io): Promise<PlanBeside | undefined> {
  const { device, devices, globalBatch } = of.on
  const run = { shape: of.shape, cluster: clusterOf(device, devices), globalBatch }
  const asked = { ...run, precision: 'bf16', software: frameworks.lockstep } as const
  return withProgress(io, async progress => {
    progress.expect({ [phase]: 1 })
    const search = async (request: Request) =>
      (await progress.run(phase, searching(request, { keep: 1, front: false }))).best[0]
    const plan = await search(requestOfRun(asked, of.constraints))
    const request = requestOfRun(asked)
    return plan && { request, plan, best: best ? await search(request) : undefined }
  })
}

const timedJson = ({ timed, aside }: Times, besides: readonly PlanBeside[]) => ({
  rows: timed.map(({ row, setup, counts, measured, predicted, error, fitted }, i) => ({
    ...{ source: row.source, device: setup.cluster.device.name, devices: setup.cluster.devices, split: setup.split },
    ...{ software: setup.software.name, published: row.reported_tflops_per_gpu, counts },
    ...{ measured, predicted, error, fitted },
    ...(besides[i] && { best: bestJson(besides[i]) }),
  })),
  aside: aside.map(({ row, reason }) => ({ line: row.line, reason })),
})

/** null: no plan fits by price. */
const bestJson = ({ request, plan, best }: PlanBeside) =>
  best ? { ...planJson(request, best), faster: plan.estimate.step / best.estimate.step - 1 } : null

const planJson = (request: Request, plan: Priced) => ({
  ...{ plan: planInput(plan.split, request.precision), step: plan.estimate.step, bytes: plan.bytes },
  ...ratesOfPlan(request, plan),
})

const untimedJson = ({ title, source, published, tokens, on }: UntimedCase, beside: PlanBeside | undefined) => ({
  ...{ title, source, published, tokens, times: 'none were published', on },
  ...(beside && { ours: planJson(beside.request, beside.plan) }),
  ...(beside?.best && { best: bestJson(beside) }),
})
