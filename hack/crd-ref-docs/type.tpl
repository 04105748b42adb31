{{- define "type" }}
{{- if markdownShouldRenderType . }}

### {{ .Name }}

{{ .Doc | replace "\n" " " | trim }}
{{- if .IsAlias }}

Written as {{ markdownRenderTypeLink .UnderlyingType }}.{{ template "rules" .Validation }}
{{- end }}
{{- with .SortedReferences }}

Used by {{ range $i, $type := . }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $type }}{{ end }}.
{{- end }}
{{- if .Members }}

| Field | Description | Default |
| --- | --- | --- |
{{- if .GVK }}
| `apiVersion` _string_ | `{{ .GVK.Group }}/{{ .GVK.Version }}` | |
| `kind` _string_ | `{{ .GVK.Kind }}` | |
{{- end }}
{{- range .Members }}
| `{{ .Name }}` _{{ markdownRenderType .Type }}_ | {{ template "type_members" . }} | {{ if and .Default (ne .Name "status") }}`{{ .Default }}`{{ end }} |
{{- end }}
{{- end }}
{{- if .EnumValues }}

| Value | Description |
| --- | --- |
{{- range .EnumValues }}
| `{{ .Name }}` | {{ .Doc | replace "\n" " " | trim | replace "|" "\\|" }} |
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "rules" }}
{{- range . }}{{ if not (regexMatch "^(Optional|Required|Enum|Type|Schemaless)" .) }} {{ . | replace "<br />" "" | replace "|" "\\|" }}.{{ end }}{{ end }}
{{- end -}}
