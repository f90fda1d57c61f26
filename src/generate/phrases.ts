/** What is said of models that are to make text while they train, in English. */
import { type ProblemPhrases, phrasing } from '../base/index.js'

export const generatePhrases = {
  'generate/tokenizer': ['the job does not learn from text'],
  'generate/prompt/long': ['a prompt of {tokens} tokens, of sequences of {seq}'],
  'generate/prompt/none': ['there is no token to answer'],
  'generate/prompt/id': ['{id} is not the id of a token: ids are below {vocab}'],
  'generate/prompt/room': ['{tokens} tokens do not fit: there is room for {room}'],
  'generate/model': ['an mlp learns from vectors and makes no tokens'],
  'generate/options/context': ['{context} is not a number of tokens'],
} as const satisfies ProblemPhrases

export const { refused } = phrasing(generatePhrases)
