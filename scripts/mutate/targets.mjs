/** Sources that decide correctness, and the tests most likely to notice a change in them, the cheapest first. Emitted jobs judge the runtime. */
export const targets = [
  {
    sources: /^src\/ir\/(laws\/|verify|live|traits|role)/,
    tests: 'laws-parts laws-scalars laws turns states mutations experts-laws',
  },
  { sources: /^src\/compile\/reshard/, tests: 'reshard gradients data-parallel context grid' },
  { sources: /^src\/compile\/elect/, tests: 'gradients data-parallel explain-choices grid' },
  { sources: /^src\/compile\/recompute/, tests: 'recompute estimate-memory memory-why latent' },
  {
    sources: /^src\/compile\/(gradients|layouts|differentiate|summed|agreements|once)/,
    tests: 'gradients data-parallel sixteen experts',
  },
  {
    sources: /^src\/compile\/(tail|directions|adafactor|rounds)/,
    tests: 'optimizer-plans optimizers ema batch-ramp scaling spike-skips',
  },
  {
    sources:
      /^src\/engine\/reference\/(optimizer|adafactor|orthogonal|norm|scaler|rounding|factors|signs|sparse|codes)/,
    tests: 'optimizer-steps reference-ops scaling rounding fp8-blocks powersgd topk onebit compress',
  },
  {
    sources: /^src\/schedule\//,
    tests:
      'schedule-fixtures schedule schedules zero-bubble schedule-comms pipeline-bubble schedule-auto draw schedule-cli',
  },
  { sources: /^src\/checkpoint\//, tests: 'checkpoint damage reshard weights saving keep-going resume' },
  { sources: /^src\/geometry\//, tests: 'geometry checkpoint reference-data context documents gradients' },
  {
    sources:
      /^src\/emit\/runtime\/(ops|optimizer|scaler|newton_schulz|powersgd|onebit|topk|norms|rope|moe_dispatch|moe|losses|shards|varlen)\.py$/,
  },
]
