package deadletterapi

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/warren-mq/warren/hack/authority"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/deadline"
)

// The API server names the sender of a request. Other clients cannot, even if their certificate has the same authority or the same name.
func TestFrontProxy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	proxies, err := authority.New("proxies")
	g.Expect(err).NotTo(HaveOccurred())
	others, err := authority.New("others")
	g.Expect(err).NotTo(HaveOccurred())
	proxy, err := newFrontProxy(fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: frontProxyNamespace, Name: frontProxyConfigMap},
		Data: map[string]string{
			keyAuthority: string(proxies.Certificate), keyNames: `["front-proxy"]`, keyUsername: `["X-Remote-User"]`,
			keyUID: `["X-Remote-Uid"]`, keyGroup: `["X-Remote-Group"]`, keyExtra: `["X-Remote-Extra-"]`,
		},
	}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(proxy.start(t.Context())).To(Succeed())
	g.Eventually(func() bool {
		_, loaded := proxy.authority.VerifyOptions()
		return loaded
	}).WithTimeout(deadline.For(10 * time.Second)).Should(BeTrue())

	alice := &user.DefaultInfo{Name: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string][]string{"pod": {"a"}}}
	for name, test := range map[string]struct {
		proxy  *frontProxy
		by     *authority.Authority // nil for a client without a certificate
		client string               // the name in its certificate
		want   user.Info
	}{
		"the API server":                              {proxy, proxies, "front-proxy", alice},
		"another client of the same authority":        {proxy, proxies, "kubelet", nil},
		"another authority's client of the same name": {proxy, others, "front-proxy", nil},
		"a client without a certificate":              {proxy, nil, "", nil},
		"a manager without the flag":                  {nil, proxies, "front-proxy", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			request.TLS = &tls.ConnectionState{}
			if test.by != nil {
				pair, err := test.by.Issue(&x509.Certificate{
					Subject: pkix.Name{CommonName: test.client}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
				})
				topologytest.Equal(t, "error", nil, err)
				certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
				topologytest.Equal(t, "error", nil, err)
				request.TLS.PeerCertificates = []*x509.Certificate{certificate.Leaf}
			}
			for header, value := range map[string]string{
				"X-Remote-User": "alice", "X-Remote-Uid": "7", "X-Remote-Group": "shop", "X-Remote-Extra-Pod": "a",
			} {
				request.Header.Set(header, value)
			}
			topologytest.Equal(t, "sender", test.want, test.proxy.identify(request))
		})
	}
}
