package incluster

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// version is the version in docs/installation.md.
const version = "v0.1.0"

// published is a release at a local registry and web server, which replace ghcr.io and the releases of GitHub.
type published struct {
	// folder is the output of `make release`. registry and downloads are the addresses of the servers.
	folder, registry, downloads string
}

var _ = Describe("A release", Ordered, func() {
	var (
		c       *cluster
		user    brokers.User
		release *published
		atHand  []string
	)

	BeforeAll(func() {
		c = prepared.in("team-release")
		c.Kube.Kubectl("create", "namespace", "team-release")
		DeferCleanup(func() { c.Kube.Kubectl("delete", "namespace", "team-release", "--wait=false") })
		user = c.Broker.NewUser(GinkgoTB(), "administrator")
		c.VHost.Grant(user, ".*", ".*", ".*")
		c.Secret(user.Username, user.Password)
		release = c.publish()
		atHand = c.settled("team-release")
	})

	// works checks that the manager has the version of the release and declares queues.
	works := func() {
		GinkgoHelper()
		c.Connect(v1alpha1.BrokerConnectionSpec{})
		c.Queue("orders", `{}`)
		c.Ready("orders")
		Eventually(c.pods).Should(HaveEach(HaveField("Spec.Containers", HaveExactElements(
			HaveField("Image", "ghcr.io/warren-mq/warren@"+release.file("image.digest"))))))
		Expect(c.Kube.Kubectl("exec", "--namespace", system, deployment, "--", "/manager", "--version")).To(HavePrefix("warren " + version))
	}
	// gone removes the resources of works and the release, and checks that no object is left.
	gone := func(remove func()) {
		GinkgoHelper()
		c.Kube.Kubectl("delete", "consumerqueues,brokerconnections", "--all", "--namespace=team-release")
		remove()
		Eventually(func() []string { return added(atHand, c.objects()) }).WithTimeout(deadline.For(30 * time.Second)).Should(BeEmpty())
	}

	It("is installed with the commands of the README", func() {
		readme, err := os.ReadFile(filepath.Join(c.checkout, "README.md"))
		Expect(err).NotTo(HaveOccurred())
		for _, way := range []string{"helm install", "kubectl apply"} {
			command, _, _ := strings.Cut(c.commands(way), "\n")
			Expect(string(readme)).To(ContainSubstring(command))
		}
	})

	It("is installed with the Helm commands of its page, and passes helm test", func() {
		commands := c.commands("helm install")
		Expect(commands).To(ContainSubstring("helm test"))
		c.run(release, commands)
		works()
		gone(func() {
			c.helm("uninstall", "--wait")
			c.Kube.Kubectl("delete", "crd", QueuesCRD, ConnectionsCRD, RedrivesCRD, PurgesCRD)
			c.Kube.Kubectl("delete", "namespace", system)
		})
	})

	It("is installed with the commands for one file", func() {
		c.run(release, c.commands("kubectl apply"))
		works()
	})

	It("installs the plugin with the commands of its page, and the plugin prints its version and reports the log of the manager", func() {
		platform := runtime.GOOS + "_" + runtime.GOARCH
		commands := strings.ReplaceAll(c.commands("curl"), "linux_amd64", platform) + `
			kubectl warren report --namespace team-release --file report.tar.gz >&2
			tar -tzf report.tar.gz warren-report/managers/` + system + "/" + c.pod() + `.log
			tar -xzOf report.tar.gz
		`
		output := c.run(release, commands)
		Expect(output).To(SatisfyAll(ContainSubstring("kubectl warren "+version), ContainSubstring(`"Starting workers"`)))
		for _, spelling := range Spellings(user.Username, user.Password) {
			Expect(output).NotTo(ContainSubstring(spelling), "the report contains the password of the broker's user")
		}
	})

	It("is removed with the command for one file", func() {
		gone(func() { c.run(release, c.commands("kubectl delete -f")) })
	})

	It("has checksums, SBOMs and provenance for all artifacts", func() {
		check := exec.CommandContext(ctx(), "sha256sum", "--check", "--strict", "checksums.txt")
		check.Dir = release.folder
		output, err := check.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		Expect(string(output)).To(SatisfyAll(
			ContainSubstring("install.yaml: OK"), ContainSubstring("warren-"+version[1:]+".tgz: OK"), ContainSubstring("kubectl-warren.yaml: OK"),
			MatchRegexp(`kubectl-warren_\S+: OK`), MatchRegexp(`sbom-%s\.cdx\.json: OK`, runtime.GOARCH), MatchRegexp(`sbom-kubectl-warren-\S+: OK`)))
		Expect(release.file("provenance.intoto.json")).To(SatisfyAll(
			ContainSubstring(strings.TrimPrefix(release.file("image.digest"), "sha256:")),
			ContainSubstring(strings.TrimPrefix(release.file("chart.digest"), "sha256:")),
			ContainSubstring(strings.TrimSpace(c.script("git", "rev-parse", "HEAD")))))
	})
})

