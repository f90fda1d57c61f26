/**
 * Keeps words that practitioners do not use out of text that users read: messages, descriptions of fields, help, docs and the text of
 * generated programs. `node scripts/words.mjs` prints path:line, the word and what to write instead; `npm run lint` runs it.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** One word or expression per row, with a text that it catches. */
export const rules = [
  // Processes are not people.
  {
    pattern: /\b(no|some|every)body\b|\bwhoever\b/i,
    instead: 'no rank, another process, all ranks, the caller',
    example: 'which nobody can tell',
  },
  {
    pattern: /\b(ranks?|tokens?|who|whom|it) meets?\b|\bmeet each other\b/i,
    instead: 'is routed to, takes part in',
    example: 'experts a token meets',
  },
  { pattern: /\bhand(s|ed)? (it )?(to|on|over)\b/i, instead: 'pass to', example: 'what a block hands to the next' },
  {
    pattern: /\b(is|are|was|were) (said|told)\b|\b(unless|if not) said\b/i,
    instead: 'is set, is reported, by default',
    example: 'where nothing is said',
  },

  // Distribution.
  { pattern: /\bgo(es)? round\b/i, instead: 'rotate around the ring', example: 'keys go round' },
  { pattern: /\bexchanged for heads\b/i, instead: 'all-to-all (Ulysses)', example: 'sequence exchanged for heads' },
  {
    pattern: /\bcopies of the model\b|\bno copies\b|\bdata copies\b/i,
    instead: 'replicas',
    example: 'copies of the model that share the batch',
  },
  {
    pattern: /\bdeal(s|t)? (it |them |its experts )?out\b/i,
    instead: 'distribute, assign to owner ranks',
    example: 'experts are dealt out',
  },
  {
    pattern: /\b(lie|lies) (in|on|as|at|whole|elsewhere|side)\b/i,
    instead: 'is stored, is placed, is sharded',
    example: 'it lies on another rank',
  },
  { pattern: /\b(is|are) cut\b|\bcuts (the|each|its|\d)/i, instead: 'shard, split', example: 'sequences are cut' },
  {
    pattern: /\bwhole (parameter|tensor|checkpoint|model|sequence|head|gradient)s?\b/i,
    instead: 'full, complete, unsharded',
    example: 'keeps whole parameters',
  },
  { pattern: /\baddends?\b/i, instead: 'local gradient, partial sum', example: 'the addend of a rank' },

  // Programs.
  {
    pattern: /\b(un)?lawful\b|\bno law\b|\blaws? (of|is|are|broken)\b|\bbreaks a law\b/i,
    instead: 'invariant, verification',
    example: 'no law is broken',
  },
  { pattern: /\bproved\b|\bproof\b/i, instead: 'verified', example: 'a proved program' },
  { pattern: /\bserial program\b/i, instead: 'single-rank reference', example: 'the serial program' },
  { pattern: /\brehears(al|es|ed|ing)\b/i, instead: 'dry run', example: 'a dress rehearsal' },
  {
    pattern: /\b(un)?coded\b|\bcodes stand for\b|\b8-bit codes\b|\bread codes\b/i,
    instead: 'quantized',
    example: 'products of 8-bit codes',
  },
  { pattern: /\bby chance\b/i, instead: 'stochastic rounding', example: 'rounds by chance' },
  {
    pattern: /\bproducts? (of|in|on|with|read)\b|\bmatrix products?\b/i,
    instead: 'matmul',
    example: 'products of experts',
  },

  // Optimizers and the training loop.
  { pattern: /\bnot finite\b/i, instead: 'NaN or Inf', example: 'the loss is not finite' },
  { pattern: /\bheld[- ]out\b/i, instead: 'validation', example: 'held-out loss' },
  { pattern: /\bwarm-up\b/i, instead: 'warmup', example: 'a longer warm-up' },
  {
    pattern: /\bmemory of the (first|second) moment\b/i,
    instead: 'decay rate of the moment',
    example: 'memory of the first moment',
  },
  { pattern: /\bgreatest\b/i, instead: 'maximum, largest', example: 'greatest norm' },
  { pattern: /\bmakes? orthogonal\b/i, instead: 'orthogonalize', example: 'makes orthogonal' },
  { pattern: /\blearned positions\b/i, instead: 'learned position embeddings', example: 'learned positions' },
  { pattern: /\bends? (a )?texts?\b/i, instead: 'EOS token', example: 'the token that ends a text' },
  {
    pattern: /\bpass(ed|es)? over the data\b|\bdata has been passed\b/i,
    instead: 'epoch',
    example: 'the first pass over the data',
  },
  {
    pattern: /\bdraw(s|n|ing)? (the )?(initial|random|weights|tokens)\b/i,
    instead: 'initialize, sample',
    example: 'drawing the initial weights',
  },
  { pattern: /\bgo(es)? on\b|\bwent on\b|\bgoing on\b/i, instead: 'continue, resume', example: 'the run goes on' },
  { pattern: /\bstarts? anew\b/i, instead: 'restart from scratch', example: 'starts anew' },
  {
    pattern: /\bst(and|ands|ood|anding) still\b|\bstandstill\b/i,
    instead: 'stall, hang, no progress',
    example: 'all ranks stand still',
  },
  { pattern: /\bdamaged\b/i, instead: 'corrupt', example: 'the checkpoint is damaged' },
  { pattern: /\bother bits\b/i, instead: 'differs', example: 'rank 1 has other bits' },
  { pattern: /\bwhat ails\b/i, instead: 'diagnose', example: 'what ails a run' },

  // The cost model.
  {
    pattern: /\bby price\b|\bpriced\b|\bprices alone\b/i,
    instead: 'estimated, by the cost model',
    example: 'priced as 1f1b',
  },
  {
    pattern: /\bbound by (arithmetic|memory|compute)\b/i,
    instead: 'compute-bound, memory-bound',
    example: 'bound by arithmetic',
  },
  { pattern: /\b(computed|made) again\b/i, instead: 'recomputed', example: 'is computed again' },
  { pattern: /\bto spare\b/i, instead: 'free, headroom', example: '3 GiB to spare' },

  // Grammar.
  {
    pattern:
      /\b(bytes|tokens|steps|sequences|commands|samples|GiB|MiB|FLOPs|FLOP\/s|all-gathers|ms|s) an? (step|second|rank|device|GPU|layer|token|parameter|microbatch)\b/,
    instead: 'per',
    example: '4 bytes a parameter',
  },
  { pattern: /\bnot wanted\b/i, instead: 'excluded by constraint', example: 'tp 4 is not wanted' },
  { pattern: /\bby bounds\b/i, instead: 'pruned by lower bounds', example: '15 cannot fit (by bounds)' },
  { pattern: /\bdays and money\b/i, instead: 'days and cost', example: 'days and money of a run' },
  { pattern: /\bit writes:/i, instead: 'sample:', example: 'it writes: the end' },
  { pattern: /\btextbooks?\b/i, instead: 'analytic formula', example: 'beside the textbook' },
  { pattern: /\blines? of runs\b/i, instead: 'run lineage', example: 'a line of runs' },
  {
    pattern: /\b(tokens|FLOPs?|steps|FLOP\/s|ms|GB\/s) a (second|step|rank|token|device|GPU)\b/i,
    instead: 'per: tokens/s, bytes per rank',
    example: '500 tokens a second',
  },
  { pattern: /\blaid (on|out)\b/i, instead: 'sharded across, mapped onto', example: 'laid on the ranks' },
  { pattern: /\bheld twice\b/i, instead: 'bidirectional pipeline', example: 'stages held twice' },
  { pattern: /\bout of each\b/i, instead: 'egress bandwidth', example: '450 GB/s out of each' },
  { pattern: /\bjoined by (NVLink|InfiniBand|Ethernet|PCIe)\b/i, instead: 'connected by', example: 'joined by NVLink' },
  { pattern: /\bchances? (of|that) \b/i, instead: 'probability', example: 'the chance that it fits' },
  {
    pattern:
      /\b(neighbour|normalis|initialis|utilis|quantis|optimis|synchronis|colour|behaviour|licence|modelled|labelled|spelt)/i,
    instead: 'the US spelling',
    example: 'normalised weights',
  },
  { pattern: /\bso many\b/i, instead: 'N, the number of', example: 'after so many steps' },
  { pattern: /\bwhole numbers?\b/i, instead: 'integer', example: 'expected a whole number' },
  {
    pattern: /\bis no (multiple|factor|power|number|part|slip|machine|cluster)\b/i,
    instead: 'is not a',
    example: '3 is no multiple of 2',
  },
  { pattern: /\bamounts? (to|of memory)\b/i, instead: 'size', example: 'an amount of memory' },
  {
    pattern:
      /\b(re)?(normalis|initialis|tokenis|quantis|utilis|serialis|parallelis(?!m)|orthogonalis)|\bneighbour|\blicence|\bcolour|\bbehaviour/i,
    instead: 'US spelling',
    example: 'tokenised text',
  },

  { pattern: /\bflights\b/i, instead: 'buckets', example: 'gather in flights' },
  { pattern: /\banew\b/i, instead: 'again, a new one', example: 'calibrate writes it anew' },
  {
    pattern: /\ba job (says|cannot say|can say|says so)\b/i,
    instead: 'a job sets, no job field',
    example: 'a job says plan.layers',
  },
  { pattern: /\bmust be whole\b/i, instead: 'must be an integer', example: '3.5, must be whole' },
  { pattern: /\bstay(s)? whole\b/i, instead: 'is not sharded', example: 'parameters stay whole' },
  { pattern: /\bproducts (stay|and collectives)\b/i, instead: 'matmuls', example: 'products stay in 16 bits' },
  {
    pattern: /\bexchange(s)? sequence for heads\b/i,
    instead: 'Ulysses (all-to-all)',
    example: 'ranks exchange sequence for heads',
  },

  // Chinese.
  { pattern: /定律/, instead: '不变量', example: '程序违反了定律' },
  { pattern: /相遇/, instead: '通信，路由到', example: 'token 遇到的专家如何相遇' },
  { pattern: /(?<!增)加数(?!据)/, instead: '本地梯度，部分和', example: '每个 rank 的加数' },
  { pattern: /飞行记录/, instead: 'flight record', example: '看看飞行记录' },
  { pattern: /彩排/, instead: '试运行', example: '在这里彩排' },
  { pattern: /计价/, instead: '估算', example: '按 1f1b 计价' },
]

