import { render } from 'preact'
import { App } from './app.js'
import { guardLeaving, isolate } from './base/isolation.js'
import { followLanguage } from './base/language.js'
import { startRouter } from './base/router.js'
import { followToken } from './base/server.js'
import { followTheme } from './base/theme.js'
import './style/base.css'
import './style/parts.css'

startRouter()
followToken()
followLanguage()
followTheme()
guardLeaving()
void isolate()
const app = document.getElementById('app')!
app.textContent = ''
render(<App />, app)
