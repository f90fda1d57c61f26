/** JSON as Hugging Face writes its files. */
export const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
