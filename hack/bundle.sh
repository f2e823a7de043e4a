#!/usr/bin/env bash
# Writes an OLM bundle: hack/bundle.sh FOLDER, with
#   VERSION IMG SCORECARD_IMG   of what the bundle installs, its image, and the image of our own scorecard checks
#   CHANNELS DEFAULT_CHANNEL    where it is offered
#   PREVIOUS_VERSION            the version that it replaces; empty for none
#   KUSTOMIZE OPERATOR_SDK      the tools
# FOLDER gets the bundle, and FOLDER.Dockerfile the recipe of its image. Both stay as they were when anything fails.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1%/}
if [ -e "$out" ] && [ ! -e "$out/metadata/annotations.yaml" ]; then
  echo "$out exists and holds no bundle: remove it, or name another folder with BUNDLE=…" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
csv=bundle/manifests/candor.clusterserviceversion.yaml

# Mirrors go by digest, so only a bundle with one can be installed from a mirror.
disconnected=false
case $IMG in *@sha256:*) disconnected=true ;; esac
replaces='/^  replaces: /d'
[ -z "${PREVIOUS_VERSION:-}" ] || replaces="s|^  replaces: .*|  replaces: candor.v$PREVIOUS_VERSION|"

# A file and no pipe: the generator makes an empty bundle of a pipe that breaks.
"$KUSTOMIZE" build config/manifests > "$work/built.yaml"
sed -e "s|ghcr.io/candor-dev/candor:[^ \"]*|$IMG|" \
  -e "s|ghcr.io/candor-dev/candor-scorecard:[^ \"]*|$SCORECARD_IMG|" \
  -e "s|olm.skipRange: .*|olm.skipRange: '>=0.0.0 <$VERSION'|" \
  -e "s|features.operators.openshift.io/disconnected: .*|features.operators.openshift.io/disconnected: \"$disconnected\"|" \
  -e "$replaces" "$work/built.yaml" > "$work/manifests.yaml"

# It writes bundle.Dockerfile into the working directory, reads PROJECT there, and takes standard input only if that is a pipe.
cp PROJECT "$work"
cat "$work/manifests.yaml" | (cd "$work" && "$OPERATOR_SDK" generate bundle -q --package candor --version "$VERSION" \
  --channels "$CHANNELS" --default-channel "$DEFAULT_CHANNEL")

# It puts the present time for createdAt, and leaves out relatedImages that no variable names.
created=$(sed -n 's/^    createdAt: //p' config/manifests/bases/candor.clusterserviceversion.yaml)
mv "$work/$csv" "$work/generated.yaml"
awk -v created="$created" -v image="$IMG" '
  /^    createdAt: / { $0 = "    createdAt: " created }
  /^  version: / { print "  relatedImages:\n  - image: " image "\n    name: manager" }
  { print }' "$work/generated.yaml" > "$work/$csv"
rm "$work/bundle/manifests/candor-webhook-service_v1_service.yaml" # OLM makes that Service itself

openshift=v4.17 # has Kubernetes 1.30, which minKubeVersion asks for
printf '\n  # The versions of OpenShift that may install it.\n  com.redhat.openshift.versions: %s\n' "$openshift" >> "$work/bundle/metadata/annotations.yaml"
cp config/manifests/properties.yaml "$work/bundle/metadata/properties.yaml"
folder=$(basename "$out")
awk -v openshift="$openshift" -v folder="$folder" '
  /^# Copy files/ { print "LABEL com.redhat.openshift.versions=" openshift "\n" }
  { sub("^COPY bundle/", "COPY " folder "/"); print }' "$work/bundle.Dockerfile" > "$work/Dockerfile"

rm -rf "$out"
mkdir -p "$(dirname "$out")"
mv "$work/bundle" "$out"
mv "$work/Dockerfile" "$out.Dockerfile"
