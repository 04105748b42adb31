package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestBuildWithoutLinkerFlags(t *testing.T) {
	got := Get()
	if got.Version != "devel" || got.Revision == "" || got.GoVersion != runtime.Version() {
		t.Errorf("%+v", got)
	}
}

func TestReleaseNamesItself(t *testing.T) {
	release(t, "v1.2.3", "06967e3c5605e8ec")
	want := "warren v1.2.3, revision 06967e3c5605e8ec, " + runtime.Version()
	if got := Get().String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMetricNamesTheBuild(t *testing.T) {
	release(t, "v1.2.3", "06967e3c5605e8ec")
	want := fmt.Sprintf(`# HELP warren_build_info The build of the operator that runs; the value is always 1.
# TYPE warren_build_info gauge
warren_build_info{go_version=%q,revision="06967e3c5605e8ec",version="v1.2.3"} 1
`, runtime.Version())
	if err := testutil.CollectAndCompare(Metric(), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(Metric()); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}

func TestRecordedRevision(t *testing.T) {
	recorded := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "vcs.revision", Value: "abc"}}}
	for _, test := range []struct {
		name  string
		found bool
		from  *debug.BuildInfo
		want  string
	}{
		{"that Go recorded", true, recorded, "abc"},
		{"of a build outside of a checkout", true, &debug.BuildInfo{}, "unknown"},
		{"of a binary without build information", false, nil, "unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := recordedRevision(test.from, test.found); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func release(t *testing.T, named, of string) {
	t.Helper()
	version, revision = named, of
	t.Cleanup(func() { version, revision = "", "" })
}
