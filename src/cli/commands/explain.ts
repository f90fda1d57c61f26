/** lockstep explain: what limits a plan, which changes would help, and why the others would not. */
import { printable, save, scaled, showCount, showGiB, showPercent, showSeconds, wrapped } from '../../base/index.js'
import { simulatingOn } from '../../calibrate/prediction.js'
import { heaviest } from '../../compile/index.js'
import { type FrameworkName, frameworks } from '../../estimate/index.js'
import { exposedOf, headroomOf } from '../../metrics/index.js'
import { parametersOf } from '../../model/index.js'
import { type Job, worldOfPlan } from '../../plan/index.js'
import {
  bestSentence,
  canSimulate,
  capacityOf,
  differenceSentence,
  differencesOf,
  type Explanation,
  explaining,
  fitSentence,
  isPriced,
  limitSentence,
  noteSentences,
  type Priced,
  planOf,
  ratesOfPlan,
  readingOf,
  requestOfJob,
  showSentence,
} from '../../search/index.js'
import { type RankLoad, rankLoadOf } from '../../simulate/index.js'
import { clusterIfAny, loadCluster } from '../files/load-cluster.js'
import { requireOutputs } from '../files/outputs.js'
import { jobTextWith, loadWithText, provenance } from '../files/planned-job.js'
import { programOf } from '../files/program.js'
import type { Io } from '../io.js'
import { choiceLegend, choiceLines } from '../text/choice-text.js'
import { colorsOf } from '../text/colors.js'
import { kernelLines, trafficLines } from '../text/loads.js'
import { neighbourLines, partsLines, worksLines } from '../text/plan-text.js'
import { showPlan } from '../text/plan-words.js'
import { countProblems, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import { choiceJson, fitJson, impossibleJson, readingJson, readingLines, verdictJson } from '../text/sentences.js'

export interface ExplainOptions {
  readonly cluster: string
  readonly software: FrameworkName
  readonly measuredStep?: number
  readonly devices?: number
  readonly set?: Readonly<Record<string, string>>
  readonly out?: string
  readonly json?: boolean
}

export async function explainCommand(path: string, options: ExplainOptions, io: Io): Promise<number> {
  requireOutputs(io, options.out)
  const { parsed, text } = await loadWithText(path, io, options)
  const { job } = parsed
  const isOwn = frameworks[options.software].own === true
  const tried = job && (isOwn || !hasClosedForm(job)) ? await programOf(parsed, path, io, { fits: false }) : undefined
  if (!job || (tried && !tried.loaded && !hasClosedForm(job))) {
    const problems = tried?.problems ?? parsed.problems
    if (options.json) io.out(`${JSON.stringify({ ok: false, problems }, null, 2)}\n`)
    else io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
    return 1
  }
  const request = requestOfJob(job, loadCluster(options.cluster, io, worldOfPlan(job.plan)), options.software)
  const program = tried?.loaded && canSimulate(request) ? tried.loaded.program : undefined
  const load = program && rankLoadOf(program, request.cluster, heaviest(program.streams))
  const clusterAt = (devices: number) => clusterIfAny(n => loadCluster(options.cluster, io, n), devices)
  const explained = await withProgress(io, async progress => {
    progress.expect({ ...(program && { simulating: 1 }), searching: 1 })
    const own = program && {
      program,
      simulation: await progress.run('simulating', simulatingOn(program, request.cluster)),
    }
    return progress.run('searching', explaining(request, job, { own, measured: options.measuredStep, clusterAt }))
  })
  io.out(
    options.json
      ? `${JSON.stringify({ ...asJson(explained), ...(load && { load }) }, null, 2)}\n`
      : asText(explained, load, { io, out: options.out }),
  )
  const { out } = options
  if (out !== undefined) {
    const { split, estimate } = explained.best ?? explained.plan
    const head = provenance(request, { seconds: explained.scale * estimate.step, by: 'explain' })
    save(out, `${head}\n${jobTextWith({ job, path, text }, planOf(request, split), out)}`, io)
    if (!options.json) io.out(`written: ${out} (lockstep check, compile, simulate and explain read it)\n`)
  }
  return 0
}

/** A schedule from a file and a list of ops to recompute are estimated from their programs. */
const hasClosedForm = ({ plan }: Job): boolean => typeof plan.schedule === 'string' && !Array.isArray(plan.recompute)

function asText(
  explained: Explanation,
  load: RankLoad | undefined,
  { io, out }: { io: Io; out?: string | undefined },
): string {
  const { job, request, plan, fit, scale, neighbours, choices, impossible, order } = explained
  const { bold, red, dim } = colorsOf(io)
  const { cluster, shape, software, precision } = request
  const { mfu, hfu, tokensPerSecond } = ratesOfPlan(request, plan)
  const indent = (lines: readonly string[]) => lines.map(line => `  ${line}`)
  // Of a plan that does not fit, every change that makes it fit is a gain.
  const isUnfit = fit.verdict === 'does not fit'
  const gains = neighbours.filter(({ verdict }) => verdict.kind === 'timed' && (isUnfit || verdict.ratio < 0.9995))
  const others = neighbours.filter(one => !gains.includes(one))
  const [some, none] = isUnfit
    ? ['What makes it fit', 'No single change makes it fit.']
    : ['What to try next', 'No single change is faster.']
  return [
    `${bold(job.name ? printable(job.name) : `${showCount(parametersOf(job.model, shape.seq))} parameters`)} on ${bold(`${cluster.devices} x ${cluster.device.title}`)}, ${precision}, modeled for ${software.name}`,
    showPlan(plan.split),
    '',
    `${bold(`${showSeconds(plan.estimate.step)}/step`)} (${basisOf(explained)}), ${scaled(tokensPerSecond)} tokens/s, ${scale === 1 ? 'predicted ' : ''}MFU ${showPercent(mfu)}, HFU ${showPercent(hfu)}, ${showGiB(plan.bytes)} per rank`,
    ...elsewhereLine(explained).map(dim),
    ...bestLines(explained, { bold, out }),
    ...fitSentence(request, plan, fit)
      .flatMap(fits => wrapped(showSentence(fits)))
      .map(red),
    ...noteSentences(explained)
      .flatMap(note => wrapped(`note: ${showSentence(note)}`))
      .map(dim),
    '',
    `${bold('What limits it')}: ${wrapped(showSentence(limitSentence(plan)), 84).join('\n')}`,
    ...indent(partsLines(plan.estimate.step, plan.estimate.parts)),
    dim(bubbleLine(explained)),
    '',
    ...(load ? [...trafficLines(load), ...kernelLines(load), dim(whereElse), ''] : []),
    bold('Rules of thumb'),
    ...indent(readingLines(readingOf(request, plan))),
    '',
    ...choicesText(choices, colorsOf(io)),
    ...(impossible?.instead.length ? [bold('What would work'), ...indent(worksLines(impossible)), ''] : []),
    gains.length > 0 || order ? `${bold(some)} (estimated)` : none,
    ...indent(order ? wrapped(showSentence({ code: 'order/faster', values: order })) : []),
    ...indent(neighbourLines(gains)),
    '',
    `${bold('What does not help')} (estimated)`,
    ...indent(neighbourLines(others)),
    '',
  ].join('\n')
}

function choicesText(choices: Explanation['choices'], { bold, dim }: ReturnType<typeof colorsOf>): string[] {
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [bold(title), ...lines.map(line => `  ${line}`), '']
  const taken = choices.some(one => isPriced(one) && one.simulated) ? ' (simulated)' : ' (estimated)'
  return [
    ...section(`Cost of each choice, against the plan without it${taken}`, choiceLines(choices, true)),
    ...section('Cost of other choices (estimated)', choiceLines(choices, false)),
    ...(choices.length > 0 ? [...wrapped(choiceLegend, undefined, '').map(dim), ''] : []),
  ]
}

const whereElse = '`lockstep memory` lists saved activations, `lockstep simulate` draws the timeline'

/** 'simulated', or 'measured; simulated 2.10 s' */
function basisOf({ plan: { estimate }, scale, simulated }: Explanation): string {
  const basis = simulated ? 'simulated' : 'estimated'
  return scale === 1 ? basis : `measured; ${basis} ${showSeconds(estimate.step / scale)}`
}

function elsewhereLine({ request, elsewhere, scale }: Explanation): string[] {
  if (!elsewhere || scale !== 1) return []
  const { name, plan } = elsewhere
  const { mfu } = ratesOfPlan(request, plan)
  return [
    `the same plan modeled for ${name}: ${showSeconds(plan.estimate.step)}/step (estimated), MFU ${showPercent(mfu)}`,
  ]
}

/** Of what the shares are: a simulation knows every rank, an estimate the busiest. */
function bubbleLine({ bubble, plan: { split } }: Explanation): string {
  if (!bubble) return 'estimated times of the busiest rank'
  const { mean, criticalPath } = bubble
  return split.pp === 1
    ? 'mean over ranks'
    : `mean over ranks; the bubble is ${showPercent(mean)} there and ${showPercent(criticalPath)} on the critical path`
}

function bestLines(
  explained: Explanation,
  { bold, out }: { bold: (text: string) => string; out: string | undefined },
): string[] {
  const said = bestSentence(explained)
  const { plan, best } = explained
  const differences =
    best && (said.code === 'best/faster' || said.code === 'best/fits')
      ? differencesOf(plan.split, best.split)
      : undefined
  return [
    `${bold('Best plan found')}: ${showSentence(said)}`,
    ...(differences
      ? [
          ...wrapped(`  ${showSentence(differenceSentence(differences))}`),
          ...(out === undefined ? ['  `--out job.yaml` writes it'] : []),
        ]
      : []),
  ]
}

function asJson({
  request,
  plan,
  fit,
  scale,
  neighbours,
  choices,
  best,
  impossible,
  order,
  simulated,
  bubble,
}: Explanation) {
  const { estimate, bytes } = plan
  const shown = (one: Priced) => ({
    plan: planOf(request, one.split),
    ...one.estimate,
    bytes: one.bytes,
    ...ratesOfPlan(request, one),
  })
  return {
    ok: true,
    basis: simulated ? 'simulated' : 'estimated',
    ...shown(plan),
    ...(bubble && { bubble }),
    exposed: exposedOf(estimate.parts, estimate.step),
    headroom: headroomOf(bytes, capacityOf(request)),
    fit: fitJson(fit),
    scale,
    capacity: capacityOf(request),
    ...(request.shape.experts && { imbalance: plan.split.imbalance ?? 1 }),
    reading: readingJson(readingOf(request, plan)),
    neighbours: neighbours.map(({ move, verdict, plan: next }) => ({
      ...{ move: showSentence(move.change), verdict: verdictJson(verdict) },
      ...(next && { plan: planOf(request, next.split), step: next.estimate.step, bytes: next.bytes }),
    })),
    choices: choices.map(choiceJson),
    ...(best && { best: shown(best) }),
    ...(impossible && { impossible: impossibleJson(impossible) }),
    ...(order && { order }),
  }
}
