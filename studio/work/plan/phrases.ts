/** Problems of links. */
import { phrasing } from 'lockstep'
import { linkPhrases } from '../../text/link-phrases.js'

export const { refused } = phrasing(linkPhrases)
