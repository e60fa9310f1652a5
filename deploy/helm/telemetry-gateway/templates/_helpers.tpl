{{- define "telemetry-gateway.name" -}}
{{- default "telemetry-gateway" .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "telemetry-gateway.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "telemetry-gateway.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "telemetry-gateway.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "telemetry-gateway.selector" -}}
app.kubernetes.io/name: {{ include "telemetry-gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "telemetry-gateway.labels" -}}
{{ include "telemetry-gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "telemetry-gateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "telemetry-gateway.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "telemetry-gateway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* gateway.yaml: what the mode needs, under what the values state. A sidecar listens on its pod's loopback alone for senders. */}}
{{- define "telemetry-gateway.config" -}}
{{- $senders := ternary "127.0.0.1" "0.0.0.0" (eq .Values.mode "sidecar") }}
{{- $listen := dict "http" (printf "%s:%v" $senders .Values.ports.http) "grpc" (printf "%s:%v" $senders .Values.ports.grpc) "admin" (printf "0.0.0.0:%v" .Values.ports.admin) }}
{{- $made := dict "data_dir" "/var/lib/telemetry-gateway/data" "listen" $listen }}
{{- if ne .Values.mode "statefulset" }}
{{- $_ := set $made "profile" "device" }}
{{- if not (dig "upstream" "base_url" "" .Values.config) }}
{{- fail (printf "mode %s forwards to another gateway: set config.upstream.base_url" .Values.mode) }}
{{- end }}
{{- end }}
{{- toYaml (mergeOverwrite $made (deepCopy .Values.config)) }}
{{- end }}

{{- define "telemetry-gateway.mounts" -}}
- {name: data, mountPath: /var/lib/telemetry-gateway}
- {name: config, mountPath: /etc/telemetry-gateway, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "telemetry-gateway.envFrom" -}}
{{- if .Values.existingSecret }}
envFrom:
  - secretRef: {name: {{ .Values.existingSecret | quote }}}
{{- end }}
{{- end }}

{{/* Imports the senders' key where it is missing. */}}
{{- define "telemetry-gateway.initContainers" -}}
{{- if .Values.senderKey.existingSecret }}
- name: sender-key
  image: {{ include "telemetry-gateway.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - keys
    - import-legacy
    - --if-missing
    - --yes
    - --by=helm
    - --config=/etc/telemetry-gateway/gateway.yaml
    - --secret-file=/run/secrets/sender-key/{{ .Values.senderKey.key }}
    {{- range .Values.senderKey.managed }}
    - --managed={{ . }}
    {{- end }}
  {{- include "telemetry-gateway.envFrom" . | nindent 2 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    {{- include "telemetry-gateway.mounts" . | nindent 4 }}
    - {name: sender-key, mountPath: /run/secrets/sender-key, readOnly: true}
{{- end }}
{{- end }}

{{/* The container, also for a pod of another chart. A reload of the configuration is a restart here. */}}
{{- define "telemetry-gateway.container" -}}
- name: telemetry-gateway
  image: {{ include "telemetry-gateway.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [run, --config=/etc/telemetry-gateway/gateway.yaml]
  {{- include "telemetry-gateway.envFrom" . | nindent 2 }}
  {{- with .Values.extraEnv }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: otlp-http, containerPort: {{ .Values.ports.http }}}
    - {name: otlp-grpc, containerPort: {{ .Values.ports.grpc }}}
    - {name: admin, containerPort: {{ .Values.ports.admin }}}
  startupProbe:  # a large spool is read before the listeners are bound
    httpGet: {path: /healthz, port: admin}
    periodSeconds: 2
    failureThreshold: 300
  livenessProbe:
    httpGet: {path: /healthz, port: admin}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  readinessProbe:
    httpGet: {path: /readyz, port: admin}
    periodSeconds: 5
    timeoutSeconds: 5
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    {{- include "telemetry-gateway.mounts" . | nindent 4 }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* All volumes but `data` of a statefulset, which is its claim. */}}
{{- define "telemetry-gateway.volumes" -}}
- name: config
  configMap: {name: {{ include "telemetry-gateway.fullname" . }}}
- name: tmp
  emptyDir: {sizeLimit: 512Mi}
{{- if .Values.senderKey.existingSecret }}
- name: sender-key
  secret: {secretName: {{ .Values.senderKey.existingSecret | quote }}}
{{- end }}
{{- if ne .Values.mode "statefulset" }}
- name: data
  {{- if .Values.hostPath }}
  hostPath: {path: {{ .Values.hostPath | quote }}, type: DirectoryOrCreate}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- else if .Values.persistence.existingClaim }}
- name: data
  persistentVolumeClaim: {claimName: {{ .Values.persistence.existingClaim | quote }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "telemetry-gateway.pod" -}}
metadata:
  labels:
    {{- include "telemetry-gateway.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "telemetry-gateway.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "telemetry-gateway.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext: {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with include "telemetry-gateway.initContainers" . }}
  initContainers: {{- . | nindent 4 }}
  {{- end }}
  containers:
    {{- include "telemetry-gateway.container" . | nindent 4 }}
  volumes:
    {{- include "telemetry-gateway.volumes" . | nindent 4 }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
