# The real agents that tests are told with: sourced by scripts/test and scripts/drift.
# Each line: kind, the version that the tests are written for, its package, its program.
agents="
claude 2.1.325 @anthropic-ai/claude-code claude
codex 0.166.0 @openai/codex codex
opencode 1.18.33 opencode-ai opencode
qwen 0.24.4 @qwen-code/qwen-code qwen
"
cache="${AYE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/aye-tests}"

# install KIND VERSION PACKAGE PROGRAM: puts it into the cache, unless it is there, and sets `agent` to its program.
install() {
  local folder="$cache/$1-$2"
  agent="$folder/node_modules/.bin/$4"
  if ! "$agent" --version 2>/dev/null | grep -qwF "$2"; then
    command -v npm >/dev/null || { echo "npm is missing: install Node.js, which brings it" >&2; return 1; }
    printf '\n== installing %s %s\n' "$1" "$2" >&2
    mkdir -p "$folder"
    npm install --silent --no-audit --no-fund --prefix "$folder" "$3@$2"
  fi
}
