#!/usr/bin/env bash
# Runs the demonstrations that measure, and writes what they print into their pages. Their times are
# those of the machine that they run on, so that no test holds them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release
# Recordings that are not ours to redistribute.
fit=(networks/efficiency-samples.toml --folder ../shared/traces)
for page in check:docs/validation.md train:docs/codecs.md fit:docs/validation.md; do
  command=${page%%:*} file=${page#*:}
  arguments=()
  [ "$command" = fit ] && arguments=("${fit[@]}")
  [ "$command" = train ] && arguments=(--seeds 5)
  output=$(./target/release/tidegate "$command" "${arguments[@]}")
  {
    sed "/^<!-- $command -->\$/q" "$file"
    printf '```text\n%s\n```\n' "$output"
    sed -n "/^<!-- end of $command -->\$/,\$p" "$file"
  } > "$file.new"
  mv "$file.new" "$file"
done