/** Text in which a word is right, and why. */
export const allowed = [
  { text: /pass(es|ed)? over memory/, why: 'kernels pass over memory' },
  { text: /patent licence/, why: 'a line of training data, whose losses are shown' },
  { text: /checkpoint\/damaged|program\/law|plan\/rehearsal|checkpointDamaged/, why: 'codes are stable' },
  { text: /"addend"|"utilisation"|\.damaged"/, why: 'names in checkpoints and metrics are stable' },
]

/** Folders whose string literals and pages users read, and pages besides. */
const folders = ['src', 'studio/text', 'docs']
const pages = ['README.md', 'README.zh.md', 'ARCHITECTURE.md', 'SPEC.md', 'CHANGELOG.md']

/** A value within a message: `{rank}`, `${rank}`. */
const gap = /\$?\{[^}]*\}/g
/** A name in a page, such as a field: names are not prose. */
const identifier = /`[\w./-]+`/g
const isComment = line => /^\s*(\/?\*|\/\/)/.test(line)
const isSentence = text => /\s|\p{Script=Han}/u.test(text.replace(gap, ''))

const literal = /'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g

/** Lines of a page without the declarations it shows: of these only comments are prose. */
function proseOf(lines) {
  let code = false
  return lines.filter(({ text }) => {
    if (text.startsWith('```')) code = text === '```ts'
    return !code || isComment(text)
  })
}

