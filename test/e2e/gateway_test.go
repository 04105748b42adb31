package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/brokers"
)

// gateway stands in front of a broker's management API, counts requests, and can be cut off.
type gateway struct {
	uri string
	// definitions are the requests for those of a vhost; requests are all.
	definitions, requests atomic.Int64
	cut                   atomic.Bool
	// policies holds up requests for policies while a test has locked it.
	policies sync.RWMutex
}

func newGateway(broker brokers.Broker) *gateway {
	GinkgoHelper()
	target, err := url.Parse(broker.ManagementURI)
	Expect(err).NotTo(HaveOccurred())
	g := &gateway{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		g.requests.Add(1)
		if strings.HasPrefix(request.URL.Path, "/api/definitions/") {
			g.definitions.Add(1)
		}
		if strings.HasPrefix(request.URL.Path, "/api/policies/") {
			g.policies.RLock()
			defer g.policies.RUnlock()
		}
		if g.cut.Load() {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
		proxy.ServeHTTP(response, request)
	}))
	DeferCleanup(server.Close)
	g.uri = server.URL
	return g
}
