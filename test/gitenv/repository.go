package gitenv

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Branch is the branch of every repository.
const Branch = "main"

// Repository is a Git repository that is served over HTTP.
type Repository struct {
	// URL is the address of the repository.
	URL string

	// folder is the working tree of a clone.
	folder string
}

// NewRepository serves an empty repository until the test ends.
func NewRepository() *Repository {
	GinkgoHelper()
	root := GinkgoT().TempDir()
	backend, err := exec.CommandContext(ctx(), "git", "--exec-path").Output()
	Expect(err).NotTo(HaveOccurred(), "git --exec-path")
	server := httptest.NewServer(&cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
		Stderr: GinkgoWriter,
	})
	DeferCleanup(server.Close)
	r := &Repository{URL: server.URL + "/apps.git", folder: filepath.Join(root, "apps")}
	Expect(os.Mkdir(r.folder, 0o700)).To(Succeed())
	r.git("init", "--quiet", "--bare", "--initial-branch="+Branch, filepath.Join(root, "apps.git"))
	r.git("init", "--quiet", "--initial-branch="+Branch)
	r.git("remote", "add", "origin", filepath.Join(root, "apps.git"))
	r.git("config", "user.name", "Tester")
	r.git("config", "user.email", "tester@example.com")
	r.git("config", "commit.gpgSign", "false")
	return r
}

// Files are the contents of files by path.
type Files map[string]string

// Commit writes files, pushes them and returns the revision.
func (r *Repository) Commit(changed Files) string {
	GinkgoHelper()
	for name, content := range changed {
		path := filepath.Join(r.folder, name)
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return r.commit()
}

// Remove removes files, pushes and returns the revision.
func (r *Repository) Remove(names ...string) string {
	GinkgoHelper()
	for _, name := range names {
		Expect(os.Remove(filepath.Join(r.folder, name))).To(Succeed())
	}
	return r.commit()
}

func (r *Repository) commit() string {
	GinkgoHelper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message=Change")
	r.git("push", "--quiet", "origin", Branch)
	return strings.TrimSpace(r.git("rev-parse", "HEAD"))
}

func (r *Repository) git(arguments ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), "git", arguments...)
	command.Dir = r.folder
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "git %v: %s", arguments, output)
	return string(output)
}
