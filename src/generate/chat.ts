/** How a model is talked to, by the files that lie beside it: the template of a chat, and the tokens that end an answer. */
import { error, ProblemsError } from '../base/index.js'
import type { Texts } from '../checkpoint/index.js'
import { type ChatText, readChatTemplate } from '../data/index.js'

type Mapping = Readonly<Record<string, unknown>>

/** undefined: there is no template. `path`: whose files they are, for messages. */
export async function chatOf(texts: Texts, path: string): Promise<ChatText | undefined> {
  const config = jsonIn('tokenizer_config.json', texts, path)
  const text = texts['chat_template.jinja'] ?? templateIn(config)
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

/** Tokens that end a text. */
export function endsOf(texts: Texts, path: string): readonly number[] {
  const { eos_token_id: found } = jsonIn('generation_config.json', texts, path)
  return [found].flat().filter((id): id is number => Number.isSafeInteger(id))
}

/** An empty mapping where there is none. */
function jsonIn(name: keyof Texts, texts: Texts, path: string): Mapping {
  try {
    return Object(JSON.parse(texts[name] ?? '{}'))
  } catch {
    throw new ProblemsError([error('weights/file', '', `${path}: ${name} is not valid JSON`)])
  }
}
