package scripts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docker lists containers and networks of the run of $WARREN_CACHE/run and of another run, and records what is removed.
const docker = `case "$1 $2" in
  "ps -a") what=container ;;
  "network ls") what=network ;;
  *) echo "$*" >>"$WARREN_CACHE/removed" ;;
esac
[[ -z ${what:-} ]] || printf "$what-%s\n" "1 $(cat "$WARREN_CACHE/run")" '2 warren-other' '3 '`

// The end of a run removes what the run has left in Docker, and nothing of other runs.
func TestARunRemovesItsContainersAndNetworks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, containers string }{
		"kind of this run":    {`echo "$WARREN_RUN" >"$WARREN_CACHE/cluster/state/run"`, "container-1 warren-control-plane"},
		"kind of another run": {`echo warren-other >"$WARREN_CACHE/cluster/state/run"`, "container-1"},
		"kind without a run":  {`echo >"$WARREN_CACHE/cluster/state/run"`, "container-1"},
		"no kind":             {":", "container-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, "hack/lib.sh", "hack/supervise.sh")
			f.stub(t, "docker", docker)
			f.mustRun(t, `hack/supervise.sh bash -c 'echo "$WARREN_RUN" >"$WARREN_CACHE/run"; mkdir -p "$WARREN_CACHE/cluster/state"; `+test.kind+`'`)
			if difference := cmp.Diff("rm -f -v "+test.containers+"\nnetwork rm network-1\n", f.read(t, "cache/removed")); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
