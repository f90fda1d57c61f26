import { Soon } from '../soon.js'

export default function Schedule() {
  return <Soon name="schedule" />
}
