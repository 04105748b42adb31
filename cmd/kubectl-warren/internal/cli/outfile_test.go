package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// fullDisk is the standard output in a file on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A script trusts the exit code when it redirects the output to a file.
func TestAFailedWriteEndsWithAnError(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"a contract":              "contract -f testdata/orders.yaml --broker-version 4.3",
		"imported queues":         "import testdata/definitions.json --connection shop",
		"definitions":             "export -f testdata/two.yaml --broker-version 4.3",
		"a plan with differences": "plan -f testdata/orders.yaml --broker-version 4.3",
		"a name":                  "dlq redrive orders --dry-run=client -o name",
		"a template":              "dlq redrive orders --dry-run=client -o jsonpath={.kind}",
		"completion for a shell":  "completion bash",
		"completion for kubectl":  "completion --for-kubectl",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := &bytes.Buffer{}
			code := Run(t.Context(), strings.Fields(args), genericiooptions.IOStreams{In: strings.NewReader(""), Out: fullDisk{}, ErrOut: said})
			if code != exitError || !strings.Contains(said.String(), "error: "+syscall.ENOSPC.Error()+"\n") {
				t.Errorf("exit code %d, want %d: %s", code, exitError, said)
			}
		})
	}
}

// A file of an earlier run stays until the new one is complete.
func TestAFileIsReplacedWhenItIsComplete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure error
		want    string
	}{
		"complete":     {nil, "new"},
		"not complete": {syscall.ENOSPC, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report.tar.gz")
			if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := writeFile(file, true, func(out *os.File) error {
				_, err := out.WriteString("new")
				return errors.Join(err, test.failure)
			})
			if !errors.Is(err, test.failure) {
				t.Errorf("error %v", err)
			}
			got, err := os.ReadFile(file)
			if err != nil || string(got) != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A link stays, and its target is replaced when the new file is complete.
func TestAFileThatIsALinkIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure error
		want    string
	}{
		"complete":     {nil, "new"},
		"not complete": {syscall.ENOSPC, "older"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, link := filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "link")
			if err := errors.Join(os.WriteFile(target, []byte("older"), 0o600), os.Symlink(target, link)); err != nil {
				t.Fatal(err)
			}
			err := writeFile(link, true, func(out *os.File) error {
				_, err := out.WriteString("new")
				if filepath.Base(out.Name()) != "target.part" {
					t.Errorf("wrote to %s", out.Name())
				}
				return errors.Join(err, test.failure)
			})
			if !errors.Is(err, test.failure) {
				t.Errorf("error %v", err)
			}
			for _, file := range []string{target, link} {
				if got, err := os.ReadFile(file); err != nil || string(got) != test.want {
					t.Errorf("got %q, %v", got, err)
				}
			}
			if info, err := os.Lstat(link); err != nil || info.Mode().IsRegular() {
				t.Errorf("the link was replaced: %v", err)
			}
		})
	}
}

func TestAFileThatIsALinkToNothingIsRefused(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	err := writeFile(link, true, func(*os.File) error { return nil })
	if want := link + " is a link to a file that does not exist: choose another name for --file"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A device or a pipe, such as /dev/stdout, is written to as it is.
func TestAFileThatIsAPipeIsWrittenTo(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	err = writeFile(fmt.Sprintf("/dev/fd/%d", write.Fd()), true, func(out *os.File) error {
		_, err := out.WriteString("new")
		return err
	})
	got := make([]byte, 3)
	_, readError := io.ReadFull(read, got)
	if err := errors.Join(err, readError, read.Close(), write.Close()); err != nil || string(got) != "new" {
		t.Errorf("got %q, %v", got, err)
	}
}

// FILE.part can be what an earlier export received, or another file of the user.
func TestAnExistingPartIsReplacedOnlyWithForce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		force   bool
		refused string
		want    string
	}{
		"without --force": {false, "FILE.part exists: choose another name for --file, or replace the file with --force", "former"},
		"with --force":    {true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report")
			if err := os.WriteFile(partOf(file), []byte("former"), 0o600); err != nil {
				t.Fatal(err)
			}
			refused := ""
			err := writeFile(file, test.force, func(out *os.File) error {
				_, err := out.WriteString("new")
				return err
			})
			if err != nil {
				refused = strings.ReplaceAll(err.Error(), file, "FILE")
			}
			if refused != test.refused {
				t.Errorf("error %q, want %q", refused, test.refused)
			}
			if got, _ := os.ReadFile(partOf(file)); string(got) != test.want { // missing if it was replaced
				t.Errorf("FILE.part %q, want %q", got, test.want)
			}
		})
	}
}
