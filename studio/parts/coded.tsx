/** What is to be typed stands between backticks in a text: it is shown as code. */
export const Coded = ({ text }: { readonly text: string }) => (
  <>{text.split('`').map((part, n) => (n % 2 === 1 ? <code key={n}>{part}</code> : part))}</>
)
