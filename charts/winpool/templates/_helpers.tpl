{{/* The objects of a folder of config/, in the namespace of the release: dict "root" $ "folder" name "without" list-of-files */}}
{{- define "winpool.folder" -}}
{{- $root := .root -}}
{{- $without := default list .without -}}
{{- range $path, $_ := $root.Files.Glob (printf "files/config/%s/*.yaml" .folder) }}
{{- if not (has (base $path) $without) }}
---
{{ $root.Files.Get $path | replace "winpool-system" $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}

{{/* The reference of an image: dict "image" values "version" the tag by default */}}
{{- define "winpool.image" -}}
{{- with .image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.version }}{{ end }}
{{- end -}}
{{- end }}
