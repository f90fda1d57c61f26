/** What laws say of programs that break them, in English. A phrase begins with the law; one with a dot stands within others. */
import { english, type Filling, memoryPhrases, type Phrases, type Spoken, speak, spoken } from '../../base/index.js'

export const lawPhrases = {
  ...memoryPhrases,
  'M1/no-send': ['channel {channel}: recv {tag} has no send'],
  'M1/no-recv': ['channel {channel}: send {tag} has no recv'],
  'M1/tags': ['channel {channel}: message {message} is sent as {sent} (step {step}) and received as {received}'],
  M2: ['channel {channel}: {tag} is sent with {sent} bytes and received with {received}'],
  'M3/nothing': ['nothing named {tag} is in flight'],
  'M3/never': ['{tag} is never waited for'],
  'M4/second': ['a second {kind} {tag}'],
  'M4/shared': ['the {kind} {tag} has the tag of a message'],

  'G2/stranger': ['stream {stream} joins a group of stages {stages}'],
  'G2/twice': ['stages {stages} name one twice'],
  'G2/none': ['there is no stream {stream}'],
  'G2/holder': ['stream {stream} does not hold {param}'],
  G1: ['collective {collective}: {left}, {right}'],
  '.does': ['stream {stream} does {collective}'],
  '.does-nothing': ['the other does nothing'],

  stall: ['{chain}'],
  '.finished': ['stream {stream} has finished'],
  '.stands': ['stream {stream} at step {step}'],
  '.sends': ['stream {stream} at step {step} sends {tag} and waits for stream {peer} to post the recv'],
  '.waits': ['stream {stream} at step {step} waits for the {on} of {tag}, for stream {peer} to post its end'],
  '.meets': ['stream {stream} at step {step} waits in collective {collective}, where {present} of {all} have come'],

  'L1/leak': ['{frame} is never freed'],
  'L1/resident-allocated': ['{frame} is resident and allocated'],
  'L1/resident-freed': ['{frame} is resident and freed'],
  'L1/twice': ['{frame} is allocated twice'],
  'L1/dead': ['{frame} is {how} while it is not allocated'],
  'L2/end': ['{frame} ends at {end}, the arena at {arena}'],
  'L2/over': ['{frame} lies over {other}'],
  'L3/device': ['{kind} peak at {peak} bytes, declared {declared}'],
  'L3/elsewhere': ['{kind} peak at {peak} bytes on the {space}, declared {declared}'],
  L4: ['{frame} is {how} while the {what} of {tag} is in flight'],
  '.space/device': ['device'],
  '.space/host': ['host'],
  '.space/disk': ['disk'],
  '.frame': ['{name} (frame {frame})'],
  '.freed': ['freed'],
  '.sent': ['sent'],
  '.received': ['received into'],
  '.used': ['used by {segment}'],
  'L5/buffer': ['%{ref} ends at {end}, its role at {bytes}'],
  'L5/role': ['role {role} needs {needed} bytes, {frame} has {bytes}'],
  'L5/kept': ['{what} needs {needed} bytes, {frame} has {bytes}'],
  'L7/lost': ['%{ref} is read, but its bytes have become %{by}'],
  'L7/over': ['%{out} is written over %{ref} by the instruction that uses it'],
  'L8/none': ['no collective is writing %{ref}'],
  'L8/touched': ['%{ref} is touched while the collective from %{from} to %{to} is in flight'],
  'L8/never': ['nobody waits for %{ref}'],
  'L9/disk': ['{name} begins at {offset} of the disk, within a page'],
  'L9/frame': ['{name} begins at {offset}, not a multiple of {width}'],
  'L9/buffer': ['{what} begins at {offset}, not a multiple of {width} ({dtype})'],
  '.parameter': ['parameter {name}'],
  '.state-of': ['{state} of {name}'],
  '.result': ['the {name}'],
} as const satisfies Phrases

export type LawPhrases = typeof lawPhrases

/** What a finding says: in English, and as a phrase. */
export interface Told extends Partial<Spoken> {
  readonly message: string
}

type Clause = Extract<keyof LawPhrases, `.${string}`>

export function told<Name extends Exclude<keyof LawPhrases, Clause>>(
  phrase: Name,
  ...filling: Filling<LawPhrases[Name]>
): Told {
  const said = spoken(phrase, filling)
  return { message: speak(said, english(lawPhrases))[0], ...said }
}

export const clause = <Name extends Clause>(phrase: Name, ...filling: Filling<LawPhrases[Name]>): Spoken =>
  spoken(phrase, filling)
