// Command pki writes the certificates and kubeconfig files of the cluster that hack/cluster.sh starts without Docker.
//
//	go run ./hack/cluster/pki FOLDER ADDRESS-OF-THE-NODE
package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/warren-mq/warren/hack/authority"
)

const (
	node = "warren"
	// service is the cluster IP of the API server, the first address of the service range.
	service = "10.96.0.1"
)

// clients are the users of the API server, by the name of their kubeconfig file.
var clients = map[string]pkix.Name{
	"kubeconfig":                    {CommonName: "admin", Organization: []string{"system:masters"}},
	"kubelet.kubeconfig":            {CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	"controller-manager.kubeconfig": {CommonName: "system:kube-controller-manager"},
	"scheduler.kubeconfig":          {CommonName: "system:kube-scheduler"},
	"proxy.kubeconfig":              {CommonName: "system:kube-proxy"},
}

func main() {
	if len(os.Args) != 3 || net.ParseIP(os.Args[2]) == nil {
		fmt.Fprintln(os.Stderr, "usage: pki FOLDER ADDRESS-OF-THE-NODE")
		os.Exit(2)
	}
	if err := run(os.Args[1], net.ParseIP(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, "pki:", err)
		os.Exit(1)
	}
}

func run(folder string, address net.IP) error {
	ca, err := authority.New("Warren test cluster")
	if err != nil {
		return err
	}
	if err := ca.Write(folder, "ca"); err != nil {
		return err
	}
	for file, certificate := range certificates(address) {
		issued, err := ca.Issue(certificate)
		if err != nil {
			return fmt.Errorf("issue %s: %w", file, err)
		}
		if err := issued.Write(folder, file); err != nil {
			return err
		}
	}
	for file, user := range clients {
		issued, err := ca.Issue(client(user))
		if err != nil {
			return fmt.Errorf("issue %s: %w", file, err)
		}
		config := kubeConfig("https://"+net.JoinHostPort(address.String(), "6443"), ca.Pair, issued)
		if err := clientcmd.WriteToFile(*config, filepath.Join(folder, file)); err != nil {
			return err
		}
	}
	return nil
}

// certificates returns the certificates to write, by file name. Only the key of the last one is used: the API server signs tokens
// with it.
func certificates(address net.IP) map[string]*x509.Certificate {
	return map[string]*x509.Certificate{
		"apiserver": {
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(service), address},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"kubelet": {
			Subject:     pkix.Name{CommonName: node},
			IPAddresses: []net.IP{address},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"kubelet-client":   client(pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}),
		"service-accounts": client(pkix.Name{CommonName: "service-accounts"}),
	}
}

func client(user pkix.Name) *x509.Certificate {
	return &x509.Certificate{Subject: user, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

func kubeConfig(server string, ca, user authority.Pair) *api.Config {
	config := api.NewConfig()
	config.Clusters[node] = &api.Cluster{Server: server, CertificateAuthorityData: ca.Certificate}
	config.AuthInfos[node] = &api.AuthInfo{ClientCertificateData: user.Certificate, ClientKeyData: user.Key}
	config.Contexts[node] = &api.Context{Cluster: node, AuthInfo: node}
	config.CurrentContext = node
	return config
}
