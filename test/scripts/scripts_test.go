// Package scripts tests what the scripts in hack/ decide. The parts that they provide are stubs, so the tests need neither a network nor
// Docker.
package scripts

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// folder has copies of files of the checkout and stubs of programs. Its path has a space.
type folder string

// newFolder copies the files.
func newFolder(t *testing.T, files ...string) folder {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := folder(filepath.Join(path, "a checkout"))
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		f.write(t, file, string(content))
	}
	return f
}

// write writes an executable file.
func (f folder) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(string(f), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// stub replaces a program by a script.
func (f folder) stub(t *testing.T, name, script string) {
	t.Helper()
	f.write(t, "stubs/"+name, "#!/usr/bin/env bash\n"+script+"\n")
}

func (f folder) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(f), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (f folder) has(name string) bool {
	_, err := os.Stat(filepath.Join(string(f), name))
	return err == nil
}

// bash runs commands in the folder, with the stubs and an empty cache, and without the variables of the run that this test belongs to.
// It returns what they print and whether they succeed.
func (f folder) bash(t *testing.T, commands string) (output string, succeeded bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+commands)
	command.Dir = string(f)
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return regexp.MustCompile(`^(WARREN_|GIT_|KUBEBUILDER_|MAKE|MFLAGS)`).MatchString(variable)
	})
	command.Env = append(command.Env, "PATH="+filepath.Join(string(f), "stubs")+":"+os.Getenv("PATH"),
		"WARREN_CACHE="+filepath.Join(string(f), "cache"))
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	err := command.Run()
	return printed.String(), err == nil
}

// mustRun is bash for commands that succeed.
func (f folder) mustRun(t *testing.T, commands string) string {
	t.Helper()
	output, succeeded := f.bash(t, commands)
	if !succeeded {
		t.Fatalf("%s\nfailed:\n%s", commands, output)
	}
	return output
}

func TestTheMirrorOfDebian(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "hack/lib.sh", "hack/debian.sh")
	const docker = "deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://download.docker.com/linux/debian bookworm stable\n"
	for name, test := range map[string]struct{ sources, want string }{
		"one line":                    {"deb http://deb.debian.org/debian bookworm main\n", "http://deb.debian.org/debian"},
		"deb822":                      {"Types: deb\nURIs: http://deb.debian.org/debian/\nSuites: bookworm\n", "http://deb.debian.org/debian"},
		"behind another archive":      {docker + "URIs: http://deb.debian.org/debian\n", "http://deb.debian.org/debian"},
		"a mirror with a longer path": {"deb https://mirrors.example.com/pub/debian bookworm main\n", "https://mirrors.example.com/pub/debian"},
		"no mirror":                   {"URIs: http://archive.ubuntu.com/ubuntu/\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.TrimSpace(f.mustRun(t, ". hack/lib.sh; . hack/debian.sh; debian_mirror_in <<'END'\n"+test.sources+"END"))
			if got != test.want {
				t.Errorf("the mirror is %q, want %q", got, test.want)
			}
		})
	}
}

// The cache must not keep a program whose copy failed, because no later run would replace it.
func TestAFailedCopyIsNotCached(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "hack/lib.sh", "hack/kubernetes.sh", "hack/kubernetes/go.mod", "hack/etcd/go.mod")
	f.write(t, "hack/tool.sh", `#!/usr/bin/env bash
for name in kube-apiserver kubectl etcd; do echo program >"$WARREN_CACHE/$name" && chmod +x "$WARREN_CACHE/$name"; done
echo "$WARREN_CACHE"
`)
	f.stub(t, "cp", `printf pro >"$2" && chmod +x "$2" && exit 1`) // as on a full disk
	f.stub(t, "go", "exit 1")
	if output, succeeded := f.bash(t, "hack/kubernetes.sh path"); succeeded {
		t.Errorf("it succeeds, and prints %s", output)
	}
	if cached, _ := filepath.Glob(filepath.Join(string(f), "cache/kubernetes/*/kube-apiserver")); len(cached) > 0 {
		t.Errorf("the cache has %v", cached)
	}
}