/**
 * What users read in a file, as texts with their lines: every line of a page and of generated Python, the sentences among
 * the string literals of TypeScript.
 */
export function textsOf(path, source) {
  const lines = source.split('\n').map((text, i) => ({
    line: i + 1,
    text: path.endsWith('.md') ? text.replace(identifier, '``').replace(/\]\([^)]*\)/g, ']()') : text,
  }))
  if (path.endsWith('.md')) return proseOf(lines)
  if (!path.endsWith('.ts')) return lines
  return lines
    .filter(({ text }) => !isComment(text))
    .flatMap(({ line, text }) =>
      [...text.replace(/ \/\/ .*$/, '').matchAll(literal)].map(found => ({
        line,
        text: found.slice(1).find(Boolean) ?? '',
      })),
    )
    .filter(({ text }) => isSentence(text))
    .map(({ line, text }) => ({ line, text: text.replace(gap, ' ') }))
}

/** `path:line: "word": write ...` for each forbidden word in a file. */
export const findingsIn = (path, source) =>
  textsOf(path, source).flatMap(({ line, text }) =>
    allowed.some(row => row.text.test(text))
      ? []
      : rules.flatMap(({ pattern, instead }) => {
          const found = pattern.exec(text)
          return found ? [`${path}:${line}: "${found[0]}": write ${instead}`] : []
        }),
  )

const filesIn = (root, folder) =>
  readdirSync(join(root, folder), { withFileTypes: true }).flatMap(entry => {
    const path = `${folder}/${entry.name}`
    return entry.isDirectory() ? filesIn(root, path) : [path]
  })

/** In all that users read below `root`. */
export function findingsBelow(root) {
  const files = [...folders.flatMap(folder => filesIn(root, folder)), ...pages]
  return files
    .filter(path => /\.(md|ts|py)$/.test(path))
    .filter(path => statSync(join(root, path)).isFile())
    .flatMap(path => findingsIn(path, readFileSync(join(root, path), 'utf8')))
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const findings = findingsBelow(fileURLToPath(new URL('..', import.meta.url)))
  for (const finding of findings) console.error(finding)
  process.exitCode = findings.length > 0 ? 1 : 0
}
