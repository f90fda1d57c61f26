/** Messages about text generation, in English. */
import { type ProblemPhrases, phrasing } from '../base/index.js'

export const generatePhrases = {
  'generate/tokenizer': ['the job does not train on text'],
  'generate/prompt/long': ['the prompt must have 1 to {seq} tokens, got {tokens}'],
  'generate/prompt/none': ['the prompt is empty'],
  'generate/prompt/id': ['{id} is not a token id: ids are below {vocab}'],
  'generate/prompt/room': ['{tokens} tokens do not fit: {room} are left in the context'],
  'generate/model': ['an mlp trains on vectors and generates no tokens'],
  'generate/options/context': ['{context} is not a number of tokens'],
} as const satisfies ProblemPhrases

export const { refused } = phrasing(generatePhrases)
