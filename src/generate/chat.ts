/** What a Hugging Face folder says of how its model is talked to: the template of a chat, and the tokens that end an answer. */
import { error, type Files, ProblemsError, within } from '../base/index.js'
import { type ChatText, readChatTemplate } from '../data/index.js'

type Mapping = Readonly<Record<string, unknown>>

/** undefined: the folder has no template. */
export async function chatOf(path: string, files: Files): Promise<ChatText | undefined> {
  const config = jsonIn(path, 'tokenizer_config.json', files)
  const file = within(path, 'chat_template.jinja')
  const text = files.exists(file) ? files.read(file) : templateIn(config)
  if (text === undefined) return undefined
  const special = Object.entries(config).flatMap(([key, value]) => {
    const word = typeof value === 'string' ? value : Object(value).content
    return key.endsWith('_token') && typeof word === 'string' ? [[key, word] as const] : []
  })
  try {
    return await readChatTemplate(text, Object.fromEntries(special))
  } catch (e) {
    throw chatProblem(path, e)
  }
}

export const chatProblem = (path: string, e: unknown): ProblemsError =>
  new ProblemsError([error('generate/prompt', '--chat', `${path}: ${e instanceof Error ? e.message : String(e)}`)])

/** One, or several by name. */
function templateIn({ chat_template: template }: Mapping): string | undefined {
  if (typeof template === 'string') return template
  const named = Array.isArray(template) ? template.map((one): Mapping => Object(one)) : []
  const found = named.find(({ name }) => name === 'default') ?? named[0]
  return typeof found?.template === 'string' ? found.template : undefined
}

/** Tokens that end a text, by what the folder says of generation, or of the model. */
export function endsOf(path: string, files: Files): readonly number[] {
  const said = ['generation_config.json', 'config.json'].map(name => jsonIn(path, name, files).eos_token_id)
  const found = said.find(one => one !== undefined && one !== null)
  return [found].flat().filter((id): id is number => Number.isSafeInteger(id))
}

/** An empty mapping where there is none. */
function jsonIn(path: string, name: string, files: Files): Mapping {
  const file = within(path, name)
  if (!files.exists(file)) return {}
  try {
    return Object(JSON.parse(files.read(file)))
  } catch {
    throw new ProblemsError([error('weights/file', '', `${file} is not valid JSON`)])
  }
}
