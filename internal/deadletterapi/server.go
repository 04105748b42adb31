package deadletterapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/warren-mq/warren/internal/apiaccess"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
)

// Options configure the API.
type Options struct {
	// BindAddress is the listen address, such as :8444; empty or 0 disables the API.
	BindAddress string
	// CertPath is the folder with tls.crt and tls.key. If empty, the manager generates a certificate.
	CertPath string
	// FrontProxy accepts requests that the API server forwards with the sender's name in headers, as an APIService needs.
	FrontProxy bool
	// Redact is a regular expression for the names of headers whose values are hidden.
	Redact string
	// Namespaces are the namespaces in which Warren works; all if empty.
	Namespaces []string
	// Pod is the manager's pod, which gets ActiveLabel while it serves. It is zero outside of a cluster.
	Pod Pod
}

// certificateTime is the validity of a generated certificate.
const certificateTime = 10 * 365 * 24 * time.Hour

// Setup adds the API to a manager. Only the leader serves it, because only the leader is connected to brokers.
func Setup(mgr ctrl.Manager, finder *deadletterjob.Finder, users *deadletterjob.Register, options Options) error {
	if options.BindAddress == "" || options.BindAddress == "0" {
		return nil
	}
	redact, err := regexp.Compile(options.Redact)
	if err != nil {
		return fmt.Errorf("--dead-letters-redact: %w", err)
	}
	access, err := apiaccess.New(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	certificates, err := certificatesOf(options.CertPath)
	if err != nil {
		return err
	}
	var proxy *frontProxy
	if options.FrontProxy {
		client, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("make a client for the ConfigMap of the front proxy: %w", err)
		}
		if proxy, err = newFrontProxy(client); err != nil {
			return err
		}
	}
	log := mgr.GetLogger().WithName("dead-letters")
	label := label{pod: options.Pod, client: mgr.GetClient(), log: log, cleared: make(chan struct{})}
	handler := &Handler{
		reader: mgr.GetClient(), finder: finder, authorize: gate{access, proxy}.authorize, users: users,
		answers: newShares(maxAnswers, maxEach), lists: newShares(maxLists, maxEach), browses: newShares(maxBrowses, maxEach),
		redact: redact, log: log,
		watches: func(namespace string) bool {
			return len(options.Namespaces) == 0 || slices.Contains(options.Namespaces, namespace)
		},
	}
	s := &server{
		address: options.BindAddress, handler: handler, certificates: certificates, proxy: proxy, label: label,
		connections: newShares(maxConnections, maxEachAddress), log: log,
	}
	return errors.Join(mgr.Add(label), mgr.Add(s))
}

// certificates provides the certificate of the API.
type certificates struct {
	get   func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	watch func(context.Context) error // nil if the certificate never changes
}

// certificatesOf loads and watches the certificate in a folder, or generates one if folder is empty.
func certificatesOf(folder string) (certificates, error) {
	if folder != "" {
		watcher, err := certwatcher.New(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
		if err != nil {
			return certificates{}, fmt.Errorf("load the certificate of --dead-letters-cert-path: %w", err)
		}
		return certificates{watcher.GetCertificate, watcher.Start}, nil
	}
	own := cert.SelfSignedCertKeyOptions{Host: "warren-dead-letters", MaxAge: certificateTime}
	crt, key, err := cert.GenerateSelfSignedCertKeyWithOptions(own)
	if err != nil {
		return certificates{}, fmt.Errorf("make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(crt, key)
	return certificates{get: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }}, err
}

// server serves the API while the manager leads.
type server struct {
	address      string
	handler      *Handler
	certificates certificates
	proxy        *frontProxy // nil without --dead-letters-front-proxy
	label        label
	connections  *shares // by the address of the client
	log          logr.Logger
}

const (
	// headerTime is the limit for a client to complete the TLS handshake, and again to send a request.
	headerTime = 10 * time.Second
	// idleTime is short, because an idle connection occupies a slot.
	idleTime = 10 * time.Second
	// shutdownTime is how long browses may take to return their messages when the manager stops.
	shutdownTime   = 5 * time.Second
	maxHeaderBytes = 64 << 10
)

// Start serves until the context ends.
func (s *server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen at --dead-letters-bind-address: %w", err)
	}
	serving := s.serving(ctx)
	if s.proxy != nil {
		if err := s.proxy.start(ctx); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	if s.certificates.watch != nil {
		go func() {
			if err := s.certificates.watch(ctx); err != nil {
				s.log.Error(err, "Cannot watch the certificate")
			}
		}()
	}
	ended := make(chan error, 1)
	go func() { ended <- serving.Serve(tls.NewListener(fairListener{listener, s.connections}, s.tls())) }()
	s.log.Info("Serving the dead-letter API", "address", listener.Addr().String())
	s.label.set(ctx)
	select {
	case err := <-ended:
		return fmt.Errorf("serve the dead-letter API: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	s.label.clear(last)
	return serving.Shutdown(last)
}

// serving returns the HTTP server, whose limits free the slots of clients that send or receive nothing.
func (s *server) serving(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: s.handler.routes(), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, IdleTimeout: idleTime,
		WriteTimeout:   writeTime, // each part of a longer response sets its own
		MaxHeaderBytes: maxHeaderBytes, BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// NeedLeaderElection makes the manager call Start only while it leads.
func (s *server) NeedLeaderElection() bool { return true }

// tls disables HTTP/2, which this API does not need and which has denial-of-service risks (CVE-2023-44487).
func (s *server) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.certificates.get,
		ClientAuth: tls.RequestClientCert, // frontProxy verifies it
	}
}
