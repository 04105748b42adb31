package gitops

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/warren-mq/warren/test/gitenv"
	. "github.com/warren-mq/warren/test/testenv"
)

// installation is a running Argo CD: application controller, repository server and Redis as processes. The server is not needed, because
// no user logs in.
type installation struct {
	folder              string
	redis, repositories string
}

// startArgoCD installs the parts of Argo CD's manifests that the processes need, with the component config/argocd.
func startArgoCD() {
	GinkgoHelper()
	i := &installation{folder: GinkgoT().TempDir(), redis: FreeAddress(), repositories: FreeAddress()}
	i.install()
	kube.RunController("garbage-collector-controller") // completes foreground deletions, which Argo CD uses
	host, port, err := net.SplitHostPort(i.redis)
	Expect(err).NotTo(HaveOccurred())
	RunAside(exec.Command(filepath.Join(Checkout, "hack", "redis.sh"), "--bind", host, "--port", port, "--save", "", "--appendonly", "no"))
	host, port, err = net.SplitHostPort(i.repositories)
	Expect(err).NotTo(HaveOccurred())
	RunAside(i.component("argocd-repo-server", "--address", host, "--port", port, "--metrics-port", freePort(), "--disable-tls", "--redis", i.redis))
	RunAside(i.component("argocd-application-controller", "--namespace", "argocd", "--metrics-port", freePort(), "--redis", i.redis,
		"--repo-server", i.repositories, "--repo-server-plaintext", "--persist-resource-health"))
}

// install applies the CRDs and the settings from the module of the pinned version.
func (i *installation) install() {
	GinkgoHelper()
	manifests := filepath.Join(ModuleFolder("argocd", "github.com/argoproj/argo-cd/v3"), "manifests")
	for _, name := range []string{"application-crd.yaml", "appproject-crd.yaml"} {
		kube.Kubectl("apply", "--server-side", "--filename", filepath.Join(manifests, "crds", name))
	}
	kube.Kubectl("wait", "--for=condition=Established", "crd/applications.argoproj.io", "crd/appprojects.argoproj.io")

	kube.Kubectl("create", "namespace", "argocd")
	i.write("kustomization.yaml", Manifest("kustomize.config.k8s.io/v1beta1", "Kustomization", "argocd", map[string]any{
		"namespace":  "argocd",
		"resources":  []string{i.relative(filepath.Join(manifests, "base", "config"))},
		"components": []string{i.relative(filepath.Join(Checkout, "config", "argocd"))},
	}))
	kube.Kubectl("apply", "--server-side", "--kustomize", i.folder)
	// Argo CD's server would create the key on its first start.
	kube.Kubectl("patch", "--namespace", "argocd", "secret", "argocd-secret", "--patch", fmt.Sprintf(`{"stringData":{"server.secretkey":%q}}`, rand.Text()))
	project := i.write("project.yaml", Manifest("argoproj.io/v1alpha1", "AppProject", "default", map[string]any{"spec": map[string]any{
		"sourceRepos": []string{"*"}, "destinations": []any{map[string]any{"server": "*", "namespace": "*"}},
	}}))
	kube.Kubectl("apply", "--server-side", "--namespace", "argocd", "--filename", project)
}

// write writes a file of the installation and returns its path.
func (i *installation) write(name, text string) string {
	GinkgoHelper()
	path := filepath.Join(i.folder, name)
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	Expect(os.WriteFile(path, []byte(text), 0o700)).To(Succeed())
	return path
}

// relative returns a directory relative to a kustomization.
func (i *installation) relative(folder string) string {
	GinkgoHelper()
	absolute, err := filepath.Abs(folder)
	Expect(err).NotTo(HaveOccurred())
	from, err := filepath.EvalSymlinks(i.folder)
	Expect(err).NotTo(HaveOccurred())
	path, err := filepath.Rel(from, absolute)
	Expect(err).NotTo(HaveOccurred())
	return path
}

// component is a program of Argo CD. It finds the pinned kustomize.
func (i *installation) component(name string, arguments ...string) *exec.Cmd {
	GinkgoHelper()
	tool := ToolScript("argocd")
	i.write("bin/kustomize", fmt.Sprintf("#!/bin/sh\nexec '%s' kustomize \"$@\"\n", tool))
	Expect(os.MkdirAll(filepath.Join(i.folder, name), 0o700)).To(Succeed())
	command := exec.Command(tool, append([]string{"argocd"}, arguments...)...)
	command.Env = append(os.Environ(), "ARGOCD_BINARY_NAME="+name, "ARGOCD_GPG_ENABLED=false", "ARGOCD_FAKE_IN_CLUSTER=true",
		"ARGOCD_TLS_DATA_PATH="+i.folder, "ARGOCD_SSH_DATA_PATH="+i.folder, "ARGOCD_ASK_PASS_SOCK="+filepath.Join(i.folder, "ask-pass"),
		"KUBECONFIG="+kube.KubeConfig, "TMPDIR="+filepath.Join(i.folder, name), "PATH="+filepath.Join(i.folder, "bin")+":"+os.Getenv("PATH"))
	return command
}

func freePort() string {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(FreeAddress())
	Expect(err).NotTo(HaveOccurred())
	return port
}
