/** A mapping as it was written in a file, before anything is known of its keys. */
export type Mapping = Readonly<Record<string, unknown>>

export const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What is no mapping holds nothing. */
export const mappingOf = (value: unknown): Mapping => (isMapping(value) ? value : {})
