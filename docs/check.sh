#!/usr/bin/env bash
# Runs the demonstrations that measure, and writes what they print into their pages. Their times are
# those of the machine that they run on, so that no test holds them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release
half='check resnet18-cifar10:batch=32 bert-tiny:batch=16 --within 50%'
for page in check:docs/validation.md:check half:docs/validation.md:"$half" train:docs/codecs.md:train; do
  IFS=: read -r place file command <<< "$page"
  # The command's words are arguments.
  # shellcheck disable=SC2086
  output=$(./target/release/tidegate $command)
  {
    sed "/^<!-- $place -->\$/q" "$file"
    printf '```text\n%s\n```\n' "$output"
    sed -n "/^<!-- end of $place -->\$/,\$p" "$file"
  } > "$file.new"
  mv "$file.new" "$file"
done
