// Lamina's memory in pi. Written by `lamina hooks install pi`; `lamina hooks remove pi` deletes it,
// unless you have changed it.
import { execFile } from "node:child_process"

const [PROGRAM, ...ARGUMENTS]: string[] = COMMAND
const LIMITS = { timeout: 5000, maxBuffer: 4000000 }

function ask(event: object): Promise<string> {
  return new Promise((resolve) => {
    try {
      const child = execFile(PROGRAM, ARGUMENTS, LIMITS, (_, stdout) => resolve(context(stdout)))
      child.stdin?.on("error", () => {})
      child.stdin?.end(JSON.stringify(event))
    } catch {
      resolve("")
    }
  })
}

function context(stdout: string): string {
  try {
    return JSON.parse(stdout).hookSpecificOutput?.additionalContext ?? ""
  } catch {
    return ""
  }
}

function words(content: any): string {
  if (typeof content === "string") return content
  const parts = (content ?? []).filter((part: any) => part.type === "text")
  return parts.map((part: any) => part.text).join("\n")
}

export default function (pi: any) {
  let source = "startup"
  let typed = "" // as typed: skills and templates are not unfolded yet, and nobody else's words are in it

  const event = (name: string, ctx: any, more: object = {}) => ({
    hook_event_name: name,
    session_id: ctx.sessionManager.getSessionId?.() ?? ctx.sessionManager.getSessionFile() ?? "",
    cwd: ctx.cwd,
    ...more,
  })

  pi.on("session_start", async () => {
    source = "startup"
  })
  pi.on("input", async (input: any) => {
    typed = input.source === "extension" ? "" : input.text
  })
  pi.on("before_agent_start", async (_: any, ctx: any) => {
    const said: string[] = []
    if (source) said.push(await ask(event("SessionStart", ctx, { source })))
    source = ""
    if (typed) said.push(await ask(event("UserPromptSubmit", ctx, { prompt: typed })))
    typed = ""
    const content = said.filter(Boolean).join("\n\n")
    if (content) return { message: { customType: "lamina", content, display: false } }
  })
  pi.on("agent_end", async (end: any, ctx: any) => {
    const answers = (end.messages ?? []).filter((one: any) => one.role === "assistant")
    const answer = words(answers.at(-1)?.content)
    await ask(event("Stop", ctx, { last_assistant_message: answer }))
  })
  pi.on("session_compact", async (_: any, ctx: any) => {
    source = "compact"
    await ask(event("PostCompact", ctx))
  })
}
