ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot

FROM --platform=$BUILDPLATFORM ${BUILDER} AS builder
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.1.0
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags "-s -w -X github.com/candor-dev/candor/internal/app.Version=${VERSION}" -o /manager ./cmd

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Candor" \
      org.opencontainers.image.description="Turns the reports of security tools into explained findings, and spends a model call only where one is due" \
      org.opencontainers.image.source="https://github.com/candor-dev/candor" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY LICENSE /licenses/LICENSE
COPY --from=builder /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
