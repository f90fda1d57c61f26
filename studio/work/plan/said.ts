/** Sentences of the core in both languages: the page shows the reader's. */
import { type Sentence, showSentence } from 'lockstep'
import { sentenceZh } from '../../text/sentences.zh.js'

export interface InBoth {
  readonly en: string
  readonly zh: string
}

export const inBoth = (sentence: Sentence): InBoth => ({ en: showSentence(sentence), zh: sentenceZh(sentence) })