// The packages of a cluster without Docker are in the cache only if all of them are unpacked.
func TestAPackageThatCannotBeUnpackedIsNotCached(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "hack/lib.sh", "hack/cluster/bare.sh")
	f.stub(t, "dpkg-deb", `mkdir -p "$3/usr" && [[ $2 != *runc* ]]`)
	for name, test := range map[string]struct {
		packages string
		want     bool
	}{
		"all":          {"containerd.deb nftables.deb", true},
		"none missing": {"", true},
		"one fails":    {"containerd.deb runc.deb nftables.deb", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := strings.ReplaceAll(name, " ", "-")
			output, succeeded := f.bash(t, `. hack/lib.sh; . hack/cluster/bare.sh
				bare_download() { for name in `+test.packages+`; do : >"$1/$name"; done; }
				PACKAGES="$WARREN_CACHE/`+folder+`"
				bare_unpack`)
			if succeeded != test.want || f.has("cache/"+folder) != test.want {
				t.Errorf("it succeeds: %t, want %t\n%s", succeeded, test.want, output)
			}
		})
	}
}

// clusterOfStubs defines what hack/brokers/cluster.sh needs. Its nodes are files, and KILL_AT is the call at which the script is killed.
const clusterOfStubs = `. hack/lib.sh; . hack/brokers/cluster.sh
BACKEND=stub VERSIONS=(4.3) STATE=brokers
provide() { [[ $STATE == brokers ]]; }; certificates() { :; }
number_of() { echo 403; }; port_offsets() { echo 0; }; free_ports() { :; }; take_ports() { :; }
remember() { mkdir -p "$STATE/$1" && : >"$STATE/$1/endpoints"; }
recall() { [[ -f $STATE/$1/endpoints ]]; }
call() { echo "$1 $NODE"; [[ ${KILL_AT:-} != "$1 $NODE" ]] || kill -KILL $$; }
stub_copy() { [[ $STATE == brokers ]]; }; stub_cluster_prepare() { :; }; stub_cluster_end() { :; }; stub_cluster_remove() { :; }
stub_running() { [[ -f $STATE/runs ]]; }
stub_boot() { call boot && : >"$STATE/runs"; }
stub_boot_again() { call boot_again && : >"$STATE/runs"; }
stub_cut() { call cut && rm "$STATE/runs"; }
stub_remove() { call remove; }
cluster_await() { :; }
`

func TestAClusterWhoseScriptWasKilled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, killed, then, want string }{
		"a start":               {":", "KILL_AT='boot 2' && cluster start c", "start", "cut 1 remove 1 remove 2 remove 3 boot 1 boot 2 boot 3"},
		"a start, then removed": {":", "KILL_AT='boot 2' && cluster start c", "remove", "cut 1 remove 1 remove 2 remove 3"},
		"a removal":             {"cluster start c", "KILL_AT='remove 2' && cluster remove c", "start", "remove 2 remove 3 boot 1 boot 2 boot 3"},
		"a removal, removed":    {"cluster start c", "KILL_AT='remove 2' && cluster remove c", "remove", "remove 2 remove 3"},
		"a stop":                {"cluster start c", "KILL_AT='cut 2' && cluster stop c", "start", "boot_again 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, "hack/lib.sh", "hack/brokers/cluster.sh")
			f.mustRun(t, clusterOfStubs+test.first)
			if output, succeeded := f.bash(t, clusterOfStubs+test.killed); succeeded {
				t.Fatalf("it was not killed:\n%s", output)
			}
			got := strings.Join(strings.Fields(f.mustRun(t, clusterOfStubs+"cluster "+test.then+" c")), " ")
			if got != test.want {
				t.Errorf("the calls are %q, want %q", got, test.want)
			}
		})
	}
}

// kubectlOfStubs records the calls of hack/undeploy.sh that matter, and then answers them.
const kubectlOfStubs = `case "$*" in
*deletionTimestamp*) call=deleting ;;
*recreation.phase*) call=recreating ;;
"get consumerqueues"*finalizers*) call=finalizers ;;
"delete "*--cascade=foreground*deployment/warren-controller-manager) call=stop ;;
"patch consumerqueues"*) call="patch ${*: -2}" ;;
*"-k config/default") call=remove ;;
*) exit 0 ;;
esac
echo "$call" >>calls
`

