/** Chat templates, as Hugging Face folders have them: what was said so far becomes the text that a model has learned to answer. */
import type { Work } from '../base/index.js'
import { asking, type TheirLimits } from './theirs.js'

export interface ChatTurn {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** The text of all that was said, up to where the next answer begins. Throws an Error fit to print. */
export type ChatText = (said: readonly ChatTurn[]) => Work<string>

/** What a template may keep: a text of some pages. */
const heapMiB = 256

/** `special`: `bos_token` and the like, which templates name. */
export async function readChatTemplate(
  text: string,
  special: Readonly<Record<string, string>>,
  limits: TheirLimits = {},
): Promise<ChatText> {
  const ask = await asking({ kind: 'template', text, special }, { heapMiB, ...limits })
  return function* (said) {
    const bytes = said.reduce((sum, { content }) => sum + content.length, text.length)
    try {
      return (yield* ask({ ask: 'render', said }, bytes)) as string // what Template.render returns
    } catch (e) {
      throw new Error(`the chat template: ${e instanceof Error ? e.message : String(e)}`)
    }
  }
}
