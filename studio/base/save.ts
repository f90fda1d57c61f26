/** Hands a text to the reader as a file. */
export function saveText(name: string, content: string): void {
  const place = document.createElement('a')
  place.href = URL.createObjectURL(new Blob([content], { type: 'text/plain' }))
  place.download = name
  place.click()
  setTimeout(() => URL.revokeObjectURL(place.href), 1000)
}
