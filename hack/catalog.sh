#!/usr/bin/env bash
# Writes a file-based catalog: hack/catalog.sh FOLDER BUNDLE..., with
#   OPM OPM_VERSION    the tool, and the tag of its image, which serves the catalog
#   CHANNEL            where the bundles are offered
#   PREVIOUS_VERSION   the version that the first of them replaces; empty for none
# A BUNDLE is a folder, or an image in a registry. They come in the order of their versions: each replaces the one before it, and
# can be reached from every older version directly. FOLDER gets the catalog, and FOLDER.Dockerfile the recipe of its image. Both
# stay as they were when anything fails.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1%/}
shift
if [ -e "$out" ] && [ ! -e "$out/candor/index.yaml" ]; then
  echo "$out exists and holds no catalog: remove it, or name another folder with CATALOG=…" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$(basename "$out")
mkdir -p "$work/$folder/candor"
index=$work/$folder/candor/index.yaml

"$OPM" init candor --default-channel="$CHANNEL" --description=README.md --icon=docs/icon.svg -o yaml > "$index"
entries=
previous=${PREVIOUS_VERSION:+candor.v$PREVIOUS_VERSION}
for bundle in "$@"; do
  level=none # the manifests stand in the catalog whole, and nothing is pulled
  [ -d "$bundle" ] || level=bundle-object-to-csv-metadata
  "$OPM" render "$bundle" --migrate-level "$level" -o yaml > "$work/bundle.yaml"
  name=$(awk '/^name: candor\.v/ { print $2 }' "$work/bundle.yaml")
  [ -n "$name" ] || { echo "$bundle holds no bundle of Candor" >&2; exit 1; }
  cat "$work/bundle.yaml" >> "$index"
  entries+="- name: $name"$'\n'"  skipRange: '>=0.0.0 <${name#candor.v}'"$'\n'
  [ -z "$previous" ] || entries+="  replaces: $previous"$'\n'
  previous=$name
done
printf -- '---\nschema: olm.channel\npackage: candor\nname: %s\nentries:\n%s' "$CHANNEL" "$entries" >> "$index"
"$OPM" validate "$work/$folder"
serve=quay.io/operator-framework/opm:$OPM_VERSION
(cd "$work" && "$OPM" generate dockerfile "$folder" --builder-image "$serve" --base-image "$serve")

rm -rf "$out"
mkdir -p "$(dirname "$out")"
mv "$work/$folder" "$out"
mv "$work/$folder.Dockerfile" "$out.Dockerfile"
