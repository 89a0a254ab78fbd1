#!/usr/bin/env bash
# Runs the README's demonstrations that measure, and writes what they print into the README. Their times
# are those of the machine that they run on, so that no test holds them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release
for command in check train; do
  output=$(./target/release/tidegate "$command")
  {
    sed "/^<!-- $command -->\$/q" README.md
    printf '```text\n%s\n```\n' "$output"
    sed -n "/^<!-- end of $command -->\$/,\$p" README.md
  } > README.new
  mv README.new README.md
done
