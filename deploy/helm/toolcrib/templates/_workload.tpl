{{- define "toolcrib.name" -}}
{{- $own := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- $own | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "toolcrib.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "toolcrib.container" -}}
image: {{ printf "%s:%s" .root.Values.image.repository (.root.Values.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  # As many as the limit of processors: the encoder would take all that the machine has.
  - {name: TOOLCRIB_ENCODER__THREADS, value: "2"}
  - {name: TOOLCRIB_DOCUMENTS__MEMORY_MB, value: "512"}
  - {name: TOOLCRIB_STORE, value: {{ .part.storage.url | default "/data" | quote }}}
{{- if or .root.Values.existingSecret .root.Values.secrets }}
envFrom:
  - secretRef: {name: {{ .root.Values.existingSecret | default (include "toolcrib.name" .root) }}}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: config, mountPath: /etc/toolcrib, readOnly: true}
{{- if not .part.storage.url }}
  - {name: data, mountPath: /data}
{{- end }}
resources: {{- toYaml .part.resources | nindent 2 }}
{{- end -}}

{{- /* StatefulSet and Service of one part; .root, .part, .kind, .args, .ready. */ -}}
{{- define "toolcrib.workload" -}}
{{- if and (gt (int .part.replicas) 1) (not .part.storage.url) }}
{{- fail (printf "%s.replicas: a folder serves one replica; set %s.storage.url for more" .kind .kind) }}
{{- end }}
{{- $name := printf "%s-%s" (include "toolcrib.name" .root) .kind }}
{{- $labels := dict "app.kubernetes.io/name" .root.Chart.Name "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/component" .kind }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- include "toolcrib.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .kind }}
spec:
  serviceName: {{ $name }}
  replicas: {{ .part.replicas }}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{- toYaml $labels | nindent 6 }}
  template:
    metadata:
      labels: {{- include "toolcrib.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .kind }}
      annotations:
        checksum/config: {{ include (print .root.Template.BasePath "/config.yaml") .root | sha256sum }}
    spec:
      serviceAccountName: {{ .root.Values.serviceAccount.name | default (include "toolcrib.name" .root) }}
      automountServiceAccountToken: false
      # The wait before the signal, service.drain_s for requests under way (5 s for a gateway's
      # calls), and closing the store.
      terminationGracePeriodSeconds: {{ dig "service" "drain_s" 20 .root.Values.settings | float64 | ceil | int | max 5 | add 15 }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile: {type: RuntimeDefault}
      {{- if .part.firstKey }}
      initContainers:
        - name: first-key
          command:
            - sh
            - -ec
            # Pods start at once: the first makes the key, the others wait for it.
            - |
              until toolcrib keys list --json | grep -q '"active"'; do
                case "${HOSTNAME:-$(uname -n)}" in
                  *-0) toolcrib keys create first{{ if eq .kind "service" }} --write{{ end }} ;;
                  *) sleep 2 ;;
                esac
              done
          {{- include "toolcrib.container" . | nindent 10 }}
      {{- end }}
      containers:
        - name: {{ .kind }}
          args: {{- toYaml .args | nindent 12 }}
          {{- include "toolcrib.container" . | nindent 10 }}
          ports:
            - {name: http, containerPort: {{ .part.port }}}
          lifecycle:
            # After the signal new requests get 503: it comes when the others know of the end.
            preStop: {exec: {command: [sleep, "5"]}}
          startupProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 2
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: {{ .ready }}, port: http}
            periodSeconds: 5
            timeoutSeconds: 4
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
      volumes:
        - {name: tmp, emptyDir: {}}
        - name: config
          configMap: {name: {{ include "toolcrib.name" .root }}}
      {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
      {{- with get $.part $field }}
      {{ $field }}: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
  {{- if not .part.storage.url }}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .part.storage.className }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests: {storage: {{ .part.storage.size }}}
  {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "toolcrib.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .kind }}
spec:
  type: {{ .part.type }}
  selector: {{- toYaml $labels | nindent 4 }}
  ports:
    - {name: http, port: {{ .part.port }}, targetPort: http}
{{- if .part.ingress.host }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ $name }}
  labels: {{- include "toolcrib.labels" .root | nindent 4 }}
spec:
  {{- with .part.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .part.ingress.tlsSecret }}
  tls:
    - {hosts: [{{ $.part.ingress.host | quote }}], secretName: {{ . }}}
  {{- end }}
  rules:
    - host: {{ .part.ingress.host | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service: {name: {{ $name }}, port: {name: http}}
{{- end }}
{{- end -}}
