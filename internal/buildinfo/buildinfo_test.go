package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
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
