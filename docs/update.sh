#!/usr/bin/env bash
# Runs the commands that the README shows and writes what they print, and the picture, into it.
set -euo pipefail
cd "$(dirname "$0")/.."

TIDEGATE_UPDATE=1 cargo test --test command readme
