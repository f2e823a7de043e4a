#!/usr/bin/env bash
# Writes a file-based catalog: hack/catalog.sh FOLDER BUNDLE..., with OPM the tool and CHANNEL where the bundles are offered.
# A BUNDLE is a folder, or an image where a registry can be reached. They stand in the order of their versions: each replaces the
# one before it, and may be reached from anything in its olm.skipRange.
set -euo pipefail
out=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/catalog/candor"
index=$work/catalog/candor/index.yaml

"$OPM" init candor --default-channel="$CHANNEL" --description=README.md --icon=docs/icon.svg -o yaml > "$index"
entries="" previous=""
for bundle in "$@"; do
  if [ -d "$bundle" ]; then
    "$OPM" render "$bundle" -o yaml > "$work/bundle.yaml"
  else
    "$OPM" render "$bundle" --migrate-level bundle-object-to-csv-metadata -o yaml > "$work/bundle.yaml"
  fi
  name=$(awk '/^name: candor\.v/ { print $2; exit }' "$work/bundle.yaml")
  [ -n "$name" ] || { echo "$bundle holds no bundle of Candor" >&2; exit 1; }
  cat "$work/bundle.yaml" >> "$index"
  entries+="- name: $name"$'\n'"  skipRange: '>=0.0.0 <${name#candor.v}'"$'\n'
  [ -z "$previous" ] || entries+="  replaces: $previous"$'\n'
  previous=$name
done
printf -- '---\nschema: olm.channel\npackage: candor\nname: %s\nentries:\n%s' "$CHANNEL" "$entries" >> "$index"
"$OPM" validate "$work/catalog"
rm -rf "$out"
mkdir -p "$out"
mv "$work/catalog/candor" "$out/"
