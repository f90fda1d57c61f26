/**
 * What says how a model is used, beside its numbers and its tokenizer: special tokens, the template of a chat, what ends an answer.
 * Hugging Face folders have these files; a run that starts from one carries them in its checkpoints, word by word.
 */
export const textNames = [
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  'generation_config.json',
] as const

/** Name -> what stands there; those that there are. */
export type Texts = Readonly<Partial<Record<(typeof textNames)[number], string>>>

/** `read`: undefined where there is no such file. */
export const textsIn = (read: (name: string) => string | undefined): Texts =>
  Object.fromEntries(
    textNames.flatMap(name => {
      const text = read(name)
      return text === undefined ? [] : [[name, text]]
    }),
  )
