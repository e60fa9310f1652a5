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

{{/* Whether the pods have volumes of their own that outlive them. */}}
{{- define "telemetry-gateway.keepsVolumes" -}}
{{- if has .Values.mode (list "statefulset" "edges") }}true{{ end }}
{{- end }}

{{/* Whether the release has a PodDisruptionBudget. A daemonset's pods stay on their nodes. */}}
{{- define "telemetry-gateway.hasBudget" -}}
{{- if or (include "telemetry-gateway.keepsVolumes" .) (eq .Values.mode "cell") }}true{{ end }}
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

{{/* The Secret that the chart makes: a key for senders, a token for the scraper of /metrics. */}}
{{- define "telemetry-gateway.madeSecret" -}}
{{ include "telemetry-gateway.fullname" . }}-keys
{{- end }}

{{/* The Secret with the key of senders; empty where none is needed: a sidecar listens on loopback, and auth: none takes no key. */}}
{{- define "telemetry-gateway.senderSecret" -}}
{{- if .Values.senderKey.existingSecret }}
{{- .Values.senderKey.existingSecret }}
{{- else if and (ne .Values.mode "sidecar") (ne (dig "auth" "keys" .Values.config) "none") }}
{{- include "telemetry-gateway.madeSecret" . }}
{{- end }}
{{- end }}

{{/* The Secret with the token for /metrics; empty for a sidecar, which no ServiceMonitor scrapes. */}}
{{- define "telemetry-gateway.metricsSecret" -}}
{{- if .Values.serviceMonitor.tokenSecret.name }}
{{- .Values.serviceMonitor.tokenSecret.name }}
{{- else if ne .Values.mode "sidecar" }}
{{- include "telemetry-gateway.madeSecret" . }}
{{- end }}
{{- end }}

{{/* The Secret of a cell: what the tokens and keys of hashes of all its gateways are made of. */}}
{{- define "telemetry-gateway.cellSecret" -}}
{{- if eq .Values.mode "cell" }}
{{- .Values.cell.secret.existingSecret | default (include "telemetry-gateway.madeSecret" .) }}
{{- end }}
{{- end }}

{{/* `store` of gateway.yaml. Where each pod listens for the others is in its environment: only the pod knows its address. In brackets, as IPv6 needs. */}}
{{- define "telemetry-gateway.store" -}}
type: postgres
secret: "${file:/run/secrets/cell/secret}"
{{- with .Values.cell.database }}
{{- if and .existingSecret .passwordKey }}
password: "${file:/run/secrets/database/password}"
{{- end }}
{{- if and .existingSecret .dsnKey }}
dsn: "${env:DATABASE_DSN}"
{{- else if not (dig "store" "dsn" "" $.Values.config) }}
{{- fail "mode cell keeps everything in a Postgres of yours: set config.store.dsn, or name the Secret that has it in cell.database (existingSecret, dsnKey)" }}
{{- end }}
{{- end }}
{{- end }}

{{/* gateway.yaml: what the mode needs, under what the values state. A sidecar listens on its pod's loopback alone for senders. */}}
{{- define "telemetry-gateway.config" -}}
{{- $senders := ternary "127.0.0.1" "0.0.0.0" (eq .Values.mode "sidecar") }}
{{- $listen := dict "http" (printf "%s:%v" $senders .Values.ports.http) "grpc" (printf "%s:%v" $senders .Values.ports.grpc) "admin" (printf "0.0.0.0:%v" .Values.ports.admin) }}
{{- $made := dict "data_dir" "/var/lib/telemetry-gateway/data" "listen" $listen }}
{{- if include "telemetry-gateway.metricsSecret" . }}
{{- $_ := set $made "metrics_token" "${file:/run/secrets/metrics-token/token}" }}
{{- if hasKey .Values.config "metrics_token" }}
{{- fail "config.metrics_token: the chart sets it; name the Secret that holds the token in serviceMonitor.tokenSecret" }}
{{- end }}
{{- end }}
{{- if ne .Values.mode "statefulset" }}
{{- if eq .Values.mode "cell" }}
{{- $_ := set $made "store" (fromYaml (include "telemetry-gateway.store" .)) }}
{{- else if eq .Values.mode "edges" }}
{{- $_ := set $made "unit_cost" (dict "operation" "sum") }}
{{- $_ := set $made "upstream" (dict "sum_retry" "at_least_once" "knows_event_ids" true) }}
{{- $_ := set $made "pricing" (dict "price_list" "off") }}
{{- else }}
{{- $_ := set $made "profile" "device" }}
{{- end }}
{{- if not (dig "upstream" "base_url" "" .Values.config) }}
{{- fail (printf "mode %s %s: set config.upstream.base_url" .Values.mode (ternary "has no local service" "forwards to another gateway" (eq .Values.mode "cell"))) }}
{{- end }}
{{- end }}
{{- toYaml (mergeOverwrite $made (deepCopy .Values.config)) }}
{{- end }}

