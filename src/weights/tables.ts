/**
 * The names that Hugging Face's families have for our parameters: one table a family, read in both directions. A row is
 * our name, theirs, and the axes of their tensor in our dims (place.ts). `{expert}` in a name: a tensor for each. Where a
 * parameter has several rows, files differ by age: the first is written, any is read.
 */
export interface Row {
  readonly ours: string
  readonly theirs: string
  readonly axes: string
}

export interface Table {
  /** What names begin with, but for the head; files of the bare model lack it. */
  readonly prefix: string
  /** Of layers, behind the prefix and the number of the layer. */
  readonly layers: string
  readonly layer: readonly Row[]
  readonly others: readonly Row[]
  /** Tensors that no parameter is made of: constants that older files hold. */
  readonly constants: RegExp
}

const rows = (text: string): Row[] =>
  text
    .trim()
    .split('\n')
    .map(line => {
      const [ours, theirs, ...axes] = line.trim().split(/\s+/)
      return { ours, theirs, axes: axes.join(' ') }
    })

const gpt2: Table = {
  prefix: 'transformer.',
  layers: 'h.',
  layer: rows(`
    norm1.weight   ln_1.weight          embed
    norm1.bias     ln_1.bias            embed
    attn.q         attn.c_attn.weight   embed (0/3 kvHeads group headDim)
    attn.k         attn.c_attn.weight   embed (1/3 kvHeads headDim)
    attn.v         attn.c_attn.weight   embed (2/3 kvHeads headDim)
    attn.q.bias    attn.c_attn.bias     (0/3 kvHeads group headDim)
    attn.k.bias    attn.c_attn.bias     (1/3 kvHeads headDim)
    attn.v.bias    attn.c_attn.bias     (2/3 kvHeads headDim)
    attn.out       attn.c_proj.weight   (kvHeads group headDim) embed
    attn.out.bias  attn.c_proj.bias     embed
    norm2.weight   ln_2.weight          embed
    norm2.bias     ln_2.bias            embed
    mlp.up         mlp.c_fc.weight      embed ffn
    mlp.up.bias    mlp.c_fc.bias        ffn
    mlp.down       mlp.c_proj.weight    ffn embed
    mlp.down.bias  mlp.c_proj.bias      embed`),
  others: rows(`
    embed.tokens     transformer.wte.weight   vocab embed
    embed.positions  transformer.wpe.weight   position.. embed
    head.norm.weight transformer.ln_f.weight  embed
    head.norm.bias   transformer.ln_f.bias    embed
    head.out         lm_head.weight           vocab embed`),
  constants: /^h\.\d+\.attn\.(masked_)?bias$/,
}

/**
 * Matrices the other way round than GPT-2's. Queries, keys and values are one matrix: with one key-value head queries of all heads, then the key, then
 * the value; else head by head its query, key and value.
 */
const bigCode = (q: string, k: string, v: string): Table => ({
  ...gpt2,
  layer: rows(`
    norm1.weight   ln_1.weight          embed
    norm1.bias     ln_1.bias            embed
    attn.q         attn.c_attn.weight   (${q}) embed
    attn.k         attn.c_attn.weight   (${k}) embed
    attn.v         attn.c_attn.weight   (${v}) embed
    attn.q.bias    attn.c_attn.bias     (${q})
    attn.k.bias    attn.c_attn.bias     (${k})
    attn.v.bias    attn.c_attn.bias     (${v})
    attn.out       attn.c_proj.weight   embed (kvHeads group headDim)
    attn.out.bias  attn.c_proj.bias     embed
    norm2.weight   ln_2.weight          embed
    norm2.bias     ln_2.bias            embed
    mlp.up         mlp.c_fc.weight      ffn embed
    mlp.up.bias    mlp.c_fc.bias        ffn
    mlp.down       mlp.c_proj.weight    embed ffn
    mlp.down.bias  mlp.c_proj.bias      embed`),
})

const llamaLayer = `
    norm1.weight      input_layernorm.weight           embed
    norm2.weight      post_attention_layernorm.weight  embed
    attn.q            self_attn.q_proj.weight          (kvHeads group headDim) embed
    attn.k            self_attn.k_proj.weight          (kvHeads headDim) embed
    attn.v            self_attn.v_proj.weight          (kvHeads headDim) embed
    attn.q.bias       self_attn.q_proj.bias            (kvHeads group headDim)
    attn.k.bias       self_attn.k_proj.bias            (kvHeads headDim)
    attn.v.bias       self_attn.v_proj.bias            (kvHeads headDim)
    attn.q.norm.weight  self_attn.q_norm.weight          headDim
    attn.k.norm.weight  self_attn.k_norm.weight          headDim
    attn.out          self_attn.o_proj.weight          embed (kvHeads group headDim)
    mlp.gate          mlp.gate_proj.weight             ffn embed
    mlp.up            mlp.up_proj.weight               ffn embed
    mlp.down          mlp.down_proj.weight             embed ffn`

const llamaOthers = `
    embed.tokens    model.embed_tokens.weight  vocab embed
    head.norm.weight  model.norm.weight          embed
    head.out        lm_head.weight             vocab embed`

