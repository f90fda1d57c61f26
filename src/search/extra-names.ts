/** What `--allow` may name: apart, so that the words of the command line load nothing else. */
export const extraNames = ['compress', 'offload', 'fp8'] as const
export type ExtraName = (typeof extraNames)[number]
