import { Soon } from '../soon.js'

export default function Program() {
  return <Soon name="program" />
}
