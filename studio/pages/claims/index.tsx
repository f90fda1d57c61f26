import { Soon } from '../soon.js'

export default function Claims() {
  return <Soon name="claims" />
}
