ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot

FROM --platform=$BUILDPLATFORM ${BUILDER} AS builder
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=0.1.0
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN go run ./hack/licenses /licenses ./cmd
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X github.com/candor-dev/candor/internal/app.Version=${VERSION}" -o /manager ./cmd

FROM ${BASE}
ARG VERSION=0.1.0
ARG RELEASE=1
# The first seven are what the certification of OpenShift asks for.
LABEL name="candor" \
      vendor="The Candor Authors" \
      maintainer="The Candor Authors" \
      version="${VERSION}" \
      release="${RELEASE}" \
      summary="Turns the reports of security tools into Findings that are kept true" \
      description="Candor is a Kubernetes manager. Reports that other tools publish become Findings, one for each workload and container, which follow what is still true and can be muted with a reason." \
      org.opencontainers.image.title="Candor" \
      org.opencontainers.image.description="Turns the reports of security tools into Findings that are kept true" \
      org.opencontainers.image.source="https://github.com/candor-dev/candor" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=builder /licenses /licenses
COPY --from=builder /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
