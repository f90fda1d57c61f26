import { Soon } from '../soon.js'

export default function Plan() {
  return <Soon name="plan" />
}
