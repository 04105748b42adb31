package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// reader follows a section of a how-to word for word in the namespace of a world. A YAML block is a file, whose name is
// in its first line. A block of sh runs in bash. Blocks of console show output and do not run,
// and neither do JSON blocks.
type reader struct {
	folder, kubeConfig string
	environment        []string
	blocks             []fenced
}

// fenced is a code block of a page, without indentation from a list.
type fenced struct{ language, text string }

var block = regexp.MustCompile("(?ms)^( *)```(yaml|json|sh)\n(.*?)^ *```")

func blocksOf(page string) []fenced {
	var blocks []fenced
	for _, found := range block.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, fenced{found[2], strings.ReplaceAll("\n"+found[3], "\n"+found[1], "\n")[1:]})
	}
	return blocks
}

// follow opens a section of a page. variables (NAME=value) are the ones that the page asks its reader to set.
func (w *world) follow(page, section string, variables ...string) *reader {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(Checkout, "docs", "how-to", page))
	Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	Expect(found).To(BeTrue(), "%s has no section %q", page, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	r := &reader{folder: GinkgoT().TempDir(), blocks: blocksOf(rest)}
	r.kubeConfig = filepath.Join(r.folder, "kubeconfig")
	config, err := os.ReadFile(kube.KubeConfig)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(r.kubeConfig, config, 0o600)).To(Succeed())
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	r.environment = append(os.Environ(), append(variables, "KUBECONFIG="+r.kubeConfig, "PATH="+assets+":"+os.Getenv("PATH"))...)
	r.run("kubectl config set-context --current --namespace=" + w.Namespace)
	return r
}

// replace replaces an example value, such as the name of a vhost, with the reader's.
func (r *reader) replace(example, own string) {
	GinkgoHelper()
	found := 0
	for i := range r.blocks {
		found += strings.Count(r.blocks[i].text, example)
		r.blocks[i].text = strings.ReplaceAll(r.blocks[i].text, example, own)
	}
	Expect(found).To(BeNumerically(">", 0), "the page has no %q", example)
}

// has adds a file that the reader already has.
func (r *reader) has(name string, content []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(r.folder, name), content, 0o600)).To(Succeed())
}

// finds adds a directory to PATH.
func (r *reader) finds(folder string) {
	r.environment = append(r.environment, "PATH="+strings.Join([]string{folder, os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("PATH")}, ":"))
}

// wrote returns the content of a file that the commands have written.
func (r *reader) wrote(name string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(r.folder, name))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// next returns the next block in a language without following it.
func (r *reader) next(language string) string {
	GinkgoHelper()
	at := slices.IndexFunc(r.blocks, func(f fenced) bool { return f.language == language })
	Expect(at).NotTo(Equal(-1), "the section has no block of %s", language)
	return r.blocks[at].text
}

// given applies the resources that the page requires.
func (r *reader) given(name, spec string) {
	GinkgoHelper()
	cq := "apiVersion: messaging.warren.dev/v1alpha1\nkind: ConsumerQueue\nmetadata: {name: " + name + "}\nspec:" + strings.ReplaceAll(spec, "\n", "\n  ")
	r.run("kubectl apply --server-side -f - <<'END'\n" + cq + "\nEND\nkubectl wait --for=condition=Ready --timeout=60s consumerqueue/" + name)
}

// step writes the files before the next block of commands, runs the commands, and returns their output.
func (r *reader) step() string {
	GinkgoHelper()
	for len(r.blocks) > 0 {
		next := r.blocks[0]
		r.blocks = r.blocks[1:]
		if next.language == "sh" {
			return r.run(next.text)
		}
		if next.language == "json" {
			continue // the reader already has this file
		}
		first, _, _ := strings.Cut(next.text, "\n")
		name := strings.TrimPrefix(first, "# ")
		Expect(name).To(MatchRegexp(`^[a-z0-9-]+\.yaml$`), "the block names its file in its first line:\n%s", next.text)
		Expect(os.WriteFile(filepath.Join(r.folder, name), []byte(next.text), 0o600)).To(Succeed())
	}
	Fail("the section has no more commands")
	return ""
}

// end fails if the section has more commands.
func (r *reader) end() {
	GinkgoHelper()
	for _, left := range r.blocks {
		Expect(left.language).NotTo(Equal("sh"), "these commands were not followed:\n%s", left.text)
	}
}

func (r *reader) run(script string) string {
	GinkgoHelper()
	limited, cancel := context.WithTimeout(ctx(), deadline.For(90*time.Second))
	defer cancel()
	// On a busy machine, everything may take longer than a page says.
	script = strings.ReplaceAll(script, "--timeout=60s", "--timeout="+deadline.For(time.Minute).String())
	command := exec.CommandContext(limited, "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.Env = r.folder, r.environment
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", script, output)
	GinkgoWriter.Printf("%s\n%s", script, output)
	return string(output)
}
