#!/usr/bin/env bash
# agents.sh K3 DIR: the set-ups of README's "Agents", run: Claude Code, Codex and opencode, headless, each with a home of its own and the server as its
# only company, asked a question over their own prompts and tools. Not part of test.sh, for their packages are 1.1 GB; they are installed in DIR.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/clients/serve.sh

packages=(@anthropic-ai/claude-code@2.1.328 @openai/codex@0.169.0 opencode-ai@1.18.33)
k3="$(realpath "$1")"
mkdir -p "$2"
agents="$(realpath "$2")"
if [[ ! -x "$agents/node_modules/.bin/opencode" ]]; then
  (cd "$agents" && npm install --no-audit --no-fund --ignore-scripts "${packages[@]}") || complain "cannot install the agents"
fi
claude="$(find "$agents/node_modules/@anthropic-ai" -path '*linux-x64/*' -type f -name claude | head -n 1)"
opencode="$agents/node_modules/opencode-linux-x64/bin/opencode"

start_server "$k3" bundled --id k3
export HOME="$work/home"
mkdir -p "$HOME/.codex" "$work/project"
echo "the moon is far" >"$work/project/notes.txt"

cat >"$HOME/.codex/config.toml" <<END
model = "k3"
model_provider = "k3"

[model_providers.k3]
name = "k3"
base_url = "$url/v1"
wire_api = "responses"
stream_idle_timeout_ms = 86400000
END
cat >"$work/project/opencode.json" <<END
{
  "model": "k3/k3",
  "provider": {
    "k3": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": "$url/v1", "timeout": false, "headerTimeout": false, "chunkTimeout": false },
      "models": { "k3": { "limit": { "context": 32768, "output": 4096 } } }
    }
  }
}
END
export ANTHROPIC_BASE_URL="$url" ANTHROPIC_AUTH_TOKEN=none ANTHROPIC_MODEL=k3 API_TIMEOUT_MS=86400000 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1

# ask NAME WORD COMMAND...: the agent ends well, and what it prints has the word.
ask() {
  local name="$1" word="$2"
  shift 2
  (cd "$work/project" && timeout 300 "$@") >"$work/said" 2>"$work/complaint" </dev/null ||
    complain "$name ended with $?: $(tail -c 600 "$work/said" "$work/complaint")"
  grep -qF -- "$word" "$work/said" || complain "$name said: $(tail -c 600 "$work/said")"
  echo "ok      $name: $(tail -n 1 "$work/said")"
}

question="What is the capital of France?"
ask "Claude Code, no tools" Paris "$claude" -p "$question" --system-prompt "You are a helpful assistant." --tools ""
# Of its own prompt of 21,500 tokens the small model, which has seen a few hundred at a time, understands little; it ends well all the same.
ask "Claude Code" "" "$claude" -p "$question"
ask "Codex" Paris "$agents/node_modules/.bin/codex" exec --skip-git-repo-check "$question"
ask "opencode" Paris "$opencode" run "$question"
stop_server
grep -qE 'POST /v1/(messages|responses|chat/completions)[^ ]* (4|5)' "$work/server.err" && complain "a request failed: $(grep POST "$work/server.err")"
# What they sent, in tokens of the small model.
sed -n 's/.* POST \([^ ]*\) .*\(prompt=[0-9]*\) .*/        \1 \2/p' "$work/server.err"
echo "agents: all well"
