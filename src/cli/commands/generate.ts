/** lockstep generate: a checkpoint goes on from a prompt, or answers line by line. */
import { counted, error, ProblemsError, scaled, type Work } from '../../base/index.js'
import { type ChatText, type ChatTurn, encodingOf, type Tokenizer } from '../../data/index.js'
import type { KernelName } from '../../engine/index.js'
import {
  chatOf,
  chatProblem,
  type Decoder,
  endsOf,
  generate,
  openDecoder,
  openTrained,
  type TrainedModel,
  textStream,
  tokenizerOf,
} from '../../generate/index.js'
import type { Io } from '../io.js'
import { showProblems } from '../text/problems.js'
import { Interrupted, withProgress } from '../text/progress.js'

export interface GenerateCommandOptions {
  readonly prompt?: string
  readonly adapters?: string
  readonly ids?: string
  readonly chat?: boolean
  readonly tokens?: number
  readonly temperature?: number
  readonly topK?: number
  readonly topP?: number
  readonly seed?: number
  readonly context?: number
  readonly cache?: boolean
  readonly threads?: number
  readonly kernels: KernelName | 'auto'
  readonly json?: boolean
}

interface Speaker {
  readonly trained: TrainedModel
  readonly decoder: Decoder
  readonly tokenizer: Tokenizer | undefined
  /** How the model is talked to, where the folder it began with says so. */
  readonly chat: ChatText | undefined
  readonly ends: readonly number[]
  readonly options: GenerateCommandOptions
  readonly io: Io
}

export async function generateCommand(path: string, options: GenerateCommandOptions, io: Io): Promise<number> {
  const opened = await withProgress(io, async watcher => {
    watcher.say(`reading ${path}`)
    const trained = openTrained(path, io, options)
    const tokenizer = await tokenizerOf(trained)
    requirePrompt(options, tokenizer, trained)
    const texts = trained.checkpoint.texts()
    const theirs = { chat: await chatOf(texts, trained.path), ends: endsOf(texts, trained.path) }
    return { trained, tokenizer, ...theirs, decoder: await openDecoder(trained, options) }
  })
  const speaker: Speaker = { ...opened, options, io }
  if (!options.json) io.err(notesOn(opened.trained, io))
  let stopped: number | undefined
  const forget = io.onInterrupt(code => {
    stopped = code
  })
  try {
    if (options.chat) await chat(speaker, () => stopped !== undefined)
    else await answer(speaker, await promptOf(speaker), { echo: true, isStopped: () => stopped !== undefined })
    return stopped ?? 0
  } finally {
    forget()
    await opened.decoder.stop()
  }
}

/** What readers of a checkpoint should know of it. */
export const notesOn = ({ passedOver, path, warnings, checkpoint: { software } }: TrainedModel, io: Io): string =>
  [
    showProblems(warnings, io),
    ...(passedOver > 0 ? [`${passedOver} newer checkpoints are corrupt; this is ${path}\n`] : []),
    ...(software === undefined ? [`${path} does not say who wrote it: an earlier lockstep\n`] : []),
  ].join('')

function requirePrompt(
  { prompt, ids, chat }: GenerateCommandOptions,
  tokenizer: Tokenizer | undefined,
  { path }: TrainedModel,
): void {
  const problems = [
    ...(prompt === undefined && ids === undefined && !chat
      ? [error('generate/prompt', '', 'no prompt', 'give --prompt "...", --ids 1,2,3 or --chat')]
      : []),
    ...(prompt === '' ? [error('generate/prompt', '--prompt', 'the prompt is empty', 'give at least one letter')] : []),
    ...(ids !== undefined && !/^\s*\d+([\s,]+\d+)*\s*$/.test(ids)
      ? [error('generate/prompt', '--ids', `\`${ids}\` is not a list of ids`, 'write them as 17,4,99')]
      : []),
    ...(tokenizer === undefined && ids === undefined && (chat || prompt !== undefined)
      ? [
          error(
            'generate/tokenizer',
            '',
            `${path} has no tokenizer: its model learned from ids, not from text`,
            'give the prompt as --ids 1,2,3',
          ),
        ]
      : []),
  ]
  if (problems.length > 0) throw new ProblemsError(problems)
}

async function promptOf(speaker: Speaker): Promise<number[]> {
  const { prompt = '', ids } = speaker.options
  if (ids !== undefined)
    return ids
      .trim()
      .split(/[\s,]+/)
      .map(Number)
  return idsOf(speaker, prompt)
}

interface Answering {
  /** Whether the prompt is said again before what follows it. */
  readonly echo: boolean
  readonly isStopped: () => boolean
}

