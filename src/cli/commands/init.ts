/** lockstep init: a job to begin with. */
import { error, ProblemsError, save, shorten } from '../../base/index.js'
import { type Template, type TemplateName, templateNames, templates } from '../../plan/index.js'
import { type Answers, draftJob } from '../../search/index.js'
import type { Io } from '../io.js'

export interface InitOptions {
  readonly template?: TemplateName
  readonly model?: string
  readonly data?: string
  readonly devices?: number
  readonly out: string
  readonly yes?: boolean
  readonly force?: boolean
  readonly json?: boolean
}

export async function initCommand(options: InitOptions, io: Io): Promise<number> {
  const { out, yes, force, json } = options
  if (io.exists(out) && !force)
    throw new ProblemsError([
      error(
        'file/exists',
        '--out',
        `${shorten(out, 200)} is there already`,
        'give another --out, or --force to write over it',
      ),
    ])
  const given: Answers = { ...options, template: options.template ?? 'first-run' }
  const answers = yes || json ? given : await asked(given, options.template !== undefined, io)
  const { title, text, next } = draftJob(answers, out, path => io.read(path))
  save(out, text, io)
  io.out(
    json
      ? `${JSON.stringify({ file: out, template: answers.template, next }, null, 2)}\n`
      : `written: ${out}, ${title}\nnext:\n${next.map(line => `  ${line}\n`).join('')}`,
  )
  return 0
}

/** What was not said, asked for where somebody is there to answer. An empty answer takes what is offered. */
async function asked(given: Answers, isChosen: boolean, io: Io): Promise<Answers> {
  const list = templateNames.map((name, i) => `  ${i + 1}  ${name.padEnd(14)} ${templates[name].title}\n`).join('')
  const said = isChosen ? given.template : await io.ask(`What for?\n${list}[1] `)
  if (said === undefined) return given
  const template = templateNames[Number(said) - 1] ?? templateNames.find(name => name === said) ?? given.template
  const { job, cluster }: Template = templates[template]
  const model =
    given.model ??
    filled(
      await io.ask(
        `Model (lockstep models lists them) [${typeof job.model === 'string' ? job.model : 'that of the template'}] `,
      ),
    )
  const data = given.data ?? filled(await io.ask('Data: a text file, a folder or tokens [none: a synthetic task] '))
  const devices =
    given.devices ??
    counted(
      await io.ask(
        cluster ? `How many ${cluster.device}? [${cluster.devices}] ` : 'Ranks? [as the template has them] ',
      ),
    )
  return { template, model, data, devices }
}

const filled = (text: string | undefined): string | undefined => text?.trim() || undefined

const counted = (text: string | undefined): number | undefined => {
  const n = Number(text)
  return Number.isInteger(n) && n > 0 ? n : undefined
}