{{- define "telemetry-gateway.mounts" -}}
- {name: data, mountPath: /var/lib/telemetry-gateway}
- {name: config, mountPath: /etc/telemetry-gateway, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if include "telemetry-gateway.metricsSecret" . }}
- {name: metrics-token, mountPath: /run/secrets/metrics-token, readOnly: true}
{{- end }}
{{- if eq .Values.mode "cell" }}
- {name: cell, mountPath: /run/secrets/cell, readOnly: true}
{{- if and .Values.cell.database.existingSecret .Values.cell.database.passwordKey }}
- {name: database, mountPath: /run/secrets/database, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables of each container of the gateway beside those of the user. */}}
{{- define "telemetry-gateway.env" -}}
{{- if eq .Values.mode "cell" }}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: TELEMETRY_GATEWAY_STORE_INTERNAL_HTTP, value: "[$(POD_IP)]:{{ .Values.cell.ports.http }}"}
- {name: TELEMETRY_GATEWAY_STORE_INTERNAL_ADMIN, value: "[$(POD_IP)]:{{ .Values.cell.ports.admin }}"}
{{- with .Values.cell.database }}
{{- if and .existingSecret .dsnKey }}
- {name: DATABASE_DSN, valueFrom: {secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .dsnKey | quote }}}}}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "telemetry-gateway.envFrom" -}}
{{- if .Values.existingSecret }}
envFrom:
  - secretRef: {name: {{ .Values.existingSecret | quote }}}
{{- end }}
{{- end }}

{{/* Who makes the key of senders: with config.operators one of them, else the name of this tool. */}}
{{- define "telemetry-gateway.by" -}}
{{- $may := list }}
{{- range .Values.config.operators }}
{{- if kindIs "string" . }}{{ $may = append $may . }}{{ else if ne (default "operator" .role) "viewer" }}{{ $may = append $may .email }}{{ end }}
{{- end }}
{{- first (append $may "helm") }}
{{- end }}

{{/* How the kubelet asks whether the gateway is well; a path, and its time limit. It has no certificate for a listener that wants one. */}}
{{- define "telemetry-gateway.probe" -}}
{{- $tls := dig "tls" "admin" dict .root.Values.config }}
{{- if $tls.client_ca_file }}
exec: {command: [telemetry-gateway, healthcheck, --config=/etc/telemetry-gateway/gateway.yaml{{ if eq .path "/healthz" }}, --live{{ end }}]}
timeoutSeconds: 10
{{- else }}
httpGet: {path: {{ .path }}, port: admin{{ if $tls }}, scheme: HTTPS{{ end }}}
timeoutSeconds: 5
{{- end }}
{{- end }}

