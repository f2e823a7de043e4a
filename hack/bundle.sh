#!/usr/bin/env bash
# Writes an OLM bundle: hack/bundle.sh FOLDER, with
#   VERSION IMG SCORECARD_IMG          of what the bundle installs and of the image that tests it
#   CHANNELS DEFAULT_CHANNEL           where it is offered
#   PREVIOUS_VERSION                   the version it replaces, if there is one
#   KUSTOMIZE OPERATOR_SDK             the tools
# FOLDER gets the bundle, and FOLDER.Dockerfile its image's recipe; both are left as they were when anything fails.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Written to a file first: at the end of a pipe that breaks, the generator makes an empty bundle.
"$KUSTOMIZE" build config/manifests | sed \
  -e "s|ghcr.io/candor-dev/candor:[^ \"]*|$IMG|" \
  -e "s|ghcr.io/candor-dev/candor-scorecard:[^ \"]*|$SCORECARD_IMG|" \
  -e "s|olm.skipRange: .*|olm.skipRange: '>=0.0.0 <$VERSION'|" > "$work/manifests.yaml"
created=$(sed -n 's/^    createdAt: //p' config/manifests/bases/candor.clusterserviceversion.yaml)

cp PROJECT "$work"
(cd "$work" && cat manifests.yaml | "$OPERATOR_SDK" generate bundle -q --overwrite --package candor --version "$VERSION" \
  --channels "$CHANNELS" --default-channel "$DEFAULT_CHANNEL") # it takes a pipe and no file

csv=$work/bundle/manifests/candor.clusterserviceversion.yaml
sed -i "s|^    createdAt: .*|    createdAt: $created|" "$csv"
if [ -n "${PREVIOUS_VERSION:-}" ]; then
  sed -i "s|^  version: .*|  replaces: candor.v$PREVIOUS_VERSION\n&|" "$csv"
fi
# The generator loses them. The manager is the one image that a mirror needs.
sed -i "s|^  version: .*|  relatedImages:\n  - image: $IMG\n    name: manager\n&|" "$csv"
# OLM makes the Service of the webhooks itself.
rm "$work"/bundle/manifests/candor-webhook-service_v1_service.yaml

openshift=v4.17 # Kubernetes 1.30
printf '\n  # Versions of OpenShift, whose Kubernetes is at least minKubeVersion.\n  com.redhat.openshift.versions: %s\n' "$openshift" >> "$work/bundle/metadata/annotations.yaml"
sed -i "s|^# Copy files.*|LABEL com.redhat.openshift.versions=$openshift\n\n&|" "$work/bundle.Dockerfile"
cp config/manifests/properties.yaml "$work/bundle/metadata/properties.yaml"

rm -rf "$out"
mkdir -p "$(dirname "$out")"
mv "$work/bundle" "$out"
mv "$work/bundle.Dockerfile" "$out.Dockerfile"
