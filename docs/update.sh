#!/usr/bin/env bash
# Runs the commands that README, docs and tests/command/console show and writes what they print, and the picture,
# into them.
set -euo pipefail
cd "$(dirname "$0")/.."

# `TIDEGATE_PAGE=guide` before it has the pages alone that are called so.
TIDEGATE_UPDATE=1 cargo test --test command -- documentation console