/** Experts one by one, as files have them; or stacked, as modules of transformers 5 do. */
const experts = `
    mlp.router        mlp.gate.weight                        candidate embed
    mlp.experts.gate  mlp.experts.{expert}.gate_proj.weight  expertFfn embed
    mlp.experts.up    mlp.experts.{expert}.up_proj.weight    expertFfn embed
    mlp.experts.down  mlp.experts.{expert}.down_proj.weight  embed expertFfn
    mlp.experts.gate  mlp.experts.gate_up_proj               expert (0/2 expertFfn) embed
    mlp.experts.up    mlp.experts.gate_up_proj               expert (1/2 expertFfn) embed
    mlp.experts.down  mlp.experts.down_proj                  expert embed expertFfn`

const mixtralExperts = `
    mlp.router        block_sparse_moe.gate.weight                 candidate embed
    mlp.experts.gate  block_sparse_moe.experts.{expert}.w1.weight  expertFfn embed
    mlp.experts.up    block_sparse_moe.experts.{expert}.w3.weight  expertFfn embed
    mlp.experts.down  block_sparse_moe.experts.{expert}.w2.weight  embed expertFfn${experts}`

const shared = (theirs: string) => `
    mlp.shared.gate  mlp.${theirs}.gate_proj.weight  sharedFfn embed
    mlp.shared.up    mlp.${theirs}.up_proj.weight    sharedFfn embed
    mlp.shared.down  mlp.${theirs}.down_proj.weight  embed sharedFfn`

/** Without a latent for queries they are projected at once. `turned`: how the part that turns is written. */
const latent = (turned: string) => `
    norm1.weight      input_layernorm.weight               embed
    norm2.weight      post_attention_layernorm.weight      embed
    attn.q.down       self_attn.q_a_proj.weight            qLoraRank embed
    attn.q.norm.weight  self_attn.q_a_layernorm.weight       qLoraRank
    attn.q.plain      self_attn.q_b_proj.weight            (kvHeads group qkNopeHeadDim+${turned}) qLoraRank
    attn.q.rope       self_attn.q_b_proj.weight            (kvHeads group qkNopeHeadDim+${turned}) qLoraRank
    attn.q.plain      self_attn.q_proj.weight              (kvHeads group qkNopeHeadDim+${turned}) embed
    attn.q.rope       self_attn.q_proj.weight              (kvHeads group qkNopeHeadDim+${turned}) embed
    attn.kv.down      self_attn.kv_a_proj_with_mqa.weight  latent+${turned} embed
    attn.k.rope       self_attn.kv_a_proj_with_mqa.weight  latent+${turned} embed
    attn.kv.norm.weight self_attn.kv_a_layernorm.weight      latent
    attn.k.plain      self_attn.kv_b_proj.weight           (kvHeads qkNopeHeadDim+vHeadDim) latent
    attn.v            self_attn.kv_b_proj.weight           (kvHeads qkNopeHeadDim+vHeadDim) latent
    attn.out          self_attn.o_proj.weight              embed (kvHeads group vHeadDim)
    mlp.gate          mlp.gate_proj.weight                 ffn embed
    mlp.up            mlp.up_proj.weight                   ffn embed
    mlp.down          mlp.down_proj.weight                 embed ffn
    mlp.bias          mlp.gate.e_score_correction_bias     candidate${experts}${shared('shared_experts')}`

const llamaLike = (layer: string): Table => ({
  prefix: 'model.',
  layers: 'layers.',
  layer: rows(layer),
  others: rows(llamaOthers),
  constants: /^layers\.\d+\.self_attn\.rotary_emb\.inv_freq$/,
})

const llama = llamaLike(llamaLayer)
const qwenMoe = llamaLike(`${llamaLayer}${experts}${shared('shared_expert')}
    mlp.shared.open  mlp.shared_expert_gate.weight  0/1 embed`)
const deepseek = llamaLike(latent('~qkRopeHeadDim'))

/** By `model_type`. */
export const tables = {
  gpt2,
  gpt_bigcode: bigCode('kvHeads group+2 headDim', 'group+kvHeads+1 headDim', 'group+1+kvHeads headDim'),
  llama,
  mistral: llama,
  qwen2: llama,
  qwen3: llama,
  mixtral: llamaLike(`${llamaLayer}${mixtralExperts}`),
  qwen2_moe: qwenMoe,
  qwen3_moe: qwenMoe,
  deepseek_v3: deepseek,
  kimi_k2: deepseek,
} as const satisfies Readonly<Record<string, Table>>

export type ModelType = keyof typeof tables

export const modelTypes = Object.keys(tables) as readonly ModelType[] // its own keys

export const isModelType = (name: string): name is ModelType => Object.hasOwn(tables, name)

/** gpt_bigcode with `multi_query: false`. */
export const manyQueries: Table = bigCode('kvHeads group 0/3 headDim', 'kvHeads 1/3 headDim', 'kvHeads 2/3 headDim')

/** Where pairs that turn lie half a dim apart, as ours do: `rope_interleave: false`. */
export const halvesApart: Table = llamaLike(latent('qkRopeHeadDim'))
