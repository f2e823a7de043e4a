#!/usr/bin/env bash
# Fails where a .go file that is neither a test nor generated is longer than 400 lines.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
while IFS= read -r file; do
  [ -f "$file" ] || continue
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 400 ] && ! grep -qE '^// Code generated .* DO NOT EDIT\.$' "$file"; then
    echo "$file has $lines lines, more than 400: split it by verb"
    failed=1
  fi
done < <(git ls-files --cached --others --exclude-standard '*.go' ':!*_test.go')
exit $failed