/** Gives what was said. */
async function answer(speaker: Speaker, prompt: readonly number[], { echo, isStopped }: Answering): Promise<string> {
  const { decoder, tokenizer, options, ends, io } = speaker
  const { tokens = 128, temperature = 0, topK, topP, seed = 0, cache = true, json } = options
  const stream = tokenizer && options.ids === undefined ? textStream(tokenizer) : undefined
  const say = (text: string) => !json && text !== '' && io.out(text)
  if (echo) say(stream ? (options.prompt ?? '') : prompt.join(' '))
  const made: number[] = []
  let text = ''
  const begun = performance.now()
  const asked = {
    tokens,
    temperature,
    topK,
    topP,
    seed,
    cache,
    end: [...ends, ...(tokenizer?.end === undefined ? [] : [tokenizer.end])],
  }
  for await (const id of generate(decoder, prompt, asked)) {
    made.push(id)
    const piece = stream ? stream.add(id) : ` ${id}`
    text += piece
    say(piece)
    if (isStopped()) break
  }
  const rest = stream?.end() ?? ''
  say(`${rest}\n`)
  const seconds = (performance.now() - begun) / 1000
  const rate = made.length / seconds
  if (json) io.out(`${JSON.stringify(jsonOf(speaker, { prompt, made, text: text + rest, seconds }))}\n`)
  else io.err(`${counted(made.length, 'token')}, ${scaled(rate)} tokens/s; ${decoder.description}\n`)
  return text + rest
}

function jsonOf(
  { trained: { path, checkpoint }, decoder, tokenizer, options }: Speaker,
  answer: { prompt: readonly number[]; made: readonly number[]; text: string; seconds: number },
) {
  const { prompt, made, text, seconds } = answer
  const asText = tokenizer && options.ids === undefined ? { text } : {}
  return {
    ...{
      ok: true,
      checkpoint: path,
      step: checkpoint.step,
      software: checkpoint.software,
      promptIds: prompt,
      ...asText,
      ids: made,
    },
    ...{ tokens: made.length, seconds, tokensPerSecond: made.length / seconds, kernels: decoder.description },
  }
}

/** Every line goes on from all that was said before, as far as it fits. */
async function chat(speaker: Speaker, isStopped: () => boolean): Promise<void> {
  const { io, options } = speaker
  const asks = !options.json && io.terminal() !== undefined
  const promptFor = speaker.chat ? templated(speaker, speaker.chat) : plain(speaker)
  if (asks) io.out('> ')
  for await (const line of io.lines()) {
    const { prompt, heard } = await promptFor(line)
    heard(await answer(speaker, prompt, { echo: false, isStopped }))
    if (isStopped()) return
    if (asks) io.out('> ')
  }
}

/** What to feed of a line, beside what the decoder remembers, and who wants to hear the answer. */
type PromptFor = (line: string) => Promise<Prompted>

interface Prompted {
  readonly prompt: readonly number[]
  readonly heard: (answer: string) => void
}

/** With pauses in which Ctrl-C is heard: how long a tokenizer or a template takes is up to its file. */
const patiently = <T>(io: Io, work: Work<T>): Promise<T> =>
  withProgress(io, watcher => watcher.run('reading the prompt', work))

async function idsOf({ tokenizer, io }: Speaker, text: string): Promise<number[]> {
  if (!tokenizer) return []
  return Array.from(await patiently(io, encodingOf(tokenizer, new TextEncoder().encode(text))))
}

const plain =
  (speaker: Speaker): PromptFor =>
  async line => {
    const { decoder } = speaker
    const prompt = await idsOf(speaker, `${line}\n`)
    if (decoder.past + prompt.length > decoder.context) decoder.rewind(0)
    return { prompt, heard: () => {} }
  }

/** All that was said is written anew by the template; the first turns are forgotten where half of the context is full. */
function templated(speaker: Speaker, chatText: ChatText): PromptFor {
  const { decoder, trained, io } = speaker
  let said: readonly ChatTurn[] = []
  const rendered = async (): Promise<string> => {
    try {
      return await patiently(io, chatText(said))
    } catch (e) {
      throw e instanceof Interrupted ? e : chatProblem(trained.path, e)
    }
  }
  const written = async () => idsOf(speaker, await rendered())
  return async line => {
    said = [...said, { role: 'user', content: line }]
    let prompt = await written()
    while (said.length > 1 && prompt.length > decoder.context / 2) {
      said = said.slice(2)
      prompt = await written()
    }
    decoder.rewind(0)
    return { prompt, heard: content => (said = [...said, { role: 'assistant', content }]) }
  }
}
