package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const exportedLine = `{"kind":"ExportedDeadLetter","position":0,"body":"AA=="}` + "\n"

// An export is complete if its last line confirms it. Otherwise the error says what is missing, and the file keeps its temporary
// name.
func TestExports(t *testing.T) {
	t.Parallel()
	cut := func(text string) io.Reader {
		return io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("connection reset")))
	}
	for name, test := range map[string]struct {
		answer io.Reader
		want   string // the written output
		errOut string
		failed string
	}{
		"complete": {
			answer: strings.NewReader(exportedLine + exportedLine + `{"kind":"ExportEnd","count":2,"partial":false}` + "\n"),
			want:   exportedLine + exportedLine + `{"kind":"ExportEnd","count":2,"partial":false}` + "\n", errOut: "Exported 2 messages.\n",
		},
		"empty": {
			answer: strings.NewReader(`{"kind":"ExportEnd","count":0,"partial":false}` + "\n"),
			want:   `{"kind":"ExportEnd","count":0,"partial":false}` + "\n", errOut: "Exported 0 messages.\n",
		},
		"of a shared queue": {
			answer: strings.NewReader(`{"kind":"ExportEnd","count":0,"partial":false,"skipped":{"OtherOrigin":3}}` + "\n"),
			want:   `{"kind":"ExportEnd","count":0,"partial":false,"skipped":{"OtherOrigin":3}}` + "\n",
			errOut: "Left out because other ConsumerQueues share the queue: 3 from queues of other ConsumerQueues (OtherOrigin).\nExported 0 messages.\n",
		},
		"control characters": {
			answer: strings.NewReader("{\"body\":\"\u009b2J\"}\n" + `{"kind":"ExportEnd","count":1,"partial":false}` + "\n"),
			want:   `{"body":"\u009b2J"}` + "\n" + `{"kind":"ExportEnd","count":1,"partial":false}` + "\n", errOut: "Exported 1 message.\n",
		},
		"partial": {
			answer: strings.NewReader(exportedLine + `{"kind":"ExportEnd","count":1,"partial":true,"partialReason":"HeldByConsumers"}` + "\n"),
			want:   exportedLine + `{"kind":"ExportEnd","count":1,"partial":true,"partialReason":"HeldByConsumers"}` + "\n",
			failed: "the export is not complete: other consumers of the queue hold messages. The received part is in FILE.part: 1 message",
		},
		"ended by an error": {
			answer: strings.NewReader(exportedLine + `{"kind":"ExportEnd","count":1,"partial":false,"error":"the broker is gone"}` + "\n"),
			want:   exportedLine + `{"kind":"ExportEnd","count":1,"partial":false,"error":"the broker is gone"}` + "\n",
			failed: "the export is not complete: the broker is gone. The received part is in FILE.part: 1 message",
		},
		"without its end": {
			answer: strings.NewReader(exportedLine), want: exportedLine,
			failed: "the export is not complete: it was truncated: unexpected EOF. The received part is in FILE.part: 1 message",
		},
		"without anything": {
			answer: strings.NewReader(""),
			failed: "the export is not complete: it was truncated: unexpected EOF. The received part is in FILE.part: 0 messages",
		},
		"cut within a line": {
			answer: cut(exportedLine + exportedLine[:20]), want: exportedLine,
			failed: "the export is not complete: it was truncated: connection reset. The received part is in FILE.part: 1 message",
		},
		"cut within the last line": {
			answer: strings.NewReader(exportedLine + `{"kind":"ExportEnd","count":1,"partial":false}`), want: exportedLine,
			failed: "the export is not complete: it was truncated: unexpected EOF. The received part is in FILE.part: 1 message",
		},
		"with another number of messages": {
			answer: strings.NewReader(exportedLine + `{"kind":"ExportEnd","count":2,"partial":false}` + "\n"),
			want:   exportedLine + `{"kind":"ExportEnd","count":2,"partial":false}` + "\n",
			failed: "the export is not complete: received 1 of 2 messages. The received part is in FILE.part: 1 message",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "orders.ndjson")
			errOut := &bytes.Buffer{}
			command := &exportDeadLettersCommand{cluster: newCluster(genericiooptions.IOStreams{ErrOut: errOut}), file: path}
			err := command.writeFile(test.answer)
			written, other := path, path+".part"
			if test.failed != "" {
				written, other = other, written
			}
			failed := ""
			if err != nil {
				failed = strings.ReplaceAll(err.Error(), path, "FILE")
			}
			if difference := cmp.Diff([]string{test.failed, test.errOut}, []string{failed, errOut.String()}); difference != "" {
				t.Errorf("error and stderr (-want +got):\n%s", difference)
			}
			content, err := os.ReadFile(written)
			if difference := cmp.Diff(test.want, string(content)); difference != "" || err != nil {
				t.Errorf("%v; file (-want +got):\n%s", err, difference)
			}
			if _, err := os.Stat(other); !os.IsNotExist(err) {
				t.Errorf("%s is there, too: %v", other, err)
			}
		})
	}
}

// An export that was received completely is not complete in the file if a line was not written.
func TestExportToAFullDisk(t *testing.T) {
	t.Parallel()
	command := &exportDeadLettersCommand{cluster: newCluster(genericiooptions.NewTestIOStreamsDiscard())}
	answer := strings.NewReader(exportedLine + `{"kind":"ExportEnd","count":1,"partial":false}` + "\n")
	if err := command.write(fullDisk{}, answer, "on stdout"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want %v", err, syscall.ENOSPC)
	}
}

// With --force, the command does not write to a file of an earlier export, which others may be able to read.
func TestExportIsReadByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.ndjson")
	if err := os.WriteFile(path+".part", []byte("former"), 0o644); err != nil { //nolint:gosec // it is to be readable by others
		t.Fatal(err)
	}
	command := &exportDeadLettersCommand{cluster: newCluster(genericiooptions.NewTestIOStreamsDiscard()), file: path, force: true}
	if err := command.writeFile(strings.NewReader(`{"kind":"ExportEnd","count":0,"partial":false}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// An earlier export is replaced only with --force, and only by a complete one.
func TestExportKeepsAnEarlierOne(t *testing.T) {
	t.Parallel()
	const complete = `{"kind":"ExportEnd","count":0,"partial":false}` + "\n"
	for name, test := range map[string]struct {
		answer  string
		force   bool
		refused string
		want    string
	}{
		"without --force":             {complete, false, "FILE exists: choose another name for --file, or replace the file with --force. The content is in FILE.part", "former"},
		"with --force":                {complete, true, "", complete},
		"with --force, and cut short": {exportedLine, true, "the export is not complete: it was truncated: unexpected EOF. The received part is in FILE.part: 1 message", "former"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "orders.ndjson")
			if err := os.WriteFile(path, []byte("former"), 0o600); err != nil {
				t.Fatal(err)
			}
			command := &exportDeadLettersCommand{cluster: newCluster(genericiooptions.NewTestIOStreamsDiscard()), file: path, force: test.force}
			refused := ""
			if err := command.writeFile(strings.NewReader(test.answer)); err != nil {
				refused = strings.ReplaceAll(err.Error(), path, "FILE")
			}
			if refused != test.refused {
				t.Errorf("error %q, want %q", refused, test.refused)
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != test.want {
				t.Errorf("file %q, want %q; %v", content, test.want, err)
			}
		})
	}
}
