# The real agents that tests are told with: sourced by scripts/test and scripts/drift.
# Each line: kind, the version that the tests are written for, its package, its program, and what is installed beside it.
agents="
claude 2.1.327 @anthropic-ai/claude-code claude
codex 0.169.0 @openai/codex codex
opencode 1.18.33 opencode-ai opencode
gemini 0.61.0 @google/gemini-cli gemini
qwen 0.24.4 @qwen-code/qwen-code qwen
kimi 2.1.0 @moonshot-ai/kimi-code kimi node@22
copilot 1.0.102 @github/copilot copilot
"
cache="${AYE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/aye-tests}"

# install KIND VERSION PACKAGE PROGRAM [BESIDE]: puts it into the cache, unless it is there, and sets `agent` to its
# program. A program finds what is installed beside it first, such as the Node.js that it needs.
install() {
  local folder="$cache/$1-$2"
  agent="$folder/node_modules/.bin/$4"
  if ! PATH="$folder/node_modules/.bin:$PATH" "$agent" --version 2>/dev/null | grep -qwF "$2"; then
    command -v npm >/dev/null || { echo "npm is missing: install Node.js, which brings it" >&2; return 1; }
    printf '\n== installing %s %s\n' "$1" "$2" >&2
    mkdir -p "$folder"
    npm install --silent --no-audit --no-fund --prefix "$folder" "$3@$2" ${5:+"$5"}
  fi
}
