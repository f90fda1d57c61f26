/**
 * What a page may ask of the core. A module here is a set of functions that run in a worker, loaded when the first of them is
 * asked: `ask('fast', ['schedule', 'lay'], …)`. The page's own thread imports none of the core.
 */
import { lessonModules } from './lesson-modules.js'

export const modules = {
  run: () => import('./run.js'),
  ...lessonModules,
  claims: () => import('./claims.js'),
  clusters: () => import('./clusters.js'),
  program: () => import('./program/index.js'),
  plan: () => import('./plan.js'),
  'plan-program': () => import('./plan-program.js'),
  'plan-advice': () => import('./plan-advice.js'),
  'plan-job': () => import('./plan-job.js'),
  'plan-why': () => import('./plan-why.js'),
  'plan-search': () => import('./plan-search.js'),
  schedule: () => import('./schedule.js'),
  weigh: () => import('./weigh.js'),
}

export type Modules = { readonly [M in keyof typeof modules]: Awaited<ReturnType<(typeof modules)[M]>> }
export type ModuleName = keyof Modules

/** What a function in a worker has beside its input. */
export interface Context {
  /** Tells the page something before the answer is there. */
  readonly progress: (value: unknown) => void
  /** Answers first what was asked meanwhile: for what a worker does beside things that readers wait for. */
  readonly pause: () => Promise<void>
}

type Work = (input: never, context: Context) => unknown
/** Names of a module's functions. */
export type WorkName<M extends ModuleName> = {
  [F in keyof Modules[M]]: Modules[M][F] extends Work ? F : never
}[keyof Modules[M]] &
  string
type WorkOf<M extends ModuleName, F extends WorkName<M>> = Modules[M][F] extends Work ? Modules[M][F] : never
export type Input<M extends ModuleName, F extends WorkName<M>> = Parameters<WorkOf<M, F>>[0]
export type Output<M extends ModuleName, F extends WorkName<M>> = Awaited<ReturnType<WorkOf<M, F>>>
