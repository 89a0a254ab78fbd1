#!/usr/bin/env bash
# Runs the README's second demonstration and writes what it prints into the README. Its times are
# those of the machine that it runs on, so that no test holds them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release
output=$(./target/release/tidegate check)
{
  sed '/^<!-- check -->$/q' README.md
  printf '```text\n%s\n```\n' "$output"
  sed -n '/^<!-- end of check -->$/,$p' README.md
} > README.new
mv README.new README.md
