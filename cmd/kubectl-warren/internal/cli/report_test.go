package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// filesOf returns the files of an archive by their names.
func filesOf(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// A report has the log of the manager, and that of its container before a restart, without passwords.
func TestReportHasLogs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.URL.Path != "/api/v1/namespaces/warren-system/pods/manager-1/log" || query.Get("container") != "manager" ||
			query.Get("tailLines") != "5000" || query.Get("limitBytes") != "8388608" {
			t.Errorf("request for %s", r.URL)
		}
		log := "dial amqp://bob:horse@mq"
		if query.Get("previous") == "true" {
			log = "panic: amqp://bob:horse@mq"
		}
		_, _ = io.WriteString(w, log)
	}))
	t.Cleanup(server.Close)
	c := newCluster(genericiooptions.NewTestIOStreamsDiscard())
	c.flags.APIServer = &server.URL
	r := &reporter{checkReader: &checkReader{cluster: c}, bundle: newBundle(time.Now())}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "warren-system", Name: "manager-1"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "manager", RestartCount: 1}}},
	}
	if err := r.addLogs(t.Context(), pod); err != nil || len(r.missing) > 0 {
		t.Fatalf("error %v, missing %v", err, r.missing)
	}
	archive, err := r.bundle.close()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"warren-report/managers/warren-system/manager-1.log":          "dial amqp://[redacted]@mq\n",
		"warren-report/managers/warren-system/manager-1.previous.log": "panic: amqp://[redacted]@mq\n",
	}
	if difference := cmp.Diff(want, filesOf(t, archive)); difference != "" {
		t.Errorf("(-want +got):\n%s", difference)
	}
}

func TestReportReplacesNoFile(t *testing.T) {
	t.Parallel()
	got := run(t, "", "report", "--file", "testdata/orders.yaml")
	want := result{errOut: "error: testdata/orders.yaml exists: choose another name for --file, or replace the file with --force\n", code: 1}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
