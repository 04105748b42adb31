package main

import (
	"fmt"
	"regexp"
	"strings"
)

// section returns the changelog's section of a version, without its heading.
func section(changelog, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(version) + `\].*\n`).FindStringIndex(changelog)
	if heading == nil {
		return "", fmt.Errorf("the changelog has no section ## [%s]", version)
	}
	text := changelog[heading[1]:]
	if next := regexp.MustCompile(`(?m)^(## |\[[^\]]+\]: )`).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("the section ## [%s] of the changelog is empty", version)
	}
	return text + "\n", nil
}

// change is an entry in the format of Artifact Hub.
type change struct {
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

// changes returns the entries of a section. Their kind is the heading above them, such as ### Added.
func changes(section string) []change {
	var list []change
	kind := ""
	for line := range strings.Lines(section) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "### "):
			kind = strings.ToLower(strings.TrimPrefix(line, "### "))
		case strings.HasPrefix(line, "- "):
			list = append(list, change{Kind: kind, Description: strings.TrimPrefix(line, "- ")})
		case strings.HasPrefix(line, "  ") && len(list) > 0:
			list[len(list)-1].Description += " " + strings.TrimSpace(line)
		}
	}
	return list
}
