package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/testenv/controlplane"
)

// apiServer is a kube-apiserver with etcd, and a client without a rate limit.
type apiServer struct {
	client.WithWatch
	*controlplane.Server

	discovery *discovery.DiscoveryClient
}

func startAPIServer(tb brokers.TB, crds string) (*apiServer, error) {
	server, err := controlplane.Start(tb.TempDir(), crds)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = server.Stop() }) // an error means that envtest killed the server
	kube, err := server.Client()
	if err != nil {
		return nil, err
	}
	discovered, err := discovery.NewDiscoveryClientForConfig(server.Config)
	return &apiServer{kube, server, discovered}, err
}

// writes returns the requests that wrote Warren's resources or Events, by verb and resource.
func (s *apiServer) writes(ctx context.Context) (counts, error) {
	text, err := s.discovery.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	samples, err := parseMetrics(text, "apiserver_request_total")
	return apiWrites(samples), err
}
