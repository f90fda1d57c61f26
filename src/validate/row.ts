/**
 * Published measurements as rows: one training configuration each, what it reached and where that was printed. What a
 * source does not give is undefined, never a guess. A file is comma separated, with a header; before that, lines
 * `# name: value` hold what all of its rows share, or how their cells of that name begin.
 */

/** Columns of numbers; a percentage is kept as the fraction it means. */
const numeric = [
  'params_b',
  'layers',
  'hidden',
  'heads',
  'kv_heads',
  'ffn',
  'vocab',
  'seq_len',
  'global_batch_seqs',
  'micro_batch',
  'n_gpus',
  'gpus_per_node',
  'tp',
  'pp',
  'vpp_interleave',
  'dp',
  'cp',
  'ep',
  'etp',
  'head_dim',
  'experts',
  'topk',
  'moe_ffn',
  'shared_ffn',
  'dense_layers',
  'q_lora',
  'kv_lora',
  'qk_nope',
  'qk_rope',
  'v_head',
  'mtp_layers',
  'reported_tflops_per_gpu',
  'reported_mfu',
  'reported_step_time_s',
  'reported_tokens_per_s_per_gpu',
  'reported_peak_mem_gb',
] as const

const words = [
  'source',
  'model',
  'gpu',
  'interconnect',
  'zero_stage_or_fsdp',
  'sequence_parallel',
  'recompute',
  'precision',
  'schedule',
  'routing',
  'notes',
  'provenance',
] as const

/** A row of a file in validation/. */
export type Row = {
  /** Counted from 1, as in the file without its header. */
  readonly line: number
} & { readonly [C in (typeof numeric)[number]]?: number } & { readonly [C in (typeof words)[number]]: string }

/** The rows of a file in validation/, from its text. */
export function rowsOf(text: string): Row[] {
  const shared = [...text.matchAll(/^# (\w+): (.*)$/gm)].map(([, name, value]) => [name, value] as const)
  const [header = [], ...records] = recordsOf(text.replace(/^(?:#.*\r?\n)*/, ''))
  return records.map((cells, i) => {
    const all = new Map(shared)
    header.forEach((name, j) => {
      all.set(name, (all.get(name) ?? '') + (cells[j] ?? ''))
    })
    return rowOf(i + 1, all)
  })
}

function rowOf(line: number, cells: ReadonlyMap<string, string>): Row {
  const numbers = numeric.map(name => [name, numberOf(cells.get(name) ?? '')])
  const texts = words.map(name => [name, (cells.get(name) ?? '').trim()])
  // The keys are exactly the two lists above, which is what Row is made of.
  return { line, ...Object.fromEntries(numbers), ...Object.fromEntries(texts) } as Row
}

/** '41.25%' and '44% of peak' -> 0.4125 and 0.44; '', 'n/a' and '4-8' are no numbers. */
function numberOf(cell: string): number | undefined {
  const [, digits, percent] = /^\s*(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(?:(%).*)?$/i.exec(cell) ?? []
  return digits === undefined ? undefined : Number(digits) / (percent ? 100 : 1)
}

/** Comma separated values: a quoted cell may hold commas, line ends and doubled quotes. */
export function recordsOf(text: string): string[][] {
  const records: string[][] = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    records.at(-1)?.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end !== ',') records.push([])
  }
  return records.filter(cells => cells.some(cell => cell !== ''))
}
