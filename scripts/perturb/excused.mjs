/** Values of fixtures that no test needs to notice, each pattern (of file and path) with its reason. A pattern that matches nothing is an error. */
export const excused = [
  {
    pattern: / (.*\.)?(made_?by|what|by|note|tolerance|description|rank_is)$/i,
    reason: 'text for people: who made it, and how it is read',
  },
  {
    pattern: /^cp\/attention_\S* (name|scale|mask)$/,
    reason: 'text for people: all are causal and scaled by 1/sqrt(headDim)',
  },
  { pattern: /^cp\/ring_runs\.json \d+\.worst_difference_from_one_rank$/, reason: 'how exact their own run was' },
  { pattern: /^cp\/splits\.json (maps|usp)\.\d+\.striped/, reason: 'a split that Lockstep does not have' },
  {
    pattern: /^cp\/splits\.json te_chunk_order/,
    reason: 'the order of buffers inside an exchange of TransformerEngine',
  },
  {
    pattern: /^moe\/(layer|model)_\S* (model|config\.)/,
    reason: 'entries of a config that these computations do not need, such as the vocabulary of a layer',
  },
  { pattern: /^moe\/routers\.json \d+\.name$/, reason: 'text for people' },
  {
    pattern: /^moe\/dropping\.json per_microbatch\.1\.kept/,
    reason: 'what pads an expert to its capacity has no weight and no order',
  },
  { pattern: /^cp\/mla_attention\.json config\./, reason: 'entries of a config that attention does not need' },
  {
    pattern: /^optimizers\/schedules\.json cases\.\d+\.config\.wd_incr_steps$/,
    reason: 'without effect where weight decay is constant',
  },
  {
    pattern: /^tensorboard\/\S* scalars/,
    reason: 'what the reader of tensorboard makes of a folder: Lockstep writes event files and does not read them',
  },
  { pattern: /^tokenizers\/\S*\/tokenizer\.json /, reason: 'an input: texts meet part of a vocabulary' },
]
