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
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/warren-mq/warren/internal/apiaccess"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
)

// Options say how the API is served.
type Options struct {
	// BindAddress is where, such as :8444; empty or 0 for nowhere.
	BindAddress string
	// CertPath is the folder with tls.crt and tls.key; a certificate made at the start if empty.
	CertPath string
	// FrontProxy says that requests may come through the API server, which names their senders: an APIService leads there.
	FrontProxy bool
	// Redact is a regular expression that matches the names of headers whose values are not shown.
	Redact string
	// Namespaces are those that the operator works in; all if empty.
	Namespaces []string
	// Pod is that of the manager, which gets the label of ActiveLabel while it serves; none outside of a cluster.
	Pod Pod
}

// certificateTime is how long a certificate is valid that is made at the start.
const certificateTime = 10 * 365 * 24 * time.Hour

// Setup adds the API to a manager. Only the leader serves, for only the leader is connected to brokers.
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
		if proxy, err = newFrontProxy(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
			return err
		}
	}
	log := mgr.GetLogger().WithName("dead-letters")
	label := label{pod: options.Pod, client: mgr.GetClient(), log: log, cleared: make(chan struct{})}
	handler := &Handler{
		reader: mgr.GetClient(), finder: finder, admit: gate{access, proxy}.admit, users: users,
		answers: newAnswers(), looks: newLooks(), redact: redact,
		log: log,
		watches: func(namespace string) bool {
			return len(options.Namespaces) == 0 || slices.Contains(options.Namespaces, namespace)
		},
	}
	s := &server{address: options.BindAddress, handler: handler, certificates: certificates, proxy: proxy, label: label, log: log}
	return errors.Join(mgr.Add(label), mgr.Add(s))
}

// certificates are those that the API is served with.
type certificates struct {
	get   func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	watch func(context.Context) error // nil if they never change
}

// certificatesOf loads the certificate of a folder, whose changes are taken up, or makes a certificate.
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
	log          logr.Logger
}

// The times that a client has: to send the header of a request, and before an idle connection is closed. Each answer sets how long it may
// take itself.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	// shutdownTime is how long looks may take to give messages back when the manager stops.
	shutdownTime = 5 * time.Second
	mostHeader   = 64 << 10
)

// Start serves until the context ends.
func (s *server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen at --dead-letters-bind-address: %w", err)
	}
	serving := &http.Server{
		Handler: s.handler.routes(), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: mostHeader, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if s.proxy != nil {
		if err := s.proxy.start(ctx); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	if s.certificates.watch != nil {
		go func() {
			if err := s.certificates.watch(ctx); err != nil {
				s.log.Error(err, "Changes of the certificate are not taken up")
			}
		}()
	}
	ended := make(chan error, 1)
	go func() { ended <- serving.Serve(tls.NewListener(listener, s.tls())) }()
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

// NeedLeaderElection makes this a runnable of the leader.
func (s *server) NeedLeaderElection() bool { return true }

// tls leaves HTTP/2 out, which has had denials of service that an API for people need not risk (CVE-2023-44487).
func (s *server) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.certificates.get,
		ClientAuth: tls.RequestClientCert, // which only frontProxy looks at
	}
}
