package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// apiServer is a kube-apiserver with its etcd, and a client that is not held back.
type apiServer struct {
	client.Client

	environment *envtest.Environment
	config      *rest.Config
	discovery   *discovery.DiscoveryClient
	kubeConfig  string // a file
}

func startAPIServer(folder, crds string) (*apiServer, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	s := &apiServer{kubeConfig: filepath.Join(folder, "kubeconfig"), environment: &envtest.Environment{
		Scheme: scheme, CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 3 * time.Minute,
		// The server waits for a minute until those who watch are gone; after this time it is killed.
		ControlPlaneStopTimeout: 2 * time.Second,
	}}
	config, err := s.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server (run this by \"make bench\"): %w", err)
	}
	s.config = rest.CopyConfig(config)
	s.config.QPS = -1
	if s.Client, err = client.New(s.config, client.Options{Scheme: scheme}); err == nil {
		s.discovery, err = discovery.NewDiscoveryClientForConfig(s.config)
	}
	if err == nil {
		err = os.WriteFile(s.kubeConfig, s.environment.KubeConfig, 0o600)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return s, nil
}

// stop ends the server; it may have to be killed.
func (s *apiServer) stop() { _ = s.environment.Stop() }

// writes are the requests so far that write Warren's resources or Events, by verb and resource.
func (s *apiServer) writes(ctx context.Context) (tally, error) {
	text, err := s.discovery.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	samples, err := parseMetrics(text, "apiserver_request_total")
	return apiWrites(samples), err
}
