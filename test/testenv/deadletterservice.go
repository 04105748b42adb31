package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// WarrenNamespace and DeadLetterService are where the manifests install Warren, and the Service of the dead-letter API there.
const (
	WarrenNamespace   = "warren-system"
	DeadLetterService = "warren-dead-letters"
)

// NewProxiedDeadLetterServer is NewDeadLetterServer for clients that use the proxy of the API server, which does not connect to
// loopback addresses. It applies the manifests of the Service and of the permission to use the proxy, which another suite may have
// applied before. It creates a pod with the address but without a container.
func NewProxiedDeadLetterServer(kube *APIServer) DeadLetterServer {
	GinkgoHelper()
	s := newDeadLetterServer(outerAddress())
	host, text, err := net.SplitHostPort(s.Address)
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(text, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	kube.ApplyObject(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: WarrenNamespace}})
	service := &corev1.Service{}
	fromDeadLetterManifest("service.yaml", service)
	service.Namespace, service.Name, service.Spec.Selector = WarrenNamespace, DeadLetterService, nil
	kube.ApplyObject(service)
	family := discoveryv1.AddressTypeIPv4
	if net.ParseIP(host).To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	kube.ApplyObject(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: WarrenNamespace, Name: DeadLetterService, Labels: map[string]string{discoveryv1.LabelServiceName: DeadLetterService},
		},
		AddressType: family,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, TargetRef: podAt(kube, host)}},
		Ports: []discoveryv1.EndpointPort{{
			Name: new(service.Spec.Ports[0].Name), Port: new(int32(port)), Protocol: new(corev1.ProtocolTCP),
		}},
	})
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	fromDeadLetterManifest("proxy_role.yaml", role)
	fromDeadLetterManifest("proxy_role_binding.yaml", binding)
	role.Namespace, binding.Namespace = WarrenNamespace, WarrenNamespace
	kube.ApplyObject(role)
	kube.ApplyObject(binding)
	return s
}

// podAt creates a pod with the address in its status, because the API server's proxy only connects to addresses of pods. The pod
// meets the Pod Security Standard that config/default sets for the namespace.
func podAt(kube *APIServer, address string) *corev1.ObjectReference {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: WarrenNamespace, Name: "controller-manager"},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "manager", Image: "warren", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}
	kube.ApplyObject(pod)
	Expect(kube.Get(ctx(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	Expect(kube.Status().Update(ctx(), pod)).To(Succeed())
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}

func fromDeadLetterManifest(file string, into any) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(Checkout, "config", "dead-letters", file))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(content, into)).To(Succeed())
}

// outerAddress returns a free port at an address of this machine that other machines can reach.
func outerAddress() string {
	GinkgoHelper()
	addresses, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, address := range addresses {
		network, isNetwork := address.(*net.IPNet)
		if isNetwork && network.IP.IsGlobalUnicast() {
			listener, err := (&net.ListenConfig{}).Listen(ctx(), "tcp", net.JoinHostPort(network.IP.String(), "0"))
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = listener.Close() }()
			return listener.Addr().String()
		}
	}
	Fail("this machine has only loopback addresses: the proxy of an API server connects to none of them")
	return ""
}
