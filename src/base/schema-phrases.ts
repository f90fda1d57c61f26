/** What schemas refuse, in English. What a schema says of a field or of its kinds stands in gaps, as it is written there. */
import type { ProblemPhrases } from './phrasing.js'

export const schemaPhrases = {
  'schema/missing': ['is missing'],
  'schema/missing/about': ['is missing: {about}'],
  'schema/missing/names': ['is missing; one of {names}'],
  'schema/type/kind': ['expected {kind}, got {got}', '{instead}'],
  'schema/type/said': ['{expected}, got {got}', '{instead}'],
  'schema/value': ['{expected}'],
  'schema/value/count': ['expected a whole number, such as 8192 or 8k, got `{got}`'],
  'schema/value/memory': ['`{got}` is not an amount of memory; write it like {example}'],
  'schema/value/experts': ['is missing: how many experts there are, and how many a token meets'],
  'schema/value/twice': ['{value}, but {other} is {got}'],
  'schema/key': ['unknown key `{key}`', '{instead}'],
  'schema/name/word': ['unknown {field} `{word}`', '{instead}'],
  'schema/name/value': ['unknown {field}: {got}', '{instead}'],
  'schema/range/least': ['must be at least {limit}, got {got}', '{instead}'],
  'schema/range/above': ['must be more than {limit}, got {got}', '{instead}'],
  'schema/range/most': ['must be at most {limit}, got {got}', '{instead}'],
  'schema/range/below': ['must be less than {limit}, got {got}', '{instead}'],

  '.int': ['a whole number'],
  '.number': ['a number'],
  '.string': ['a string'],
  '.boolean': ['true or false'],
  '.array': ['a list'],
  '.object': ['a mapping'],
  '.text': ['the string {text}'],
  '.empty': ['an empty string'],
  '.null': ['nothing (null)'],
  '.characters': ['{limit} characters'],
  '.entries': ['{limit} entries'],
  '.unquoted': ['write {value} without quotes'],
  '.write': ['write {value}'],
  '.did-you-mean': ['did you mean `{word}`?'],
  '.one-of': ['one of {words}'],
} as const satisfies ProblemPhrases

export type SchemaPhrases = typeof schemaPhrases
