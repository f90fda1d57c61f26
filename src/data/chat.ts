/** Chat templates, as Hugging Face folders have them: what was said so far becomes the text that a model has learned to answer. */

export interface ChatTurn {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** The text of all that was said, up to where the next answer begins. Throws an Error fit to print. */
export type ChatText = (said: readonly ChatTurn[]) => string

/** `special`: `bos_token` and the like, which templates name. Throws an Error fit to print. */
export async function readChatTemplate(text: string, special: Readonly<Record<string, string>>): Promise<ChatText> {
  const { Template } = await import('@huggingface/jinja')
  const attempt = <T>(of: () => T): T => {
    try {
      return of()
    } catch (e) {
      throw new Error(`the chat template: ${e instanceof Error ? e.message : String(e)}`)
    }
  }
  const template = attempt(() => new Template(text))
  return said => attempt(() => template.render({ ...special, messages: said, add_generation_prompt: true }))
}