// publish builds the release of the commit in a clone, pushes it, and makes the cluster pull from the registry.
func (c *cluster) publish() *published {
	GinkgoHelper()
	clone := filepath.Join(GinkgoT().TempDir(), "warren")
	c.script("git", "clone", "--quiet", ".", clone)
	c.scriptIn(clone, "make", "release", "VERSION="+version, "PLATFORMS=host")
	release := &published{folder: filepath.Join(clone, "dist")}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	server := httptest.NewUnstartedServer(http.StripPrefix("/"+version, http.FileServer(http.Dir(release.folder))))
	server.Listener = listener
	server.Start()
	DeferCleanup(server.Close)
	release.downloads = server.URL

	address := strings.TrimSpace(c.script("hack/cluster.sh", "address"))
	release.registry = serveRegistry(clone, net.JoinHostPort(address, "0"))
	image := filepath.Join(release.folder, "bin", "image")
	c.script(image, "push", filepath.Join(release.folder, "image"), release.registry+"/warren-mq/warren:"+version)
	c.script(image, "push", filepath.Join(release.folder, "chart"), release.registry+"/warren-mq/charts/warren:"+version[1:])
	c.script("hack/cluster.sh", "mirror", "ghcr.io", "http://"+release.registry)
	return release
}

// serveRegistry starts an in-memory registry and returns its address.
func serveRegistry(clone, address string) string {
	GinkgoHelper()
	program := filepath.Join(clone, "dist", "bin", "image")
	build := exec.CommandContext(ctx(), "go", "-C", filepath.Join(clone, "hack", "tools"), "build", "-trimpath", "-o", program, "./image")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	command := exec.Command(program, "serve", address)
	printed, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	command.Stderr = GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(printed).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(line)
}

func (p *published) file(name string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(p.folder, name))
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(content))
}

// commands returns the first block of docs/installation.md that contains a command.
func (c *cluster) commands(command string) string {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(c.checkout, "docs", "installation.md"))
	Expect(err).NotTo(HaveOccurred())
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], command) {
			return block[1]
		}
	}
	Fail(fmt.Sprintf("docs/installation.md has no block with %s", command))
	return ""
}

// run runs commands of the page with replaced hosts and returns their output. Helm needs a flag for a registry without TLS.
func (c *cluster) run(release *published, commands string) string {
	GinkgoHelper()
	home := GinkgoT().TempDir()
	Expect(os.MkdirAll(filepath.Join(home, ".local", "bin"), 0o700)).To(Succeed())
	script := strings.NewReplacer(
		"oci://ghcr.io/warren-mq/charts/warren", "oci://"+release.registry+"/warren-mq/charts/warren --plain-http",
		"https://github.com/warren-mq/warren/releases/download", release.downloads,
	).Replace(commands)
	helm := fmt.Sprintf("helm() { %s/hack/tool.sh helm \"$@\"; }\n", c.checkout)
	cache := os.Getenv("WARREN_CACHE")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache", "warren")
	}
	return c.scriptIn(home, "env", "HOME="+home, "WARREN_CACHE="+cache, "PATH="+filepath.Join(home, ".local", "bin")+":"+
		os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"), "bash", "-c", "set -euo pipefail\n"+helm+script)
}
