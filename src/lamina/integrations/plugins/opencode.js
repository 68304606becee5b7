// Lamina's memory in opencode. Written by `lamina hooks install opencode`; `lamina hooks remove
// opencode` deletes it, unless you have changed it.
import { execFile, spawnSync } from "node:child_process"

const [PROGRAM, ...ARGUMENTS] = COMMAND
const LIMITS = { timeout: 5000, maxBuffer: 4000000 }

function context(stdout) {
  try {
    return JSON.parse(stdout).hookSpecificOutput?.additionalContext ?? ""
  } catch {
    return ""
  }
}

function ask(event) {
  return new Promise((resolve) => {
    try {
      const child = execFile(PROGRAM, ARGUMENTS, LIMITS, (_, stdout) => resolve(context(stdout)))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(event))
    } catch {
      resolve("")
    }
  })
}

export const Lamina = async ({ client, directory }) => {
  const theirs = new Map() // session → is it the person's own?
  const begun = new Set()
  const compacted = new Set()
  const texts = new Map() // message → its text so far
  const answers = new Map() // session → its last answer's message

  // A sub-agent's prompt is written by a model: its session has a parent, and is left alone.
  const isTheirs = async (id) => {
    if (!theirs.has(id)) {
      const found = await client.session.get({ path: { id } }).catch(() => undefined)
      theirs.set(id, Boolean(found?.data) && !found.data.parentID)
    }
    return theirs.get(id)
  }
  const event = (name, session, more) => ({
    hook_event_name: name,
    session_id: session,
    cwd: directory,
    ...more,
  })

  return {
    "chat.message": async ({ sessionID }, output) => {
      if (!(await isTheirs(sessionID))) return
      const words = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const said = []
      if (!begun.has(sessionID) || compacted.delete(sessionID)) {
        const source = begun.has(sessionID) ? "compact" : "startup"
        begun.add(sessionID)
        said.push(await ask(event("SessionStart", sessionID, { source })))
      }
      const prompt = words.map((part) => part.text).join("\n")
      said.push(await ask(event("UserPromptSubmit", sessionID, { prompt })))
      const text = said.filter(Boolean).join("\n\n")
      const last = output.parts.at(-1)
      if (text && last) {
        const place = { id: `${last.id}lamina`, sessionID, messageID: last.messageID }
        output.parts.push({ ...place, type: "text", text, synthetic: true })
      }
    },
    event: async ({ event: { type, properties } }) => {
      if (type === "message.updated" && properties.info?.role === "assistant") {
        answers.set(properties.info.sessionID, properties.info.id)
      } else if (type === "message.part.updated" && properties.part?.type === "text") {
        texts.set(properties.part.messageID, properties.part.text)
      } else if (type === "session.compacted") {
        compacted.add(properties.sessionID)
        await ask(event("PostCompact", properties.sessionID))
      } else if (type === "session.idle" && begun.has(properties.sessionID)) {
        // Waited for: `opencode run` ends as soon as its session is idle.
        const answer = texts.get(answers.get(properties.sessionID)) ?? ""
        texts.clear()
        const input = event("Stop", properties.sessionID, { last_assistant_message: answer })
        spawnSync(PROGRAM, ARGUMENTS, { ...LIMITS, input: JSON.stringify(input) })
      }
    },
  }
}
