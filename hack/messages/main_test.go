package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Vale reports the line of a literal.
func TestMessagesThatValeFinds(t *testing.T) { //nolint:paralleltest // it changes the working directory
	tool, err := filepath.Abs("../tool.sh")
	if err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Abs("../vale/vale.ini")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Repeat("word ", 20)
	tests := map[string]struct {
		source string // its first line is line 3 of the file
		want   []string
	}{
		"a literal":                          {`var a = "the queue is told"`, []string{"3 Riddles"}},
		"a literal of two words":             {`var a = "in turn"`, []string{"3 Riddles"}},
		"the same literal twice":             {"var a = `in turn`\nvar b = `in turn`", []string{"3 Riddles", "4 Riddles"}},
		"a literal of many lines":            {"var a = `One.\n\nTwo.\n\nIt is told of it.`\n\nvar b = `in turn`", []string{"3 Riddles", "9 Riddles"}},
		"words on both sides of a +":         {"var a = \"the queue \" + name + \" is \" +\n\"told\"", []string{"3 Riddles"}},
		"an operand of a +":                  {`var a = "one" + of("in turn")`, []string{"3 Riddles"}},
		"an argument of a call":              {"var a = of(1+2,\n\"in turn\")", []string{"4 Riddles"}},
		"after a character of HTML":          {`var a = "a < b: in turn"`, []string{"3 Riddles"}},
		"a long sentence":                    {`var a = "` + words + words + `"`, []string{"3 SentenceLength"}},
		"two sentences":                      {`var a = "The ` + words + `end. The ` + words + `end."`, nil},
		"lines of a table":                   {"var a = []string{\n\"" + words + "\",\n\"" + words + "\",\n}", nil},
		"paragraphs":                         {`var a = "` + words + `\n\n` + words + `"`, nil},
		"an example below a text":            {`var a = "` + words + `\n  ` + words + `"`, nil},
		"code in a text":                     {"var a = \"the command `is told`\"", nil},
		"a URL":                              {`var a = "see https://example.com/` + strings.Repeat("a/", 40) + `"`, nil},
		"verbs of Printf are one word":       {`var a = "` + strings.Repeat("%[1]s %-4d %.2f ", 10) + `"`, nil},
		"identifiers, comments and imports":  {"import inTurn \"in-turn\"\n\n// in turn\nvar isTold = inTurn.Telling", nil},
		"a struct tag":                       {"type a struct {\n\tWhoever string `json:\"isTold,omitempty\"`\n}", nil},
		"a number and a character are added": {`var a = 1 + 'a'`, nil},
	}
	t.Chdir(t.TempDir())
	arguments := []string{"pages"}
	for name, test := range tests {
		file := name + ".go"
		if err := os.WriteFile(file, []byte("package a\n\n"+test.source+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, file)
	}
	if err := run(arguments); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), tool, "vale", "--config="+config, "--ext=.html", "--output=line", "pages").Output()
	if err == nil {
		t.Error("Vale reports no error")
	}
	got := map[string][]string{}
	for _, found := range regexp.MustCompile(`(?m)^pages/(.+)\.go:(\d+):\d+:Warren\.(\w+)`).FindAllStringSubmatch(string(output), -1) {
		got[found[1]] = append(got[found[1]], found[2]+" "+found[3])
	}
	for name, test := range tests {
		if difference := cmp.Diff(test.want, got[name]); difference != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, difference)
		}
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string][]string{
		"no file":      {t.TempDir()},
		"not Go":       {t.TempDir(), "../tool.sh"},
		"no such file": {t.TempDir(), "none.go"},
	} {
		if err := run(arguments); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
