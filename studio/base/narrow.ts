/** Whether the screen is a narrow one: pictures are then drawn for it, and need not be scrolled. */
import { signal } from '@preact/signals'

const query = matchMedia('(max-width: 480px)')
export const narrow = signal(query.matches)
query.addEventListener('change', () => {
  narrow.value = query.matches
})
