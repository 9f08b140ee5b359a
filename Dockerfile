# The service with everything it needs: its packages, its models and the console.
#
#   docker build -t toolcrib:0.1.0 .
#   docker run --init --read-only --tmpfs /tmp -v toolcrib:/data -p 127.0.0.1:8642:8642 toolcrib:0.1.0
#
# Settings are TOOLCRIB_* variables, or a file mounted as /etc/toolcrib/toolcrib.yaml. The base
# image and every package are pinned by digest (deploy/requirements.txt says how it is renewed).

ARG PYTHON=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON} AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY toolcrib toolcrib
COPY docs docs
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM ${PYTHON} AS packages
RUN python -m venv --without-pip /opt/toolcrib && install -d /empty
COPY deploy/requirements.txt /requirements.txt
RUN pip --python /opt/toolcrib/bin/python install --no-cache-dir --only-binary :all: \
    --require-hashes -r /requirements.txt
COPY --from=wheel /wheel /wheel
# No index: a package that the extras ask for and the file does not hold is an error here.
RUN pip --python /opt/toolcrib/bin/python install --no-cache-dir --no-index \
    "$(echo /wheel/toolcrib-*.whl)[service,server,mcp,gateway,client,observe,docs,context]"

FROM ${PYTHON} AS service
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="toolcrib" \
      org.opencontainers.image.description="Hands an AI agent the few tools that its turn needs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The root file system may be read-only: what is written goes to /data, the index, and to /tmp.
# onnxruntime would keep a record of its use in the home folder, and send it to its makers.
ENV PATH=/opt/toolcrib/bin:$PATH \
    HOME=/tmp \
    ORT_DISABLE_TELEMETRY=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TOOLCRIB_SERVICE__HOST=0.0.0.0 \
    TOOLCRIB_STORE=/data
COPY --from=packages /opt/toolcrib /opt/toolcrib
COPY --from=packages --chown=10001:10001 /empty /data
WORKDIR /etc/toolcrib
USER 10001:10001
EXPOSE 8642
# Python asks, since the image has no curl; http.client, since it knows of no proxy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --start-interval=1s --retries=3 \
    CMD ["python", "-I", "-c", "import http.client, os, sys; port = int(os.environ.get('TOOLCRIB_SERVICE__PORT', '8642')); ask = http.client.HTTPConnection('127.0.0.1', port, timeout=4); ask.request('GET', '/readyz'); sys.exit(ask.getresponse().status != 200)"]
ENTRYPOINT ["toolcrib"]
CMD ["serve"]