{{/* Readies the folder of a node, which the kubelet makes as root; has the gateway take the key of senders as it is in its Secret now. */}}
{{- define "telemetry-gateway.initContainers" -}}
{{- if and .Values.hostPath (not (include "telemetry-gateway.keepsVolumes" .)) }}
- name: data-folder
  image: {{ include "telemetry-gateway.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - install
    - --directory
    - --mode=0700
    - --owner={{ .Values.podSecurityContext.runAsUser }}
    - --group={{ .Values.podSecurityContext.runAsGroup }}
    - /var/lib/telemetry-gateway
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN, FOWNER]}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /var/lib/telemetry-gateway}
{{- end }}
{{- if include "telemetry-gateway.senderSecret" . }}
- name: sender-key
  image: {{ include "telemetry-gateway.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - keys
    - import-legacy
    - --replace
    - --yes
    - --by={{ include "telemetry-gateway.by" . }}
    - --description=The key of all senders, from the chart's Secret
    - --config=/etc/telemetry-gateway/gateway.yaml
    - --secret-file=/run/secrets/sender-key/key
    {{- range .Values.senderKey.managed }}
    - --managed={{ . }}
    {{- end }}
  {{- with include "telemetry-gateway.envFrom" . }}
  {{- trim . | nindent 2 }}
  {{- end }}
  {{- if eq .Values.mode "cell" }}
  env: {{- include "telemetry-gateway.env" . | trim | nindent 4 }}
  {{- end }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    {{- include "telemetry-gateway.mounts" . | nindent 4 }}
    - {name: sender-key, mountPath: /run/secrets/sender-key, readOnly: true}
    {{- if and (eq .Values.mode "cell") .Values.extraVolumeMounts }}  {{- /* it asks the database, too: for a CA */}}
    {{- toYaml .Values.extraVolumeMounts | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* The container, also for a pod of another chart. A reload of the configuration is a restart here. */}}
{{- define "telemetry-gateway.container" -}}
- name: telemetry-gateway
  image: {{ include "telemetry-gateway.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [run, --config=/etc/telemetry-gateway/gateway.yaml]
  {{- with include "telemetry-gateway.envFrom" . }}
  {{- trim . | nindent 2 }}
  {{- end }}
  {{- with include "telemetry-gateway.env" . | trim }}
  env: {{- . | nindent 4 }}
  {{- end }}
  ports:
    - {name: otlp-http, containerPort: {{ .Values.ports.http }}}
    - {name: otlp-grpc, containerPort: {{ .Values.ports.grpc }}}
    - {name: admin, containerPort: {{ .Values.ports.admin }}}
    {{- if eq .Values.mode "cell" }}
    - {name: cell-http, containerPort: {{ .Values.cell.ports.http }}}
    - {name: cell-admin, containerPort: {{ .Values.cell.ports.admin }}}
    {{- end }}
  startupProbe:  # a large spool is read before the listeners are bound
    {{- include "telemetry-gateway.probe" (dict "root" . "path" "/healthz") | trim | nindent 4 }}
    periodSeconds: 2
    failureThreshold: 450
  livenessProbe:
    {{- include "telemetry-gateway.probe" (dict "root" . "path" "/healthz") | trim | nindent 4 }}
    periodSeconds: 10
    failureThreshold: 6
  readinessProbe:
    {{- include "telemetry-gateway.probe" (dict "root" . "path" "/readyz") | trim | nindent 4 }}
    periodSeconds: 5
  {{- if eq .Values.mode "cell" }}
  lifecycle:  # so long, senders may still be led here: the Service forgets a pod that ends somewhat later
    preStop: {exec: {command: [sleep, "5"]}}
  {{- end }}
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
{{- with include "telemetry-gateway.senderSecret" . }}
- name: sender-key
  secret: {secretName: {{ . | quote }}, items: [{key: {{ $.Values.senderKey.key | quote }}, path: key}]}
{{- end }}
{{- with include "telemetry-gateway.metricsSecret" . }}
- name: metrics-token
  secret: {secretName: {{ . | quote }}, items: [{key: {{ $.Values.serviceMonitor.tokenSecret.key | quote }}, path: token}]}
{{- end }}
{{- with include "telemetry-gateway.cellSecret" . }}
- name: cell
  secret: {secretName: {{ . | quote }}, items: [{key: {{ $.Values.cell.secret.key | quote }}, path: secret}]}
{{- with $.Values.cell.database }}
{{- if and .existingSecret .passwordKey }}
- name: database
  secret: {secretName: {{ .existingSecret | quote }}, items: [{key: {{ .passwordKey | quote }}, path: password}]}
{{- end }}
{{- end }}
{{- end }}
{{- if not (include "telemetry-gateway.keepsVolumes" .) }}
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
  initContainers: {{- trim . | nindent 4 }}
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
  {{- if has .Values.mode (list "edges" "cell") }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "telemetry-gateway.selector" . | nindent 10 }}
    {{- if eq .Values.mode "cell" }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "telemetry-gateway.selector" . | nindent 10 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* Peers of a NetworkPolicy: those that are listed, or without any the release's namespace; and namespaces by name. */}}
{{- define "telemetry-gateway.peers" -}}
{{- $peers := first . | default (list (dict "podSelector" dict)) }}
{{- range last . }}
{{- $peers = append $peers (dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" .))) }}
{{- end }}
{{- toYaml $peers }}
{{- end }}
