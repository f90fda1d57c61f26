/** Choices of experts, written down step by step as `data.routing` reads them. Nothing that is written is ever taken back. */
import { error, type Files, type Problem, ProblemsError, writing } from '../base/index.js'
import { printChoices } from '../data/index.js'
import type { Job } from '../plan/index.js'
import type { Session } from './session.js'

/** What keeps a job from recording choices. */
export function recordingProblems({ model, data }: Job): Problem[] {
  const problem = (message: string, suggestion: string) => [error('run/choices', '', message, suggestion)]
  if (model.family !== 'llama' || !model.moe) return problem('the model has no experts to route to', 'record nothing')
  if (data?.routing !== undefined)
    return problem(`routing is replayed from ${data.routing}: nothing is chosen`, 'leave data.routing out')
  return []
}

export interface ChoiceFile {
  readonly path: string
  /** Writes the choices of the step that the session took last. */
  write(): void
}

/** Of a session that keeps choices: a new file; a run that resumes may go on with the one it wrote before. */
export function openChoices(path: string, session: Session, files: Files): ChoiceFile {
  if (files.exists(path) && session.behind === 0)
    throw new ProblemsError([error('run/exists', '', `${path} already exists`, 'set another file')])
  const append = (text: string) => writing(path, () => files.append(path, text))
  append(files.exists(path) && !endsLine(path, files) ? '\n' : '') // before hours are spent
  return { path, write: () => append(printChoices(session.behind - 1, session.trainer.choices)) }
}

/** Whoever was stopped while it wrote left half a line. */
function endsLine(path: string, files: Files): boolean {
  let last: number | undefined
  writing(path, () => {
    last = files.readBytes(path).at(-1)
  })
  return last === undefined || last === 10
}
