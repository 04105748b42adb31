{{- define "gvDetails" }}
## {{ .GroupVersionString }}

{{ .Doc }}
{{- $gv := . }}
{{ range .SortedKinds }}
- {{ $gv.TypeForKind . | markdownRenderTypeLink }}
{{- end }}
{{- range .SortedKinds }}{{ template "type" ($gv.TypeForKind .) }}{{ end }}
{{- range .SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