// The operator runs until its deletions have ended, and its pods have ended before the finalizers are removed.
func TestUndeploy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  string // commands that answer a call
		want    string // the calls
		refused string // what it prints if it fails
	}{
		"a deletion under way": {
			answer: `[[ $call != deleting ]] || (($(grep -c deleting calls) > 2)) || echo shop/orders`,
			want:   "recreating deleting deleting deleting stop recreating finalizers remove",
		},
		"a recreation that begins meanwhile": {
			answer:  `[[ $call != recreating ]] || ! grep -q stop calls || echo shop/orders Emptying`,
			want:    "recreating deleting stop recreating",
			refused: "recreations have begun meanwhile. Install Warren again, and wait until they have ended: shop/orders",
		},
		"a finalizer of another controller": {
			answer: `[[ $call != finalizers ]] || echo 'shop ["example.com/keep","messaging.warren.dev/topology"] orders'`,
			want:   `recreating deleting stop recreating finalizers patch {"metadata":{"finalizers":["example.com/keep"]}} orders remove`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, "hack/lib.sh", "hack/undeploy.sh")
			f.stub(t, "kubectl", kubectlOfStubs+test.answer)
			f.stub(t, "sleep", "exit 0")
			output, succeeded := f.bash(t, "KUBECTL=kubectl hack/undeploy.sh")
			if succeeded != (test.refused == "") || !strings.Contains(output, test.refused) {
				t.Errorf("it succeeds: %t, output\n%s", succeeded, output)
			}
			if got := strings.Join(strings.Fields(f.read(t, "calls")), " "); got != test.want {
				t.Errorf("the calls are %q, want %q", got, test.want)
			}
		})
	}
}

// A tag such as 1.0 is text, although YAML would read it as a number.
func TestTheImageOfADeployment(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "Makefile")
	for image, want := range map[string]map[string]string{
		"warren":                        {"newName": "warren", "newTag": "latest"},
		"localhost:5000/warren:1.0":     {"newName": "localhost:5000/warren", "newTag": "1.0"},
		"ghcr.io/warren-mq/warren:1e3":  {"newName": "ghcr.io/warren-mq/warren", "newTag": "1e3"},
		"warren.local/warren@sha256:12": {"newName": "warren.local/warren", "digest": "sha256:12"},
	} {
		f.mustRun(t, "make --silent overlay IMG="+image)
		var overlay struct{ Images []map[string]any }
		if err := yaml.Unmarshal([]byte(f.read(t, "bin/overlay/kustomization.yaml")), &overlay); err != nil {
			t.Fatalf("%s: %v", image, err)
		}
		got := map[string]any{"name": "controller"}
		for field, value := range want {
			got[field] = value
		}
		if len(overlay.Images) != 1 || !maps.Equal(overlay.Images[0], got) {
			t.Errorf("%s: the images are %v, want %v", image, overlay.Images, got)
		}
	}
}

// go test splits the value of -exec at spaces.
func TestACheckoutWithASpaceInItsPath(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "Makefile", "hack/test.sh")
	f.stub(t, "go", `[[ $1 != test ]] || printf '%s\n' "$@" | grep '^-exec=' || true`)
	f.stub(t, "git", "exit 0")
	f.write(t, "hack/with-parts.sh", "#!/usr/bin/env bash\nwhile [[ $1 != -- ]]; do shift; done; shift; \"$@\"\n")
	f.write(t, "hack/tool.sh", "")
	f.write(t, "hack/kubernetes.sh", "")
	for _, command := range []string{"hack/test.sh extended", "make --silent test-e2e", "make --silent e2e-gitops"} {
		output := f.mustRun(t, command)
		if output == "" {
			t.Errorf("%s runs no test", command)
		}
		for line := range strings.Lines(output) {
			if want := "-exec='" + string(f) + "/hack/run-test.sh'\n"; line != want {
				t.Errorf("%s: %q, want %q", command, line, want)
			}
		}
	}
}

// Git exports GIT_DIR to hooks of linked worktrees, and to the commands of a rebase.
func TestVerifyLeavesTheIndexOfTheCallerAlone(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "hack/lib.sh", "hack/verify.sh", "go.mod", "go.sum")
	f.write(t, "Makefile", "generate manifests docs chart: ;\n")
	f.stub(t, "go", "exit 0")
	output := f.mustRun(t, `git init -q && git add Makefile hack go.mod go.sum
		before=$(git ls-files --stage)
		GIT_DIR=$PWD/.git hack/verify.sh
		git -C . ls-files --stage | diff <(echo "$before") -`)
	if !strings.Contains(output, "everything generated is fresh") {
		t.Errorf("the output is %s", output)
	}
}
