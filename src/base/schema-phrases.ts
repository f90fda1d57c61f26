/** Messages about values that a schema rejects, in English. Descriptions of fields are inserted as the schema has them. */
import type { ProblemPhrases } from './phrasing.js'

export const schemaPhrases = {
  'schema/missing': ['is missing'],
  'schema/missing/about': ['is missing: {about}'],
  'schema/missing/names': ['is missing; one of {names}'],
  'schema/type/kind': ['expected {kind}, got {got}', '{instead}'],
  'schema/type/said': ['{expected}, got {got}', '{instead}'],
  'schema/value': ['{expected}'],
  'schema/value/count': ['expected an integer, such as 8192 or 8k, got `{got}`'],
  'schema/value/memory': ['`{got}` is not a memory size; write it like {example}'],
  'schema/value/experts': ['is missing: number of experts, and experts per token (top-k)'],
  'schema/value/twice': ['{value}, but {other} is {got}'],
  'schema/key': ['unknown key `{key}`', '{instead}'],
  'schema/renamed': ['`{old}` is now `{now}`'],
  'schema/renamed/twice': ['`{old}` and `{now}` are the same field, and both are set', 'leave `{old}` out'],
  'schema/name/word': ['unknown {field} `{word}`', '{instead}'],
  'schema/name/value': ['unknown {field}: {got}', '{instead}'],
  'schema/range/least': ['must be at least {limit}, got {got}', '{instead}'],
  'schema/range/above': ['must be more than {limit}, got {got}', '{instead}'],
  'schema/range/most': ['must be at most {limit}, got {got}', '{instead}'],
  'schema/range/below': ['must be less than {limit}, got {got}', '{instead}'],

  '.int': ['an integer'],
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
