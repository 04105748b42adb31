# The manager, static, in an image with nothing else in it.
FROM --platform=$BUILDPLATFORM golang:1.26.11 AS build
ARG TARGETOS
ARG TARGETARCH
# What `make docker-build` tells; without them the manager calls itself devel.
ARG LDFLAGS="-s -w"
WORKDIR /src

# Dependencies change less often than code: a layer of their own.
COPY go.mod go.sum go.work ./
COPY cmd/kubectl-warren/go.mod cmd/kubectl-warren/go.sum cmd/kubectl-warren/
COPY consumer/go.mod consumer/go.sum consumer/
COPY examples/orders/go.mod examples/orders/go.sum examples/orders/
RUN go mod download

COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags "$LDFLAGS" -o /manager ./cmd

FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION=devel
ARG REVISION=unknown
# Those of hack/tools/image/image.go.
LABEL org.opencontainers.image.title="warren" \
      org.opencontainers.image.description="Kubernetes operator for the retry and dead-letter topologies of RabbitMQ consumers" \
      org.opencontainers.image.url="https://github.com/warren-mq/warren" \
      org.opencontainers.image.source="https://github.com/warren-mq/warren" \
      org.opencontainers.image.documentation="https://github.com/warren-mq/warren/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
